"""Bundles: kernels compiled ahead of time for several machines, found by launches, refused where they are not whole."""

import json
import os
import re
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import tritium
from tests import beside_a_gpu
from tests.tools import bundled_kernels as kernels
from tests.tools.test_aot import CUDA_H
from tritium.backends.compiler import GPUTarget
from tritium.backends.llvm import levels
from tritium.compiler import bundles
from tritium.compiler.bundle_file import BundleError, BundleFile
from tritium.tools.bundle import command, manifest

ROOT = Path(__file__).resolve().parents[2]
BEST = manifest.level_here()
# C has no way to ask for the matrix unit of these levels.
HERE, CPU = ("x86-64-v4", "x86-64-v4") if BEST.endswith("rapids") else (BEST, "cpu")
FAR = "aarch64" if levels.LEVELS[HERE].machine == "x86_64" else "x86-64"
MANIFEST = f"""
targets = ["{HERE}", "{FAR}", "cuda:80"]

[[kernel]]
name = "bundled_kernels:add"
signature = "*fp32:16, *fp32:16, *fp32:16, i32:16|i32, 64"

[[kernel]]
name = "bundled_kernels:product"
targets = ["{CPU}", "cuda:90a"]
signature = {{ x = "*fp32:16", N = 16 }}
options = {{ num_warps = 8 }}
"""


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    """The path of a bundle of two kernels."""
    folder = tmp_path_factory.mktemp("bundle")
    shutil.copy(kernels.__file__, folder / "bundled_kernels.py")
    (folder / "kernels.toml").write_text(MANIFEST)
    assert command.main(["build", str(folder / "kernels.toml"), "-o", str(folder / "k.tbundle"), "--json"]) == 0
    return str(folder / "k.tbundle")


@pytest.fixture
def loaded(bundle):
    """The bundle, loaded for one test; its kernels are looked for anew."""
    for fn in (kernels.add, kernels.product):
        fn.device_caches.clear()
    bundles._told.clear()
    found = tritium.load_bundle(bundle)
    yield found
    found.unload()


def launch_add(n=64, block=64, grid=(1,)):
    x, z = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    kernel = kernels.add[grid](x, x, z, n, BLOCK=block)
    assert (z[:n] == 2 * x[:n]).all() and not z[n:].any()
    return kernel


def run(code, path, **environment):
    env = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), os.path.dirname(path))), **environment}
    return subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, env=env)


# -- launching ---------------------------------------------------------------------------------------------------------


def test_launches_take_their_kernels_from_it(loaded):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kernel = launch_add()
        assert kernel.metadata.target == GPUTarget("cpu", HERE, 1) and loaded.hits == 1
        assert launch_add(50) is not kernel and loaded.hits == 2
        o = np.ones(256, np.float32)
        kernels.product[(1,)](o, N=16, num_warps=8)
        assert (o == 16).all() and loaded.hits == 3


def test_the_variant_without_preconditions_is_there_too(loaded):
    memory = np.arange(80, dtype=np.float32)
    hits, before = loaded.hits, memory[:64].copy()
    kernels.add[(1,)](memory[:64], memory[:64], memory[16:], 64, BLOCK=64)
    assert (memory[16:] == 2 * before).all()
    assert loaded.hits == hits + 2


NO_LLVM = """
import sys
class NoLLVM:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "llvmlite":
            raise ImportError("llvmlite is not here")
sys.meta_path.insert(0, NoLLVM())
"""


def test_a_new_process_needs_neither_llvm_nor_a_cache(bundle, tmp_path):
    """The parts of the launcher come from the bundle, too; also where only a variable names it."""
    code = NO_LLVM + """
import numpy as np
from bundled_kernels import add, product
x, z, o = np.arange(64, dtype=np.float32), np.zeros(64, np.float32), np.ones(256, np.float32)
kernel = add[(1,)](x, x, z, 64, BLOCK=64)
add[(1,)](x, x, z, 64, BLOCK=64)
product[(1,)](o, N=16, num_warps=8)
print((z == 2 * x).all(), (o == 16).all(), kernel.metadata.target.arch, "llvmlite" in sys.modules)
"""
    done = run(code, bundle, TRITIUM_BUNDLE=bundle, TRITIUM_CACHE_DIR=str(tmp_path / "cache"))
    assert done.stdout == f"True True {HERE} False\n", done.stderr


