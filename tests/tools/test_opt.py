"""`python -m tritium opt`: passes on tile IR, by name or as a target runs them."""

import inspect
import io
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import cases
from tritium import knobs, passes
from tritium.__main__ import main
from tritium.backends import get
from tritium.backends.compiler import BaseBackend, GPUTarget
from tritium.compiler.sources import with_options
from tritium.errors import InternalError
from tritium.ir.core import Block
from tritium.ir.text import ParseError, parse_module, parse_modules, print_module
from tritium.ir.verify import verify
from tritium.tools import ir_text, pass_registry
from tritium.tools.opt import modules

TESTS = Path(__file__).parents[1]
KERNEL = """\
kernel @scale(%x: ptr<f32> {divisible=16}, %y: ptr<bf16> {divisible=16}) {
  %i = arange {start=0, end=256} : tile<256xi32>
  %zero = constant {value=0, type=i32} : i32
  %zeros = splat %zero {shape=(256,)} : tile<256xi32>
  %j = add %i, %zeros : tile<256xi32>
  %xs = splat %x {shape=(256,)} : tile<256xptr<f32>>
  %p = addptr %xs, %j : tile<256xptr<f32>>
  %v = load %p : tile<256xf32>
  %w = cast %v {to=bf16} : tile<256xbf16>
  %ys = splat %y {shape=(256,)} : tile<256xptr<bf16>>
  %q = addptr %ys, %i : tile<256xptr<bf16>>
  store %q, %w
}
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "scale.tir"
    path.write_text(KERNEL)
    return str(path)


def opt(capsys, *arguments):
    """(exit status, what it printed, what it complained of)."""
    try:
        status = main(["opt", *arguments])
    except SystemExit as end:  # argparse
        status = end.code
    return status, *capsys.readouterr()


# -- what is run ------------------------------------------------------------------------------------------------------
def test_named_passes_run_in_their_order(file, capsys):
    status, out, _ = opt(capsys, file, "--passes", "simplify, dce")
    assert status == 0
    assert out == print_module(passes.run(parse_module(KERNEL), (passes.simplify, passes.dce)))
    assert out != opt(capsys, file, "--passes", "dce,simplify")[1]


@pytest.mark.parametrize("name", ["cpu:x86-64-v3:1", "cuda:80:32", "cuda:90a:32"])
def test_a_target_runs_its_whole_pipeline(file, capsys, name):
    target = GPUTarget.parse(name)
    options = BaseBackend(target).parse_options({"num_warps": 8})
    module = passes.run(with_options(parse_module(KERNEL), target, options), get(target).passes(target))
    if target.backend == "cpu":
        from tritium.backends.cpu.compile import prepare
        from tritium.backends.llvm.target import cpu_target

        module = prepare(module, cpu_target(target.arch))
    else:
        module = dict(get(target).stages)["ttgir"](module, target, options, {})
    status, out, _ = opt(capsys, file, "--target", name, "--options", "num_warps=8", "--verify")
    assert status == 0 and out == print_module(module)


def test_the_target_of_the_module_counts(tmp_path, capsys):
    path = tmp_path / "k.tir"
    path.write_text(KERNEL.replace(") {", ') {target="cuda:90:32", num_warps=2} {', 1))
    status, out, _ = opt(capsys, str(path))
    assert status == 0 and "layout=" in out and "num_warps=2" in out
    assert "num_warps=1" in opt(capsys, str(path), "-O", "num_warps=1")[1]


def test_standard_input(file, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO(KERNEL))
    assert opt(capsys, "-", "-p", "dce") == opt(capsys, file, "-p", "dce")


def test_files_of_test_cases_are_read(capsys):
    path = TESTS / "passes" / "dce.tir"
    status, out, _ = opt(capsys, str(path), "-p", "dce")
    assert status == 0
    assert out == "\n".join(case.expected for case in cases.read(path))


def test_every_file_of_ir_in_the_tests_is_read():
    paths = [path for path in TESTS.rglob("*.tir") if path.name != "errors.tir"]
    assert len(paths) > 90 and all(modules(path.read_text(), str(path)) for path in paths)


# -- what is shown ----------------------------------------------------------------------------------------------------
def test_after_each_shows_the_passes_that_changed_something(file, capsys):
    status, out, _ = opt(capsys, file, "-p", "licm,simplify,licm,dce", "--after-each")
    assert status == 0 and re.findall("# after .*", out) == ["# after simplify", "# after dce"]
    last = out.split("# after dce\n")[1]
    assert last.strip() == opt(capsys, file, "-p", "simplify,dce")[1].strip()


def test_after_each_shows_the_module_if_nothing_changes(file, capsys):
    assert opt(capsys, file, "-p", "licm", "--after-each")[1] == print_module(parse_module(KERNEL))


def test_a_diff_for_each_pass(file, capsys):
    status, out, _ = opt(capsys, file, "-t", "cuda:90a", "--diff")
    assert status == 0
    assert re.findall(r"--- before (\w+)", out) == ["simplify", "dce", "assign_layouts", "allocate_shared"]
    simplified = out.split("--- before dce")[0]
    assert [line for line in simplified.split("\n") if re.match(r"[+-] ", line)] == [
        "-  %5 = add %2, %4 : tile<256xi32>", "-  %7 = addptr %6, %5 : tile<256xptr<f32>>",
        "+  %7 = addptr %6, %2 : tile<256xptr<f32>>"]


def test_the_passes_inside_the_cpus_step_are_seen(file, capsys):
    out = opt(capsys, file, "-t", "cpu:x86-64-v3", "--diff")[1]
    assert re.findall(r"--- before (\w+)", out)[-2:] == ["legalize", "fuse_loops"]


def test_nothing_changed_is_an_empty_diff(file, capsys):
    assert opt(capsys, file, "-p", "licm", "--diff") == (0, "", "")


def test_renamed_text_means_the_same():
    """The names that a diff shows are a renaming: the text can be read, and prints as before."""
    for path in sorted((TESTS / "passes").glob("*.tir")):
        for case in cases.read(path):
            given, made = print_module(parse_module(case.kernel)), case.expected
            text = ir_text.renamed(given, made)
            assert print_module(parse_module(text)) == print_module(parse_module(made)), case.title
    assert ir_text.renamed(given, given) == given


def test_list(capsys):
    status, out, _ = opt(capsys, "--list")
    assert status == 0
    own = "cpu", "first_that", "software_pipeline", "assign_layouts", "allocate_shared", "insert_barriers"
    for name in (*map(passes.name_of, passes.PASSES), "legalize", *own):
        assert re.search(rf"^  {name}  +\S", out, re.M), name
    assert "simplify, licm, accumulate, dce, cpu" in out
    assert re.search(r"legalize, dce, .*, first_that, order_accesses, insert_barriers, fence_loads$", out, re.M)
    assert "pipeline of cuda:75:32" in opt(capsys, "--list", "-t", "cuda:75")[1]


def test_every_pass_is_registered():
    """A function that `tritium.passes` offers, named as its file, that takes a module: a pass."""
    offered = [getattr(passes, name) for name in passes.__all__]
    found = [f for f in offered if inspect.isfunction(f) and f.__module__.endswith(f".{f.__name__}")
             and next(iter(inspect.signature(f).parameters)) == "module"]
    assert len(found) >= 8 and set(found) == set(passes.PASSES)
    assert set(map(passes.name_of, found)) < set(pass_registry.steps())


# -- colours ----------------------------------------------------------------------------------------------------------
def on_terminal(*arguments, **environment):
    """What the command writes to a terminal."""
    master, slave = pty.openpty()
    env = {name: value for name, value in os.environ.items() if name != "NO_COLOR"} | {"TERM": "xterm", **environment}
    with subprocess.Popen([sys.executable, "-m", "tritium", "opt", *arguments], stdout=slave, env=env) as process:
        os.close(slave)
        pieces = []
        while True:
            try:
                piece = os.read(master, 4096)
            except OSError:  # Linux says so that the other end is closed
                break
            if not piece:
                break
            pieces.append(piece)
    os.close(master)
    assert process.returncode == 0
    return b"".join(pieces).decode().replace("\r\n", "\n")


@pytest.mark.parametrize("mode", [[], ["--diff"]])
def test_colours_on_a_terminal(file, capsys, mode):
    plain = opt(capsys, file, "-p", "simplify,dce", *mode)[1]
    shown = on_terminal(file, "-p", "simplify,dce", *mode)
    assert "\x1b[" in shown and re.sub(r"\x1b\[[\d;]*m", "", shown) == plain
    assert on_terminal(file, "-p", "simplify,dce", *mode, NO_COLOR="1") == plain


# -- mistakes ---------------------------------------------------------------------------------------------------------
def test_a_text_that_cannot_be_read(tmp_path, capsys):
    path = tmp_path / "k.tir"
    path.write_text(KERNEL.replace("load %p", "lod %p"))
    assert opt(capsys, str(path), "-p", "dce") == (1, "", f"""\
