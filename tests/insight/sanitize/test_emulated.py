"""`tritium sanitize --target cuda:90a`: lowered GPU programs on the emulator.

The compiler places barriers and waits, so mistakes in them are made here: a hook changes what it has lowered.
"""

import contextlib
import doctest
import importlib
import json
import re
import textwrap
import threading
from pathlib import Path

import numpy as np
import pytest
import torch

import tritium
import tritium as triton
import tritium.language as tl
from tests.insight.sanitize.test_sanitizer import SCRIPT, run
from tritium import knobs
from tritium.backends.compiler import GPUTarget
from tritium.compiler import ASTSource, compile
from tritium.kernels.vector_add import add_kernel

TARGETS = ["cuda:90a", "cuda:80", "hip:gfx942"]


@triton.jit
def turned(x, y, N: tl.constexpr):
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    v = tl.load(x + i * N + j)
    tl.store(y + i * N + j, tl.trans(v))


@triton.jit
def product(a, b, c, K, N: tl.constexpr, BLOCK: tl.constexpr):
    i, j, k = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :], tl.arange(0, BLOCK)
    total = tl.zeros((N, N), tl.float32)
    for first in range(0, K, BLOCK):
        x = tl.load(a + i * K + (first + k)[None, :])
        y = tl.load(b + (first + k)[:, None] * N + j)
        total = tl.dot(x, y, total)
    tl.store(c + i * N + j, total)


@triton.jit
def boxes(a, b, c, K, N: tl.constexpr, BLOCK: tl.constexpr):
    x = tl.make_tensor_descriptor(a, [N, K], [K, 1], [N, BLOCK])
    y = tl.make_tensor_descriptor(b, [K, N], [N, 1], [BLOCK, N])
    total = tl.zeros((N, N), tl.float32)
    for first in range(0, K, BLOCK):
        total = tl.dot(x.load([0, first]), y.load([first, 0]), total)
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    tl.store(c + i * N + j, total)


def run_turned():
    x = torch.randn(64, 64)
    y = torch.zeros(64, 64)
    turned[(1,)](x, y, N=64)
    return y, x.T


def run_product(kernel=product):
    k = 512  # more tiles than there are slots for them
    a, b, c = torch.randn(64, k).half(), torch.randn(k, 64).half(), torch.zeros(64, 64)
    kernel[(1,)](a, b, c, k, N=64, BLOCK=64)
    return c, a.float() @ b.float()


# --- mistakes in what was lowered -------------------------------------------------------------------------------------
@contextlib.contextmanager
def changed(pattern, replacement, number=0, count=1):
    """Within it, the LLVM text of kernels is changed: `count` matches of a pattern, from the `number`-th on."""
    def hook(*args):
        if not args:
            return f"{pattern}{replacement}{number}-{count}", "changed"
        stages = args[1]
        lower = stages["llir"]

        def llir(module, metadata):
            text, seen = lower(module, metadata), iter(range(10**6))
            change = lambda m: m.expand(replacement) if number <= next(seen) < number + count else m[0]
            text, n = re.subn(pattern, change, text, flags=re.M)
            assert n > number, "there is nothing to change"
            return text

        stages["llir"] = llir

    knobs.runtime.add_stages_inspection_hook = hook
    for kernel in (turned, product, boxes):
        kernel.device_caches.clear()
    try:
        yield
    finally:
        knobs.runtime.add_stages_inspection_hook = None
        for kernel in (turned, product, boxes):
            kernel.device_caches.clear()


