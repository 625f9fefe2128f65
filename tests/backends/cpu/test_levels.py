"""The CPUs one machine can be: TRITIUM_CPU, feature lists, and code that keeps to them."""

import doctest
import itertools
import os
import re
import subprocess
import sys

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.backends.cpu import kernels
from tritium import knobs, ops
from tritium.backends.compiler import GPUTarget
from tritium.backends.cpu.library import dot, sort
from tritium.backends.launcher import image
from tritium.backends.llvm import host, levels, target
from tritium.backends.llvm.levels import LEVELS
from tritium.backends.llvm.target import assembly, cpu_target
from tritium.ir import types as T

HASWELL = LEVELS["x86-64-v3"]._replace(name="host", cpu="haswell", features="+avx2,-avx512f")
X86_HOST = target.host_level().machine == "x86_64"
X86 = [name for name, level in LEVELS.items() if level.machine == "x86_64"]


def parse(text, host=HASWELL):
    return levels.parse(text, lambda: host)


def test_docstring_examples():
    assert doctest.testmod(levels).failed == 0


# -- features ----------------------------------------------------------------------------------------------------------


def test_levels_grow():
    for smaller, larger in itertools.pairwise(X86):
        assert LEVELS[smaller].has < LEVELS[larger].has


@pytest.mark.parametrize("text, gone, kept", [
    ("sapphirerapids,-avx512f", r"avx512", {"avx2", "fma", "f16c", "avxvnni", "amx-bf16"}),
    ("sapphirerapids,-avx512", r"avx512", {"avx2", "fma"}),
    ("sapphirerapids,-avx", r"avx|fma|f16c|vaes|vpclmul", {"sse4.2", "amx-tile", "bmi2"}),
    ("sapphirerapids,-amx", r"amx", {"avx512fp16"}),
    ("sapphirerapids,-fma", r"fma$|avx512", {"avx2", "f16c"}),
    ("sapphirerapids,-avx512bw", r"avx512(bw|vbmi|bitalg|bf16|fp16)", {"avx512f", "avx512vl", "avx512vnni"}),
    ("x86-64-v2,-sse3", r"sse", {"popcnt", "cx16"}),
    ("aarch64,-fp16,-dotprod", r"fullfp16|dotprod", {"lse", "rdm"}),
])
def test_what_needs_a_feature_goes_with_it(text, gone, kept):
    level = parse(text)
    assert not [f for f in level.has if re.match(gone, f)] and level.has >= kept
    removed = LEVELS[text.split(",")[0]].has - level.has
    assert removed and set(level.features.split(",")) == {f"-{f}" for f in removed}


def test_what_a_feature_needs_comes_with_it():
    assert parse("x86-64,+avx512bw").has == {"sse3", "ssse3", "sse4.1", "sse4.2", "avx", "avx2", "fma", "f16c",
                                             "avx512f", "avx512bw"}
    assert parse("x86-64-v3,+avx512").has == LEVELS["x86-64-v4"].has
    assert parse("x86-64-v3,+amx").has - LEVELS["x86-64-v3"].has == {"amx-tile", "amx-bf16", "amx-int8"}


def test_features_count_from_left_to_right():
    assert parse("x86-64-v4,-avx512,+avx512f").has == LEVELS["x86-64-v3"].has | {"avx512f"}
    assert parse("x86-64-v3,+avx512,-avx512").has == LEVELS["x86-64-v3"].has


@pytest.mark.parametrize("text", ["-avx", "host,-avx", " host , -avx "])
def test_features_without_a_name_count_from_the_host(text):
    level = parse(text)
    assert (level.cpu, level.has & {"avx", "avx2", "fma", "f16c"}) == ("haswell", set())
    assert level.features.startswith(HASWELL.features + ",-avx")


