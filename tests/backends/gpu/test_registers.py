"""What the assembler says of kernels that run short of registers; needs ptxas, but no GPU."""

import types

import pytest

import tritium as triton
import tritium.language as tl
from tritium.backends.compiler import GPUTarget
from tritium.backends.nvptx import compile as stages
from tritium.backends.nvptx.assemble.ptxas import all_registers, ptxas, room_for_more, version
from tritium.backends.nvptx.assemble.traits import Traits
from tritium.backends.occupancy import MACHINES, occupancy
from tritium.compiler import ASTSource, compile
from tritium.errors import OutOfResources, PTXASError

pytestmark = pytest.mark.skipif(ptxas() is None, reason="ptxas is not installed")
HOPPER = MACHINES["cuda"][90]


@triton.jit
def product(a_ptr, b_ptr, c_ptr, M, N, K, M_BLOCK: tl.constexpr, N_BLOCK: tl.constexpr, K_BLOCK: tl.constexpr):
    m = (tl.program_id(0) * M_BLOCK + tl.arange(0, M_BLOCK))[:, None]
    n = (tl.program_id(1) * N_BLOCK + tl.arange(0, N_BLOCK))[None, :]
    k = tl.arange(0, K_BLOCK)
    total = tl.zeros((M_BLOCK, N_BLOCK), tl.float32)
    for start in range(0, K, K_BLOCK):
        a = tl.load(a_ptr + m * K + (start + k)[None, :], mask=(m < M) & ((start + k)[None, :] < K), other=0.0)
        b = tl.load(b_ptr + (start + k)[:, None] * N + n, mask=((start + k)[:, None] < K) & (n < N), other=0.0)
        total = tl.dot(a, b, total)
    tl.store(c_ptr + m * N + n, total.to(tl.float16), mask=(m < M) & (n < N))


@pytest.mark.parametrize("blocks", [(128, 128, 64), (128, 256, 64)])
def test_products_of_odd_sizes_do_not_spill(blocks):
    """Rows that are not aligned are loaded element by element, each with an address of its own."""
    types = dict.fromkeys(("a_ptr", "b_ptr", "c_ptr"), "*fp16") | dict.fromkeys("MNK", "i32")
    constants = dict(zip(("M_BLOCK", "N_BLOCK", "K_BLOCK"), blocks))
    source = ASTSource(product, types | dict.fromkeys(constants, "constexpr"), constants)
    kernel = compile(source, target=GPUTarget("cuda", 90, 32), options=dict(num_warps=8))
    assert kernel.n_spills == 0 and kernel.n_regs > 100


@pytest.mark.parametrize("arch", [80, 86, 89])
@pytest.mark.parametrize(("blocks", "warps"), [((64, 64, 32), 4), ((128, 128, 32), 4), ((128, 256, 32), 8)])
def test_multibuffers_before_hopper_do_not_spill(arch, blocks, warps):
    """Operands are read back piece by piece; the accumulators take half of the registers."""
    types = dict.fromkeys(("a_ptr", "b_ptr", "c_ptr"), "*fp16") | dict.fromkeys("MNK", "i32")
    constants = dict(zip(("M_BLOCK", "N_BLOCK", "K_BLOCK"), blocks))
    aligned = {(k,): [["tt.divisibility", 16]] for k in range(6)}
    source = ASTSource(product, types | dict.fromkeys(constants, "constexpr"), constants, aligned)
    kernel = compile(source, target=GPUTarget("cuda", arch, 32), options=dict(num_warps=warps))
    assert "cp.async.cg" in kernel.asm["ptx"] and "ldmatrix" in kernel.asm["ptx"]
    assert kernel.n_spills == 0 and kernel.n_regs < 256