# Modules that loading a bundle imports, and those that the first launch on the CPU imports after that. Each takes a
# third of a millisecond: what only a compilation, torch or an error needs is imported where it is used.
LOADING = """
tritium.backends tritium.backends.compiler tritium.backends.cpu tritium.backends.cpu.bundled tritium.backends.driver
tritium.backends.launcher tritium.backends.launcher.guards
tritium.backends.launcher.image tritium.backends.launcher.launcher tritium.backends.launcher.parts
tritium.backends.launcher.wrappers
tritium.backends.llvm tritium.backends.llvm.elf tritium.backends.llvm.host tritium.backends.llvm.levels
tritium.backends.llvm.structs tritium.backends.llvm.target tritium.compiler tritium.compiler.background
tritium.compiler.bundle_file
tritium.compiler.bundles tritium.compiler.collector tritium.compiler.facts tritium.compiler.kernel
tritium.compiler.names tritium.compiler.sources tritium.compiler.times tritium.frozen
tritium.language.types.annotations
""".split()
LAUNCHING = """
tritium.backends.cpu.driver tritium.backends.cpu.runtime tritium.backends.cpu.runtime.image
tritium.backends.cpu.runtime.job tritium.backends.launcher.calls tritium.backends.launcher.entry_points
tritium.backends.launcher.preconditions tritium.backends.launcher.record tritium.ir.bounds tritium.ir.preconditions
tritium.protocols tritium.runtime.dispatch tritium.runtime.specialize tritium.tensors
""".split()


def test_a_launch_imports_what_it_needs(tmp_path):
    """Of Python's own modules those that are written in C, whatever the installation has imported before."""
    lines = Path(kernels.__file__).read_text().partition("@triton.jit\ndef product")[0]
    (tmp_path / "one_kernel.py").write_text(lines)
    (tmp_path / "kernels.toml").write_text(f'''targets = ["{HERE}"]
[[kernel]]
name = "one_kernel:add"
signature = "*fp32:16, *fp32:16, *fp32:16, i32:16, 64"''')
    path = str(tmp_path / "k.tbundle")
    assert command.main(["build", str(tmp_path / "kernels.toml"), "-o", path, "--json"]) == 0
    code = """
import json, sys
import numpy as np
import tritium
from one_kernel import add
x, z = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
found, before = [], set(sys.modules)
def take():
    found.append(sorted({*sys.modules} - before))
    before.update(sys.modules)
tritium.load_bundle(sys.argv[1], missing="error")
take()
add[(1,)](x, x, z, 64, BLOCK=64)
take()
print(json.dumps([bool((z == 2 * x).all()), *found]))
"""
    for _ in range(2):  # the first writes bytecode, and the names that the kernel reads
        done = run(code, path, TRITIUM_CACHE_DIR=str(tmp_path / "cache"), TRITIUM_BACKEND="cpu",
                   PYTHONDONTWRITEBYTECODE="", PYTHONPYCACHEPREFIX=str(tmp_path / "bytecode"))
    right, *found = json.loads(done.stdout or "[0]")
    assert right, done.stderr
    assert [[name for name in names if name.startswith("tritium")] for names in found] == [LOADING, LAUNCHING]
    assert {name for names in found for name in names} - {*LOADING, *LAUNCHING} <= {"atexit", "gc", "mmap"}


def test_a_new_process_with_a_gpu_needs_neither_llvm_nor_an_assembler(bundle, tmp_path):
    """On a driver that takes notes."""
    code = NO_LLVM + """
import os
import pytest
from tests.backends.nvptx import fake_driver
from tests.backends.nvptx.kernels import X
from bundled_kernels import product
fake, _ = fake_driver.install(pytest.MonkeyPatch())
fake.parameters = 1  # the kernel has no more slots to read
os.environ["PATH"] = ""
for _ in range(2):
    kernel = product[(3,)](X, N=16, num_warps=8)
print(kernel.metadata.target, [noted["grid"] for noted in fake.launches], "llvmlite" in sys.modules)
"""
    done = run(code, bundle, TRITIUM_BUNDLE=bundle, TRITIUM_CACHE_DIR=str(tmp_path / "cache"))
    assert done.stdout == "cuda:90a:32 [(3, 1, 1), (3, 1, 1)] False\n", done.stdout + done.stderr