BARRIER = r"^  call .*@llvm\.nvvm\.barrier\.cta\.sync\.aligned.*\n"
AMD_BARRIER = r"^  call .*@llvm\.amdgcn\.s\.barrier\(.*\n"
COPIES = {"missing wait", "shared race"}
MISTAKES = {  # target, launch, what is changed, kinds of which one is found
    "80: no barrier in a transposition": ("cuda:80", run_turned, (BARRIER, ""), {"shared race"}),
    "80: no wait for copies": ("cuda:80", run_product, (r"(cp\.async\.wait_group) \d", r"\1 9", 0, 9), COPIES),
    "80: no barrier before a product": ("cuda:80", run_product, (BARRIER, "", 0), {"shared race"}),
    "80: no barrier behind a loop": ("cuda:80", run_product, (BARRIER, "", 1, 2), {"shared race"}),
    "80: no barrier before a result": ("cuda:80", run_product, (BARRIER, "", 3), {"shared race"}),
    "80: a barrier for some": ("cuda:80", run_turned, (r"aligned\.all\(i32 0\)", "aligned.count(i32 0, i32 96)"),
                               {"wrong barrier"}),
    "90: no barrier in a transposition": ("cuda:90a", run_turned, (BARRIER, ""), {"shared race"}),
    "90: a phase swapped": ("cuda:90a", run_product, (r"(try_wait\.parity\S+ p, \[\$1\]), \$2", r"\1, 1", 1), COPIES),
    "90: too many bytes expected": ("cuda:90a", run_product, (r"(expect_tx.* \[\$0\]), 8192", r"\1, 16384"),
                                    {"deadlock"}),
    "90: buffers not given back": ("cuda:90a", run_product, (r"^.*mbarrier\.arrive\.shared.*\n", "", 1, 9),
                                   {"deadlock"}),
    "90: no wait for products": ("cuda:90a", run_product, (r"(wgmma\.wait_group\S+) 0", r"\1 7"), {"missing wait"}),
    "90: no fence": ("cuda:90a", run_product, (r"^.*fence\.proxy\.async.*\n", ""), {"missing fence"}),
    "90: no barrier before TMA": ("cuda:90a", run_product, (BARRIER, "", 2), {"shared race"}),
    "90: no wait for TMA": ("cuda:90a", run_product, (r"^.*cp\.async\.bulk\.wait_group.*\n", "", 1), {"missing wait"}),
    "AMD: no barrier in a transposition": ("hip:gfx942", run_turned, (AMD_BARRIER, ""), {"shared race"}),
    "AMD: no barrier before a product": ("hip:gfx1100", run_product, (AMD_BARRIER, "", 0), {"shared race"}),
    "AMD: no fence before a barrier": ("hip:gfx1201", run_turned, (r"^  fence .* release.*\n", ""), {"missing fence"}),
    "AMD: no fence behind a barrier": ("hip:gfx942", run_turned, (r"^  fence .* acquire.*\n", ""), {"missing fence"}),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_what_is_wrong_in_a_lowered_program_is_found(name):
    target, launch, change, kinds = MISTAKES[name]
    with changed(*change), tritium.sanitize(target=target) as report:
        launch()
    assert kinds & set(report.kinds()), report.text()
    kernel = turned if launch is run_turned else product
    lines = range(kernel.starting_line_number, kernel.starting_line_number + kernel.src.count("\n") + 1)
    for finding in report:
        assert finding.line in lines and "^" in finding.text(), report.text()
        assert finding.program == (0, 0, 0) and finding.grid == (1, 1, 1), report.text()
    first = next(finding for finding in report if finding.kind in kinds)
    assert first.threads and first.threads in first.text(), report.text()
    if "shared race" in kinds and first.kind == "shared race":
        assert first.other["places"][0][1] in lines and "the other side" in first.text(), report.text()


# --- what is found in kernels as they are -----------------------------------------------------------------------------
@pytest.mark.parametrize("target", TARGETS)
def test_programs_without_mistakes(target):
    with tritium.sanitize(target=target) as report:
        results = [run_turned(), run_product(), run_product(boxes)]
    assert not report and not report.notes, report.text()
    for got, wanted in results:
        torch.testing.assert_close(got, wanted, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("target", TARGETS)
def test_an_access_out_of_bounds_does_not_happen(target):
    x, whole = torch.ones(1000), torch.zeros(1100)
    with tritium.sanitize(target=target) as report:
        add_kernel[(4,)](x, torch.ones(1024), whole[:1000], 1024, BLOCK=256)
    assert report.kinds() == ["out of bounds"] * 2
    load, store = report
    assert (load.tensor, load.index, load.program, load.grid) == ("x_ptr", 1000, (3, 0, 0), (4, 1, 1))
    assert (store.tensor, store.index, store.shape) == ("z_ptr", 1000, (1000,))
    assert "0 bytes past its end" in store.text() and "tl.store(" in store.text() and "^^^" in store.text()
    assert "(of a larger storage)" in store.message and load.threads.startswith("warp")
    assert (whole[:1000] == 2).all() and not whole[1000:].any()


def test_memory_that_may_not_be_written():
    x, y = np.ones(64, np.float32), np.zeros(64, np.float32)
    y.flags.writeable = False
    with tritium.sanitize(target="cuda:80") as report:
        add_kernel[(1,)](x, x, y, 64, BLOCK=64)
    assert report.kinds() == ["read-only"] and not y.any()


@triton.jit
def promising(x, y, n):
    i = tl.multiple_of(n, 4) + tl.arange(0, 128)
    tl.store(y + tl.arange(0, 128), tl.load(x + i))


def test_a_promise_that_does_not_hold():
    with tritium.sanitize(target="cuda:90a") as report:
        promising[(1,)](torch.ones(256), torch.zeros(128), 2, num_warps=1)
    finding, = report
    assert (finding.kind, finding.tensor, finding.index) == ("misaligned", "x", 2) and "multiple_of" in finding.hint


@triton.jit
def failing(x, y):
    i = tl.arange(0, 32)
    tl.store(y + i, tl.load(x + i))
    tl.device_assert(tl.load(y) < 0, "never")


def test_a_failed_assertion_is_an_error():
    with tritium.sanitize(target="cuda:80") as report, pytest.raises(RuntimeError, match="never"):
        failing[(1,)](torch.ones(16), torch.zeros(32), debug=True)
    assert report.kinds() == ["out of bounds"]


@triton.jit
def through_tables(table, y, n):
    """Adds what the addresses in a table lead to."""
    i = tl.arange(0, 32)
    total = tl.zeros((32,), tl.float32)
    for k in range(n):
        total += tl.load(tl.load(table + k).to(tl.pointer_type(tl.float32)) + i)
    tl.store(y + i, total)


def test_pointers_out_of_memory():
    parts, y = [torch.randn(32) for _ in range(3)], torch.zeros(32)
    table = torch.tensor([part.data_ptr() for part in parts])
    with tritium.sanitize(target="cuda:90a") as report:
        through_tables[(1,)](table, y, 3)
        assert not report, report.text()
        torch.testing.assert_close(y, sum(parts))
        through_tables[(1,)](torch.zeros(1, dtype=torch.int64), y, 1)
    assert report.kinds() == ["out of bounds"] and "null pointer" in report.text()


# --- which programs run -----------------------------------------------------------------------------------------------
@triton.jit
def numbered(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(y + i, mask=i < n) + tl.load(x + i, mask=i < n), mask=i < n)


def test_a_large_grid_is_sampled_and_its_results_are_right():
    x, y = torch.randn(100 * 64), torch.ones(100 * 64)
    with tritium.sanitize(target="cuda:80", programs=4) as report:
        numbered[(100,)](x, y, x.numel(), BLOCK=64)
    assert report.notes == ["kernel `numbered`: 4 of 100 programs ran; results are those of the CPU"]
    assert report.summary().endswith("\nnote: " + report.notes[0])
    assert json.loads(report.json())["notes"] == report.notes
    torch.testing.assert_close(y, x + 1)


def test_the_last_program_is_among_those_that_run():
    with tritium.sanitize(target="cuda:80", programs=3) as report:
        add_kernel[(100,)](torch.ones(6399), torch.ones(6400), torch.zeros(6400), 6400, BLOCK=64)
    assert [finding.program for finding in report] == [(99, 0, 0)]


@triton.jit
def in_turns(flags, y):
    """Each program waits for the one after it."""
    pid = tl.program_id(0)
    if pid + 1 < tl.num_programs(0):
        while tl.atomic_add(flags + pid + 1, 0) == 0:
            pass
    tl.store(y + pid, pid + 1)
    tl.atomic_xchg(flags + pid, 1)


@triton.jit
def never_told(flags, y):
    while tl.atomic_add(flags, 0) == 0:
        pass
    tl.store(y, 1)


def test_programs_that_wait_for_later_ones_take_turns():
    flags, y = torch.zeros(3, dtype=torch.int32), torch.zeros(3, dtype=torch.int32)
    with tritium.sanitize(target="cuda:80") as report:
        in_turns[(3,)](flags, y, num_warps=1)
    assert not report and y.tolist() == [1, 2, 3]


def test_a_program_that_waits_for_nobody(monkeypatch):
    from tritium.insight.emulator import programs

    monkeypatch.setattr(programs, "_TURN", 64)
    monkeypatch.setattr(programs, "LONGEST", 256)
    flags = torch.zeros(1, dtype=torch.int32)
    with tritium.sanitize(target="cuda:80") as report:
        never_told[(1,)](flags, flags, num_warps=1)
    assert report.kinds() == ["endless wait"] and report.text().count("while tl.atomic_add") == 1


CONFIGS = [triton.Config({"BLOCK": n}, num_warps=1) for n in (64, 32)]


@triton.autotune(CONFIGS, key=["n"])
@triton.jit
def tuned(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n), mask=i < n)


def test_tuning_tries_each_configuration_once():
    x, y = torch.randn(640), torch.zeros(640)
    with tritium.sanitize(target="cuda:80") as report:
        tuned[lambda meta: (triton.cdiv(640, meta["BLOCK"]),)](x, y, 640)
    assert not report and tuned.best_config.kwargs["BLOCK"] == 64
    torch.testing.assert_close(x, y)


@pytest.mark.filterwarnings("ignore:autotune's warmup")
@pytest.mark.parametrize("options", [{"warmup": 1, "rep": 1}, {"use_cuda_graph": True}])
def test_tuning_by_deprecated_arguments_tries_each_configuration_once(options):
    x, y, seen = torch.randn(640), torch.zeros(640), []
    configs = [triton.Config({"BLOCK": n}, num_warps=1, pre_hook=lambda args: seen.append(args["BLOCK"]))
               for n in (64, 32)]
    with tritium.sanitize(target="cuda:80") as report:
        triton.autotune(configs, key=["n"], **options)(tuned.fn)[(20,)](x, y, 640)
    assert not report and seen == [64, 32, 64]
    torch.testing.assert_close(x, y)


@pytest.mark.parametrize("bench", [triton.testing.do_bench, triton.testing.do_bench_cudagraph])
def test_benchmarks_time_the_emulator(bench):
    x, y = torch.randn(64), torch.zeros(64)
    with tritium.sanitize(target="cuda:80") as report:
        assert bench(lambda: tuned.fn[(1,)](x, y, 64, BLOCK=64, num_warps=1), rep=1) > 0
    assert not report
    torch.testing.assert_close(x, y)


# --- the collection, and the ways to turn it on -----------------------------------------------------------------------
COLLECTION = sorted(path.stem for path in Path(tritium.kernels.__file__).parent.glob("*.py")
                    if path.stem not in ("__init__", "arrays"))


@pytest.mark.parametrize("name, target", [(name, "cuda:90a") for name in COLLECTION] + [
    (name, "cuda:80") for name in ("attention", "matmul", "scaled_matmul", "softmax", "transpose")])
def test_the_collection_has_no_mistakes(name, target):
    """By the examples of its modules, which run as they stand."""
    module = importlib.import_module(f"tritium.kernels.{name}")
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    found = [test for test in doctest.DocTestFinder().find(module) if test.examples]
    with tritium.sanitize(target=target, programs=4) as report:
        for test in found:
            if target != "cuda:80" or not re.search("float8|fp8|E4M3|e4m3", test.docstring):  # sm_80 has no e4m3
                runner.run(test)
    assert found and not runner.failures and not report, report.text()


def test_the_clusters_of_a_kernel():
    a, b = torch.randn(64, 64).half(), torch.randn(64, 64).half()
    c = torch.zeros(64, 64)
    with tritium.sanitize(target="cuda:90a") as report:
        product[(1,)](a, b, c, 64, N=64, BLOCK=64, num_ctas=2)
    assert not report, report.text()
    torch.testing.assert_close(c, a.float() @ b.float(), rtol=1e-3, atol=1e-3)


def test_it_ends_with_the_context():
    from tritium.backends.driver import driver

    x = torch.ones(64)
    with tritium.sanitize(target="cuda:90a"):
        checked = add_kernel[(1,)](x, x, torch.zeros(64), 64, BLOCK=64)
        assert driver.active.emulates and driver.active.get_device_capability() == (9, 0)
    plain = add_kernel[(1,)](x, x, torch.zeros(64), 64, BLOCK=64)
    assert checked.metadata.target.backend == "cuda" and checked.metadata.sanitized
    assert plain.metadata.target.backend == "cpu" and not plain.metadata.sanitized and driver.chosen is None


def test_threads_share_the_device():
    results = []

    def work(k):
        x, y = torch.full((256,), float(k)), torch.zeros(256)
        add_kernel[(2,)](x, x, y, 256, BLOCK=128)
        results.append((y == 2 * k).all().item())

    with tritium.sanitize(target="cuda:80") as report:
        threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not report and results == [True] * 8


@pytest.mark.parametrize("target, said", [("cuda:42", "did you mean"), ("hip:gfx42", "did you mean"),
                                          ("cpu:host", "leave the target out"), ("90a", "is not a target")])
def test_a_target_that_is_none(target, said):
    with pytest.raises(ValueError, match=said), tritium.sanitize(target=target):
        raise AssertionError("it must not come to this")


def test_a_gpu_that_is_not_emulated_is_refused():
    source = ASTSource(add_kernel, {"x_ptr": "*fp32", "y_ptr": "*fp32", "z_ptr": "*fp32", "n": "i32",
                                    "BLOCK": "constexpr"}, {"BLOCK": 64})
    target = GPUTarget("cuda", 90, 32)
    with pytest.raises(ValueError, match=r"cuda:90:32 .* `tritium sanitize --target` .*\(target="):
        compile(source, target, {"sanitized": True})
    with tritium.sanitize(target="cuda:90a"):
        assert b"define ptx_kernel void" in compile(source, target, {"sanitized": True}).kernel


def test_the_command(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SCRIPT))
    done = run("sanitize", "--target", "cuda:90a", "--json", tmp_path / "out.json", script, "1000")
    assert done.returncode == 3 and done.stdout == "done 1000\n"
    assert "out of bounds in kernel `copy`" in done.stderr and f"{script}:7:21" in done.stderr
    assert json.loads((tmp_path / "out.json").read_text())["findings"][0]["threads"].startswith("warp")
    sampled = run("sanitize", "--target", "A100", "--programs", "1", script, "1024")
    assert sampled.returncode == 0 and "1 of 4 programs ran" in sampled.stderr
    wrong = run("sanitize", "--target", "cuda:42", script, "1000")
    assert wrong.returncode != 0 and "is not a target" in wrong.stderr and "Traceback" not in wrong.stderr
    assert run("sanitize", "--programs", "0", script).returncode == 2