@pytest.mark.parametrize(("blocks", "warps"), [((64, 256, 64), 4), ((128, 128, 64), 4), ((128, 256, 64), 8)])
def test_products_with_a_producer_warp_do_not_spill(blocks, warps):
    """An instruction's sums must fit in the registers that threads begin with, all sums in those they end up with."""
    types = dict.fromkeys(("a_ptr", "b_ptr", "c_ptr"), "*fp16") | dict.fromkeys("MNK", "i32")
    constants = dict(zip(("M_BLOCK", "N_BLOCK", "K_BLOCK"), blocks))
    aligned = {(k,): [["tt.divisibility", 16]] for k in range(6)}
    source = ASTSource(product, types | dict.fromkeys(constants, "constexpr"), constants, aligned)
    kernel = compile(source, target=GPUTarget("cuda", 90, 32), options=dict(num_warps=warps))
    assert kernel.metadata.producer_warps and kernel.n_spills == 0


@pytest.mark.parametrize(("blocks", "warps", "extra", "resident"), [
    ((64, 128, 32), 4, 1, 3), ((64, 64, 32), 4, 1, 5),  # a producer of four warps would leave room for two
    ((128, 128, 32), 8, 4, 1), ((128, 128, 64), 4, 4, 1),  # no room is won: registers, or shared memory of four slots
])  # fmt: skip
def test_small_products_have_one_extra_warp_if_more_blocks_fit(blocks, warps, extra, resident):
    types = dict.fromkeys(("a_ptr", "b_ptr", "c_ptr"), "*fp16") | dict.fromkeys("MNK", "i32")
    constants = dict(zip(("M_BLOCK", "N_BLOCK", "K_BLOCK"), blocks))
    aligned = {(k,): [["tt.divisibility", 16]] for k in range(6)}
    source = ASTSource(product, types | dict.fromkeys(constants, "constexpr"), constants, aligned)
    kernel = compile(source, target=GPUTarget("cuda", 90, 32), options=dict(num_warps=warps))
    assert kernel.metadata.producer_warps == extra and ("setmaxnreg" in kernel.asm["ptx"]) == (extra == 4)
    assert occupancy(kernel).programs == resident and kernel.n_spills == 0