no op is called 'lod'
  --> {path}:8:8 (at 8:7: in @scale)
  8 |   %v = lod %p : tile<256xf32>
    |        ^^^
""")


def test_a_module_that_does_not_verify(tmp_path, capsys):
    path = tmp_path / "k.tir"
    path.write_text("kernel @first() {\n}\n\n" + KERNEL.replace("add %i, %zeros", "add %i, %zero"))
    assert opt(capsys, str(path), "-p", "dce") == (1, "", f"""\
add: add: operands differ in type: tile<256xi32>, i32
  --> {path}:8:3 (at 5:2: in @scale)
  8 |   %j = add %i, %zero : tile<256xi32>
    |   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
""")


def forgets(module):
    """A pass that loses the first op."""
    return module.replace(body=Block(module.args, module.body.ops[1:]))


def test_a_pass_that_breaks_the_module(file, capsys, monkeypatch):
    forgets.pass_name = "dce"
    monkeypatch.setattr(passes, "PASSES", (forgets,))
    with knobs.internal.scope():
        knobs.verify = False
        status, out, at_the_end = opt(capsys, file, "-p", "dce")
        assert (status, out) == (1, "") and "is not defined before it\n" in at_the_end
        status, out, err = opt(capsys, file, "-p", "dce", "--verify")
    assert (status, out) == (1, "")
    assert "is not defined before it (after pass dce)" in err and "5 |   %j = add %i, %zeros" in err


def test_a_pass_that_fails(file, monkeypatch):
    def fails(module):
        raise KeyError("lost")

    fails.pass_name = "dce"
    monkeypatch.setattr(passes, "PASSES", (fails,))
    with pytest.raises(InternalError, match="pass dce fails on @scale: KeyError: 'lost'"):
        main(["opt", file, "-p", "dce"])


def test_what_a_pass_refuses(capsys):
    status, _, err = opt(capsys, str(TESTS / "passes" / "licm.tir"), "-t", "cuda:90a")
    assert status == 1 and "is a tile: kernels take numbers and pointers" in err and "hint: " in err


@pytest.mark.parametrize(("arguments", "message"), [
    (["no_such_file.tir"], "cannot open 'no_such_file.tir'"),
    ([], "name a file"),
    (["FILE", "-p", "simplfy"], "there is no pass 'simplfy'; did you mean 'simplify'?"),
    (["FILE", "-p", "assign_layouts"], "--target adds those of a backend"),
    (["FILE", "-t", "metal:3:32"], "there is no backend 'metal'"),
    (["FILE", "-t", "cuda:31"], "'cuda:31' is not a target"),
    (["FILE", "-t", "cuda:90", "-O", "num_warps"], "write name=value"),
    (["FILE", "-t", "cuda:90", "-O", "num_wraps=4"], "num_wraps"),
    (["FILE", "-t", "cuda:90", "-p", "allocate_shared"], "have no layouts: name assign_layouts before allocate_shared"),
    (["FILE", "-t", "cuda:90", "-p", "first_that,first_that"], "has layouts, so the GPU's passes have run already"),
    (["FILE", "--no-such-option"], "unrecognized arguments"),
])
def test_wrong_arguments(file, capsys, arguments, message):
    status, out, err = opt(capsys, *[file if word == "FILE" else word for word in arguments])
    assert (status, out) == (2, "") and message in err


def test_python_is_no_ir(capsys, tmp_path):
    path = tmp_path / "kernels.py"
    path.write_text("import tritium")
    status, _, said = opt(capsys, str(path))
    assert status == 2 and f"show {path} -n KERNEL" in said and "--stage source | python -m tritium opt -" in said


def test_a_file_that_is_no_text(tmp_path, capsys):
    (tmp_path / "k.cubin").write_bytes(b"\x7fELF\xff\xfe")
    status, _, err = opt(capsys, str(tmp_path / "k.cubin"))
    assert status == 2 and "is not text" in err


# -- places -----------------------------------------------------------------------------------------------------------
def test_ops_know_their_place_in_the_text():
    module, = parse_modules(KERNEL, "k.tir")
    load = module.body.ops[6]
    assert KERNEL.split("\n")[load.loc.line - 1][load.loc.col:load.loc.end_col] == "%v = load %p : tile<256xf32>"
    assert parse_module(KERNEL).body.ops[6].loc is None


def test_errors_know_their_place():
    with pytest.raises(ParseError) as caught:
        parse_module("kernel @f() {\n  %0 = constant {value=%1, type=i32} : i32\n}")
    assert (caught.value.loc.line, caught.value.loc.col, caught.value.reason) == (2, 23, "not an attribute value: '%1'")
    module, = parse_modules("kernel @f(%n: i32) {\n  for %n, %n, %n {\n  ^(%i: i32):\n  }\n}", "k.tir")
    with pytest.raises(InternalError) as broken:
        verify(module)
    assert broken.value.loc.line == 2


def test_a_reader_that_has_seen_enough():
    """As `head` does. A pass is not to blame if nobody reads what is printed after it."""
    sample = Path(__file__).resolve().parents[1] / "backends" / "lower" / "gpu" / "specialize_warps.tir"
    command = [sys.executable, "-m", "tritium", "opt", str(sample), "--after-each", "--target", "cuda:90a"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline().startswith("# after")
        process.stdout.close()
        assert "Error" not in process.stderr.read()
