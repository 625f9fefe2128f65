"""Mistakes on the command line: a sentence and an exit status; never a traceback of ours."""

import subprocess
import sys

import pytest

from tritium.__main__ import main
from tritium.tools import demo
from tritium.tools.version import own_version

KERNELS = """
import triton
import triton.language as tl

@triton.jit
def fill(out, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + i, 1.0, mask=i < n)

@triton.jit
def wrong(out, B: tl.constexpr):
    tl.store(out + tl.arange(0, B), tl.relu(1.0))

def plain(out):
    return out

SIZE = 64
"""
SIGNATURE = "*fp32, i32, 64"


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with files of all sorts, which is the current one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name, text in {
        "kernels.py": KERNELS, "broken.py": "import triton\ndef f(:\n",
        "raises.py": "def f():\n    return 1 / 0\nf()\n",
        "imports.py": "import no_such_package\n", "notes.txt": "not Python", "header.h": "int x;\n",
        "half.h": "/* tritium kernel: [1, 2] */\n", "bad.ttir": "kernel @k( {\n", "empty.ttir": "", "zeros.py": "\0\0",
        "opens.py": "open('/no/such/file')\n",
    }.items():  # fmt: skip
        (tmp_path / name).write_text(text)
    (tmp_path / "folder.py").mkdir()
    return tmp_path


SHOW = ["show", "kernels.py", "-n", "fill", "-s", SIGNATURE]
COMPILE = ["compile", "kernels.py", "-n", "fill", "-s", SIGNATURE, "-g", "(n + 63) / 64, 1, 1"]


def but(arguments, **changes):
    """`arguments` with other values after some options."""
    made = list(arguments)
    for option, value in changes.items():
        made[made.index(f"-{option}") + 1] = value
    return made


USAGE = [  # arguments | what is said
    (["fly"], "tritium has no command 'fly'"),
    (["shwo"], "did you mean 'show'?"),
    (["show"], "the following arguments are required: path"),
    (["show", "none.py", "-n", "k", "-s", "i32"], "cannot open 'none.py': No such file"),
    (["show", "folder.py", "-n", "k", "-s", "i32"], "cannot open 'folder.py': Is a directory"),
    (["show", "notes.txt", "-n", "k", "-s", "i32"], "notes.txt"),
    (["show", "kernels.py"], "needs --kernel-name and --signature"),
    (["show", "none.ttir"], "none.ttir"),
    (but(SHOW, n="filll"), "has no kernel 'filll': it has fill, wrong; did you mean 'fill'?"),
    (but(SHOW, n="plain"), "plain in kernels.py is not a kernel: decorate it with @triton.jit"),
    (but(SHOW, n="SIZE"), "SIZE in kernels.py is not a kernel"),
    (but(SHOW, n="tl"), "tl in kernels.py is not a kernel"),
    (but(SHOW, s="*fp32, i32"), "the signature has 2 entries for 3 parameters: out, n, B"),
    (but(SHOW, s="*fp32, i33, 64"), "'i33' is neither a constant nor a type"),
    (but(SHOW, s="*fp33, i32, 64"), "fp33"),
    (but(SHOW, s="*, i32, 64"), "'*' is not a type of a signature"),
    (but(SHOW, s="*fp32:3, i32, 64"), "the hint '3' is neither 1 nor 16"),
    (but(SHOW, s=""), "needs --kernel-name and --signature"),
    (but(COMPILE, s=""), "the signature has 1 entries"),
    ([*SHOW, "-t", "gpu"], "'gpu' is not a target"),
    ([*SHOW, "-t", "cuda:91"], "'cuda:91' is not a target"),
    ([*SHOW, "-t", "cpu:z80"], "unknown CPU target 'z80'"),
    ([*SHOW, "-t", "cuda:90:64"], "warps of NVIDIA GPUs have 32 threads"),
    ([*SHOW, "-t", "::"], "'::' is not a target"),
    ([*SHOW, "-w", "3"], "num_warps must be a power of 2, not 3"),
    ([*SHOW, "-w", "many"], "invalid int value: 'many'"),
    ([*SHOW, "--stage", "ptx", "-t", "cpu"], "has no stage 'ptx'"),
    (but(COMPILE, g="foo,1,1"), "the grid names 'foo', which is no argument of the C function: it has out, n"),
    (but(COMPILE, g="B,1,1"), "the grid names 'B'"),
    (but(COMPILE, g="1,1"), "three expressions"),
    (but(COMPILE, g=",,"), "'' is not a C expression"),
    (but(COMPILE, g="(n,1,1"), "'(n' is not a C expression"),
    (but(COMPILE, n="nothing"), "has no kernel 'nothing'"),
    ([*COMPILE, "-on", "a b"], "'a b' is not the name of a C function"),
    ([*COMPILE, "-o", "notes.txt/x"], "cannot open"),
    (["compile", "none.py", "-n", "k", "-s", "i32", "-g", "1,1,1"], "cannot open 'none.py'"),
    (["link", "none.h", "-o", "out"], "cannot open 'none.h'"),
    (["link", "header.h", "-o", "out"], "header.h was not written by tritium"),
    (["link", "half.h", "-o", "out"], "half.h was not written by tritium"),
    (["link", "folder.py", "-o", "out"], "cannot open 'folder.py'"),
    (["link"], "the following arguments are required"),
    (["demo", "--only", "sofmax"], "no kernel's name contains 'sofmax'; did you mean 'softmax'?"),
    (["demo", "--device", "tpu"], "invalid choice: 'tpu'"),
    (["demo", "--seconds", "0"], "--seconds must be above 0"),
    (["demo", "--device", "cuda", "--numpy"], "torch is not in use"),
    (["run"], "usage:"),
    (["run", "-c"], "usage:"),
    (["run", "-m"], "usage:"),
    (["run", "-z", "x.py"], "unknown option -z"),
    (["version", "now"], "unrecognized arguments: now"),
]


