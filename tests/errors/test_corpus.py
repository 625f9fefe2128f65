"""Malformed programs end in a result or in a clear error: no crash, no hang, no accident inside of tritium.

A few of every kind always; with TRITIUM_TEST_LONG=1 all of them (over 1,700, several minutes). The programs run in
another process, which is started again after one that it did not survive.
"""

import collections
import json
import os
import queue
import subprocess
import sys
import threading

import pytest

from .corpus.generate import HEAD, Case, case, names
from .corpus.judge import Judge

LONG = os.environ.get("TRITIUM_TEST_LONG", "0") not in ("", "0")
SHARE = 1.0 if LONG else 0.035
HANGS = 240.0  # seconds after which a program is taken to hang, on a slow and busy machine too
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Worker:
    """The process that runs the cases from `first` on, and the lines it has written."""

    def __init__(self, first, folder):
        path = os.pathsep.join([ROOT, *filter(None, [os.environ.get("PYTHONPATH")])])
        env = {**os.environ, "PYTHONPATH": path, "TRITIUM_CACHE_DIR": str(folder / "cache"),
               "TRITIUM_REPRODUCER_PATH": str(folder / "defects"), "TRITON_INTERPRET": "0"}
        self.process = subprocess.Popen([sys.executable, "-m", "tests.errors.corpus", str(SHARE), str(first)], env=env,
                                        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.lines = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(json.loads(line))
        self.lines.put(None)

    def next(self):
        """The next line; None at the end of the process, "hang" if nothing comes."""
        try:
            return self.lines.get(timeout=HANGS)
        except queue.Empty:
            self.process.kill()
            return "hang"


def outcomes(folder):
    """Name -> (how it ended, what is wrong about that), for every case."""
    count, first, found = len(names(SHARE)), 0, {}
    while first < count:
        worker, begun = Worker(first, folder), None
        while isinstance(line := worker.next(), list):
            if len(line) == 2:
                begun = line
            else:
                _, name, ended, faults = line
                found[name] = ended, faults
                begun, first = None, line[0] + 1
        status = worker.process.wait()
        if begun is not None:  # one that did not come to its end; the others still have their turn
            how = "it hangs" if line == "hang" else f"the process ended with status {status}"
            found[begun[1]] = "none", [how]
            first = begun[0] + 1
        elif first < count:
            pytest.fail(f"the worker ended with status {status} before case {first}")
    return found


def test_malformed_programs_end_in_a_result_or_a_clear_error(tmp_path):
    found = outcomes(tmp_path)
    assert len(found) == len(names(SHARE)) >= (1000 if LONG else 50)
    wrong = {name: faults for name, (_, faults) in found.items() if faults}
    kinds = collections.Counter(ended for ended, _ in found.values())
    print(f"{len(found)} programs: {dict(kinds)}")
    assert not wrong, "\n".join(f"{name}: {'; '.join(faults)}" for name, faults in wrong.items())
    assert len(kinds) > 5 and kinds["result"] < len(found) / 2  # most of them are wrong, in many ways


def test_cases_are_the_same_every_time():
    assert [case(name) for name in names(0.01)] == [case(name) for name in names(0.01)]
    assert len(set(names())) == len(names()) >= 1000


def test_the_judge_sees_accidents(tmp_path):
    """The checks can fail: a program that trips over tritium's own code is noticed."""
    judge = Judge(str(tmp_path))
    slip = f"{HEAD}from tritium.ir.types import parse_type\nparse_type(3)\n"
    ended, faults = judge.run(Case("slip", "program", slip))
    assert ended != "result" and faults
    assert judge.run(Case("fine", "program", HEAD)) == ("result", [])
    assert judge.run(Case("told", "program", f"{HEAD}triton.jit(3)\n")) == ("TypeError", [])
