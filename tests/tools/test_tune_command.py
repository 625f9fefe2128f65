"""The command `tritium tune`, and results of tuning that travel from one machine to another."""

import json
import os
import stat

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests import beside_a_gpu
from tritium import cache, knobs
from tritium.__main__ import main
from tritium.runtime import shipped


@triton.jit
def fill(x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, 1.0, mask=i < n)


class Clock:
    """Says that the last configuration it is asked about is the fastest, and counts."""

    def __init__(self):
        self.asked = 0

    def __call__(self, fn, quantiles):
        self.asked += 1
        fn()
        return [10.0 / self.asked] * 3


def tuner(*blocks):
    clock = Clock()
    configs = [triton.Config({"BLOCK": block}) for block in blocks or (32, 64)]
    tuned = triton.autotune(configs, key=["n"], do_bench=clock, cache_results=True)(fill)
    tuned.clock = clock
    return tuned


def launch(tuned, n=100):
    x = np.zeros(n, np.float32)
    tuned[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, n)
    assert x.sum() == n
    return tuned.best_config.kwargs["BLOCK"]


@pytest.fixture(autouse=True)
def a_machine(tmp_path, monkeypatch):
    """A cache of its own, and a way to another machine's."""
    def machine(name):
        (tmp_path / name).mkdir(mode=0o700, exist_ok=True)
        monkeypatch.setenv("TRITIUM_CACHE_DIR", str(tmp_path / name))

    machine("one")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TRITIUM_TUNED", raising=False)
    shipped._warn.cache_clear()
    return machine


def told(capsys, *arguments, status=0):
    assert main(["tune", *arguments]) == status
    return capsys.readouterr().out


def test_results_are_listed_and_shown(capsys):
    assert told(capsys, "list") == "no results of tuning are kept\n"
    launch(tuner())
    out = told(capsys, "list")
    assert "fill" in out and "BLOCK: 64" in out and "5 ms" in out and any(device in out for device in shipped.devices())
    (found,) = json.loads(told(capsys, "list", "--json"))
    assert found["function"].endswith("test_tune_command.fill") and found["key"] == ["100", "float32"]
    assert found["signature"] == "x=float32@cpu,n=int" and found["origin"] == "measured"
    shown = told(capsys, "show", "fil*")
    assert "10 ms  BLOCK: 32" in shown and "5 ms  BLOCK: 64" in shown


def test_results_travel(a_machine, capsys):
    assert launch(tuner()) == 64
    assert told(capsys, "export", "tuned.json") == "tuned.json: 1 result, 1 function, 1 device\n"
    a_machine("two")
    assert "1 for the devices of this machine" in told(capsys, "merge", "tuned.json")
    other = tuner()
    assert launch(other) == 64 and other.clock.asked == 0
    assert "merged" in told(capsys, "list")
    assert launch(other, n=200) == 64 and other.clock.asked == 2  # another key is measured


def test_a_machine_with_a_gpu_has_two_devices(a_machine, monkeypatch, capsys):
    launch(tuner())
    beside_a_gpu.install(monkeypatch)
    assert "cuda:90, multiprocessor_count 132" in shipped.device() and len(shipped.devices()) == 2
    assert len(json.loads(told(capsys, "list", "--here", "--json"))) == 1
    told(capsys, "export", "tuned.json")
    a_machine("two")
    assert "1 for the devices of this machine" in told(capsys, "merge", "tuned.json")


def test_files_are_named_in_the_environment(a_machine, monkeypatch, capsys):
    launch(tuner())
    told(capsys, "export", "tuned.json")
    a_machine("two")
    monkeypatch.setenv("TRITIUM_TUNED", os.pathsep.join(["tuned.json", ""]))
    other = tuner()
    assert launch(other) == 64 and other.clock.asked == 0


def test_the_version_of_the_compiler_does_not_matter(a_machine, monkeypatch, capsys):
    launch(tuner())
    told(capsys, "export", "tuned.json")
    told(capsys, "merge", "tuned.json")
    monkeypatch.setattr(cache, "fingerprint", lambda: "f" * 64)
    other = tuner()
    assert launch(other) == 64 and other.clock.asked == 0


def test_what_was_measured_here_comes_first(capsys):
    launch(tuner())
    told(capsys, "export", "tuned.json")
    content = json.loads(open("tuned.json").read())
    for config, times in content["records"][0]["configs_timings"]:
        times[:] = [0.1 if config["kwargs"]["BLOCK"] == 32 else 9.0] * 3
    open("tuned.json", "w").write(json.dumps(content))
    told(capsys, "merge", "tuned.json")
    assert launch(tuner()) == 64
    told(capsys, "forget", "fill")
    told(capsys, "merge", "tuned.json")
    assert launch(tuner()) == 32


@pytest.mark.parametrize("change", [
    {"device": "another GPU"}, {"source": "edited"}, {"function": "other.fill"}, {"signature": "x=float16@cpu,n=int"},
    {"key": ["101", "float32"]},
], ids=lambda change: next(iter(change)))
def test_results_of_something_else_are_not_used(a_machine, monkeypatch, capsys, change):
    launch(tuner())
    told(capsys, "export", "tuned.json")
    record = {**shipped.read("tuned.json")[0], **change}
    shipped.write("tuned.json", [record])
    a_machine("two")
    monkeypatch.setenv("TRITIUM_TUNED", "tuned.json")
    told(capsys, "merge", "tuned.json")
    other = tuner()
    launch(other)
    assert other.clock.asked == 2


