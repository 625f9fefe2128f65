"""What an NVIDIA GPU can do, instruction by instruction: the only place that spells PTX."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ....errors import TritonError
from ...gpu.layout.swizzle import swizzled
from ...gpu.lower import LOWER as SHARED
from ...gpu.lower.convert import pack
from . import atomics, clusters, inline_asm, messages, mma, native, warp_roles, wgmma
from .words import LETTER, bracketed, bytes_of, pack_words, through_words, unpack_word

# The architectures there are, and the PTX version for each; products of 8-bit floats came with 8.4. LLVM is not asked
# about others: it ends the process.
_PTX = {70: 83, 72: 83, 75: 83, 80: 83, 86: 83, 87: 83, 88: 90, 89: 84, 90: 84, 100: 86, 101: 86, 103: 88, 110: 90,
        120: 87, 121: 88}  # fmt: skip
_SHARED = {75: 65536, 80: 166912, 87: 166912, 86: 101376, 89: 101376, 90: 232448}

_THREADS = {75: 1024, **dict.fromkeys((86, 87, 88, 89, 101, 110, 120, 121), 1536)}

LOWER = {**SHARED, **clusters.LOWER, **warp_roles.LOWER, **mma.LOWER, **inline_asm.LOWER}


class UnknownArchitecture(TritonError, ValueError):
    """A name that stands for no NVIDIA GPU."""


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
    warp_size: int = 32
    name: str = "cuda"

    @classmethod
    def of(cls, arch):
        """The target of `90`, `"90a"`, `"sm_90a"`, ..."""
        number = re.fullmatch(r"(?:sm_?)?(\d+)[af]?", str(arch))
        sm = int(number[1]) if number else 0
        if sm not in _PTX:
            raise UnknownArchitecture(f"there is no NVIDIA architecture {arch!r}\n"
                                      f"hint: the ones tritium knows are {', '.join(map(str, _PTX))}")
        return cls(sm, f"sm_{sm}{'a' if sm >= 90 else ''}", f"+ptx{_PTX[sm]}")

    @property
    def shared_bytes(self):
        """The most shared memory a program can have."""
        return _SHARED.get(self.sm, _SHARED[90 if self.sm in (100, 103) else 86])

    @property
    def most_threads(self):
        """The most threads that a processor holds at once."""
        return _THREADS.get(self.sm, 2048)

    @property
    def lower(self):
        """Op kind -> its lowering."""
        return LOWER

    @property
    def native(self):
        """(row name, type) -> the instruction that computes it."""
        return native.NATIVE

    def float_to_int(self, g, x, to):
        """A float, cut to an integer of type `to`: values beyond its range to the nearest end, nan to 0."""
        return native.float_to_int(g, x, to)

    def pair_cast(self, source, to):
        """A function (g, low, high) that converts two neighbours at once, or None."""
        return native.pair_cast(self, source, to)

    # --- who am I ------------------------------------------------------------------------------------------------
    def thread_id(self, g):
        """Index of this thread in its program, i32."""
        return self._register(g, "tid.x")

    def program_id(self, g, axis):
        return self._register(g, f"{_program(g)}id.{'xyz'[axis]}")

    def num_programs(self, g, axis):
        return self._register(g, f"n{_program(g)}id.{'xyz'[axis]}")

    def block_rank(self, g):
        """Index of this block in its cluster, i32."""
        return self._register(g, "cluster.ctarank")

    def _register(self, g, name):
        full = f"llvm.nvvm.read.ptx.sreg.{name}"
        g.w.declare(full, "i32", [])
        return g.once(full, lambda: g.w.effect(f"call i32 @{full}()", "i32", at=0))

    def clock(self, g, what):
        if what == "globaltimer":
            return g.w.effect('call i64 asm sideeffect "mov.u64 $0, %globaltimer;", "=l"()', "i64")
        return g.w.effect('call i32 asm sideeffect "mov.u32 $0, %smid;", "=r"()', "i32")

    # --- between threads -----------------------------------------------------------------------------------------
    def barrier(self, g):
        """All threads of the program meet, or the group at work, and see each other's memory."""
        if g.members is not None:
            g.w.declare("llvm.nvvm.barrier.cta.sync.aligned.count", "void", ["i32", "i32"], "convergent nounwind")
            g.w.effect(f"call void @llvm.nvvm.barrier.cta.sync.aligned.count(i32 1, i32 {32 * g.members})")
            return
        g.w.declare("llvm.nvvm.barrier.cta.sync.aligned.all", "void", ["i32"], "convergent nounwind")
        g.w.effect("call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)")

    def cluster_barrier(self, g):
        """All threads of the cluster meet, and see each other's memory."""
        body = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
        g.w.effect(f'call void asm sideeffect "{body}", "~{{memory}}"()')

    def address_in_block(self, g, pointer, block):
        """Where another block of the cluster has what this one has at an address in shared memory, i32."""
        call = f'call i32 asm "mapa.shared::cluster.u32 $0, $1, $2;", "=r,r,r"({pointer.typed}, {block.typed})'
        return g.w.emit("i32", call, pointer, block)

    def load_from_block(self, g, address, constant, bits):
        """An integer of so many bits, `constant` bytes behind an address in the cluster's shared memory."""
        register = max(bits, 16)  # PTX has no registers of 8 bits
        body = f"ld.shared::cluster.b{bits} $0, {bracketed('$1', constant)};"
        call = f'call i{register} asm sideeffect "{body}", "={LETTER[register]},r,~{{memory}}"({address.typed})'
        x = g.w.effect(call, f"i{register}")
        return g.w.cast("trunc", x, "i8") if bits == 8 else x

    def meet(self, g, number, warps):
        """Wait at a barrier until so many warps have come here or passed by."""
        self._numbered(g, "sync", number, warps)

    def pass_by(self, g, number, warps):
        """Be one of so many warps that a barrier waits for, without waiting."""
        self._numbered(g, "arrive", number, warps)

    def _numbered(self, g, how, number, warps):
        name = f"llvm.nvvm.barrier.cta.{how}.aligned.count"
        g.w.declare(name, "void", ["i32", "i32"], "convergent nounwind")
        g.w.effect(f"call void @{name}(i32 {number}, i32 {32 * warps})")

    def proxy_fence(self, g, everywhere=False):
        """Ordinary writes to shared memory become visible to tensor cores and bulk copies, where these read it; or
        those to global memory too."""
        if self.sm < 90:
            return
        where = "" if everywhere else ".shared::cta"
        g.w.effect(f'call void asm sideeffect "fence.proxy.async{where};", "~{{memory}}"()')

    def uniform(self, g, x):
        """A value equal in all lanes, in a register the compiler knows to be so."""
        return self._shuffle(g, "idx", x, 0, at=0)

    def shuffle_xor(self, g, x, distance):
        """The value of the lane whose number differs by the bits of `distance`."""
        return through_words(g, x, lambda word: self._shuffle(g, "bfly", word, distance))

    def shuffle_from(self, g, x, lane):
        """The value of the lane of that number."""
        return through_words(g, x, lambda word: self._shuffle(g, "idx", word, lane))

    def _shuffle(self, g, mode, x, by, at=-1):
        name = f"llvm.nvvm.shfl.sync.{mode}.i32"
        g.w.declare(name, "i32", ["i32"] * 4, "convergent nounwind")
        return g.w.effect(f"call i32 @{name}(i32 -1, i32 {x}, i32 {by}, i32 31)", "i32", at)

    @property
    def stores_matrices(self):
        """Whether a warp can store 8x8 matrices of 16-bit elements that its lanes hold in pairs."""
        return self.sm >= 90

    def store_matrices(self, g, address, words):
        """Four such matrices to shared memory: 32-bit words of each lane, and its address of a row of 16 bytes."""
        body = "stmatrix.sync.aligned.m8n8.x4.shared.b16 [$0], {$1, $2, $3, $4};"
        arguments = ", ".join(x.typed for x in (address, *words))
        g.w.effect(f'call void asm sideeffect "{body}", "r,r,r,r,r,~{{memory}}"({arguments})')

    @property
    def loads_matrices(self):
        """Whether a warp can load 8x8 matrices of 16-bit elements, each lane a word of each."""
        return self.sm >= 75

    def load_matrices(self, g, address, constant, count, turned):
        """Words of `count` matrices whose rows of 16 bytes lie at the lanes' addresses, `constant` bytes behind."""
        w, outs = g.w, ", ".join(f"${k}" for k in range(count))
        how = f"ldmatrix.sync.aligned.m8n8.x{count}{'.trans' if turned else ''}.shared.b16"
        body = f"{how} {{{outs}}}, {bracketed(f'${count}', constant)};"
        result = "i32" if count == 1 else w.struct(["i32"] * count)
        constraints = ",".join(["=r"] * count + ["r", "~{memory}"])
        x = w.effect(f'call {result} asm sideeffect "{body}", "{constraints}"({address.typed})', result)
        return [x] if count == 1 else [w.emit("i32", f"extractvalue {result} {x}, {k}", x) for k in range(count)]

    # --- quotients and products ----------------------------------------------------------------------------------
    def small_quotient(self, g, x, y):
        """x / y for x from 0 to 2^21; see `gpu.small_quotients`."""
        w = g.w
        dividend = w.binary("fadd", w.cast("sitofp", x, "float"), w.const("float", 0.5))
        return w.cast("fptosi", w.binary("fmul", dividend, native.reciprocal(g, w.cast("sitofp", y, "float"))), "i32")

    def hold(self, g, dot, init, nonempty):
        """Registers for the sums of a started dot in a loop that has a round, or may have none."""
        return wgmma.Held(g, dot, init, nonempty)

    # --- copies that run by themselves ---------------------------------------------------------------------------
    swizzled = staticmethod(swizzled)

    def async_copy(self, g, target, constant, source, size, mask):
        """Copy `size` bytes from global to shared memory, `constant` bytes behind `target`; zeros where the mask is
        off."""
        how, (source, further) = "cg" if size == 16 else "ca", g.sum_of(source)
        amount = () if mask is None else (g.w.select(mask, g.int(size), g.int(0)),)
        listed = ", ".join((bracketed("$0", constant), bracketed("$1", further), str(size), *["$2"] * len(amount)))
        constraints = ",".join(("r", "l", *["r"] * len(amount), "~{memory}"))
        arguments = ", ".join(x.typed for x in (target, source, *amount))
        g.w.effect(f'call void asm sideeffect "cp.async.{how}.shared.global {listed};", "{constraints}"({arguments})')

    def async_commit(self, g):
        g.w.effect('call void asm sideeffect "cp.async.commit_group;", "~{memory}"()')

    def async_wait(self, g, pending):
        g.w.effect(f'call void asm sideeffect "cp.async.wait_group {pending};", "~{{memory}}"()')

    # --- barriers in shared memory, and TMA -------------------------------------------------------------
    def warp_barrier(self, g):
        """The lanes of a warp meet, and see each other's memory."""
        g.w.effect('call void asm sideeffect "bar.warp.sync 0xffffffff;", "~{memory}"()')

    def fewer_registers(self, g, count):
        """The threads of a warpgroup give registers back."""
        g.w.effect(f'call void asm sideeffect "setmaxnreg.dec.sync.aligned.u32 {count};", ""()')

    def more_registers(self, g, count):
        """The threads of a warpgroup take registers that others gave back."""
        g.w.effect(f'call void asm sideeffect "setmaxnreg.inc.sync.aligned.u32 {count};", ""()')

    def start_phases(self, g, barrier, arrivals):
        """Make a barrier of 8 bytes; TMA knows of it once the threads have met."""
        body = f"mbarrier.init.shared::cta.b64 [$0], {arrivals}; fence.mbarrier_init.release.cluster;"
        g.w.effect(f'call void asm sideeffect "{body}", "r,~{{memory}}"({barrier.typed})')

    def arrive(self, g, barrier):
        body = "mbarrier.arrive.shared::cta.b64 _, [$0];"
        g.w.effect(f'call void asm sideeffect "{body}", "r,~{{memory}}"({barrier.typed})')

    def arrive_at(self, g, barrier, rank):
        """Arrive at the barrier that lies so in another block of the cluster. No memory but what copies have brought
        goes with it: releasing it to the cluster would wait for all writes of the thread."""
        body = "mbarrier.arrive.shared::cluster.b64 _, [$0];"
        place = self.address_in_block(g, barrier, rank)
        g.w.effect(f'call void asm sideeffect "{body}", "r,~{{memory}}"({place.typed})')

    def expect(self, g, barrier, size):
        """Announce bytes that copies will bring."""
        body = f"mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [$0], {size};"
        g.w.effect(f'call void asm sideeffect "{body}", "r,~{{memory}}"({barrier.typed})')

    def phase_over(self, g, barrier, parity):
        """i1: the barrier is through with a phase of this parity; it may take a moment to answer no."""
        body = "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [$1], $2; selp.b32 $0, 1, 0, p; }"
        call = f'call i32 asm sideeffect "{body}", "=r,r,r,~{{memory}}"({barrier.typed}, {parity.typed})'
        over = g.w.effect(call, "i32")
        return g.w.compare("icmp ne", over, g.int(0))

    def fetch_map(self, g, tensor):
        """Have TMA read what it must know of a tensor, before it is asked to copy."""
        g.w.effect(f'call void asm sideeffect "prefetch.tensormap [$0];", "l,~{{memory}}"({tensor.typed})')

    def copy_box(self, g, target, tensor, coordinates, barrier, blocks=1):
        """Have a box copied to shared memory; `coordinates` of its start, slowest axis first. All of so many blocks of
        the cluster get it, and hear of it, at these addresses of theirs."""
        rank = len(coordinates)
        listed = ", ".join(f"${3 + k}" for k in range(rank))
        how = f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
        body, letters = f"[$0], [$1, {{{listed}}}], [$2]", f"r,l,r{',r' * rank}"
        values = [target, tensor, barrier, *reversed(coordinates)]
        if blocks > 1:
            how, body, letters = f"{how}.multicast::cluster", f"{body}, ${3 + rank}", f"{letters},h"
            values.append(g.const("i16", (1 << blocks) - 1))
        arguments = ", ".join(x.typed for x in values)
        g.w.effect(f'call void asm sideeffect "{how} {body};", "{letters},~{{memory}}"({arguments})')

    def store_box(self, g, tensor, coordinates, source, how):
        """Have a box written from shared memory, or combined with what is there (`how`)."""
        rank = len(coordinates)
        listed = ", ".join(f"${2 + k}" for k in range(rank))
        start, kind = ("cp.reduce.async", f".{how}") if how else ("cp.async", "")
        body = f"{start}.bulk.tensor.{rank}d.global.shared::cta{kind}.tile.bulk_group [$0, {{{listed}}}], [$1];"
        arguments = ", ".join(x.typed for x in (tensor, source, *reversed(coordinates)))
        g.w.effect(f'call void asm sideeffect "{body}", "l,r{",r" * rank},~{{memory}}"({arguments})')

    def end_boxes(self, g):
        """Close a group of boxes that are written."""
        g.w.effect('call void asm sideeffect "cp.async.bulk.commit_group;", "~{memory}"()')

    def await_boxes(self, g, pending, written):
        """Wait until all but `pending` groups have been read from shared memory, or have been `written` too."""
        body = f"cp.async.bulk.wait_group{'' if written else '.read'} {pending};"
        g.w.effect(f'call void asm sideeffect "{body}", "~{{memory}}"()')

    # --- memory --------------------------------------------------------------------------------------------------
    def load(self, g, pointer, kind, count, mask, fill, attrs):
        """`count` neighbouring elements of LLVM type `kind`; masked-off lanes read nothing and get `fill`, or zeros."""
        w, size = g.w, bytes_of(kind) * count
        hints = _hints(attrs)
        if mask is None and not hints:
            type_ = kind if count == 1 else f"<{count} x {kind}>"
            volatile = "volatile " if attrs.get("volatile") else ""
            x = w.effect(f"load {volatile}{type_}, {pointer.typed}, align {size}", type_)
            return [x] if count == 1 else [w.extract(x, k) for k in range(count)]
        bits = 64 if bytes_of(kind) == 8 else min(32, size * 8)
        volatile = ".volatile" if attrs.get("volatile") else ""
        parts = self._asm_load(g, f"ld{volatile}.global{hints}", bits, size * 8 // bits, pointer, mask, fill)
        if bits == 8:
            parts = [w.cast("trunc", p, "i8") for p in parts]
        return [e for p in parts for e in unpack_word(g, p, kind)]

    def _asm_load(self, g, name, bits, words, pointer, mask, fill):
        """The words an instruction loads; PTX has no 8-bit registers, so bytes come in 16 bits."""
        w, register, (pointer, constant) = g.w, max(bits, 16), g.sum_of(pointer)
        outs = [f"${k}" for k in range(words)]
        listed = f"{{{', '.join(outs)}}}" if words > 1 else outs[0]
        body = f"{name}{f'.v{words}' if words > 1 else ''}.b{bits} {listed}, {bracketed(f'${words}', constant)};"
        constraints, arguments = ["l"], [pointer.typed]
        if mask is not None:
            start = ["0"] * words if fill is None else [f"${words + 2 + k}" for k in range(words)]
            moves = "".join(f"mov.b{register} {o}, {s}; " for o, s in zip(outs, start))
            body = f"{moves}@${words + 1} {body}"
            constraints.append("b")
            arguments.append(f"i1 {mask}")
            if fill is not None:
                packed = [w.cast("zext", x, "i16") if bits == 8 else x for x in pack_words(g, fill)]
                constraints += [LETTER[register]] * words
                arguments += [x.typed for x in packed]
        type_ = f"i{register}"
        result = type_ if words == 1 else "{" + ", ".join([type_] * words) + "}"
        out = f"={'' if mask is None else '&'}{LETTER[register]}"  # with a mask it is written before the rest is read
        constraints = ",".join([out] * words + constraints)
        x = w.effect(f'call {result} asm sideeffect "{body}", "{constraints}"({", ".join(arguments)})', result)
        return [x] if words == 1 else [w.emit(type_, f"extractvalue {result} {x}, {k}", x) for k in range(words)]

    def store(self, g, pointer, items, mask, attrs):
        """Neighbouring elements; nothing is written where the mask is off."""
        w, hints = g.w, _hints(attrs)
        if mask is None and not hints:
            size = bytes_of(items[0].type) * len(items)
            w.effect(f"store {pack(w, items).typed}, {pointer.typed}, align {size}")
            return
        words = pack_words(g, items)
        bits = int(words[0].type[1:])
        if bits == 8:
            words = [w.cast("zext", x, "i16") for x in words]
        first, (pointer, constant) = 1 if mask is not None else 0, g.sum_of(pointer)
        ins = ", ".join(f"${first + 1 + k}" for k in range(len(words)))
        vector, listed = (f".v{len(words)}", f"{{{ins}}}") if len(words) > 1 else ("", ins)
        body = f"st.global{hints}{vector}.b{bits} {bracketed(f'${first}', constant)}, {listed};"
        constraints = ["l"] + [LETTER[max(bits, 16)]] * len(words)
        arguments = [pointer.typed, *(x.typed for x in words)]
        if mask is not None:
            body, constraints, arguments = f"@$0 {body}", ["b", *constraints], [f"i1 {mask}", *arguments]
        w.effect(f'call void asm sideeffect "{body}", "{",".join(constraints)},~{{memory}}"({", ".join(arguments)})')

    atomic = staticmethod(atomics.atomic)

    def widest_atomic(self, how, element):
        """The most neighbours that one atomic instruction updates."""
        return atomics.widest(self, how, element)

    # --- talking to the host -------------------------------------------------------------------------------------
    assert_failed = staticmethod(messages.assert_failed)
    print = staticmethod(messages.print_values)


def _program(g):
    """What a program is to the GPU: a block, or a cluster of them."""
    return "cluster" if g.module.attrs.get("num_ctas", 1) > 1 else "cta"


def _hints(attrs):
    """Cache modifiers of a load or a store: PTX takes one, and none on volatile accesses."""
    if attrs.get("volatile"):
        return ""
    return attrs.get("cache") or (f".L1::{attrs['eviction']}" if attrs.get("eviction") else "")