def called(capsys, arguments):
    """(exit status, what it printed, what it complained of)."""
    try:
        status = main(arguments)
    except SystemExit as ended:  # argparse
        status = ended.code
    return status, *capsys.readouterr()


@pytest.mark.parametrize(("arguments", "message"), USAGE, ids=lambda x: " ".join(x) if isinstance(x, list) else None)
def test_mistakes_in_the_call(here, capsys, arguments, message):
    status, out, said = called(capsys, arguments)
    assert status == 2 and message in said and "Traceback" not in said and out == ""


PROGRAMS = [
    (["show", "broken.py", "-n", "k", "-s", "i32"], "SyntaxError"),
    (["show", "zeros.py", "-n", "k", "-s", "i32"], "Error: "),
    (["show", "raises.py", "-n", "k", "-s", "i32"], "ZeroDivisionError: division by zero"),
    (["show", "imports.py", "-n", "k", "-s", "i32"], "ModuleNotFoundError: No module named 'no_such_package'"),
    (["show", "opens.py", "-n", "k", "-s", "i32"], "No such file or directory: '/no/such/file'"),
    (["show", "kernels.py", "-n", "wrong", "-s", "*fp32, 64"], "hint: use tl.maximum(x, 0)"),
    (["show", "kernels.py", "-n", "fill", "-s", "*fp32, i32, 63"], "arange's range must be a power of 2"),
    (["show", "bad.ttir", "-t", "cpu"], "bad.ttir"),
    (["compile", "kernels.py", "-n", "wrong", "-s", "*fp32, 64", "-g", "1,1,1"], "hint: use tl.maximum(x, 0)"),
    (["compile", "raises.py", "-n", "k", "-s", "i32", "-g", "1,1,1"], "ZeroDivisionError"),
]


@pytest.mark.parametrize(("arguments", "message"), PROGRAMS, ids=lambda x: " ".join(x) if isinstance(x, list) else None)
def test_mistakes_in_the_program(here, capsys, arguments, message):
    status, _, said = called(capsys, arguments)
    assert status in (1, 2) and message in said
    assert "tritium/tools" not in said and "importlib" not in said  # the user's frames only


