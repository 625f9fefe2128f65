"""`import triton` answered by tritium (S40): identical modules, nothing else touched."""

import importlib
import importlib.metadata
import importlib.util
import os
import subprocess
import sys
import textwrap

import pytest

import tritium
from tritium.alias import install_as_triton, uninstall_as_triton


@pytest.fixture
def alias():
    install_as_triton()
    yield
    uninstall_as_triton()


def run(code, *arguments):
    return subprocess.run([sys.executable, *arguments, *(["-c", textwrap.dedent(code)] if code else [])],
                          capture_output=True, text=True)


# Import paths of LANGUAGE section 1.2.
PATHS = """
language language.core language.standard language.math language.random language.semantic language.target_info
language.extra language.extra.libdevice language.extra.cuda language.extra.cuda.libdevice language.extra.hip
language.extra.hip.libdevice runtime runtime.jit runtime.autotuner runtime.cache runtime.driver runtime.errors
runtime.interpreter runtime.build runtime._allocation compiler compiler.compiler compiler.code_generator compiler.errors
backends backends.compiler backends.driver testing tools.tensor_descriptor tools.disasm tools.compile tools.link
tools.mxfp tools.ragged_tma knobs errors profiler profiler.language experimental.gluon experimental.gluon.language
""".split()


@pytest.mark.parametrize("path", PATHS)
def test_the_same_module_under_both_names(alias, path):
    real = importlib.import_module(f"tritium.{path}")
    spec = real.__spec__
    assert importlib.import_module(f"triton.{path}") is real
    assert real.__spec__ is spec and real.__name__ == spec.name == f"tritium.{path}"
    assert sys.modules[f"triton.{path}"] is real


def test_import_statements(alias):
    import triton
    import triton.language as tl
    from triton.language.extra import libdevice
    from triton.tools.tensor_descriptor import TensorDescriptor

    assert triton is tritium and tl is tritium.language
    assert libdevice.__name__ == "tritium.language.extra.libdevice"
    assert TensorDescriptor is importlib.import_module("tritium.tools.tensor_descriptor").TensorDescriptor


def test_what_does_not_exist_is_named_as_asked(alias):
    with pytest.raises(ModuleNotFoundError, match=r"triton\.nothing"):
        importlib.import_module("triton.nothing")


def test_the_ops_of_triton_2_are_not_found(alias):
    with pytest.raises(ModuleNotFoundError, match=r"triton\.ops"):
        importlib.import_module("triton.ops.matmul")


def test_an_error_inside_a_module_is_not_hidden(alias, monkeypatch):
    monkeypatch.setitem(sys.modules, "tritium.broken", None)
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("triton.broken")


def test_metadata(alias):
    assert importlib.metadata.version("triton") == tritium.__version__
    assert importlib.util.find_spec("triton") is not None


def test_installing_is_idempotent_and_can_be_undone():
    before, paths, path = list(sys.meta_path), os.environ.get("PYTHONPATH"), list(sys.path)
    install_as_triton()
    install_as_triton()
    assert len(sys.meta_path) == len(before) + 1 and len(sys.path) == len(path) + 1
    uninstall_as_triton()
    assert sys.meta_path == before and "triton" not in sys.modules
    assert os.environ.get("PYTHONPATH") == paths and sys.path == path


def test_top_level_name():
    assert tritium.install_as_triton is install_as_triton


def test_too_late(tmp_path):
    (tmp_path / "triton.py").write_text("")
    done = run(f"""
        import sys; sys.path.insert(0, {str(tmp_path)!r})
        import triton, tritium
        tritium.install_as_triton()
    """)
    assert done.returncode == 1 and "before anything imports triton" in done.stderr


PROGRAM = """
import sys
import numpy as np
import triton
import triton.language as tl

@triton.jit
def kernel(x, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)

if __name__ == "__main__":
    x = np.arange(5, dtype=np.float32)
    kernel[(1,)](x, 5, BLOCK=8)
    print(sys.argv, __name__, triton.__name__, x.tolist())
"""


@pytest.mark.parametrize("dashes", [[], ["--"]])
def test_run_a_script(tmp_path, dashes):
    script = tmp_path / "script.py"
    script.write_text(PROGRAM)
    done = run("", "-m", "tritium", "run", *dashes, str(script), "--flag", "1")
    assert done.stderr == ""
    assert done.stdout == f"['{script}', '--flag', '1'] __main__ tritium [0.0, 2.0, 4.0, 6.0, 8.0]\n"


def test_run_a_module(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    done = subprocess.run([sys.executable, "-m", "tritium", "run", "-m", "program", "x"], cwd=tmp_path, text=True,
                          capture_output=True, env={**os.environ, "PYTHONPATH": os.path.dirname(tritium.__path__[0])})
    assert "__main__ tritium [0.0, 2.0" in done.stdout, done.stderr


PARENT = """
import multiprocessing, subprocess, sys
import triton.language as tl

def name(x):
    import triton.runtime.jit
    return triton.runtime.jit.JITFunction.__module__

if __name__ == "__main__":
    child = "import triton, triton.language as tl, importlib.metadata as m; print(tl.__name__, m.version('triton'))"
    print(subprocess.run([sys.executable, "-c", child], capture_output=True, text=True, check=True).stdout, end="")
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(name, [0]))
"""


@pytest.mark.parametrize("start", [["-m", "tritium", "run", "parent.py"], ["installed.py"]])
def test_processes_of_the_program_get_tritium_too(tmp_path, start):
    (tmp_path / "parent.py").write_text(PARENT)
    (tmp_path / "installed.py").write_text("import tritium\ntritium.install_as_triton()\n" + PARENT)
    done = subprocess.run([sys.executable, *start], cwd=tmp_path, text=True, timeout=60,
                          capture_output=True, env={**os.environ, "PYTHONPATH": os.path.dirname(tritium.__path__[0])})
    assert done.stdout == f"tritium.language {tritium.__version__}\n['tritium.runtime.jit']\n", done.stderr


def test_exit_status_and_missing_files(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import sys; sys.exit(7)")
    assert run("", "-m", "tritium", "run", str(script)).returncode == 7
    missing = run("", "-m", "tritium", "run", str(tmp_path / "none.py"))
    assert missing.returncode == 2 and "none.py" in missing.stderr
    assert run("", "-m", "tritium", "run").returncode == 2


def test_commands():
    from tritium.__main__ import COMMANDS, entry, main

    assert run("", "-m", "tritium").stdout.startswith("usage:")
    unknown = run("", "-m", "tritium", "fly")
    assert unknown.returncode == 2 and "no command 'fly'" in unknown.stderr
    for command in COMMANDS:
        assert callable(entry(command))
    assert main(["version"]) == 0
