"""The record of the toy GPU, and its instructions."""

from tritium.backends.gpu.cost_model import CostModel
from tritium.backends.gpu.lower import LOWER
from tritium.backends.gpu.lower.control import guarded
from tritium.backends.gpu.lower.convert import pack
from tritium.backends.gpu.lower.words import bytes_of, through_words
from tritium.backends.gpu.target import Target
from tritium.backends.llvm.writer import value
from tritium.backends.occupancy import Machine
from tritium.ir import types as T


def _call(g, name, result, *arguments, at=-1):
    """A call of a function of the machine; with `at`, one that is the same wherever it stands."""
    g.w.declare(name, result, [x.type for x in arguments], "convergent nounwind")
    return g.w.effect(f"call {result} @{name}({', '.join(x.typed for x in arguments)})", result, at)


# --- threads ----------------------------------------------------------------------------------------------------------
def index(g, what, axis=0):
    name = f"toy.{what}.{'xyz'[axis]}"
    return g.once(name, lambda: _call(g, name, "i32", at=0))


def clock(g, what):
    return _call(g, "toy.time", "i64") if what in ("time", "globaltimer") else _call(g, "toy.processor", "i32")


def barrier(g):
    _call(g, "toy.barrier.sync", "void")


def uniform(g, x):
    return _call(g, "toy.first_lane", "i32", x, at=0)


def shuffle(g, x, how, lane):
    lane = lane if isinstance(lane, str) else g.int(lane)
    return through_words(g, x, lambda word: _call(g, f"toy.shuffle.{how}", "i32", word, lane))


# --- memory -----------------------------------------------------------------------------------------------------------
def load(g, pointer, kind, count, mask, fill, attrs):
    w, type_ = g.w, kind if count == 1 else f"<{count} x {kind}>"

    def read():
        how = "load volatile" if attrs.get("volatile") else "load"
        x = w.effect(f"{how} {type_}, {pointer.typed}, align {bytes_of(kind) * count}", type_)
        return [x] if count == 1 else [w.extract(x, k) for k in range(count)]

    if mask is None:
        return read()
    return guarded(g, mask, read, fill or [_zero(kind)] * count)


def _zero(kind):
    return value(kind, "zeroinitializer")


def store(g, pointer, items, mask, attrs):
    w, size = g.w, bytes_of(items[0].type) * len(items)
    if mask is None:
        w.effect(f"store {pack(w, items).typed}, {pointer.typed}, align {size}")
        return
    whole = pack(w, items)
    with w.when(mask):
        w.effect(f"store {whole.typed}, {pointer.typed}, align {size}")


_ORDER = {"relaxed": "monotonic", "acquire": "acquire", "release": "release", "acq_rel": "acq_rel"}


def atomic(g, op, pointer, t, values, mask):
    """LLVM's own instructions; bits are exchanged and compared as integers."""
    w, how, kind = g.w, op.attrs.get("how", "cas"), values[0][0].type
    order, xs = _ORDER[op.attrs.get("sem", "relaxed")], [v[0] for v in values]
    if how in ("cas", "xchg", "load", "store") and not kind.startswith("i"):
        back = "inttoptr" if kind.startswith("ptr") else "bitcast"
        xs = [w.cast("ptrtoint" if kind.startswith("ptr") else "bitcast", x, f"i{8 * bytes_of(kind)}") for x in xs]
    else:
        back = None

    def update():
        word = xs[0].type
        if how == "cas":
            weaker = "acquire" if order in ("acquire", "acq_rel") else "monotonic"
            both = f"{{ {word}, i1 }}"
            made = w.effect(f"cmpxchg {pointer.typed}, {xs[0].typed}, {xs[1].typed} {order} {weaker}", both)
            return [w.effect(f"extractvalue {both} {made}, 0", word)]
        name = {"load": "or", "store": "xchg"}.get(how, how)
        if how in ("add", "min", "max"):
            name = ("f" if t.is_float else "u" if how != "add" and not t.signed else "") + how
        x = w.const(word, 0) if how == "load" else xs[0]
        return [w.effect(f"atomicrmw {name} {pointer.typed}, {x.typed} {order}", word)]

    old = update() if mask is None else guarded(g, mask, update, [_zero(xs[0].type)])
    return [w.cast(back, x, kind) for x in old] if back else old


# --- values -----------------------------------------------------------------------------------------------------------
def float_to_int(g, x, to):
    out = f"i{to.bits}"
    return g.w.intrinsic("fptosi.sat" if to.signed else "fptoui.sat", out, x, overload=(out, x.type))


def print_values(g, op, values):
    text = g.w.string(op.attrs["prefix"])
    for xs in values:
        for x in list(xs):
            _call(g, f"toy.print.{x.type.split()[0]}", "void", text, x)


def assert_failed(g, op):
    _call(g, "toy.abort", "void", g.w.string(op.attrs["message"] or "assertion failed"))


TOY = Target(
    name="toy",
    triple="spir64-unknown-unknown",
    cpu="",
    machine=Machine(warps=32, programs=32, registers=65536, shared=65536, most_shared=65536, reserved=0, unit=512,
                    warp_size=64),
    cost=CostModel(  # wide warps, small caches
        held_bytes=256, operation_bytes=1, converted_registers=4, idle_factor=2, repeated_loads=2, run_bits=4,
        unrolled_trips=4, unrolled_work=1024, idle_unrolled=8, unrolled_bytes=128, kept_bytes=128,
        slow_operations=8, prefetch_share=4, registers_beside_dots=63,
    ),
    lower=LOWER,
    kernel=lambda threads: ("spir_kernel void", f'"toy.threads"="{threads}"'),
    index=index,
    clock=clock,
    barrier=barrier,
    uniform=uniform,
    shuffle=shuffle,
    load=load,
    store=store,
    atomic=atomic,
    float_to_int=float_to_int,
    print_values=print_values,
    assert_failed=assert_failed,
)
CASTS = frozenset(((T.f16, T.f32), (T.f32, T.f16), (T.bf16, T.f32), (T.f32, T.bf16)))