@pytest.mark.gpu
def test_a_new_process_on_a_gpu(tmp_path):
    """Results are right, and neither LLVM nor ptxas is asked."""
    shutil.copy(kernels.__file__, tmp_path / "bundled_kernels.py")
    code = NO_LLVM + """
import torch
from bundled_kernels import add, product
x, z, o = torch.arange(64.0, device="cuda"), torch.zeros(64, device="cuda"), torch.ones(256, device="cuda")
for n in (64, 50):
    kernel = add[(1,)](x, x, z, n, BLOCK=64)
add[(1,)](x[:32], x[:32], x[16:], 32, BLOCK=64)
product[(1,)](o, N=16, num_warps=8)
print(z.equal(2 * torch.arange(64.0, device="cuda")), o.eq(16).all().item(), "llvmlite" in sys.modules)
"""
    arch = tritium.backends.driver.driver.named("cuda").get_current_target().arch
    here = MANIFEST.replace(f'"{HERE}", "{FAR}", "cuda:80"', f'"cuda:{arch}"')
    (tmp_path / "kernels.toml").write_text(here.replace('"cpu", "cuda:90a"', f'"cuda:{arch}"'))
    path = str(tmp_path / "k.tbundle")
    assert command.main(["build", str(tmp_path / "kernels.toml"), "-o", path, "--json"]) == 0
    done = run(code, path, TRITIUM_BUNDLE=path, TRITIUM_CACHE_DIR=str(tmp_path / "cache"))
    assert done.stdout == "True True False\n", done.stdout + done.stderr


def test_stages_are_made_when_somebody_reads_them(loaded):
    kernel = launch_add()
    assert "kernel @add(" in kernel.asm["ttir"] and "define" in kernel.asm["llir"]
    assert "kernel @add(" in kernel.asm["source"]


def test_code_for_a_gpu_of_the_same_generation(loaded):
    source = manifest.source_of(kernels.add, manifest.entries(kernels.add, "*fp32:16, *fp32:16, *fp32:16, i32, 64")[0])
    kernel = tritium.compile(source, target=GPUTarget("cuda", 86, 32))
    assert str(kernel.metadata.target) == "cuda:80:32" and loaded.hits == 1
    assert b"ELF" in kernel.kernel[:4] or b".target sm_80" in kernel.kernel
    assert {row["name"] for row in loaded.index["parts"]} >= {"core", "cuda"}


def test_a_setting_that_leaves_less_of_the_machine(loaded, monkeypatch):
    fits, here = tritium.backends.get("cpu").fits, GPUTarget("cpu", "host", 1)
    targets = [target for target in loaded.targets if target.backend == "cpu"]
    assert fits(targets, here) == [GPUTarget("cpu", HERE, 1)]
    monkeypatch.setattr(tritium.knobs, "cpu", "aarch64,-dotprod" if HERE == "aarch64" else "x86-64,-sse3")
    assert fits(targets, here) == ([] if HERE != "x86-64" else [GPUTarget("cpu", HERE, 1)])


# -- where nothing fits ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("launch, reason", [
    (lambda: launch_add(1), r"its arguments are \(\*fp32:16, \*fp32:16, \*fp32:16, 1, 64\), and .* has it for"),
    (lambda: kernels.product[(1,)](np.ones(256, np.float32), N=16), "other options or settings: .*num_warps"),
    (lambda: kernels.other[(1,)](np.ones(16, np.float32)), "has no kernel of this name"),
])
def test_a_launch_without_a_kernel_compiles_and_warns_once(loaded, launch, reason):
    with pytest.warns(UserWarning, match=reason) as told:
        launch()
        launch()
    assert len(told) == 1 and told[0].filename == __file__