@triton.jit
def picked(x_ptr, y_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(y_ptr + at, tl.gather(tl.load(x_ptr + at), N - 1 - at, 0))


@pytest.mark.parametrize(("arch", "fits"), [(86, False), (90, True)])
def test_what_cannot_be_loaded_is_not_assembled(arch, fits):
    """Its metadata says why; tuners meet many such kernels, and their tiles are large."""
    source = ASTSource(picked, dict.fromkeys(("x_ptr", "y_ptr"), "*fp32"), {"N": 32768})
    kernel = compile(source, GPUTarget("cuda", arch, 32), {"num_warps": 32})
    assert kernel.metadata.shared == 131072
    assert kernel.kernel.startswith(b"\x7fELF") == fits == hasattr(kernel.metadata, "n_regs")


def test_too_few_registers_are_told_with_numbers():
    """An instruction of 64 sums in a thread does not fit into 40 registers."""
    types = dict.fromkeys(("a_ptr", "b_ptr", "c_ptr"), "*fp16") | dict.fromkeys("MNK", "i32")
    constants = dict.fromkeys(("M_BLOCK", "N_BLOCK", "K_BLOCK"), 128)
    source = ASTSource(product, types, constants, {(k,): [["tt.divisibility", 16]] for k in range(6)})
    with pytest.raises(OutOfResources, match=r"registers, Required: \d+, Hardware limit: 40. .*`maxnreg`") as caught:
        compile(source, GPUTarget("cuda", 90, 32), dict(num_warps=4, maxnreg=40))
    assert caught.value.required > 64


def test_an_assembler_that_is_none_is_named(tmp_path):
    wrong = tmp_path / "ptxas"
    with pytest.raises(PTXASError, match=r"ptxas is no assembler that can be run: no such program\nhint: see TRI"):
        version(str(wrong))
    wrong.write_text("#!/bin/sh\nexit 3\n")
    wrong.chmod(0o755)
    with pytest.raises(PTXASError, match=r"is no assembler that can be run: .* exit status 3"):
        version(str(wrong))


SETTINGS = {"TRITON_STORE_BINARY_ONLY": "0", "DISABLE_PTXAS_OPT": "1", "PTXAS_OPTIONS": "--opt-level 1",
            "TRITON_DUMP_PTXAS_LOG": "1", "NVPTX_ENABLE_DUMP": "1"}  # fmt: skip


def test_settings_reach_the_assembler(monkeypatch, capfd):
    """The first is none of the assembler's."""
    source = ASTSource(picked, dict.fromkeys(("x_ptr", "y_ptr"), "*fp32"), {"N": 4096})
    binary, options, printed = {}, {}, {}
    for name, value in SETTINGS.items():
        with monkeypatch.context() as patch:
            patch.setenv(name, value)
            patch.setenv("TRITON_ALWAYS_COMPILE", "1")
            kernel = compile(source, GPUTarget("cuda", 80, 32))
        binary[name], options[name] = kernel.kernel, kernel.metadata.ptx_options
        printed[name] = capfd.readouterr().out
    assert list(options.values()) == [None, "--opt-level 0", "--opt-level 1", None, None]
    assert len({binary[name] for name in list(SETTINGS)[:3]}) == 3
    assert "Used" in printed["TRITON_DUMP_PTXAS_LOG"] and ".visible .entry picked" in printed["NVPTX_ENABLE_DUMP"]
    assert not (printed["TRITON_STORE_BINARY_ONLY"] + printed["PTXAS_OPTIONS"])


def test_an_assembler_that_leaves_registers_and_spills_is_asked_again():
    """What it finds too large it gives 32 registers, unless it is told how many there are."""
    spilled = {"n_regs": 32, "n_spills": 4000}
    assert [all_registers(HOPPER, Traits(512), spilled, size) for size in (1000, 450_000)] == [128, 128]
    for traits, used, size in ((Traits(64, registers=40), spilled, 1000),
                               (Traits(64), {"n_regs": 32, "n_spills": 9}, 1000),
                               (Traits(64), {"n_regs": 255, "n_spills": 999}, 1000), (Traits(64), spilled, 10**7),
                               (Traits(64), {}, 1000)):  # fmt: skip
        assert all_registers(HOPPER, traits, used, size) is None


WAITS = Traits(256, products=True, async_copies=True)


def test_one_more_block_finds_room_where_few_registers_are_in_the_way():
    """Three blocks of 72 KiB and 256 threads have 80 registers for a thread."""
    used, less = {"n_regs": 85, "n_spills": 0}, {"n_regs": 70, "n_spills": 0}
    assert room_for_more(HOPPER, WAITS, used, 73728) == [80] and room_for_more(HOPPER, WAITS, less, 40000) == [64]
    other = [(WAITS, used, 90000), (WAITS, {"n_regs": 100, "n_spills": 0}, 73728), (WAITS, {}, 73728),
             (WAITS._replace(async_copies=False), less, 40000), (WAITS.asking(85), used, 73728),
             (WAITS._replace(threads=1024), {"n_regs": 32, "n_spills": 0}, 1024)]  # fmt: skip
    assert not any(room_for_more(HOPPER, *given) for given in other)


def test_one_more_block_finds_room_where_few_threads_do():
    """Two blocks of 128 threads with 186 registers fit, and three with 168; of those with 128, four fit already."""
    used = {"n_regs": 186, "n_spills": 0}
    assert room_for_more(HOPPER, Traits(128), used, 1024) == [168]
    assert room_for_more(HOPPER, Traits(128, products=True), used, 1024) == [168]
    other = [(Traits(128), used, 90000), (Traits(128), {"n_regs": 186, "n_spills": 3}, 1024),
             (Traits(128).asking(200), used, 1024), (Traits(256), {"n_regs": 255, "n_spills": 0}, 1024),
             (Traits(256, products=True), {"n_regs": 60, "n_spills": 0}, 1024)]  # fmt: skip
    assert not any(room_for_more(HOPPER, *given) for given in other)


def test_more_blocks_find_room_without_products():
    """Four blocks of 256 threads with 60 registers fit, five with 48: enough, and not many fewer."""
    of = lambda threads, registers, shared=1024: room_for_more(HOPPER, Traits(threads), {"n_regs": registers}, shared)
    assert of(256, 60) == [48] and of(256, 80) == [64] and of(128, 62) == [48, 56]
    assert of(128, 104) == [80, 96]  # few threads find room: one block more would do
    assert not of(256, 65 * 1024) and not of(256, 60, 50000) and not of(128, 48) and not of(1024, 60)


@pytest.mark.parametrize(("spills", "kept"), [(0, 80), (4, 80), (5, 85)])
def test_fewer_registers_are_taken_only_with_few_spills(monkeypatch, spills, kept):
    made = {False: (b"free", {"n_regs": 85, "n_spills": 0}), True: (b"tight", {"n_regs": 80, "n_spills": spills})}
    monkeypatch.setattr(stages, "_assembled", lambda text, options, traits: made[".maxnreg 80" in text])
    metadata = {"name": "k", "shared": 73728, "traits": WAITS}
    options = types.SimpleNamespace(arch=90, sanitized=False)
    binary = stages.cubin(".entry k()\n.reqntid 256\n{ ret; }", None, options, metadata)
    assert metadata["n_regs"] == kept and binary == (b"tight" if kept == 80 else b"free")


@pytest.mark.parametrize(("short", "spilled", "kept"), [(True, 1, b"rolled"), (True, 9, b"free"), (False, 1, b"free")])
def test_short_loops_are_not_unrolled_where_that_spills_less(monkeypatch, short, spilled, kept):
    made = {False: (b"free", {"n_regs": 255, "n_spills": 5}), True: (b"rolled", {"n_regs": 255, "n_spills": spilled})}
    monkeypatch.setattr(stages, "_assembled", lambda text, options, traits: made["nounroll" in text])
    metadata = {"name": "k", "shared": 0, "traits": Traits(64, products=True, short_loops=short)}
    text = ".entry k()\n.reqntid 64\n{\n$L__BB0_1:\n\t@%p1 bra \t$L__BB0_1;\n ret; }"
    assert stages.cubin(text, None, types.SimpleNamespace(arch=90, sanitized=False), metadata) == kept


def test_the_traits_say_of_loops_around_products_whether_they_are_short():
    for trips in ("128", "K"):
        constants = {"M_BLOCK": 64, "N_BLOCK": 64, "K_BLOCK": 64} | ({"K": 128} if trips == "128" else {})
        words = dict.fromkeys(("a_ptr", "b_ptr", "c_ptr"), "*fp16") | dict.fromkeys("MNK", "i32")
        source = ASTSource(product, words | dict.fromkeys(constants, "constexpr"), constants)
        kernel = compile(source, target=GPUTarget("cuda", 90, 32), options=dict(num_warps=2))
        assert Traits.read(kernel.metadata._asdict()).short_loops is (trips == "128")


@triton.jit
def one_by_one(x, o, n, BLOCK: tl.constexpr):
    """A loop that loads, computes and stores a tile in each iteration."""
    at = tl.arange(0, BLOCK)
    for i in range(0, n):
        tl.store(o + i * BLOCK + at, tl.load(x + i * BLOCK + at) * 2)


@pytest.mark.parametrize(("block", "little"), [(128, True), (256, True), (512, False)])
def test_the_traits_say_whether_loops_load_little(block, little):
    """A word or two of a thread: as many threads as there can be are to hide that it waits for them."""
    source = ASTSource(one_by_one, {"x": "*fp32", "o": "*fp32", "n": "i32", "BLOCK": "constexpr"}, {"BLOCK": block})
    kernel = compile(source, target=GPUTarget("cuda", 90, 32), options=dict(num_warps=4))
    traits = Traits.read(kernel.metadata._asdict())
    assert traits.loads_little is little
    assert room_for_more(HOPPER, traits, {"n_regs": 38, "n_spills": 0}, 0) == ([32] if little else [])
