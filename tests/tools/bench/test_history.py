"""Runs on disk, the clock that takes turns, and what is seen of the machine."""

import json
import threading

import pytest

from tritium.tools.bench import history, machine
from tritium.tools.bench.measuring import HostClock, measure
from tritium.tools.command import UsageError


def test_runs_are_appended_and_read(tmp_path):
    path = str(tmp_path / "deep" / "history.jsonl")
    assert history.read(path) == []
    for id in ("a", "b"):
        history.append({"id": id, "rows": [{"name": "x"}]}, path)
    assert [run["id"] for run in history.read(path)] == ["a", "b"]


def test_damaged_lines_and_later_formats_are_passed_over(tmp_path):
    path = tmp_path / "history.jsonl"
    good = json.dumps({"id": "good", "rows": [], "format": 1})
    path.write_text("\n".join(["{", "[]", '{"id": 1, "rows": []}', good, '{"id": "x", "rows": [], "format": 99}']))
    assert [run["id"] for run in history.read(str(path))] == ["good"]


def test_a_file_with_one_run_is_read_as_one(tmp_path):
    path = tmp_path / "run.json"
    path.write_text(json.dumps({"id": "one", "rows": []}, indent=1))
    assert [run["id"] for run in history.read(str(path))] == ["one"]


def test_threads_append_whole_lines(tmp_path):
    path = str(tmp_path / "h.jsonl")
    text = "y" * 20000
    threads = [threading.Thread(target=lambda k=k: history.append({"id": str(k), "rows": [], "text": text}, path))
               for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(run["id"] for run in history.read(path)) == sorted(map(str, range(8)))


RUNS = [{"id": "20260101-000000-aaa", "label": "old"}, {"id": "20260102-000000-bbb", "label": "new"},
        {"id": "20260103-000000-ccc", "label": "new"}]


@pytest.mark.parametrize("wanted, id", [("-1", "ccc"), ("0", "aaa"), ("new", "ccc"), ("old", "aaa"),
                                        ("20260102", "bbb"), ("20260101-000000-aaa", "aaa")])
def test_runs_are_found_by_number_label_and_id(wanted, id):
    assert history.pick(RUNS, wanted)["id"].endswith(id)


@pytest.mark.parametrize("wanted, said", [("7", "has 3 runs"), ("-9", "has 3 runs"), ("nwe", "did you mean 'new'")])
def test_runs_that_are_not_there(wanted, said):
    with pytest.raises(UsageError, match=said):
        history.pick(RUNS, wanted)


def test_ids_sort_by_time():
    assert history.new_id(1e9) < history.new_id(1.1e9) and history.new_id(1e9).startswith("20010909-014640-")


# ---------------------------------------------------------------------------------------------------------------------
# The clock


class Counted(HostClock):
    """A clock that times nothing: a call takes as many seconds as its function returns."""

    def __init__(self):
        super().__init__()
        self.order = []

    def sample(self, fn, calls):
        self.order.append(fn())
        return float(self.order[-1])

    def calls(self, fn):
        return 1


def test_rivals_take_turns():
    clock, rounds = Counted(), []
    samples = measure({"a": lambda: 1, "b": lambda: 2, "c": lambda: 3}, clock, iterations=20,
                      each_round=lambda: rounds.append(len(clock.order)))
    assert samples == {"a": [1.0] * 20, "b": [2.0] * 20, "c": [3.0] * 20}
    assert all(sorted(clock.order[k:k + 3]) == [1, 2, 3] for k in range(0, 60, 3)) and len(rounds) == 20
    assert len({tuple(clock.order[k:k + 3]) for k in range(0, 60, 3)}) > 1  # in changing order


def test_warmup_calls_come_first_and_are_not_timed():
    calls = []
    measure({"a": lambda: calls.append(1) or 1}, Counted(), iterations=2, warmup=7)
    assert len(calls) == 7 + 2


def test_there_are_five_rounds_however_short_the_time():
    assert len(measure({"a": lambda: 1}, Counted(), seconds=0)["a"]) == 5


def test_short_calls_are_timed_in_batches():
    assert HostClock().calls(lambda: None) > 100


# ---------------------------------------------------------------------------------------------------------------------
# The machine

STAT = "cpu  9 9 9 9\ncpu0 100 10 40 900 5 1 2 7 3 0\ncpu1 200 0 0 0 0 0 0 0 0 0\nintr 5\n"


def test_busy_time_is_that_of_the_processors_at_hand():
    assert machine.busy_seconds(STAT, {0}, 10) == 16.0
    assert machine.busy_seconds(STAT, {0, 1}, 10) == 36.0 and machine.busy_seconds("", {0}, 10) == 0.0


@pytest.mark.parametrize("noise, reasons", [
    (machine.Noise(0.1, 2, 0.05, 1e-3), 0), (machine.Noise(0.5, 2, 0.05, 1e-3), 1),
    (machine.Noise(0.5, 64, 0.05, 1e-3), 0), (machine.Noise(0.0, 2, 0.3, 1e-3), 1),
    (machine.Noise(1.0, 2, 0.3, 1e-3), 2),
])
def test_what_is_noise(noise, reasons):
    assert len(noise.reasons) == reasons


def test_a_watch_without_ticks_says_nothing_of_fixed_work():
    assert machine.Watch().noise().spread == 0.0


def test_a_machine_is_described():
    found = machine.describe("cpu")
    assert found["device"] and found["versions"]["tritium"] and "/" not in found["versions"]["tritium"]