def test_a_changed_source_and_a_far_machine_are_told(loaded, monkeypatch):
    row = loaded.by_name["add"][0]
    src = manifest.source_of(kernels.add, manifest.entries(kernels.add, row["signature"])[0])
    options = tritium.compiler.make_backend(GPUTarget("cuda", 90, 32)).parse_options({})
    assert "runs none of them" in bundles._reason(src, GPUTarget("cuda", 90, 32), options)
    monkeypatch.setattr(kernels.add, "hash", "another")
    assert "was changed or moved since" in bundles._reason(src, GPUTarget("cpu", "host", 1), options)


def test_a_launch_without_a_kernel_can_be_refused(bundle):
    kernels.other.device_caches.clear()
    found = tritium.load_bundle(bundle, missing="error")
    try:
        with pytest.raises(BundleError, match=r"no bundle has other for this launch: .* has no kernel of this name"):
            kernels.other[(1,)](np.ones(16, np.float32))
    finally:
        found.unload()
    with pytest.raises(ValueError, match="missing is one of 'warn', 'error', 'compile', not 'no'"):
        tritium.load_bundle(bundle, missing="no")


# -- trust -------------------------------------------------------------------------------------------------------------


def changed(bundle, folder, at=None, data=b"?", size=None):
    content = bytearray(Path(bundle).read_bytes())
    if at is not None:
        content[at:at + len(data) or None] = data
    path = folder / "changed.tbundle"
    path.write_bytes(content[:size])
    return str(path)


@pytest.mark.parametrize("how, said", [
    ({"at": 2}, "it is no bundle"),
    ({"at": 100}, "its checksum is wrong"),
    ({"size": -1}, "it is cut short"),
    ({"size": 40}, "it is cut short"),
])
def test_what_is_damaged_is_refused(bundle, tmp_path, how, said):
    with pytest.raises(BundleError, match=said):
        tritium.load_bundle(changed(bundle, tmp_path, **how))


def test_a_damaged_binary_is_compiled_instead(bundle, tmp_path):
    file = BundleFile(bundle)
    row = next(row for row in file.index["kernels"] if HERE in row["target"] and ":16, 64" in row["signature"])
    path = changed(bundle, tmp_path, file._places[row["binary"]] + 20)
    assert command.main(["verify", path]) == 2
    kernels.add.device_caches.clear()
    found = tritium.load_bundle(path)
    try:
        with pytest.warns(UserWarning, match="is damaged: the checksum of part .*; bundled_kernels:add is compiled"):
            launch_add()
    finally:
        found.unload()


def test_a_file_that_others_can_write_is_refused(bundle, tmp_path):
    path = shutil.copy(bundle, tmp_path)
    os.chmod(path, 0o666)
    with pytest.raises(BundleError, match="can be written by every user, so it is not trusted"):
        tritium.load_bundle(path)


def test_signatures(bundle, tmp_path):
    key, other = tmp_path / "key", tmp_path / "other"
    key.write_text("0123456789abcdef" * 2)
    other.write_text("another key of 16 bytes or more")
    signed = str(tmp_path / "signed.tbundle")
    folder = os.path.dirname(bundle)
    assert command.main(["build", f"{folder}/kernels.toml", "-o", signed, "--key-file", str(key), "--json"]) == 0
    os.chmod(signed, 0o666)  # with a key it does not matter who could write it
    tritium.load_bundle(signed, key_file=key).unload()
    os.chmod(signed, 0o644)
    with pytest.raises(BundleError, match="signed with a key\nhint: give the key"):
        tritium.load_bundle(signed)
    with pytest.raises(BundleError, match="not signed with the key of this process"):
        tritium.load_bundle(signed, key_file=other)
    with pytest.raises(BundleError, match=r"not signed with the key .*\nhint: it was signed with another key"):
        tritium.load_bundle(bundle, key_file=key)


def test_a_bundle_of_another_version_is_refused(bundle, monkeypatch):
    monkeypatch.setattr(bundles.cache, "fingerprint", lambda: "another")
    with pytest.raises(BundleError, match=r"was built by another tritium, \d.*\nhint: build it again"):
        tritium.load_bundle(bundle)


# -- commands ----------------------------------------------------------------------------------------------------------


