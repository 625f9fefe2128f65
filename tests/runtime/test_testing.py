"""`triton.testing` (S17)."""

import contextlib
import gc
import os
import subprocess
import sys
import time

import numpy as np
import pytest

from tritium import device_rates, knobs, testing
from tritium._C import libtriton
from tritium.kernels.vector_add import add_kernel
from tritium.testing import Benchmark, Table, assert_close, do_bench, perf_report


@pytest.fixture(autouse=True)
def host_clock(monkeypatch):
    """Whatever device the machine has, time on the host here."""
    monkeypatch.setattr(knobs, "backend", "cpu")


class TestDoBench:
    def test_milliseconds(self):
        assert 4 < do_bench(lambda: time.sleep(0.005), warmup=1, rep=20, return_mode="min") < 50

    def test_modes(self):
        times = do_bench(lambda: time.sleep(0.0001), warmup=1, rep=5, return_mode="all")
        assert isinstance(times, list) and len(times) > 1 and all(t > 0.09 for t in times)
        for mode in ("min", "max", "mean", "median"):
            assert do_bench(lambda: None, warmup=1, rep=1, return_mode=mode) >= 0
        with pytest.raises(AssertionError, match="return_mode"):
            do_bench(lambda: None, return_mode="best")

    def test_quantiles(self, monkeypatch):
        monkeypatch.setattr(testing._HostClock, "time", lambda self, fn, n, before: [1.0, 2.0, 3.0, 4.0, 5.0])
        assert do_bench(lambda: None, quantiles=[0.5, 0.2, 0.8]) == [3.0, pytest.approx(1.8), pytest.approx(4.2)]
        assert do_bench(lambda: None, quantiles=[0.5]) == 3.0

    def test_gradients_are_forgotten_outside_the_timed_part(self):
        class Tensor:
            grad = 1

        x = Tensor()
        seen = []
        do_bench(lambda: seen.append(x.grad), warmup=0, rep=0.001, grad_to_none=[x])
        assert seen[0] == 1 and seen[-1] is None

    def test_repetitions_follow_the_estimate(self):
        calls = []
        do_bench(lambda: (calls.append(0), time.sleep(0.002)), warmup=4, rep=10)
        assert 7 + 1 <= len(calls) <= 1 + 5 + 2 + 5

    def test_emptying_the_cache_counts_to_what_is_spent(self, monkeypatch):
        """Or a short kernel would be repeated a thousand times where a hundred were meant."""
        calls, flushes = [], []
        monkeypatch.setattr(testing._HostClock, "flush", lambda self: (flushes.append(0), time.sleep(0.002)))
        times = do_bench(lambda: calls.append(0), warmup=4, rep=20, return_mode="all")
        assert len(times) <= 10 and len(flushes) == 5 + len(times) and len(calls) <= 1 + 5 + 2 + 10
        assert max(times) < 2, "the result is that of the call alone"

    def test_batches_stand_in_for_graphs(self):
        calls = []
        t = testing.do_bench_cudagraph(lambda: calls.append(0), rep=0.05, quantiles=[0.5])
        assert 0 < t < 1 and len(calls) > 10


class TestAssertClose:
    def test_default_tolerance(self):
        assert_close(np.array([1.0]), np.array([1.009]))
        with pytest.raises(AssertionError):
            assert_close(np.array([1.0]), np.array([1.02]))

    def test_nan_and_infinity(self):
        assert_close(np.array([np.nan, np.inf]), np.array([np.nan, np.inf]))
        with pytest.raises(AssertionError):
            assert_close(np.array([np.nan]), np.array([1.0]))

    def test_tolerance_by_dtype(self):
        limit = lambda dtype: {"float16": 0.5}[str(dtype)]
        assert_close(np.float16([1]), np.float16([1.4]), atol=limit)
        with pytest.raises(AssertionError, match="mine"):
            assert_close(np.float16([1]), np.float16([1.6]), atol=limit, err_msg="mine")

    def test_relative(self):
        assert_close(100.0, 101.0, atol=0, rtol=0.02)
        with pytest.raises(AssertionError):
            assert_close(100.0, 103.0, atol=0, rtol=0.02)

    def test_torch_types(self):
        torch = pytest.importorskip("torch")
        for dtype in (torch.bfloat16, torch.float8_e4m3fn, torch.int32):
            assert_close(torch.ones(3).to(dtype), torch.ones(3).to(dtype))
        with pytest.raises(AssertionError):
            assert_close(torch.ones(3, dtype=torch.bfloat16), torch.zeros(3, dtype=torch.bfloat16))
        assert_close(torch.ones(3, requires_grad=True), np.ones(3))


BENCH = dict(x_names=["m", "n"], x_vals=[1, (2, 3)], line_arg="who", line_vals=["a", "b"], line_names=["A", "B"],
             plot_name="products", args={"scale": 10}, ylabel="units")


def product(m, n, who, scale, extra=0):
    return m * n * scale + (1 if who == "b" else 0) + extra


