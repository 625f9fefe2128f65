"""`triton.profiler`: sessions, scopes, the file, the viewer and the commands."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
import tritium.profiler as proton
from tritium import knobs
from tritium.profiler import sessions, viewer

ROOT = Path(__file__).resolve().parents[3]


def work(grid, metadata, args):
    return {"name": f"scale [n={args['n']}]", "flops16": 4 * args["n"], "flops8": args["n"], "bytes": 8 * args["n"]}


@triton.jit(launch_metadata=work)
def scale(x, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(x + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)


X = np.ones(1000, np.float32)


def launch(n=1000):
    scale[(8,)](X, n, B=128)


@pytest.fixture(autouse=True)
def no_sessions(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    yield
    proton.finalize()


def content(name="p"):
    with open(f"{name}.hatchet") as file:
        return json.load(file)


def paths(node, above=()):
    """{path of a node: its metrics}."""
    here = (*above, node["frame"]["name"])
    found = {"/".join(here[1:]): node["metrics"]}
    for child in node["children"]:
        found |= paths(child, here)
    return found


def profiled(body, **options):
    proton.start("p", **options)
    body()
    proton.finalize()
    return paths(content()[0])


# -- sessions and scopes -----------------------------------------------------------------------------------------------


def test_kernels_stand_under_scopes():
    def body():
        launch()
        with proton.scope("outer"):
            launch()
            with proton.scope("inner"):
                launch()
                launch()
        proton.enter_scope("by hand")
        launch()
        proton.exit_scope()

    found = profiled(body)
    assert {path: m["count"] for path, m in found.items() if m.get("count")} == {
        "scale": 1, "outer/scale": 1, "outer/inner/scale": 2, "by hand/scale": 1}  # fmt: skip
    assert all(m["time (ns)"] > 0 and m["device_type"] == "CPU" for m in found.values() if m.get("count"))
    assert content()[1]["CPU"]["0"]["num_sms"] >= 1 and found[""]["time (ns)"] == 0


def test_a_state_stands_last():
    def body():
        with proton.scope("test"), proton.state("state0"), proton.scope("test1"):
            launch()
        proton.enter_state("alone")
        launch()
        proton.exit_state()

    assert {"test/test1/state0/scale", "alone/scale"} <= profiled(body).keys()


def test_scopes_decorate_and_bring_metrics():
    @proton.scope("step", {"bytes": 100, "samples": 2.5})
    def step():
        launch()

    @proton.state("warm")
    def warm():
        launch()

    found = profiled(lambda: (step(), step(), warm()))
    assert found["step"] == {"bytes": 200, "samples": 5.0} and "warm/scale" in found


def test_a_timed_scope_takes_the_time_of_the_host():
    def body():
        with proton.cpu_timed_scope("load", {"items": 3}):
            launch()

    found = profiled(body)["load"]
    assert found["items"] == 3 and found["cpu_time (ns)"] > 0


def test_metrics_come_from_launch_metadata_with_the_hook():
    def body():
        launch()
        launch()

    found = profiled(body, hook="triton")["scale [n=1000]"]
    assert (found["count"], found["flops16"], found["flops8"], found["bytes"]) == (2, 8000, 2000, 16000)
    assert "flops16" not in profiled(body)["scale"]


def test_frames_of_the_program_are_a_context():
    def caller():
        launch()

    found = profiled(caller, context="python")
    (path,) = [path for path, metrics in found.items() if metrics.get("count")]
    assert path.endswith("/scale") and "caller@" in path and "launch@" in path and "tritium/runtime" not in path


def test_deactivated_sessions_see_nothing_and_cost_nothing():
    session = proton.start("p")
    launch()
    proton.deactivate(session)
    assert not knobs.runtime.launch_enter_hook
    launch()
    proton.activate(session)
    launch()
    proton.finalize(session)
    assert paths(content()[0])["scale"]["count"] == 2 and not knobs.runtime.launch_enter_hook


def test_several_sessions():
    first, second = proton.start("a"), proton.start("b")
    launch()
    proton.deactivate(first)
    launch()
    assert first != second and proton.start("b") == second
    proton.finalize()
    assert paths(content("a")[0])["scale"]["count"] == 1 and paths(content("b")[0])["scale"]["count"] == 2


def test_a_function_is_profiled():
    @proton.profile(name="f")
    def work(x):
        launch()
        return x + 1

    assert work(1) == 2 and work(2) == 3
    launch()
    assert proton.profile(lambda: 7, name="g")() == 7
    proton.finalize()
    assert paths(content("f")[0])["scale"]["count"] == 2 and content("g")[0]["children"] == []


def test_traces():
    proton.start("p", data="trace")
    with proton.scope("step"):
        launch()
    proton.finalize()
    (event,) = json.loads(Path("p.chrome_trace").read_text())["traceEvents"]
    assert event["ph"] == "X" and event["dur"] > 0 and event["args"]["call_path"] == ["step", "scale"]
    proton.start("p", data="trace")
    launch()
    proton.finalize(output_format="hatchet")
    assert content()[0]["children"][0]["metrics"]["count"] == 1


def test_many_launches_are_added_up_on_the_way(monkeypatch):
    monkeypatch.setattr(sessions, "_FULL", 3)
    assert profiled(lambda: [launch() for _ in range(10)])["scale"]["count"] == 10


def test_disabled():
    knobs.proton.disable = True
    assert proton.start("p") is None
    proton.deactivate(), proton.activate(), proton.finalize()
    assert not os.path.exists("p.hatchet")


@pytest.mark.parametrize("options, message", [
    ({"context": "stack"}, "no context 'stack' here: it is one of 'shadow', 'python'"),
    ({"data": "table"}, "no data 'table'"),
    ({"hook": "tritium"}, "no hook 'tritium'"),
    ({"backend": "roctracer"}, "no backend 'roctracer' here: it is one of None, 'cupti'; CPU kernels need none"),
    ({"mode": "pcsampling"}, "no mode 'pcsampling' here"),
    ({"name": "nowhere/p"}, "cannot be written to 'nowhere/p'"),
])  # fmt: skip
def test_mistakes_of_start(options, message):
    with pytest.raises(ValueError, match=message):
        proton.start(**options)


def test_mistakes_of_scopes():
    for call, message in ((proton.exit_scope, "no scope is open"), (proton.exit_state, "no state is open")):
        with pytest.raises(RuntimeError, match=message):
            call()
    with pytest.raises(TypeError, match="the metric 'x' of a scope is a number"):
        proton.enter_scope("a", metrics={"x": "y"})
    with pytest.raises(TypeError, match="the name of a scope is a text"):
        proton.enter_scope(3)
    with pytest.raises(ValueError, match="there is no session 99"):
        proton.deactivate(99)
    with pytest.raises(ValueError, match="no output format 'pdf'"):
        proton.finalize(output_format="pdf")


# -- the viewer --------------------------------------------------------------------------------------------------------


def node(name, metrics, *children):
    return {"frame": {"name": name, "type": "function"}, "metrics": metrics, "children": list(children)}


GPU = {"arch": "90", "num_sms": 100, "clock_rate": 1_000_000, "memory_clock_rate": 1_000_000, "bus_width": 4000}
KERNEL = {"count": 2, "time (ns)": 4000, "flops16": 4.096e8, "bytes": 1e6, "device_id": "0", "device_type": "CUDA"}
TREE = [node("ROOT", {}, node("layer", {"cpu_time (ns)": 9000}, node("matmul", KERNEL), node(
    "add", {"count": 6, "time (ns)": 12000, "bytes": 3e6, "device_id": "0", "device_type": "CUDA"})),
    node("/x/y.py:run@3", {"count": 1, "time (ns)": 1000})), {"CUDA": {"0": GPU}}]  # fmt: skip


@pytest.fixture
def file():
    Path("t.hatchet").write_text(json.dumps(TREE))
    return "t.hatchet"


def test_derived_metrics(file):
    tree, names = viewer.parse(["time/us", "avg_time/us", "tflop16/s", "gbyte/s", "time/%", "count", "util"], file)
    values = {found.name: found.values for found in tree.root.walk()}
    assert names[0] == "time/us" and values["ROOT"]["time/us"] == 17 and values["layer"]["time/us"] == 16
    assert values["add"]["avg_time/us"] == 2 and values["layer"]["count"] == 8
    assert values["matmul"]["tflop16/s"] == pytest.approx(102.4) and values["add"]["gbyte/s"] == pytest.approx(250)
    assert values["layer"]["time/%"] == pytest.approx(1600 / 17)
    # 100 multiprocessors of 4096 operations at 1 GHz; 1000 bytes per nanosecond
    assert [values[name]["util"] for name in ("matmul", "add")] == pytest.approx([1000 / 4000, 3000 / 12000])


def test_trees_are_printed(file, capsys):
    viewer.print_tree(*viewer.parse(["time/us"], file))
    assert capsys.readouterr().out == (
        "17.000 ROOT\n├─ 16.000 layer\n│  ├─ 4.000 matmul\n│  └─ 12.000 add\n└─ 1.000 /x/y.py:run@3\n")
    viewer.print_tree(*viewer.parse(["time/us"], file), depth=1, format="file_function", print_sorted=True)
    assert capsys.readouterr().out.startswith("17.000 ROOT\n├─ 16.000 layer\n└─ 1.000 y.py:run\n\nby time/us:\n")


@pytest.mark.parametrize("options, left", [
    ({"include": "^add$"}, ["ROOT", "layer", "add"]),
    ({"exclude": "layer"}, ["ROOT", "/x/y.py:run@3"]),
    ({"threshold": 0.5}, ["ROOT", "layer", "add"]),
    ({"include": "nothing"}, ["ROOT"]),
])  # fmt: skip
def test_parts_of_trees(file, options, left):
    tree, _ = viewer.parse(["time/us"], file, **options)
    assert [found.name for found in tree.root.walk()] == left


def test_frames_of_pandas(file):
    pytest.importorskip("pandas")
    tree, inclusive, exclusive, devices = viewer.read(file)
    assert exclusive == [] and {"time (ns)", "flops16"} <= set(inclusive) and devices["CUDA"]["0"]["num_sms"] == 100
    found = tree.filter("MATCH ('*', c) WHERE c.'name' =~ '.*mat.*' AND c IS LEAF").dataframe
    assert found["time (ns)"].sum() == 4000 and found["bytes"].sum() == 1e6
    kernels = tree.filter(lambda row: row["name"] in ("matmul", "add")).dataframe.query("name in ('matmul', 'add')")
    rows = tree.dataframe.query("name == 'matmul'").assign(device_id="0", device_type="CUDA")
    assert len(kernels) == 2 and viewer.get_min_time_flops(rows, devices)["min_time"].tolist() == [1000.0]
    assert viewer.get_min_time_bytes(rows, devices)["min_time"].tolist() == [1000.0]
    with pytest.raises(ValueError, match="the viewer cannot read"):
        tree.filter("MATCH ('*', c) WHERE c.'time' > 3")


def test_pages(file):
    viewer.write_html(*viewer.parse(["time/us"], file), "t.html")
    assert "12.000 add" in Path("t.html").read_text()


@pytest.mark.parametrize("arguments, line", [
    (["missing.hatchet"], "proton-viewer: cannot open 'missing.hatchet': No such file or directory"),
    (["-m", "time/hours", "t.hatchet"], "proton-viewer: t.hatchet has no metric 'time/hours': it has time/s, "),
    (["wrong.hatchet"], "proton-viewer: wrong.hatchet is no profile of proton"),
    (["-i", "(", "t.hatchet"], "proton-viewer: "),
])  # fmt: skip
def test_mistakes_of_the_viewer_are_one_line(file, capsys, arguments, line):
    Path("wrong.hatchet").write_text("{}")
    assert viewer.main(arguments) == 2
    said = capsys.readouterr().err
    assert said.startswith(line) and said.count("\n") == 1


def test_the_viewer_compares_and_lists(file, capsys):
    other = json.loads(json.dumps(TREE))
    other[0]["children"][0]["children"][0]["metrics"]["time (ns)"] = 3000
    Path("o.hatchet").write_text(json.dumps(other))
    assert viewer.main(["-m", "time/us", "--diff-profile", "o.hatchet", "t.hatchet"]) == 0
    assert "├─ 1.000 matmul" in capsys.readouterr().out
    assert viewer.main(["--list", "t.hatchet"]) == 0
    assert {"time/ms", "tflop16/s", "gbyte/s", "util", "cpu_time/s"} <= set(capsys.readouterr().out.split())


# -- commands, and a program as it is ----------------------------------------------------------------------------------

PROGRAM = """
import sys
import numpy as np
import triton, triton.language as tl
import triton.profiler as proton
import triton.profiler.viewer as proton_viewer