def test_list_show_and_verify(bundle, capsys):
    assert command.main(["list", bundle, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {row["kernel"] for row in rows} == {"bundled_kernels:add", "bundled_kernels:product"}
    assert {row["target"] for row in rows} == {f"cpu:{HERE}:1", f"cpu:{FAR}:1", "cuda:80:32", "cuda:90a:32"}
    assert command.main(["list", bundle]) == 0 and command.main(["show", bundle, "pro*"]) == 0
    text = capsys.readouterr().out
    assert "num_warps=8" in text and "parts: core, cuda" in text
    assert command.main(["verify", bundle]) == 0
    assert re.search(f"all whole; launches here use (cuda:.*, )?cpu:{HERE}:1$", capsys.readouterr().out, re.MULTILINE)
    assert command.main(["show", bundle, "ad"]) == 2
    assert "has no kernel 'ad': it has add, product; did you mean 'add'?" in capsys.readouterr().err


def test_a_machine_with_a_gpu_launches_on_both(bundle, monkeypatch, capsys):
    beside_a_gpu.install(monkeypatch)
    assert command.main(["verify", bundle]) == 0
    assert f"all whole; launches here use cuda:90a:32, cpu:{HERE}:1\n" in capsys.readouterr().out


@pytest.mark.parametrize("change, said", [
    ('name = "bundled_kernels:ad"', "ad is not there; bundled_kernels has add, product"),
    ('name = "nowhere:add"', "there is no module 'nowhere'"),
    ('name = "add"', "'add' is not the name of a kernel: write module:name"),
    ('signature = "*fp32, 64"', "has 2 entries for 5 parameters: x, y, z, n, BLOCK"),
    ('signature = "*fp32, *fp32, *fp32, int32, 64"', "n: 'int32' is neither a constant nor a type"),
    ('signature = "*fp32:8, *fp32, *fp32, i32, 64"', "x: the hint '8' is none"),
    ('signature = "*fp32, *fp32, *fp32, i32, fp32"', "BLOCK is a constant, and 'fp32' is none"),
    ('signature = { x = "*fp32", m = 3 }', "there is no parameter 'm'"),
    ('targets = ["pentium"]', "'pentium' is not a target"),
    ('targets = ["cpu:pentium"]', "unknown CPU target 'pentium'; use one of: host, x86-64"),
    ('targets = ["metal:m3:32"]', "there is no backend 'metal': tritium has cpu, cuda"),
    ("options = { num_wraps = 4 }", "num_wraps was specified but unrecognised"),
    ("tragets = []", "has an entry 'tragets'; known are .*; did you mean 'targets'?"),
])
def test_mistakes_in_a_manifest(tmp_path, capsys, change, said):
    shutil.copy(kernels.__file__, tmp_path / "bundled_kernels.py")
    rows = {"name": '"bundled_kernels:add"', "signature": '"*fp32, *fp32, *fp32, i32, 64"', "targets": '["x86-64-v3"]'}
    name, _, value = change.partition(" = ")
    (tmp_path / "k.toml").write_text("[[kernel]]\n" + "\n".join(f"{k} = {v}" for k, v in {**rows, name: value}.items()))
    assert command.main(["build", str(tmp_path / "k.toml"), "-o", str(tmp_path / "k.tbundle")]) == 2
    assert re.search(re.escape(said).replace(r"\.\*", ".*"), capsys.readouterr().err)


SCRIPT = """
import numpy as np
from bundled_kernels import add, tuned
x, z = np.ones(64, np.float32), np.zeros(64, np.float32)
add[(1,)](x, x, z, 64, BLOCK=32)
tuned[(1,)](z, 64)
print(tuned.best_config.kwargs["BLOCK"], (z == 3).all())
"""


def test_what_a_program_launches_is_recorded(tmp_path):
    """Also what its tuners choose: the other process measures nothing."""
    shutil.copy(kernels.__file__, tmp_path / "bundled_kernels.py")
    (tmp_path / "serve.py").write_text(SCRIPT)
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    record = [sys.executable, "-m", "tritium", "bundle", "record", "-o", "k.tbundle", "--manifest", "k.toml"]
    done = subprocess.run([*record, "-t", "cpu", "-t", FAR, "serve.py"], cwd=tmp_path, env=env, capture_output=True,
                          text=True)
    assert done.returncode == 0 and f"2 kernels, 6 binaries, 1 choice for cpu:{BEST}:1" in done.stdout, done.stderr
    chosen = done.stdout.split()[0]
    declared = {bundles.signature_text(one.source) for one in manifest.read(str(tmp_path / "k.toml")).kernels}
    assert declared == {row["signature"] for row in BundleFile(str(tmp_path / "k.tbundle")).index["kernels"]}
    check = SCRIPT + "import sys; print('llvmlite' in sys.modules)"
    again = run(check, str(tmp_path / "k.tbundle"), TRITIUM_BUNDLE=str(tmp_path / "k.tbundle"),
                TRITIUM_CACHE_DIR=str(tmp_path / "none"))
    assert again.stdout == f"{chosen} True\nFalse\n", again.stderr


# -- programs without Python -------------------------------------------------------------------------------------------


PROGRAM = """
#include <stdio.h>
#include "k.h"
static _Alignas(64) float x[64], z[64], o[256];
int main(void) {
  for (int i = 0; i < 64; i++) x[i] = i;
  for (int i = 0; i < 256; i++) o[i] = 1;
  if (load_add() || add_default(NULL, 1, 1, 1, x, x, z, 50)) return 1;
  printf("%g %g %d\\n", z[49], z[50], add_get_num_algos());
  float *px = x, *pz = z, *po = o;
  int32_t n = 64;
  void *arguments[] = {&px, &px, &pz, &n};
  int status = k_launch("add", "*fp32, *fp32, *fp32, i32, 64", NULL, 1, 1, 1, arguments);
  printf("%d %g\\n", status, z[63]);
  status = k_launch("product", "*fp32, 16", NULL, 1, 1, 1, (void *[]){&po});
  printf("%d %g %d\\n", status, o[255], k_launch("add", "*fp64", NULL, 1, 1, 1, arguments));
  return add_default(NULL, 1, 1, 1, x + 1, x, z, 50) == TT_ERROR_INVALID_VALUE ? unload_add() : 2;
}
"""


MORE_OF_CUDA_H = """
typedef int CUdevice;
enum { CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76 };
CUresult cuCtxGetDevice(CUdevice *);
CUresult cuDeviceGetAttribute(int *, int, CUdevice);
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_a_c_program_launches_from_the_library(bundle, tmp_path, capsys):
    assert command.main(["export", bundle, "--c", str(tmp_path), "--library"]) == 0
    machine = levels.LEVELS[HERE].machine
    folder = tmp_path / f"cpu-{machine}"
    assert f"{folder}/libk.so" in capsys.readouterr().out.split("\n")
    (tmp_path / "main.c").write_text(PROGRAM)
    subprocess.run(["cc", f"-I{folder}", tmp_path / "main.c", folder / "libk.so", f"-Wl,-rpath,{folder}", "-o",
                    tmp_path / "main"], check=True)
    done = subprocess.run([tmp_path / "main"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "98 0 1\n0 126\n0 16 22\n")
    (tmp_path / "cuda" / "cuda.h").write_text(CUDA_H + MORE_OF_CUDA_H)
    for source in (*folder.glob("*.c"), *(tmp_path / "cuda").glob("*.c")):
        subprocess.run(["cc", "-Wall", "-Werror", "-fsyntax-only", f"-I{source.parent}", source], check=True)
    text = (tmp_path / "cuda" / "k.c").read_text()
    assert "if (sm() / 10 == 8 && sm() >= 80 && (uintptr_t)x % 16 == 0" in text
    far = levels.LEVELS[FAR].machine
    assert {path.name for path in tmp_path.iterdir()} >= {"cuda", f"cpu-{machine}", f"cpu-{far}"}


@pytest.mark.skipif(not os.environ.get("TRITIUM_TEST_LONG"), reason="takes a minute: TRITIUM_TEST_LONG=1 runs it")
@pytest.mark.parametrize("how", [[], ["--package"]], ids=["export", "package"])
def test_the_example_with_a_model_of_torch(how):
    pytest.importorskip("torch")
    done = subprocess.run([sys.executable, ROOT / "examples" / "aot_inductor.py", "all", *how], capture_output=True,
                          text=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert done.stdout.endswith("served without LLVM\n"), done.stderr