class TestPerfReport:
    def test_values_and_columns(self):
        df = perf_report(Benchmark(**BENCH))(product).run(return_df=True, extra=100)
        assert list(df.columns) == ["m", "n", "A (units)", "B (units)"]
        assert df.values.tolist() == [[1, 1, 110, 111], [2, 3, 160, 161]]

    def test_the_function_can_still_be_called(self):
        assert perf_report(Benchmark(**BENCH))(product)(2, 3, "a", 10) == 60

    def test_printing_and_difference(self, capsys):
        assert perf_report(Benchmark(**BENCH))(product).run(print_data=True, diff_col=True) is None
        out = capsys.readouterr().out
        assert out.startswith("products:\n") and "Diff" in out

    def test_several(self):
        two = perf_report([Benchmark(**BENCH), Benchmark(**BENCH | {"plot_name": "more"})])(product)
        assert len(two.run(return_df=True)) == 2

    def test_files(self, tmp_path):
        pytest.importorskip("matplotlib")
        mark = perf_report(Benchmark(**BENCH | {"styles": [("blue", "-"), ("red", "--")]}))
        out = tmp_path / "new" / "folder"
        mark(lambda **kw: (product(**kw), 0.0, 100.0)).run(save_path=str(out), save_precision=2)
        assert sorted(os.listdir(out)) == ["products.csv", "products.png", "results.html"]
        assert (out / "products.csv").read_text().splitlines()[0] == "m,n,A (units),B (units)"
        assert "products.png" in (out / "results.html").read_text()

    def test_length_mismatch(self):
        with pytest.raises(ValueError, match="3 values for 2 names"):
            perf_report(Benchmark(**BENCH | {"x_vals": [(1, 2, 3)]}))(product).run()

    def test_without_pandas_and_matplotlib(self, tmp_path):
        code = f"""
import sys
sys.modules['pandas'] = sys.modules['matplotlib'] = None
from tritium.testing import Benchmark, Table, perf_report
mark = perf_report(Benchmark(['n'], [1, 2], 'who', ['a'], ['A'], 'plain', args={{}}))(lambda n, who: n / 2)
table = mark.run(print_data=True, save_path={str(tmp_path)!r}, return_df=True, show_plots=True)
assert isinstance(table, Table)
"""
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines()[0] == "plain:" and "0.500000" in done.stdout
        assert "matplotlib is not installed" in done.stderr
        assert (tmp_path / "plain.csv").read_text() == "n,A\n1,0.500000\n2,1.000000\n"
        assert "plain.csv" in (tmp_path / "results.html").read_text()

    def test_table_with_index(self, tmp_path):
        Table(["a"], [(1,)]).to_csv(tmp_path / "t.csv", index=True)
        assert (tmp_path / "t.csv").read_text() == ",a\n0,1\n"


class StreamClock:
    """The clock of a GPU that has nothing to do."""

    on_host = False

    def synchronize(self):
        pass

    def flush(self):
        pass

    def time(self, fn, n, before):
        for _ in range(n):
            before()
            fn()
        return [1e-3] * n


def test_kernels_on_the_cpu_are_timed_by_the_host_beside_a_gpu(monkeypatch):
    """Events of a stream that is empty say nothing about them."""
    monkeypatch.setattr(testing, "clock", StreamClock)
    x, slow = np.ones(8, np.float32), lambda: time.sleep(2e-3)
    assert testing.do_bench(slow, warmup=1, rep=1, return_mode="min") == pytest.approx(1e-3)
    run = lambda: (slow(), add_kernel[(1,)](x, x, x.copy(), 8, BLOCK=8))
    assert testing.do_bench(run, warmup=1, rep=1, return_mode="min") >= 2


class Device:
    """A driver that is an H100 on paper."""

    class utils:
        @staticmethod
        def get_device_properties(device):
            return {"mem_clock_rate": 2_619_000, "mem_bus_width": 5120, "multiprocessor_count": 132}

    capability = (9, 0)

    def get_current_device(self):
        return 0

    def get_device_capability(self, device):
        return self.capability


class TestPeaks:
    @pytest.fixture
    def device(self, monkeypatch):
        device = Device()
        monkeypatch.setattr(device_rates, "_driver", lambda: device)
        return device

    def test_bandwidth(self, device):
        assert testing.get_dram_gbps() == pytest.approx(3352, rel=1e-3)

    @pytest.mark.parametrize("dtype, operations", [
        ("float32", 256), (np.float16(0).dtype, 512), ("torch.bfloat16", 512), ("int8", 1024),
        ("torch.float8_e4m3fn", 1024)])
    def test_matrix_units(self, device, dtype, operations):
        assert testing.get_max_tensorcore_tflops(dtype, 1_000_000) == pytest.approx(132 * 4 * operations * 1e-3)

    def test_old_matrix_units(self, device):
        device.capability = (7, 0)
        assert testing.get_max_tensorcore_tflops("float16", 1_000_000) == pytest.approx(132 * 4 * 256 * 1e-3)
        with pytest.raises(AssertionError, match="float16 only"):
            testing.get_max_tensorcore_tflops("bfloat16", 1_000_000)

    def test_ordinary_units(self, device):
        assert testing.get_max_simd_tflops("float32", 1_000_000) == pytest.approx(132 * 4 * 32 * 1e-3)
        assert testing.get_max_simd_tflops("bfloat16", 1_000_000) == pytest.approx(132 * 4 * 64 * 1e-3)
        device.capability = (7, 5)
        with pytest.raises(RuntimeError, match="bfloat16"):
            testing.get_max_simd_tflops("bfloat16", 1_000_000)
        with pytest.raises(RuntimeError, match="complex64"):
            testing.get_max_simd_tflops("complex64", 1_000_000)