def test_a_file_adds_no_configurations_and_unknown_ones_are_not_tried(a_machine, monkeypatch, capsys):
    launch(tuner(32, 64))
    told(capsys, "export", "tuned.json")
    a_machine("two")
    monkeypatch.setenv("TRITIUM_TUNED", "tuned.json")
    other = tuner(32, 128)
    assert launch(other) == 32 and other.clock.asked == 0
    none = tuner(16, 128)
    launch(none)
    assert none.clock.asked == 2


def test_files_of_two_machines_are_merged_and_the_faster_counts(capsys):
    launch(tuner())
    told(capsys, "export", "one.json")
    (record,) = shipped.read("one.json")
    for config, times in record["configs_timings"]:
        times[:] = [0.5 if config["kwargs"]["BLOCK"] == 32 else 6.0] * 3
    shipped.write("two.json", [record, {**record, "device": "a GPU"}])
    told(capsys, "forget", "fill")
    assert "2 results, 1 function, 2 devices; 1 for" in told(capsys, "merge", "one.json", "two.json")
    assert launch(tuner()) == 32
    assert len(json.loads(told(capsys, "list", "--here", "--json"))) == 1
    assert json.loads(told(capsys, "merge", "one.json", "--dry-run", "--json"))["dry_run"]


def test_forgetting(capsys):
    launch(tuner())
    told(capsys, "export", "tuned.json")
    told(capsys, "merge", "tuned.json")
    assert told(capsys, "forget", "fill") == "forgot 2 results\n" and "no results" in told(capsys, "list")
    again = tuner()
    launch(again)
    assert again.clock.asked == 2


@pytest.mark.parametrize("text", ["{", "[]", '{"records": 3}', '{"format": 9, "records": []}',
                                  '{"format": 1, "records": [{"function": "f"}]}', "[" * 100000])
def test_damaged_files_are_told_and_not_used(monkeypatch, text):
    with open("bad.json", "w") as file:
        file.write(text)
    monkeypatch.setenv("TRITIUM_TUNED", "bad.json")
    with pytest.warns(UserWarning, match="results of tuning cannot be read"):
        assert launch(tuner()) == 64
    with pytest.raises(ValueError, match=r"bad\.json"):
        shipped.read("bad.json")


def test_files_in_the_cache_that_others_could_have_written_are_not_used(a_machine, capsys):
    launch(tuner())
    told(capsys, "export", "tuned.json")
    a_machine("two")
    told(capsys, "merge", "tuned.json")
    path = shipped.merged_path(shipped.read("tuned.json")[0]["function"])
    os.chmod(path, 0o666)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o666
    other = tuner()
    with pytest.warns(UserWarning, match="results of tuning cannot be read"):
        launch(other)
    assert other.clock.asked == 2


def test_results_of_an_earlier_version_are_listed_and_not_shipped(capsys):
    launch(tuner())
    (found,) = json.loads(told(capsys, "list", "--json"))
    manager = cache.FileCacheManager(found["place"])
    writer = cache.GroupWriter(manager, "fill.autotune.json")
    writer.put(json.dumps({"key": found["key"], "configs_timings": found["configs_timings"]}), "fill.autotune.json")
    writer.close()
    assert "unknown" in told(capsys, "list") and "earlier version" in told(capsys, "show", "fill")
    assert launch(tuner()) == 64
    assert main(["tune", "export", "a.json"]) == 2 and "did not note" in capsys.readouterr().err


def test_nothing_is_looked_for_where_nothing_is_kept(a_machine, monkeypatch, capsys):
    launch(tuner())
    told(capsys, "export", "tuned.json")
    a_machine("two")
    monkeypatch.setenv("TRITIUM_TUNED", "tuned.json")
    knobs.autotuning.cache = False
    clock = Clock()
    tuned = triton.autotune([triton.Config({"BLOCK": b}) for b in (32, 64)], key=["n"], do_bench=clock)(fill)
    launch(tuned)
    assert clock.asked == 2


@pytest.mark.parametrize("arguments, said", [
    ([], "say what to do: list, show, export, merge or forget"), (["lst"], "invalid choice: 'lst'"),
    (["show"], "there are no results: launch a kernel"), (["export", "a.json"], "there are no results"),
    (["show", "fil"], "there are no results of 'fil'"), (["export", "no/such/a.json"], "there is no folder"),
    (["merge", "none.json"], "cannot open 'none.json': No such file"), (["merge", "text.json"], "text.json is no JSON"),
    (["merge", "saved.json"], "does not say of which device it is"), (["merge"], "required: FILE"),
    (["forget"], "required: NAME"),
])
def test_mistakes_are_one_line(tmp_path, capsys, arguments, said):
    (tmp_path / "text.json").write_text("hello")
    (tmp_path / "saved.json").write_text('{"function": "f", "results": []}')
    try:
        status = main(["tune", *arguments])
    except SystemExit as end:
        status = end.code
    err = capsys.readouterr().err
    assert status == 2 and said in err and err.startswith("tritium tune: ") and err.count("\n") == 1


@pytest.mark.parametrize("command", ["list", "show", "export", "merge", "forget"])
def test_help_has_an_example(capsys, command):
    with pytest.raises(SystemExit) as end:
        main(["tune", command, "--help"])
    assert end.value.code == 0 and "example: python -m tritium tune" in capsys.readouterr().out
