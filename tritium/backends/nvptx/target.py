"""What an NVIDIA GPU can do, instruction by instruction: the only place that spells PTX."""

from __future__ import annotations

from dataclasses import dataclass

from ...ir import types as T
from ..gpu.swizzle import swizzled
from ..llvm.writer import value


@dataclass(frozen=True)
class NvTarget:
    """One architecture: its number (90), LLVM's name for it, and the PTX version it needs.

    >>> NvTarget.of(90).cpu
    'sm_90a'
    """

    sm: int
    cpu: str
    features: str
    triple: str = "nvptx64-nvidia-cuda"
    name: str = "cuda"

    @classmethod
    def of(cls, arch):
        """The target of `90`, `"90a"`, `"sm_90a"`, ..."""
        text = str(arch).removeprefix("sm_").removeprefix("sm")
        sm = int(text.rstrip("af"))
        suffix = "a" if text.endswith("a") or sm in (90, 100, 120) else ""
        return cls(sm, f"sm_{sm}{suffix}", "+ptx83" if sm <= 90 else "+ptx87")

    @property
    def native(self):
        """(row name, type) -> the instruction that computes it."""
        return NATIVE

    # --- who am I ------------------------------------------------------------------------------------------------
    def thread_id(self, g):
        """Index of this thread in its program, i32."""
        return self._register(g, "tid.x")

    def program_id(self, g, axis):
        return self._register(g, f"ctaid.{'xyz'[axis]}")

    def num_programs(self, g, axis):
        return self._register(g, f"nctaid.{'xyz'[axis]}")

    def _register(self, g, name):
        key = ("register", name)
        if key not in g._places:
            full = f"llvm.nvvm.read.ptx.sreg.{name}"
            g.w.declare(full, "i32", [])
            g._places[key] = g.w.effect(f"call i32 @{full}()", "i32", at=0)
        return g._places[key]

    def clock(self, g, what):
        if what == "globaltimer":
            return g.w.effect('call i64 asm sideeffect "mov.u64 $0, %globaltimer;", "=l"()', "i64")
        return g.w.effect('call i32 asm sideeffect "mov.u32 $0, %smid;", "=r"()', "i32")

    # --- between threads -----------------------------------------------------------------------------------------
    def barrier(self, g):
        """All threads of the program meet, and see each other's memory."""
        g.w.declare("llvm.nvvm.barrier.cta.sync.aligned.all", "void", ["i32"], "convergent nounwind")
        g.w.effect("call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)")

    def proxy_fence(self, g):
        """Ordinary writes to shared memory become visible to tensor cores and bulk copies."""
        g.w.effect('call void asm sideeffect "fence.proxy.async.shared::cta;", "~{memory}"()')

    def uniform(self, g, x):
        """A value equal in all lanes, in a register the compiler knows to be so."""
        return self._shuffle(g, "idx", x, 0, at=0)

    def shuffle_xor(self, g, x, distance):
        """The value of the lane whose number differs by the bits of `distance`."""
        return through_words(g, x, lambda word: self._shuffle(g, "bfly", word, distance))

    def _shuffle(self, g, mode, x, by, at=-1):
        name = f"llvm.nvvm.shfl.sync.{mode}.i32"
        g.w.declare(name, "i32", ["i32"] * 4, "convergent nounwind")
        return g.w.effect(f"call i32 @{name}(i32 -1, i32 {x}, i32 {by}, i32 31)", "i32", at)

    # --- copies that run by themselves ---------------------------------------------------------------------------
    swizzled = staticmethod(swizzled)

    def async_copy(self, g, target, source, size, mask):
        """Copy `size` bytes from global to shared memory; zeros where the mask is off."""
        w = g.w
        how = "cg" if size == 16 else "ca"
        if mask is None:
            w.effect(
                f'call void asm sideeffect "cp.async.{how}.shared.global [$0], [$1], {size};", "r,l,~{{memory}}"'
                f"({target.typed}, {source.typed})"
            )
            return
        amount = w.select(mask, g.int(size), g.int(0))
        w.effect(
            f'call void asm sideeffect "cp.async.{how}.shared.global [$0], [$1], {size}, $2;", "r,l,r,~{{memory}}"'
            f"({target.typed}, {source.typed}, i32 {amount})"
        )

    def async_commit(self, g):
        g.w.effect('call void asm sideeffect "cp.async.commit_group;", "~{memory}"()')

    def async_wait(self, g, pending):
        g.w.effect(f'call void asm sideeffect "cp.async.wait_group {pending};", "~{{memory}}"()')

    # --- memory --------------------------------------------------------------------------------------------------
    def load(self, g, pointer, kind, count, mask, fill, attrs):
        """`count` neighbouring elements of LLVM type `kind`; masked-off lanes read nothing and get `fill`, or zeros."""
        w, size = g.w, _bytes(kind) * count
        hints = _load_hints(attrs)
        if mask is None and not hints:
            type_ = kind if count == 1 else f"<{count} x {kind}>"
            volatile = "volatile " if attrs.get("volatile") else ""
            x = w.effect(f"load {volatile}{type_}, {pointer.typed}, align {size}", type_)
            return [x] if count == 1 else [w.extract(x, k) for k in range(count)]
        bits = 64 if _bytes(kind) == 8 else min(32, size * 8)
        words, register = size * 8 // bits, max(bits, 16)  # PTX has no 8-bit registers
        outs = [f"${k}" for k in range(words)]
        listed = f"{{{', '.join(outs)}}}" if words > 1 else outs[0]
        vector = f".v{words}" if words > 1 else ""
        volatile = ".volatile" if attrs.get("volatile") else ""
        body = f"ld{volatile}.global{hints}{vector}.b{bits} {listed}, [${words}];"
        constraints, arguments = ["l"], [pointer.typed]
        if mask is not None:
            start = ["0"] * words
            if fill is not None:
                start = [f"${words + 2 + k}" for k in range(words)]
                packed = [w.cast("zext", x, "i16") if bits == 8 else x for x in pack_words(g, fill)]
            moves = "".join(f"mov.b{register} {o}, {s}; " for o, s in zip(outs, start))
            body = f"{moves}@${words + 1} {body}"
            constraints.append("b")
            arguments.append(f"i1 {mask}")
            if fill is not None:
                constraints += [_LETTER[register]] * words
                arguments += [x.typed for x in packed]
        type_ = f"i{register}"
        result = type_ if words == 1 else "{" + ", ".join([type_] * words) + "}"
        constraints = ",".join(
            [f"=&{_LETTER[register]}" if fill is not None else f"={_LETTER[register]}"] * words + constraints
        )
        x = w.effect(f'call {result} asm sideeffect "{body}", "{constraints}"({", ".join(arguments)})', result)
        parts = [x] if words == 1 else [w.emit(type_, f"extractvalue {result} {x}, {k}", x) for k in range(words)]
        if bits == 8:
            parts = [w.cast("trunc", p, "i8") for p in parts]
        return [e for p in parts for e in unpack_word(g, p, kind)]

    def store(self, g, pointer, items, mask, attrs):
        """Neighbouring elements; nothing is written where the mask is off."""
        w = g.w
        from ..gpu.lower_convert import pack

        size = _bytes(items[0].type) * len(items)
        hints = _store_hints(attrs)
        if mask is None and not hints:
            w.effect(f"store {pack(w, items).typed}, {pointer.typed}, align {size}")
            return
        words = pack_words(g, items)
        bits = int(words[0].type[1:])
        if bits == 8:
            words = [w.cast("zext", x, "i16") for x in words]
        letter = _LETTER[max(bits, 16)]
        vector = f".v{len(words)}" if len(words) > 1 else ""
        first = 1 if mask is not None else 0
        ins = ", ".join(f"${first + 1 + k}" for k in range(len(words)))
        body = f"st.global{hints}{vector}.b{bits} [${first}], " + (f"{{{ins}}};" if len(words) > 1 else f"{ins};")
        if mask is not None:
            body = "@$0 " + body
        constraints = ",".join((["b"] if mask is not None else []) + ["l"] + [letter] * len(words))
        arguments = ", ".join(([f"i1 {mask}"] if mask is not None else []) + [pointer.typed] + [x.typed for x in words])
        w.effect(f'call void asm sideeffect "{body}", "{constraints},~{{memory}}"({arguments})')

    def atomic(self, g, op, pointer, t, values, mask):
        """One read-modify-write; returns the old value (0 where the mask is off)."""
        w, how = g.w, op.attrs.get("how", "cas")
        order = f"{op.attrs['sem']}.{ {'cta': 'cta', 'gpu': 'gpu', 'sys': 'sys'}[op.attrs['scope']] }"
        if how in ("max", "min") and t.is_float:
            return self._float_extreme(g, op, pointer, t, values[0], mask, order)
        name, type_ = _atomic_name(how, t)
        bits = t.bits
        words = [w.cast("bitcast", x, f"i{bits}") for x in values]
        return w.cast("bitcast", self._atom(g, order, name, type_, bits, pointer, words, mask), values[0].type)

    def _atom(self, g, order, name, type_, bits, pointer, words, mask):
        w = g.w
        letter = _LETTER[bits]
        ins = ", ".join(f"${2 + k}" for k in range(len(words)))
        body = f"atom.{order}.global.{name}.{type_} $0, [$1], {ins};"
        constraints = [f"={letter}", "l"] + [letter] * len(words)
        arguments = [pointer.typed] + [x.typed for x in words]
        if mask is not None:
            body = f"mov.b{bits} $0, 0; @${2 + len(words)} " + body
            constraints.append("b")
            arguments.append(f"i1 {mask}")
        text = f'call i{bits} asm sideeffect "{body}", "{",".join(constraints)},~{{memory}}"({", ".join(arguments)})'
        return w.effect(text, f"i{bits}")

    def _float_extreme(self, g, op, pointer, t, x, mask, order):
        """Floats order like integers by their bits: non-negative ones as signed, negative ones reversed as unsigned."""
        w, bits, how = g.w, t.bits, op.attrs["how"]
        word = w.cast("bitcast", x, f"i{bits}")
        positive = w.compare("icmp sge", word, w.const(f"i{bits}", 0))
        negative = w.binary("xor", positive, w.const("i1", True))
        other = {"max": "min", "min": "max"}[how]
        both = lambda c: c if mask is None else w.binary("and", c, mask)
        a = self._atom(g, order, how, f"s{bits}", bits, pointer, [word], both(positive))
        b = self._atom(g, order, other, f"u{bits}", bits, pointer, [word], both(negative))
        return w.cast("bitcast", w.select(positive, a, b), x.type)

    # --- talking to the host -------------------------------------------------------------------------------------
    def assert_failed(self, g, op):
        """Report the message with its place and stop the kernel."""
        w = g.w
        w.declare("__assertfail", "void", ["ptr", "ptr", "i32", "ptr", "i64"], "noreturn")
        loc = op.loc
        args = [
            w.string(op.attrs["message"] or "assertion failed"),
            w.string(loc.file if loc else "kernel"),
            w.const("i32", loc.line if loc else 0),
            w.string(loc.function if loc else g.module.name),
            w.const("i64", 1),
        ]
        w.effect(f"call void @__assertfail({', '.join(a.typed for a in args)})")

    def print(self, g, op, values):
        """One vprintf line for each element a thread owns."""
        w, prefix = g.w, op.attrs["prefix"]
        w.declare("vprintf", "i32", ["ptr", "ptr"])
        pids = [self.program_id(g, a) for a in range(3)]
        if not values:
            self._vprintf(g, f"pid (%u, %u, %u){prefix}\n", pids)
        for n, xs in enumerate(values):
            x = op.operands[n]
            layout = g.layout(x)
            operand = f"(operand {n}) " if len(values) > 1 else ""
            thread, parts = g.linear(layout, lambda e: e) if layout else (None, [0])
            owner = g.owns(layout) if layout else None
            from contextlib import nullcontext

            with w.when(owner) if owner is not None else nullcontext():
                for v, part in zip(xs, parts):
                    index, columns = self._indices(g, layout, thread, part)
                    spec, args = _format(g, v, T.element(x.type), op.attrs["hex"])
                    idx = ", ".join(columns)
                    self._vprintf(g, f"pid (%u, %u, %u) idx ({idx}){prefix}{operand}{spec}\n", [*pids, *index, *args])

    def _indices(self, g, layout, thread, part):
        if layout is None:
            return [], []
        w, index, columns = g.w, [], []
        at = w.binary("xor", thread, g.int(part)) if part else thread
        stride = layout.numel
        for size in layout.shape:
            stride //= size
            index.append(w.binary("urem", w.binary("udiv", at, g.int(stride)), g.int(size)))
            columns.append(f"%{max(1, len(str(size - 1)))}u")
        return index, columns

    def _vprintf(self, g, text, args):
        w = g.w
        wide = [w.cast("fpext", a, "double") if a.type == "float" else a for a in args]
        fields = ", ".join(a.type for a in wide) or "i32"
        frame = w.alloca(f"{{{fields}}}")
        for k, a in enumerate(wide):
            p = w.emit("ptr", f"getelementptr {{{fields}}}, ptr {frame}, i32 0, i32 {k}", frame)
            w.store(a, p)
        w.effect(f"call i32 @vprintf(ptr {w.string(text)}, ptr {frame})", "i32")