@pytest.mark.parametrize("was_on", [True, False])
def test_nothing_is_collected_while_a_graph_is_captured(monkeypatch, was_on):
    torch = pytest.importorskip("torch")
    seen = []

    @contextlib.contextmanager
    def graph(*args, **kwargs):
        seen.append((gc.isenabled(), args, kwargs))
        yield "graph"

    monkeypatch.setattr(torch.cuda, "graph", graph)
    try:
        if not was_on:
            gc.disable()
        with pytest.raises(KeyError), testing.cuda_graph_without_gc("g", stream=3) as found:
            assert found == "graph" and not gc.isenabled()
            raise KeyError
        assert gc.isenabled() is was_on and seen == [(False, ("g",), {"stream": 3})]
    finally:
        gc.enable()


class TestCublas:
    @pytest.mark.parametrize("name", ["float32", "float16", "bfloat16", "float8_e4m3fn"])
    def test_products(self, name):
        torch = pytest.importorskip("torch")
        dtype, out = getattr(torch, name), torch.float32 if "8" in name else getattr(torch, name)
        a, b = (torch.randint(-4, 5, (n, 16)).to(dtype) for n in (3, 5))
        c, d = torch.full((3, 5), float("nan"), dtype=out), torch.empty(3, 5, dtype=out)
        expected = a.float() @ b.float().t()
        testing.cublas.matmul(a, b, c)
        assert torch.equal(c.float(), expected)
        testing.cublas.gemm(a, b, c, d, 2.0, -1.0)
        assert torch.equal(d.float(), expected)
        assert callable(libtriton.nvidia.cublas.CublasLt(torch.empty(8)).matmul)

    def test_mistakes(self):
        torch = pytest.importorskip("torch")
        a, b, c = torch.ones(2, 3), torch.ones(3, 4), torch.ones(2, 4)
        with pytest.raises(ValueError, match="B has a row for each column of the result"):
            testing.cublas.matmul(a, b, c)
        with pytest.raises(ValueError, match="one dtype"):
            testing.cublas.matmul(a, b.half(), c)
        with pytest.raises(ValueError, match="two axes"):
            testing.cublas.matmul(a[0], b, c)


def test_nvsmi_reads_numbers(monkeypatch):
    def run(command, **options):
        assert command[3] == "--query-gpu=clocks.current.sm,clocks.current.memory"
        return subprocess.CompletedProcess(command, 0, stdout="1350, 1215\n")

    monkeypatch.setattr(subprocess, "run", run)
    assert testing.nvsmi(["clocks.current.sm", "clocks.current.memory"]) == [1350, 1215]


def test_memcheck_runs_the_case_again_under_the_sanitizer(monkeypatch):
    commands = []

    def run(command, **options):
        commands.append(command)
        errors = 0 if "case[1]" in command[-1] else 3
        return subprocess.CompletedProcess(command, 0, stdout=f"ERROR SUMMARY: {errors} errors")

    class Request:
        class node:
            fspath, name = "test_x.py", "case[1]"

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(testing.shutil, "which", lambda tool: "/bin/" + tool)

    @testing.cuda_memcheck(size=1)
    def case(size, request=None):
        return size

    assert case(size=2) == 2 and commands == []
    case(size=1, request=Request())
    assert commands[0][-1] == "test_x.py::case[1]"
    Request.node.name = "case[2]"
    with pytest.raises(AssertionError, match="memory errors"):
        case(size=1, request=Request())
    with pytest.raises(AssertionError, match="request"):
        case(size=1)


def test_a_time_unpacks_into_three():
    """`ms, low, high = do_bench(f)`: the median, and the quantiles 0.2 and 0.8."""
    calls = iter([5.0, 1.0, 2.0, 3.0, 4.0] * 100)
    from tritium import testing

    time = testing.Milliseconds(3.0, [next(calls) for _ in range(5)])
    ms, low, high = time
    assert (ms, low, high) == (3.0, 1.8, 4.2) and time + 1 == 4.0 and isinstance(time, float)
    mean = testing.do_bench(lambda: None, warmup=1, rep=1)
    _, low, high = mean
    assert 0 <= low <= high and mean > 0