def test_the_users_frames_are_shown(here, capsys):
    _, _, said = called(capsys, ["show", "raises.py", "-n", "k", "-s", "i32"])
    assert [line.strip() for line in said.splitlines() if "File " in line] == [
        'File "raises.py", line 3, in <module>', 'File "raises.py", line 2, in f']


@pytest.mark.parametrize("target", ["cpu", "host", "x86-64-v3", "aarch64", "cpu:aarch64", "sm_90"])
def test_machines_by_name(here, capsys, target):
    status, out, _ = called(capsys, [*SHOW, "-t", target])
    assert status == 0 and out.startswith("fill for c")


@pytest.mark.parametrize("command", [
    SHOW, COMPILE, ["occupancy", "--registers", "8"], ["opt", "--list"], ["sanitize"],
    ["explain", "kernels.py:fill", "out=fp32[64]", "n=64", "B=64", "--grid", "1"],
], ids=lambda command: command[0])
def test_every_command_knows_the_names(here, capsys, command):
    """One parser: a name that is nearly one is asked about, wherever it is given."""
    program = ["kernels.py"] if command == ["sanitize"] else []
    status, _, said = called(capsys, [*command, "--target", "sm_9O", *program])
    assert status == 2 and "'sm_9O' is not a target" in said and "did you mean 'sm_90'?" in said


def test_version(capsys):
    assert called(capsys, ["--version"]) == (0, f"tritium {own_version()}\n", "")


def test_no_gpu(capsys, monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    status, _, said = called(capsys, ["demo", "--device", "cuda"])
    assert status == 2 and "there is no GPU here that torch can use" in said


def test_names_of_the_demo_are_listed(capsys):
    _, _, said = called(capsys, ["demo", "--only", "zzz"])
    assert all(demo.name_of(row) in said for row in demo.rows())


# -- run --------------------------------------------------------------------------------------------------------------
def run(*arguments, text=None):
    return subprocess.run([sys.executable, "-m", "tritium", "run", *arguments], capture_output=True, text=True,
                          input=text)


PROGRAM = """
import sys, numpy, triton
import triton.language as tl

@triton.jit
def fill(out, B: tl.constexpr):
    tl.store(out + tl.arange(0, B), 2.0)

out = numpy.zeros(4, numpy.float32)
fill[(1,)](out, 4)
print(out.tolist(), sys.argv, __name__)
"""


def test_run_a_text():
    done = run("-c", PROGRAM, "more")
    assert done.stdout.strip() == "[2.0, 2.0, 2.0, 2.0] ['-c', 'more'] __main__", done.stderr


def test_run_what_comes_from_stdin():
    done = run("-", "more", text=PROGRAM)
    assert done.stdout.strip() == "[2.0, 2.0, 2.0, 2.0] ['-', 'more'] __main__", done.stderr


def test_a_script_that_raises_shows_only_its_own_frames(here):
    done = run("raises.py")
    python = subprocess.run([sys.executable, "raises.py"], capture_output=True, text=True)
    assert done.returncode == python.returncode == 1
    assert done.stderr == python.stderr.replace(f'"{here / "raises.py"}"', '"raises.py"')


def test_a_text_that_raises_shows_only_its_own_frames():
    done = run("-c", "def f():\n    raise KeyError(3)\nf()")
    assert done.returncode == 1 and done.stderr.count("File ") == 2 and done.stderr.endswith("KeyError: 3\n")


def test_a_module_that_raises_shows_only_its_own_frames(here):
    done = run("-m", "raises")
    assert done.returncode == 1 and done.stderr.count("File ") == 2 and "ZeroDivisionError" in done.stderr


def test_a_script_that_is_no_python(here):
    done = run("broken.py")
    assert done.returncode == 1 and "SyntaxError" in done.stderr and "tritium" not in done.stderr


def test_a_module_that_is_missing(here):
    done = run("-m", "no_such_module")
    assert done.returncode == 1 and done.stderr == "tritium run: No module named no_such_module\n"


def test_an_exit_status_is_the_programs_own():
    assert run("-c", "import sys; sys.exit(7)").returncode == 7