@pytest.mark.parametrize("text, message", [
    ("z80", "unknown CPU target 'z80'; use one of: host, x86-64, x86-64-v2, x86-64-v3, x86-64-v4, sapphirerapids, "),
    ("", "unknown CPU target ''"),
    ("host,avx2", r"'avx2' in 'host,avx2' is not a feature with \+ or - before it"),
    ("x86-64-v3,+dotprod", r"'\+dotprod' .* the features of x86-64 are: avx512, amx, .* amx-complex"),
    ("aarch64,+avx", "the features of AArch64 are: fp16, .*dotprod"),
    ("x86-64,-sse2", "not a feature"),  # every x86-64 CPU has it
])
def test_unknown_words_are_answered_with_the_known_ones(text, message):
    with pytest.raises(ValueError, match=message):
        parse(text)


@pytest.mark.parametrize("text, lacks", [
    ("x86-64-v4", "this CPU lacks avx512bw, avx512cd, avx512dq, avx512f, avx512vl"),
    ("+amx", "this CPU lacks amx-bf16, amx-int8, amx-tile"),
    ("aarch64", "it is an AArch64 target and this CPU is x86-64"),
    ("x86-64-v4,-avx512", ""), ("x86-64", ""), ("host,-avx", ""), ("x86-64-v2,+fma", ""),
])
def test_what_a_machine_lacks(text, lacks):
    assert levels.lacking(parse(text), HASWELL) == lacks


# -- targets -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name, simd, masked, fma, f16c", [
    ("x86-64", "sse", False, False, False), ("x86-64-v2", "sse", False, False, False),
    ("x86-64-v3", "avx2", True, True, True), ("x86-64-v4", "avx512", True, True, True),
    ("x86-64-v2,+avx", "avx", False, False, False), ("x86-64-v3,-fma", "avx2", True, False, True),
    ("x86-64-v4,-avx512vl", "avx2", True, True, True), ("aarch64", "neon", False, True, True),
])
def test_targets_say_what_they_have(name, simd, masked, fma, f16c):
    t = cpu_target(name)
    assert (t.simd, t.masked, t.has_fma, t.has_f16_convert) == (simd, masked, fma, f16c)


@triton.jit
def mixed(x, h, o, n, N: tl.constexpr):
    """Arithmetic with fused steps, half precision, a masked tail, a dot: what levels differ in."""
    i = tl.arange(0, N)
    a = tl.load(x + i, mask=i < n, other=1.0)
    b = tl.load(h + i, mask=i < n, other=1.0).to(tl.float32)
    t = tl.exp(a) * b + a / 3.0
    tl.store(h + i, t.to(tl.float16), mask=i < n)
    rows = tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :]
    tl.store(o + rows, tl.dot(tl.load(o + rows), tl.load(o + rows)))


# What may not stand in the assembly of a level.
FOREIGN = {
    "x86-64": r"\b(v\w+|pshufb|roundps|blendvps|ptest|pmulld|popcnt\w?|pinsrd|pextrd|\w*[yz]mm\w*)\b",
    "x86-64-v2": r"\b(v[a-z]\w+|ymm\d+|zmm\d+)\b",
    "x86-64-v2,+avx": r"\b(vfn?m(add|sub)\w+|vcvtph2ps|vcvtps2ph|vpmaskmov\w|zmm\d+)\b",
    "x86-64-v3,-fma": r"\b(vfn?m(add|sub)\w+|zmm\d+)\b",
    "x86-64-v3": r"\b(zmm\d+|ymm(1[6-9]|2\d|3\d)|k[1-7])\b",
    "x86-64-v4,-avx512": r"\b(zmm\d+|ymm(1[6-9]|2\d|3\d)|k[1-7])\b",
    "aarch64,-fp16,-dotprod": r"\b(sdot|udot|f(mul|add|mla)\s+v\d+\.8h.*)\b",
}
PRESENT = {"x86-64-v3": "vfmadd", "x86-64-v4": "zmm", "x86-64-v2,+avx": "ymm", "x86-64-v2": "mulps", "aarch64": "fmla"}


def text_of(kernel, name):
    made = triton.compile(triton.compiler.ASTSource(
        kernel, {"x": "*fp32", "h": "*fp16", "o": "*fp32", "n": "i32", "N": "constexpr"}, {"N": 64}),
        target=GPUTarget("cpu", name, 1))
    cpu = cpu_target(name)
    return "\n".join((made.asm["asm"], assembly(dot.dot(cpu, "f32"), cpu), assembly(sort.sort(cpu, "f16"), cpu)))


