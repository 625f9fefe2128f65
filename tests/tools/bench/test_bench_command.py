"""The command `tritium bench`: what it lists, measures, writes and compares; mistakes are one line."""

import csv
import json
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import tritium
from tritium.__main__ import main
from tritium.tools.bench import Case, benchmark, comparing, history, peers, report, targets
from tritium.tools.bench.files import Loader
from tritium.tools.bench.measuring import HostClock
from tritium.tools.bench.running import Plan, Settings, plan, run
from tritium.tools.command import UsageError

OWN = str(Path(__file__).with_name("own_benchmarks.py"))
QUICK = ["--device", "cpu", "--iterations", "2", "--warmup", "1", "--no-limit", "-q"]


@pytest.fixture(autouse=True)
def a_cache_of_its_own(tmp_path, monkeypatch):
    """The history of other tests is not this one's."""
    monkeypatch.setenv("TRITIUM_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir(mode=0o700)
    monkeypatch.chdir(tmp_path)


def small(*names, size="64", more=()):
    return main(["bench", "run", *names, "--size", size, *QUICK, *more])


def last_run():
    return history.read(history.default_path())[-1]


def test_what_can_be_measured_is_listed(capsys):
    assert main(["bench", "list"]) == 0
    out = capsys.readouterr().out
    assert "softmax_persistent" in out and "rows" not in out.split("\n")[0]
    assert main(["bench", "list", "soft*", "--json", "-"]) == 0
    found = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert "softmax" in found and "matmul" not in found and found["softmax"]["sizes"]["cuda"]


def test_a_run_checks_measures_and_is_kept(capsys):
    assert small("vector_add", "softmax") == 0
    out = capsys.readouterr().out
    assert "vector_add" in out and "vs torch" in out and out.count(" yes") == 2
    rows = last_run()["rows"]
    assert [row["name"] for row in rows] == ["vector_add", "softmax"]
    assert all(row["correct"] and len(row["samples"]["tritium"]) == len(row["samples"]["torch"]) == 2 for row in rows)
    assert rows[0]["bytes"] == 3 * 4 * 64 and last_run()["machine"]["versions"]["torch"]


def test_processor_time_is_apart_from_the_time_that_passes(capsys):
    import torch

    before = tritium.get_num_threads(), torch.get_num_threads()
    try:
        assert small("vector_add", more=["--processor-time"]) == 0
    finally:
        tritium.set_num_threads(before[0])
        torch.set_num_threads(before[1])
    assert "processor time of one thread" in capsys.readouterr().out
    row, = last_run()["rows"]
    assert row["clock"] == "processor" and row["threads"] == 1 and row["noise"][0] == 0 and row["samples"]["torch"]
    assert comparing.key_of(row) != comparing.key_of({**row, "clock": None})


def test_the_clock_may_be_another():
    assert HostClock(now=iter([5.0, 8.0]).__next__).sample(lambda: None, 3) == 1.0


def test_files_are_written(tmp_path, capsys):
    assert small("vector_add", size="64,128", more=["--json", "a.json", "--csv", "a.csv", "--plot", "a.png"]) == 0
    assert [row["size"] for row in json.loads((tmp_path / "a.json").read_text())["rows"]] == [64, 128]
    rows = list(csv.DictReader((tmp_path / "a.csv").open()))
    assert rows[0]["name"] == "vector_add" and float(rows[0]["median_s"]) > 0 and float(rows[1]["torch_ratio"]) > 0
    assert (tmp_path / "a.png").read_bytes()[:4] == b"\x89PNG"


def test_json_in_place_of_the_table(capsys):
    assert small("vector_add", more=["--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"][0]["name"] == "vector_add"


def test_progress_is_told_on_stderr(capsys):
    assert main(["bench", "run", "vector_add", "--size", "64", "--iterations", "1", "--no-limit", "--no-history"]) == 0
    assert "[1/1] vector_add 64 float32" in capsys.readouterr().err
    assert not history.read(history.default_path())


def test_rivals_of_the_cpu(capsys):
    assert small("softmax", more=["--against", "torch,numpy"]) == 0
    assert set(last_run()["rows"][0]["samples"]) == {"tritium", "torch", "numpy"}
    assert small("softmax", more=["--against", "none"]) == 0
    assert set(last_run()["rows"][0]["samples"]) == {"tritium"}


def test_inductor_is_torch_compile():
    rivals = peers.Rivals(["inductor"], "cpu")
    target = targets.collected()["vector_add"]
    case = target.make(64, "float32", "cpu")
    rivals.torch = Fake(rivals.torch)
    found, problems = rivals.of(target, case, "float32")
    assert not problems and found["inductor"]().shape == (64,) and rivals.torch.compiled == [False]


class Fake:
    """torch, with a `compile` that only notes that it was asked."""

    def __init__(self, torch):
        self._torch, self.compiled = torch, []

    def __getattr__(self, name):
        return getattr(self._torch, name)

    def compile(self, fn, dynamic):
        self.compiled.append(dynamic)
        return fn


def test_a_rival_that_fails_is_told_and_the_others_go_on():
    target = targets.collected()["vector_add"]
    rivals = peers.Rivals(["torch", "numpy"], "cpu")
    case = target.make(64, "float32", "cpu")
    rivals._torch = lambda target, case: lambda: 1 / 0
    found, problems = rivals.of(target, case, "float32")
    assert list(found) == ["numpy"] and problems["torch"].startswith("ZeroDivisionError")


def test_threads_are_set(capsys):
    import torch

    before = tritium.get_num_threads(), torch.get_num_threads()
    try:
        assert small("vector_add", more=["--threads", "1"]) == 0
        assert last_run()["threads"] == last_run()["rows"][0]["threads"] == torch.get_num_threads() == 1
    finally:
        tritium.set_num_threads(before[0])
        torch.set_num_threads(before[1])


def test_a_wrong_result_is_not_timed(capsys, monkeypatch):
    wrong = targets.Target("wrong", lambda size, dtype, device: Case(lambda: np.ones(3), lambda: np.zeros(3)),
                           sizes={"cpu": (3,)})
    done = run(plan([wrong], "cpu", None, None), peers.Rivals([], "cpu"), Settings(limits=False))
    (row,) = done["rows"]
    assert row["correct"] is False and not row["samples"] and "off by" in row["problem"]
    assert "wrong: off by" in "\n".join(report.table(done)[2])
    monkeypatch.setattr("tritium.tools.bench.command.chosen", lambda names: [wrong])
    assert main(["bench", "run", "wrong", *QUICK]) == 1
    assert "NO" in capsys.readouterr().out


def test_an_error_in_a_benchmark_is_a_row(capsys):
    broken = targets.Target("broken", lambda size, dtype, device: 1 / 0, sizes={"cpu": (3,)})
    done = run(plan([broken], "cpu", None, None), peers.Rivals([], "cpu"), Settings(limits=False))
    assert done["rows"][0]["problem"] == "ZeroDivisionError: division by zero"


def test_what_time_is_left_for_is_run_and_the_rest_is_said_to_be_left_out():
    rows = plan([targets.collected()["vector_add"]], "cpu", [64, 128], None)
    done = run(rows, peers.Rivals([], "cpu"), Settings(seconds=1e-9, limits=False))
    assert all(row["skipped"] and "--seconds" in row["problem"] for row in done["rows"])
    assert [cells[-1] for cells in report.table(done)[1]] == ["not run", "not run"]


def test_dtypes_that_a_kernel_does_not_have_are_no_rows():
    names = targets.collected()
    assert plan([names["vector_add"]], "cpu", None, ["float8_e5m2"]) == []
    assert [row.dtype for row in plan([names["vector_add"]], "cpu", [8], ["float16", "int8"])] == ["float16"]


# ---------------------------------------------------------------------------------------------------------------------
# What is said of noise


def row(ours, theirs, noise=(0.0, 2, 0.01, 1e-4), **more):
    return {"name": "k", "size": 8, "dtype": "float32", "correct": True, "bound": "memory", "bytes": 8e6,
            "samples": {"tritium": ours, "torch": theirs}, "noise": list(noise), "limit": 1e10, **more}


def test_a_clear_ratio_is_a_figure():
    columns, cells, remarks = report.table({"rows": [row([1e-3] * 9, [2e-3] * 9)]})
    line = dict(zip(columns, cells[0]))
    assert line["vs torch"] == "2.00x ± 0 %" and line["rate"] == "8 GB/s" and line["of limit"] == "80 %"
    assert line["time"].startswith("1 ms") and not remarks


def test_seventeen_times_faster_on_a_busy_machine_is_no_fact():
    run = {"rows": [row([1e-3] * 9, [17e-3] * 9, (1.6, 2, 0.5, 1e-4)), row([1e-3] * 21, [1e-3] * 10 + [17e-3] * 11)]}
    columns, cells, remarks = report.table(run)
    shown = [dict(zip(columns, line))["vs torch"] for line in cells]
    assert shown[0].startswith("noisy") and shown[1] == "noisy: 1x to 17x"
    assert "too noisy to judge 2 of 2 rows (other programs used 1.6 of 2 processors" in remarks[-1]


def test_operations_are_compared_with_operations():
    found = report.figures(row([1e-3] * 9, [1e-3] * 9, bound="compute", flops=2e9, limit=4e12))
    assert found["rate"] == pytest.approx(2.0) and found["unit"] == "TFLOP/s" and found["share"] == pytest.approx(0.5)
    assert report.figures(row([1.0], [1.0], bound="compute", flops=2e9))["unit"] == "GFLOP/s"


def test_tables_without_rich(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "rich.console", None)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    report.show(["name"], [["softmax"]])
    assert capsys.readouterr().out == "name\nsoftmax\n"


# ---------------------------------------------------------------------------------------------------------------------
# Files of users


def test_a_file_of_ones_own(capsys):
    assert main(["bench", "run", OWN, *QUICK]) == 0
    rows = {(row["name"], row["size"]): row for row in last_run()["rows"]}
    assert rows["doubling", 100]["correct"] and set(rows["doubling", 1000]["samples"]) == {"tritium", "numpy"}
    assert rows["plain", None]["correct"] is None and rows["plain", None]["samples"]["tritium"]
    point = rows["doubling_rate_128", "128"]
    assert point["unit"] == "GB/s" and report.figures(point)["rate"] == pytest.approx(8.0 * 128, rel=1e-4)
    assert report.figures(point)["ratios"]["NumPy"].value == pytest.approx(2.0, rel=1e-3)
    assert "not checked" in capsys.readouterr().out


def test_triton_in_such_a_file_is_tritium_and_nothing_is_installed():
    module = Loader(tritium).file(OWN)
    assert module.triton is tritium and module.tl is tritium.language
    assert sys.modules.get("triton") is None or sys.modules["triton"] is not tritium


def test_decorators_refuse_what_they_cannot_call():
    with pytest.raises(TypeError, match="takes size, dtype and device, not n"):
        benchmark(lambda n: None)
    with pytest.raises(TypeError, match="decorates a function"):
        benchmark(3)
    (target,) = targets.targets_in({"f": benchmark(lambda: 3)}, "f.py")
    with pytest.raises(TypeError, match="return a Case, or a function to time"):
        target.make(None, "float32", "cpu")


@pytest.mark.parametrize("got, expected, error", [
    ([1.0, 2.0], [1.0, 2.0], 0.0), ([np.inf], [np.inf], 0.0), ([np.nan], [1.0], np.inf), ([1.0], [1.0, 2.0], np.inf),
    ([1.0, 2.0], [1.0, 4.0], 0.5), ([], [], 0.0),
])
def test_errors_are_parts_of_the_largest_value(got, expected, error):
    assert targets.error_of(np.array(got), np.array(expected)) == error


# ---------------------------------------------------------------------------------------------------------------------
# The peer


@pytest.fixture
def stand_in(monkeypatch):
    """A module that stands for another compiler and records the names of the kernels it compiles."""
    peer = ModuleType("stand_in")
    peer.__path__ = []
    seen = []

    def jit(fn):
        seen.append(fn.__name__)
        return tritium.jit(fn)

    for name in ("cdiv", "next_power_of_2", "autotune", "Config", "runtime", "heuristics"):
        setattr(peer, name, getattr(tritium, name))
    peer.jit, peer.language, peer.seen = jit, tritium.language, seen
    monkeypatch.setitem(sys.modules, "stand_in", peer)
    monkeypatch.setitem(sys.modules, "stand_in.language", tritium.language)
    monkeypatch.setitem(sys.modules, "stand_in.runtime", tritium.runtime)
    return peer


@pytest.mark.parametrize("name", ["vector_add", "softmax", "softmax_persistent", "matmul", "rms_norm"])
def test_kernels_run_under_the_peer_from_the_same_source(stand_in, monkeypatch, name):
    target = targets.collected()[name]
    monkeypatch.setattr(stand_in, "__name__", "triton")
    monkeypatch.setattr(peers, "_installed", lambda package: stand_in if package == "triton" else None)
    rivals = peers.Rivals(["triton"], "cuda")
    stand_in.__name__ = "stand_in"
    case = target.make(64, "float32", "numpy")
    found, problems = rivals.of(target, case, "float32")
    assert not problems and stand_in.seen
    np.testing.assert_array_equal(found["triton"](), case.run())


def test_every_record_is_listed_by_its_module():
    for target in targets.collected().values():
        assert peers.home_of(target.record).startswith("tritium.kernels.")


def test_what_is_called_triton_and_is_tritium_is_no_peer(monkeypatch):
    monkeypatch.setattr(peers, "_installed", lambda name: tritium)
    with pytest.raises(UsageError, match="`import triton` gives tritium here"):
        peers.Rivals(["triton"], "cuda")


# ---------------------------------------------------------------------------------------------------------------------
# Comparing


def keep(id, ours, **more):
    made = {"id": id, "rows": [{**row([ours] * 9, [2e-3] * 9), "device": "cpu", "threads": 1}], **more}
    history.append(made, history.default_path())


def test_the_last_two_runs_are_compared(capsys):
    keep("a", 1e-3)
    keep("b", 1.5e-3)
    assert main(["bench", "compare"]) == 1
    out = capsys.readouterr().out
    assert "a -> b" in out and "slower" in out and "1 became slower or wrong: k 8 float32" in out
    assert main(["bench", "compare", "-1", "-2"]) == 0
    assert "faster" in capsys.readouterr().out
    assert main(["bench", "compare", "a", "b", "--json", "-"]) == 1
    assert json.loads(capsys.readouterr().out)["changes"][0]["verdict"] == "slower"


def test_a_run_may_say_what_changed_since_the_last(capsys):
    assert small("vector_add", more=["--compare"]) == 0
    assert "->" not in capsys.readouterr().out  # there is none before
    small("vector_add", more=["--compare"])
    ids = [run["id"] for run in history.read(history.default_path())]
    assert f"{ids[0]} -> {ids[1]}" in capsys.readouterr().out


def test_runs_are_compared_with_files(tmp_path, capsys):
    keep("now", 1e-3, label="main")
    (tmp_path / "old.json").write_text(json.dumps({"id": "old", "rows": [
        {**row([1e-3] * 9, [2e-3] * 9), "device": "cpu", "threads": 1}]}))
    assert main(["bench", "compare", "old.json", "main"]) == 0 and "old -> now main" in capsys.readouterr().out
    assert main(["bench", "compare", "old.json"]) == 0


def test_history_is_listed(capsys):
    assert main(["bench", "history"]) == 0 and "no run is kept" in capsys.readouterr().out
    keep("a", 1e-3, label="first")
    assert main(["bench", "history"]) == 0 and "first" in capsys.readouterr().out
    assert main(["bench", "history", "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["rows"] == 1


# ---------------------------------------------------------------------------------------------------------------------
# Mistakes

MISTAKES = [
    ([], "say what to do: list, run, history or compare"),
    (["rn"], "invalid choice: 'rn'"),
    (["run", "sofmax"], "there is no benchmark 'sofmax'; did you mean 'softmax'?"),
    (["run", "none.py"], "cannot open 'none.py': No such file"),
    (["run", "empty.py"], "empty.py has no benchmark"),
    (["run", "softmax", "--against", "tourch"], "there is no rival 'tourch'; did you mean 'torch'?"),
    (["run", "softmax", "--against", ","], "names are separated by commas"),
    (["run", "softmax", "--against", "triton", "--device", "cpu"], "Triton runs on GPUs only"),
    (["run", "softmax", "--device", "cuda"], "there is no GPU here that torch can use"),
    (["run", "softmax", "--device", "tpu"], "invalid choice: 'tpu'"),
    (["run", "softmax", "--iterations", "0"], "'0' is no positive number"),
    (["run", "softmax", "--threads", "many"], "'many' is no positive number"),
    (["run", "softmax", "--threads", "2", "--processor-time"], "that of one thread: leave --threads out"),
    (["run", "softmax", "--seconds", "-3"], "no positive number of seconds"),
    (["run", "softmax", "--size", "1,x"], "'x' is no positive number"),
    (["run", "softmax", "--dtype", "int3"], "none of these benchmarks is for int3"),
    (["run", "softmax", "--plot", "a.gif"], "--plot writes .png, .svg and .pdf, not 'a.gif'"),
    (["run", "softmax", "--json", "no/such/a.json"], "there is no folder"),
    (["run", "softmax", "--json", "-", "--csv", "-"], "name a file for the other"),
    (["compare"], "no run is kept"),
    (["compare", "a", "b", "c"], "two runs are compared, not 3"),
    (["compare", "empty.py"], "holds no run"),
    (["compare", "x", "y"], "has no run 'x'"),
]


@pytest.mark.parametrize("arguments, said", MISTAKES, ids=lambda x: " ".join(x) if isinstance(x, list) else "")
def test_mistakes_are_one_line(tmp_path, capsys, arguments, said):
    import torch

    if "--device cuda" in " ".join(arguments) and torch.cuda.is_available():
        pytest.skip("there is a GPU")
    (tmp_path / "empty.py").write_text("x = 3\n")
    if arguments == ["compare", "empty.py"]:
        keep("a", 1e-3)
    try:
        status = main(["bench", *arguments])
    except SystemExit as end:
        status = end.code
    err = capsys.readouterr().err
    assert status == 2 and said in err and err.startswith("tritium bench: ") and len(err.strip().split("\n")) == 1


def test_a_program_that_fails_shows_its_own_lines(tmp_path, capsys):
    (tmp_path / "bad.py").write_text("x = 1\nx / 0\n")
    assert main(["bench", "run", "bad.py"]) == 1
    err = capsys.readouterr().err
    assert 'bad.py", line 2' in err and "ZeroDivisionError" in err and "tritium/tools" not in err


@pytest.mark.parametrize("command", ["list", "run", "history", "compare"])
def test_help_has_an_example(capsys, command):
    with pytest.raises(SystemExit) as end:
        main(["bench", command, "--help"])
    assert end.value.code == 0 and "example: python -m tritium bench" in capsys.readouterr().out


@pytest.mark.gpu
def test_on_a_gpu_beside_torch_and_triton(capsys):
    pytest.importorskip("triton", reason="Triton is not installed")
    assert main(["bench", "run", "vector_add", "softmax", "matmul", "--device", "cuda", "--against", "torch,triton",
                 "--iterations", "3", "--seconds", "120", "-q"]) == 0
    rows = last_run()["rows"]
    assert all(set(row["samples"]) == {"tritium", "torch", "triton"} and row["limit"] > 1e11 for row in rows)


def test_rows_of_a_plan_are_named():
    target = targets.collected()["softmax"]
    assert plan([target], "cpu", None, None) == [Plan(target, target.sizes["cpu"][0], "float32")]