# --- rows with an instruction of their own ---------------------------------------------------------------------
def _approximate(name):
    def emit(g, *xs):
        full = f"llvm.nvvm.{name}"
        g.w.declare(full, "float", ["float"] * len(xs), "nounwind memory(none)")
        return g.w.emit("float", f"call float @{full}({', '.join(x.typed for x in xs)})", *xs)

    return emit


def _exp(g, x):
    scaled = g.w.binary("fmul", x, g.w.const("float", 1.4426950408889634))
    return _approximate("ex2.approx.ftz.f")(g, scaled)


# The fast forms Triton users get for f32: two units in the last place, denormals flushed. Everything else is computed
# as on the other targets.
NATIVE = {
    ("div", T.f32): _approximate("div.full"),
    ("exp", T.f32): _exp,
    ("exp2", T.f32): _approximate("ex2.approx.ftz.f"),
    ("sqrt", T.f32): _approximate("sqrt.approx.ftz.f"),
    ("rsqrt", T.f32): _approximate("rsqrt.approx.ftz.f"),
}


_LETTER = {16: "h", 32: "r", 64: "l"}  # of a register in inline assembly


# --- words ------------------------------------------------------------------------------------------------------
def _bytes(kind):
    return {"half": 2, "bfloat": 2, "float": 4, "double": 8}.get(kind) or (
        8 if kind.startswith("ptr") else max(1, int(kind[1:]) // 8)
    )


def pack_words(g, items):
    """Elements as 32-bit words (64-bit ones as they are; fewer than 4 bytes as one small integer)."""
    from ..gpu.lower_convert import pack

    w, size = g.w, _bytes(items[0].type)
    if size == 8:
        return [w.cast("bitcast", x, "i64") for x in items]
    per = min(len(items), 4 // size)
    return [w.cast("bitcast", pack(w, items[k : k + per]), f"i{8 * size * per}") for k in range(0, len(items), per)]


def unpack_word(g, word, kind):
    """The elements of LLVM type `kind` in an integer word, lowest first."""
    w, bits = g.w, int(word.type[1:])
    count = bits // (8 * _bytes(kind))
    if count == 1:
        return [w.cast("bitcast", word, kind)]
    vector = w.cast("bitcast", word, f"<{count} x {kind}>")
    return [w.extract(vector, k) for k in range(count)]


def through_words(g, x, fn):
    """Apply a function of 32-bit words to a value of any type."""
    w = g.w
    size = 1 if x.type == "i1" else 8 * _bytes(x.type)
    if x.type.startswith("ptr"):
        back = through_words(g, w.cast("ptrtoint", x, "i64"), fn)
        return w.cast("inttoptr", back, x.type)
    whole = w.cast("bitcast", x, f"i{size}")
    if size < 32:
        return w.cast("bitcast", w.cast("trunc", fn(w.cast("zext", whole, "i32")), f"i{size}"), x.type)
    if size == 32:
        return w.cast("bitcast", fn(whole), x.type)
    pair = w.cast("bitcast", whole, "<2 x i32>")
    low, high = (fn(w.extract(pair, k)) for k in range(2))
    both = w.insert(w.insert(value("<2 x i32>", "poison"), low, 0), high, 1)
    return w.cast("bitcast", both, x.type)


def _load_hints(attrs):
    cache, eviction = attrs.get("cache") or "", attrs.get("eviction") or ""
    return cache + (f".L1::{eviction}" if eviction else "")


def _store_hints(attrs):
    cache, eviction = attrs.get("cache") or "", attrs.get("eviction") or ""
    return cache + (f".L1::{eviction}" if eviction else "")


def _atomic_name(how, t):
    bits = t.bits
    if how == "cas":
        return "cas", f"b{bits}"
    if how == "xchg":
        return "exch", f"b{bits}"
    if how in ("and", "or", "xor"):
        return how, f"b{bits}"
    if how == "add":
        if t.is_float:
            return ("add.noftz" if bits == 16 else "add"), {T.f16: "f16", T.bf16: "bf16"}.get(t, f"f{bits}")
        return "add", f"u{bits}" if bits == 64 or not t.signed else f"s{bits}"
    return how, f"{'s' if t.signed else 'u'}{bits}"


def _format(g, v, t, hexadecimal):
    w = g.w
    if type(t) is T.Ptr:
        return "0x%llx", [w.cast("ptrtoint", v, "i64")]
    if t.is_float:
        if t is not T.f64:
            from ..gpu.lower_shape import convert_scalar

            v = convert_scalar(g, v, t, T.f32) if t is not T.f32 else v
        return "%f", [v]
    if t.bits < 32:
        v = w.cast("sext" if t.signed and not hexadecimal else "zext", v, "i32")
    long = "ll" if t.bits == 64 else ""
    if hexadecimal:
        return f"0x%0{max(1, t.bits // 4)}{long}x", [v]
    return f"%{long}{'d' if t.signed else 'u'}", [v]