@pytest.mark.parametrize("name", [*FOREIGN, "x86-64-v4", "aarch64"])
def test_code_keeps_to_its_level(name):
    """Kernels and the runtime's parts."""
    text = text_of(mixed, name)
    instructions = [line for line in text.splitlines() if line.startswith("\t") and not line.startswith("\t.")]
    if name in FOREIGN:
        assert [line for line in instructions if re.search(FOREIGN[name], line)] == []
    assert PRESENT.get(name, "") in text and len(instructions) > 100


def test_the_host_can_be_reduced():
    """The features LLVM gets really switch off what the machine has, and the processor's name would bring."""
    word, foreign = ("-avx", r"\bv[a-z]\w+\s.*[xyz]mm") if X86_HOST else ("-fp16", "fmul.*8h")
    text = text_of(mixed, f"host,{word}")
    assert not re.search(foreign, text)
    assert cpu_target(f"host,{word}").cpu == target.host_level().cpu


# -- the setting -------------------------------------------------------------------------------------------------------


def run(setting, code, check=True):
    """Python code in a process of its own under TRITIUM_CPU; what it wrote."""
    out = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, timeout=600,
                         env={**os.environ, "TRITIUM_CPU": setting, "TRITIUM_BACKEND": "cpu"})
    assert out.returncode == 0 or not check, out.stderr
    return out.stdout + out.stderr


LAUNCH = """
import numpy as np
from tritium.kernels.vector_add import add_kernel
x = np.arange(1000, dtype=np.float32)
out = np.zeros_like(x)
kernel = add_kernel[(1,)](x, x, out, 1000, BLOCK=1024)
assert (out == 2 * x).all()
"""


@pytest.mark.parametrize("name", target.runnable_levels())
def test_a_launch_at_every_level_of_this_machine(name):
    code = LAUNCH + """
from tritium.backends.cpu.runtime.image import Runtime
from tritium.backends.llvm.target import cpu_target
assert cpu_target() == Runtime.get().target
print(cpu_target().cpu, cpu_target().simd, "zmm" in kernel.asm["asm"])
"""
    cpu, simd, wide = run(name, code).split()
    assert cpu == (target.host_level() if name == "host" else LEVELS[name]).cpu
    assert wide == str(simd == "avx512")


@pytest.mark.parametrize("name", [name for name in LEVELS if name not in target.runnable_levels()])
def test_a_level_this_machine_lacks(name):
    """An error at the first launch that says what is missing; compiling for it works all the same."""
    said = run(name, LAUNCH, check=False)
    last = said[said.index("RuntimeError"):]
    assert f"TRITIUM_CPU='{name}' cannot run here" in last and f"GPUTarget('cpu', '{name}', 1)" in last
    assert re.search("lacks \\w|is an? .* target and this CPU is", last)
    assert f"it can run {', '.join(target.runnable_levels())}" in last
    run(name, f"from tritium.backends.llvm.target import *; assert compile_text('', cpu_target('{name}'))")


def test_an_unknown_setting():
    assert "ValueError: TRITIUM_CPU='pentium': unknown CPU target 'pentium'" in run("pentium", LAUNCH, check=False)


def test_the_setting_is_settled_by_the_first_kernel():
    """Loaded kernels go on; new ones would not agree with the runtime, and say so."""
    code = LAUNCH + """
from tritium import knobs
knobs.cpu = "x86-64"
add_kernel[(1,)](x, x, out, 1000, BLOCK=1024)
try:
    add_kernel[(1,)](x, x, out, 1000, BLOCK=2048)
except RuntimeError as error:
    print(error)
knobs.cpu = "host"
add_kernel[(1,)](x, x, out, 1000, BLOCK=2048)
print((out == 2 * x).all())
"""
    said = run("host", code)
    assert "knobs.cpu (TRITIUM_CPU) is 'x86-64' now, and this process has made code for 'host'" in said
    assert said.endswith("True\n")


