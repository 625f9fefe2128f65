"""What kernels become on NVIDIA GPUs: `lower/nvptx/*.tir`. No GPU needed; ptxas, where there is one, has a look.

# target: sm_90 warps=4           a file may name several; stages=3 and launch_checks=0 may follow
# text: ptx                       or llir, ttgir: what the expectations speak of (ptx unless said)
# has: ld.global.v4               the text contains this (a regular expression)
# not: st.shared                  it does not
# count 2: shfl.sync              it does so many times
# order: cp.async.wait; bar.sync  lines with these come in this order
# shared: 0                       bytes of shared memory
"""

import re
from pathlib import Path

import pytest

import tritium as triton
import tritium.language as tl
from tritium import passes
from tritium.backends import get
from tritium.backends.compiler import BaseBackend, GPUTarget
from tritium.backends.nvptx.assemble import ptxas
from tritium.backends.nvptx.assemble.traits import Traits
from tritium.compiler.sources import ASTSource, with_options
from tritium.errors import CompilationError
from tritium.ir.text import parse_module, print_module
from tritium.ir.verify import verify

FILES = sorted((Path(__file__).parent / "nvptx").glob("*.tir"))


def cases():
    for path in FILES:
        for target in re.findall(r"# target: (.*)", path.read_text()):
            yield pytest.param(path, target, id=f"{path.stem}-{target.replace(' ', '-')}")


def stages_of(module, arch, **options):
    """(extension -> text, metadata) of a module."""
    target = GPUTarget("cuda", arch, 32)
    chosen = BaseBackend(target).parse_options(options)
    module = with_options(module, target, chosen)
    value, metadata, out = passes.run(module, get(target).passes(target)), {}, {}
    for name, stage in get(target).stages:
        if name == "cubin" and ptxas.ptxas() is None:
            break
        value = stage(value, target, chosen, metadata)
        out[name] = print_module(value) if name == "ttgir" else value
    return out, metadata


def described(ptx):
    """What a PTX text says of its kernel's traits."""
    number = lambda name: next(map(int, re.findall(rf"^\.{name} (\d+)", ptx, re.MULTILINE)), None)
    return Traits(number("reqntid"), number("maxnreg"), "mma" in ptx, "cp.async" in ptx, "setmaxnreg" in ptx,
                  calls=".extern .func" in ptx)


def test_names_are_no_traits():
    """What a kernel is called, and its arguments, does not change how it is compiled."""
    text = "kernel @NAME(%ARG: ptr<f32>) { %x = load %ARG : f32 store %ARG, %x }"
    mine, other = (stages_of(verify(parse_module(text.replace("NAME", name).replace("ARG", arg))), 90)
                   for name, arg in (("gemma", "gamma"), ("kernel", "p")))
    assert mine[1]["traits"] == other[1]["traits"] == Traits(threads=128)
    assert mine[0]["ptx"].replace("gemma", "kernel") == other[0]["ptx"]


def test_each_product_has_its_accumulators():
    source = next(path for path in FILES if path.stem == "attention_ping_pong").read_text()
    _, metadata = stages_of(verify(parse_module(source)), 90, num_warps=8, num_stages=2)
    assert metadata["traits"].exchanges and metadata["traits"].sums == (64, 64)


@pytest.mark.parametrize(("path", "target"), list(cases()))
def test_text(path, target):
    source = path.read_text()
    arch, *settings = target.split()
    options = dict(s.split("=") for s in settings)
    options = {f"num_{name}" if name in ("warps", "stages") else name: int(x) for name, x in options.items()}
    made, metadata = stages_of(verify(parse_module(source)), int(arch.removeprefix("sm_")), **options)
    text = made[(re.findall(r"# text: (\w+)", source) or ["ptx"])[0]]
    assert described(made["ptx"]) == metadata["traits"]._replace(sums=(), loads_little=False)
    found = re.findall(r"# (has|not|count|order|shared) ?(\d*): (.*)", source)
    assert found, f"{path} expects nothing"
    for word, times, wanted in found:
        assert WORDS[word](text, metadata, times, wanted), f"{word} {times}: {wanted}\n{text}"


def _count(text, pattern):
    return len(re.findall(pattern, text))


def _in_order(text, metadata, times, wanted):
    at = 0
    for pattern in wanted.split("; "):
        match = re.compile(pattern).search(text, at)
        if match is None:
            return False
        at = match.end()
    return True


WORDS = {
    "has": lambda text, metadata, times, wanted: _count(text, wanted) > 0,
    "not": lambda text, metadata, times, wanted: _count(text, wanted) == 0,
    "count": lambda text, metadata, times, wanted: _count(text, wanted) == int(times),
    "order": _in_order,
    "shared": lambda text, metadata, times, wanted: metadata["shared"] == int(wanted),
}


def test_there_are_files():
    assert len(FILES) >= 16


def test_the_words_can_fail():
    text = "a\nb\nb"
    assert WORDS["count"](text, {}, "2", "b") and not WORDS["count"](text, {}, "1", "b")
    assert WORDS["order"](text, {}, "", "a; b; b") and not WORDS["order"](text, {}, "", "b; a")
    assert not WORDS["has"](text, {}, "", "c") and not WORDS["not"](text, {}, "", "a")


@pytest.mark.parametrize("asm", ["mov.u32 $0, $2;", "mov.u32 ${0:w}, $1;", "mov.u32 $0, $x;", "mov.u32 $0, ${1;", "$"])
def test_assembly_that_llvm_would_end_the_process_for_is_refused(asm):
    attrs = f'asm="{asm}", constraints="=r,r", types=(i32,), pure=True, pack=1'
    text = f"kernel @f(%o: ptr<i32>, %n: i32) {{\n  %x = inline_asm %n {{{attrs}}} : i32\n  store %o, %x\n}}"
    with pytest.raises(CompilationError, match=r"names no register; write \$0 to \$1, and \$\$ for a dollar sign"):
        stages_of(verify(parse_module(text)), 90)


def _with_a_number(x):
    """A kernel that gives assembly an input by the constraint n."""
    attrs = 'asm="lop3.b32 $0, $1, $2, 7, 234;", constraints="=r,r,n", types=(i32,), pure=True, pack=1'
    constant, x = "%c = constant {value=983055, type=i32} : i32", f"%x = inline_asm %n, {x} {{{attrs}}} : i32"
    return verify(parse_module(f"kernel @f(%o: ptr<i32>, %n: i32) {{\n  {constant}\n  {x}\n  store %o, %x\n}}"))


def test_a_constant_input_of_assembly_is_a_number_in_its_text():
    assert re.search(r"lop3.b32\s+%r\d+, %r\d+, 983055, 7, 234;", stages_of(_with_a_number("%c"), 90)[0]["ptx"])


def test_a_number_of_assembly_is_known_at_compile_time():
    with pytest.raises(CompilationError, match="constraint 'n' takes an integer that is known at compile time"):
        stages_of(_with_a_number("%n"), 90)


def test_refused_assembly_is_underlined():
    @triton.jit
    def kernel(p):
        tl.store(p, tl.inline_asm_elementwise("mov.u32 $0, $1;", "=r,q", [7], dtype=tl.int32, is_pure=True, pack=1))

    source = ASTSource(kernel, {"p": "*i32"})
    with pytest.raises(CompilationError, match=r"(?s)unknown constraint 'q'.*-->.*\^\^\^\^"):
        triton.compile(source, target=GPUTarget("cuda", 90, 32))