@triton.jit(launch_metadata=lambda grid, metadata, args: {"name": "fill", "flops16": 100, "bytes": 400})
def fill_kernel(x, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(x + i, 1.0, mask=i < n)

def bench():
    with proton.scope("bench"):
        fill_kernel[(2,)](np.zeros(100, np.float32), 100, B=64)

session = proton.start("own", hook="triton")
proton.deactivate(0)
bench()
proton.activate(0)
bench()
proton.finalize()
if len(sys.argv) == 1:
    tree, metrics = proton_viewer.parse(["tflop16/s", "time/ms"], "own.hatchet")
    proton_viewer.print_tree(tree, metrics)
print("done", sys.argv[1:])
"""


def run(*command):
    stand_in = ROOT / "tritium" / "tools" / "stand_in"  # what TRITIUM_AS_TRITON=1 puts there where tritium is installed
    env = {**os.environ, "PYTHONPATH": f"{stand_in}{os.pathsep}{ROOT}"}
    return subprocess.run([sys.executable, *command], env=env, text=True, capture_output=True)


def test_a_program_runs_as_it_is():
    Path("program.py").write_text(PROGRAM)
    done = run("-m", "tritium", "run", "program.py")
    assert done.returncode == 0 and "bench" in done.stdout and done.stdout.endswith("done []\n"), done.stderr
    assert paths(content("own")[0])["bench/fill"]["flops16"] == 100


@pytest.mark.parametrize("package", ["triton", "tritium"])
def test_the_command_has_the_one_session(package):
    Path("program.py").write_text(PROGRAM)
    done = run("-m", f"{package}.profiler.proton", "-n", "cl", "-k", "triton", "program.py", "--quick")
    assert done.returncode == 0 and done.stdout == "done ['--quick']\n", done.stderr
    assert not os.path.exists("own.hatchet") and paths(content("cl")[0])["bench/fill"]["count"] == 1


@pytest.mark.parametrize("arguments, line", [
    ([], "proton: name a script, or pytest; --help says more\n"),
    (["missing.py"], "proton: cannot open 'missing.py': no such file\n"),
    (["-c", "stack", "x.py"], "proton: argument -c/--context: invalid choice"),
    (["-n", "nowhere/p", "program.py"], "proton: a profile cannot be written to"),
])  # fmt: skip
def test_mistakes_of_the_command_are_one_line(arguments, line):
    Path("program.py").write_text(PROGRAM)
    done = run("-m", "tritium.profiler.proton", *arguments)
    assert done.returncode == 2 and done.stderr.startswith(line) and done.stderr.count("\n") == 1


def test_the_command_keeps_the_status_and_writes_what_a_failing_program_did():
    Path("fails.py").write_text("import sys\nsys.exit(4)\n")
    done = run("-m", "tritium.profiler.proton", "-n", "f", "fails.py")
    assert done.returncode == 4 and content("f")[0]["children"] == []
    Path("raises.py").write_text("raise KeyError('x')\n")
    done = run("-m", "tritium.profiler.proton", "-n", "r", "raises.py")
    assert done.returncode == 1 and "KeyError" in done.stderr and "compat" not in done.stderr