def test_the_setting_is_part_of_keys_on_disk():
    """Of kernels, and of the timings an autotuner keeps."""
    code = LAUNCH + """
from tritium.runtime.kept import Store
from tritium.runtime.tuning import Config
print(kernel.hash, Store.of(add_kernel, "add", (1,), [Config({"BLOCK": 64})]).manager.cache_dir)
"""
    found = [run(name, code).split() for name in ("host", "host,-avx" if X86_HOST else "host,-fp16")]
    (kernel, tuned), (other_kernel, other_tuned) = found
    assert kernel != other_kernel and tuned != other_tuned


def test_kernels_for_another_level_are_linked_with_its_parts():
    """Kernels allocate their scratch memory by the sizes of the parts they call."""
    source = triton.compiler.ASTSource(mixed, {"x": "*fp32", "h": "*fp16", "o": "*fp32", "n": "i32", "N": "constexpr"},
                                       {"N": 64})
    x = np.arange(64, dtype=np.float32)
    for other in [name for name in target.runnable_levels() if name in LEVELS and cpu_target(name) != cpu_target()][:2]:
        h, o = np.ones(64, np.float16), np.ones(256, np.float32)
        kernel = triton.compile(source, target=GPUTarget("cpu", other, 1))
        kernel[(1, 1, 1)](x, h, o, 3, 64)
        assert (o == 16).all() and h[0] == 1 and h[2] > 7 and (h[3:] == 1).all()
        assert isinstance(kernel.module, image.Loaded)  # without LLVM
    far = "aarch64" if X86_HOST else "x86-64"
    with pytest.raises(RuntimeError, match=f"a kernel compiled for {far} cannot run here: .* target and this CPU is"):
        triton.compile(source, target=GPUTarget("cpu", far, 1))[(1, 1, 1)](x, h, o, 3, 64)


@pytest.mark.skipif(host.level() is None, reason="only Linux describes CPUs in files")
def test_the_system_and_llvm_describe_the_same_machine():
    seen, known = host.level(), target.host_level()
    features = set().union(*(level.has for level in LEVELS.values() if level.machine == known.machine))
    assert seen.machine == known.machine and seen.has & features == known.has & features


@pytest.mark.skipif(not X86_HOST, reason="asks an x86-64 CPU")
def test_the_cpu_itself_tells_what_the_system_has_no_word_for():
    has = {feature for feature, present in target.llvm().get_host_cpu_features().items() if present}
    assert host.has_amx_fp16() == ("amx-fp16" in has)


def test_the_setting_is_a_knob():
    assert knobs.internal.knob_descriptors["cpu"].key == "TRITIUM_CPU"


# -- gathers that microcode guards -------------------------------------------------------------------------------------

GATHER = """
declare <16 x float> @llvm.masked.gather.v16f32.v16p0(<16 x ptr>, <16 x i1>, <16 x float>)
define <16 x float> @f(ptr %x, <16 x i64> %at) {
  %p = getelementptr float, ptr %x, <16 x i64> %at
  %y = call <16 x float> @llvm.masked.gather.v16f32.v16p0(<16 x ptr> align 4 %p, <16 x i1> splat (i1 true),
                                                          <16 x float> poison)
  ret <16 x float> %y
}
"""


@pytest.mark.parametrize("cpu, guarded, gathers", [
    ("cascadelake", None, False), ("cascadelake", True, False), ("cascadelake", False, True),
    ("emeraldrapids", None, True), ("emeraldrapids", False, True),
    ("rocketlake", False, True),  # as a hypervisor may call any machine
])
def test_slow_gathers_are_loads(monkeypatch, cpu, guarded, gathers):
    class Host:
        """LLVM on a machine with this CPU."""

        get_process_triple = staticmethod(lambda: "x86_64-unknown-linux-gnu")
        get_host_cpu_name = staticmethod(lambda: cpu)

        @staticmethod
        def get_host_cpu_features():
            class Features(dict):
                flatten = staticmethod(lambda: "+avx512f,+avx512vl,+avx512bw,+avx512dq")
            return Features(dict.fromkeys(("avx512f", "avx512vl", "avx512bw", "avx512dq"), True))

    llvm = target.llvm
    monkeypatch.setattr(host, "gathers_are_guarded", lambda: guarded)
    monkeypatch.setattr(target, "llvm", lambda: Host)
    level = target.host_level.__wrapped__()
    monkeypatch.setattr(target, "llvm", llvm)
    text = assembly(GATHER, cpu_target("x86-64-v4")._replace(cpu=cpu, features=level.features))
    assert ("vgather" in text) == gathers


