"""Bundles for AMD GPUs: launches by Python on the fake runtime, and C programs on a fake libamdhip64."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tools import bundled_kernels as kernels
from tests.tools.test_bundle import NO_LLVM, ROOT, run
from tritium.tools.bundle import command

MANIFEST = """
targets = ["gfx942", "gfx1100"]

[[kernel]]
name = "bundled_kernels:add"
signature = "*fp32:16, *fp32:16, *fp32:16, i32:16|i32, 64"
grid = "(n + 63) / 64, 1, 1"

[[kernel]]
name = "bundled_kernels:product"
signature = { x = "*fp32:16", N = 16 }
options = { num_warps = 2 }
"""

PROGRAM = """
#include <stdio.h>
#include "k.h"
int main(void) {
  void *x = (void *)0x10000, *stream = (void *)0x50;
  setvbuf(stdout, NULL, _IONBF, 0);
  int status = load_add();
  if (status) return status;
  status = add_default(stream, x, x, x, 100);
  if (status) return status;
  printf("%d\\n", add_default(stream, x, x, x, 0));
  printf("%d\\n", add_default(stream, (char *)x + 4, x, x, 100));
  void *arguments[] = {&x};
  if (k_launch("product", "*fp32, 16", stream, 3, 2, 1, arguments)) return 3;
  return unload_add() || unload_product();
}
"""
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="AMD's runtime is for Linux")
compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bundle")
    shutil.copy(kernels.__file__, folder / "bundled_kernels.py")
    (folder / "kernels.toml").write_text(MANIFEST)
    assert command.main(["build", str(folder / "kernels.toml"), "-o", str(folder / "k.tbundle"), "--json"]) == 0
    return str(folder / "k.tbundle")


def test_a_new_process_with_an_amd_gpu_needs_no_llvm(bundle, tmp_path):
    """On a runtime that takes notes; it loads the code object of the bundle."""
    code = NO_LLVM + """
import pytest
from tests.backends.hip import fake_hip
from tests.backends.nvptx.kernels import X
from bundled_kernels import product
import tritium.backends.amdgcn
before = tritium.backends.amdgcn.BACKEND
fake, _ = fake_hip.install(pytest.MonkeyPatch())
tritium.backends.amdgcn.BACKEND = before
fake.parameters = 1
for _ in range(2):
    kernel = product[(3,)](X, N=16, num_warps=2)
print(kernel.metadata.target, kernel.kernel[:4], [noted["grid"] for noted in fake.launches], "llvmlite" in sys.modules)
"""
    done = run(code, bundle, TRITIUM_BUNDLE=bundle, TRITIUM_CACHE_DIR=str(tmp_path / "cache"))
    assert done.stdout == "hip:gfx942:64 b'\\x7fELF' [(3, 1, 1), (3, 1, 1)] False\n", done.stdout + done.stderr


@pytest.fixture(scope="module")
def exported(bundle, tmp_path_factory):
    """(a C program that launches from the library, the folder of a fake libamdhip64)."""
    folder = tmp_path_factory.mktemp("c")
    assert command.main(["export", bundle, "--c", str(folder), "--library"]) == 0
    made, fake = folder / "hip", folder / "fake"
    fake.mkdir()
    subprocess.run(["cc", "-shared", "-fPIC", Path(ROOT, "tests/backends/hip/fake_hip.c"), "-o",
                    fake / "libamdhip64.so"], check=True)
    (folder / "main.c").write_text(PROGRAM)
    flags = ["-Wall", "-Werror", f"-I{made}"]
    for source in made.glob("*.c"):
        subprocess.run(["cc", *flags, "-fsyntax-only", source], check=True)
    subprocess.run(["cc", *flags, folder / "main.c", made / "libk.so", f"-Wl,-rpath,{made}", "-o", folder / "main"],
                   check=True)
    return folder / "main", fake


def launched(program, **environment):
    env = {name: value for name, value in os.environ.items() if name != "TRITON_LIBHIP_PATH"}
    return subprocess.run([program], capture_output=True, text=True, env={**env, **environment})


@compiler
@pytest.mark.parametrize(("arch", "threads"), [("gfx942", 64), ("gfx1100", 32)])
def test_a_c_program_launches(exported, arch, threads):
    """Code for this GPU; a grid of no programs launches nothing; a pointer that fits no variant is told."""
    program, fake = exported
    done = launched(program, LD_LIBRARY_PATH=str(fake), FAKE_ARCH=arch)
    where = "bytes, stream 50, first 10000"
    assert done.returncode == 0, done.stderr + done.stdout
    assert done.stdout.splitlines() == [
        "load", "load", f"add (2, 1, 1) of ({4 * threads}, 1, 1), 0 {where}, n 100", "0", "1", "load",
        f"product (3, 2, 1) of ({2 * threads}, 1, 1), 0 {where}", "unload", "unload", "unload"]


@compiler
def test_the_library_may_be_named(exported, tmp_path):
    program, fake = exported
    shutil.copy(fake / "libamdhip64.so", tmp_path / "hip.so")
    done = launched(program, TRITON_LIBHIP_PATH=str(tmp_path / "hip.so"), FAKE_ARCH="gfx942")
    assert done.returncode == 0, done.stdout


@compiler
def test_what_cannot_run_is_told(exported):
    program, fake = exported
    assert launched(program, TRITON_LIBHIP_PATH="/no/such/library.so").returncode == 303 - 256  # no HIP runtime
    assert launched(program, LD_LIBRARY_PATH=str(fake), FAKE_ARCH="gfx906").returncode == 1  # no code for this GPU


@compiler
def test_one_kernel_compiled_to_c(tmp_path, capsys):
    from tritium.tools.compile import main

    assert main([kernels.__file__, "-n", "add", "-s", "*fp32, *fp32, *fp32, i32, 64", "-g", "1, 1, 1", "-t", "gfx942",
                 "-w", "4", "-o", str(tmp_path / "add")]) == 0
    files = [Path(line) for line in capsys.readouterr().out.split()]
    assert [path.suffix for path in files] == [".h", ".c", ".h"] and files[2].name == "tritium_hip.h"
    subprocess.run(["cc", "-Wall", "-Werror", "-fsyntax-only", files[1]], check=True)
    assert "launch(function, gx, gy, gz, 256, 1, 1, 0, stream, parameters, NULL)" in files[1].read_text()


def test_kernels_that_print_are_refused(tmp_path, capsys):
    from tritium.tools.compile import main

    (tmp_path / "k.py").write_text("import tritium as triton\nimport tritium.language as tl\n\n\n@triton.jit\n"
                                   "def talk(x):\n    tl.device_print('x', tl.load(x))\n")
    assert main([str(tmp_path / "k.py"), "-n", "talk", "-s", "*fp32", "-g", "1, 1, 1", "-t", "gfx942", "-o",
                 str(tmp_path / "talk")]) == 2
    assert "talk prints or asserts, which needs Python on AMD GPUs" in capsys.readouterr().err