# -- what a level lacks ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["add", "max", "min"])
def test_atomics_of_halves_without_conversions(monkeypatch, how):
    """Every half met by others: rounding, subnormals, infinities, and NaN in sums."""
    lean = cpu_target()._replace(has_f16_convert=False)
    monkeypatch.setattr(kernels, "cpu_target", lambda: lean)
    block, count = 1024, 1 << 16

    def build(b, x, y):
        first = ops.mul(b, ops.program_id(b, axis=0), b.c(block))
        given = b.get(ops.addptr(b, y, first), (block,))
        ops.atomic(b, b.rows(ops.addptr(b, x, first), (block,)), given, how=how)

    every = np.arange(count, dtype=np.uint16).view(np.float16)
    for other in (every[::-1], np.roll(every, 1), np.random.default_rng(5).permutation(every),
                  np.full(count, 1e-7, np.float16)):
        args = [x if how == "add" else np.where(np.isnan(x), np.float16(2), x) for x in (every, other)]
        text = kernels.check(build, [T.Ptr(T.f16)] * 2, args, (count // block,))
        assert "atomicrmw" not in text and "fpext" not in text


def test_dots_without_fused_steps_stay_in_registers():
    """In a process of its own: what was compiled for another processor before changes LLVM's ways."""
    code = """
import re
from tritium.backends.cpu.library import dot
from tritium.backends.llvm.target import assembly, cpu_target
for name in ("x86-64", "x86-64-v2", "x86-64-v2,+avx", "x86-64-v3,-fma"):
    for kind in ("f32", "f64"):
        cpu = cpu_target(name)
        steps = cpu.dot_rows * cpu.dot_columns // (4 if cpu.simd == "sse" else 8)
        blocks = assembly(dot.dot(cpu, kind), cpu, passes=()).split("\\n.LBB")
        hottest = [block for block in blocks if len(re.findall("mulp[sd]", block)) == steps]
        spilled = [re.findall(r".*rsp.*mm.*|.*mm.*rsp.*", block) for block in hottest]  # vectors to or from the stack
        assert hottest and not any(spilled), (name, kind, spilled)
"""
    run("host", code)


# -- what Neoverse cores gain from -------------------------------------------------------------------------------------


@triton.jit
def weighted(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + at, x * tl.load(y_ptr + at, mask=at < n), mask=at < n)


def test_long_rows_are_prefetched():
    def text(level, block):
        types = dict.fromkeys(("x_ptr", "y_ptr", "out_ptr"), "*fp32") | {"n": "i32"}
        source = triton.compiler.ASTSource(weighted, types, {"BLOCK": block})
        return triton.compile(source, target=GPUTarget("cpu", level, 1)).asm["llir"]

    assert text("aarch64", 1024).count("call void @llvm.prefetch.p0") == 2
    assert text("x86-64-v4", 1024).count("call void @llvm.prefetch.p0") == 2
    assert "prefetch" not in text("aarch64", 128) + text("x86-64-v4", 128) + text("x86-64-v3", 1024)


def test_a_poll_with_nothing_to_do_stores_nothing():
    from tritium.backends.cpu.runtime import core

    cpu = cpu_target("aarch64")
    code = assembly(core.CORE.text(cpu), cpu, passes=("always-inline",))
    poll = re.search(r"^tt\.poll:\n(.*?)\n\.Lfunc_end", code, re.M | re.S)[1]
    assert "CNTVCT_EL0" in poll and not re.search(r"\bst[rpu]|\bsp\b|\bbl\b", poll)
