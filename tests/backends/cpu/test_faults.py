"""A CPU kernel that touches memory out of bounds dies with a report, and nobody else's faults are touched."""

import json
import os
import platform
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tritium.backends.cpu.lower import fault_record
from tritium.backends.cpu.lower.function import lower
from tritium.backends.cpu.runtime import faults
from tritium.backends.cpu.runtime.job import before_arena
from tritium.backends.llvm.target import assembly, cpu_target
from tritium.ir.text import parse_module

SCRIPT = Path(__file__).with_name("faulty.py")
LINES = SCRIPT.read_text().splitlines()
PAGE = os.sysconf("SC_PAGESIZE")

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() not in ("x86_64", "aarch64"),
    reason="what other systems hand to a signal handler is not known")


def line_of(text):
    """The line of the script that contains a text."""
    return next(n for n, line in enumerate(LINES, 1) if text in line)


SCENARIOS = [
    *(("far_store", {"TRITIUM_NUM_THREADS": n}) for n in ("1", "3")), ("far_store", {"TRITIUM_FAULT_HANDLER": "0"}),
    *(("bad_program", {"TRITIUM_NUM_THREADS": n}) for n in ("1", "2", "5")),
    ("all_programs", {"TRITIUM_NUM_THREADS": "5"}), ("over_the_heap", {"TRITIUM_NUM_THREADS": "1"}),
    ("faulthandler_before", {"TRITIUM_NUM_THREADS": "1"}),  # Python's handler serves the first thread that faults alone
    *((name, {}) for name in ("far_load", "inlined", "called", "no_address", "null", "guarded", "guarded_below",
                              "read_only", "truncated", "deep", "in_a_thread", "in_a_fork", "faulthandler_after",
                              "handler_before", "outside", "sent")),
]  # fmt: skip


@pytest.fixture(scope="module")
def ends():
    """{(scenario, its environment): (status, what it wrote)}. Each runs in a process of its own, forked from one that
    has done no more than import: importing takes longest."""
    others = ("PYTHONFAULTHANDLER", "PYTHONDEVMODE", "TRITIUM_FAULT_HANDLER", "TRITON_INTERPRET")
    env = {name: value for name, value in os.environ.items() if name not in others}
    done = subprocess.run([sys.executable, SCRIPT, json.dumps(SCENARIOS)], capture_output=True, text=True, timeout=600,
                          env={**env, "PYTHONPATH": str(SCRIPT.parents[3])})
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    return {(name, *env.items()): (status, _EMULATOR.sub("", text)) for name, env, status, text in found}


_EMULATOR = re.compile(r"^qemu: uncaught target signal .*\n", re.M)  # what an emulator adds when a process dies


@pytest.fixture
def run(ends):
    """A function that gives what a scenario wrote, which ended with this status."""
    def run(scenario, status=-signal.SIGSEGV, **env):
        found, text = ends[(scenario, *env.items())]
        assert found == status, text
        return text

    return run


class Report:
    """The facts of a report."""

    def __init__(self, text):
        self.text = text
        assert text.count("kernel `") == 1, text
        self.first = next(line for line in text.splitlines() if line.startswith("kernel `"))
        found = re.search(r"kernel `(\w+)` (read from|wrote to|touched) (0x[0-9a-f]+)", text)
        self.kernel, self.verb, self.address = found.groups() if found else (None, None, None)
        self.program = re.search(r"note: in program (\(.*\)) of a grid of (\(.*\))\n", text).groups()
        self.distances = re.findall(r"the address is (\d+) bytes (past the start of|before) argument `(\w+)`", text)
        self.touched = re.findall(r"`(\w+)` is (loaded from|stored to) here\n  --> (.*):(\d+) \(in (\w+)\)", text)
        assert "hint: run it with TRITON_INTERPRET=1" in text

    def defined_at(self, kernel):
        return f"  --> {SCRIPT}:{line_of(f'def {kernel}(')} (in {kernel})\n" in self.text

    def did(self, verb):
        """Arm's kernels may not tell a write from a read."""
        return self.verb == verb or platform.machine() == "aarch64" and self.verb == "touched"


@pytest.mark.parametrize("threads", ["1", "3"])
def test_a_store_far_past_the_end(run, threads):
    report = Report(run("far_store", TRITIUM_NUM_THREADS=threads))
    assert report.kernel == "shifted_copy" and report.did("wrote to") and report.defined_at("shifted_copy")
    assert report.first.endswith("where no memory is mapped (SIGSEGV)")
    assert report.program[1] == "(4, 1, 1)"
    distance, *what = report.distances[0]  # the array that begins next to it
    assert what in (["past the start of", "x"], ["past the start of", "y"]) and int(distance) >= 1 << 31
    if what[1] == "y" or report.verb == "wrote to":  # else the machine does not tell, and `x` lies nearer
        assert ("y", "stored to", str(SCRIPT), str(line_of("# the store")), "shifted_copy") in report.touched


def test_a_load_far_past_the_end(run):
    report = Report(run("far_load"))
    assert report.kernel == "gather" and report.did("read from")
    distance, how, name = report.distances[0]  # of what lies next to `x`, where that is nearer
    assert how == "past the start of" and name in ("x", "index", "y") and (1 << 31) < int(distance) < (1 << 33)
    if report.verb == "read from":
        assert all(how == "loaded from" for _, how, *_ in report.touched)


@pytest.mark.parametrize("threads", ["1", "2", "5"])
def test_the_program_is_told_in_serial_and_in_parallel(run, threads):
    report = Report(run("bad_program", TRITIUM_NUM_THREADS=threads))
    assert report.program == ("(3, 5, 7)", "(8, 16, 8)")
    assert report.kernel == "one_bad_program"


def test_threads_that_fault_together_give_one_report(run):
    report = Report(run("all_programs", TRITIUM_NUM_THREADS="5"))
    assert report.program[1] == "(8, 16, 8)" and report.text.count("\n") == 7


def test_the_report_survives_an_overwritten_heap(run):
    report = Report(run("over_the_heap", TRITIUM_NUM_THREADS="1"))
    assert report.kernel == "shifted_copy" and report.distances[0][2] in ("x", "y")  # what the heap has last


@pytest.mark.parametrize("scenario, function, text", [
    ("inlined", "put", "# in the device function"), ("called", "put_apart", "# in the function that is called"),
])  # fmt: skip
def test_lines_in_device_functions(run, scenario, function, text):
    report = Report(run(scenario))
    assert report.defined_at("through_functions")
    assert ("y", "stored to", str(SCRIPT), str(line_of(text)), function) in report.touched


def test_the_array_before_a_guard_page_is_named(run):
    report = Report(run("guarded"))
    distance, *what = report.distances[0]
    assert what == ["past the start of", "a"] and int(distance) - PAGE in range(0, 64, 4)  # somewhere in a vector
    assert "may not be" in report.first


def test_an_address_before_an_array(run):
    report = Report(run("guarded_below"))
    assert report.distances[-1] == ("32", "before", "y")


def test_memory_that_may_only_be_read(run):
    report = Report(run("read_only"))
    assert report.did("wrote to") and "memory that may not be " in report.first
    assert report.distances[0][0] == "0"


def test_a_file_that_was_cut_short(run):
    report = Report(run("truncated", -signal.SIGBUS))
    assert report.first.endswith("memory that is not there (SIGBUS)")
    assert report.distances[0] == ("0", "past the start of", "x")


def test_null_is_near_no_argument(run):
    report = Report(run("null"))
    assert report.address == "0x0"
    assert all(how == "before" for _, how, _ in report.distances)  # the heap may begin within sight of it


@pytest.mark.skipif(platform.machine() != "x86_64", reason="other CPUs tell every address")
def test_an_address_that_cannot_be(run):
    assert "kernel `follow` used an address that no memory can have (SIGSEGV)" in Report(run("no_address")).first


def test_a_stack_that_is_used_up(run):
    assert "note: the stack of the thread is used up\n" in Report(run("deep")).text


def test_in_a_thread_of_python(run):
    assert Report(run("in_a_thread")).kernel == "shifted_copy"


def test_in_the_child_of_a_fork(run):
    text = run("in_a_fork", 0)
    assert Report(text).kernel == "shifted_copy" and "child -11" in text


# -- others who handle the signal --------------------------------------------------------------------------------------


def test_faulthandler_speaks_after_the_report(run):
    text = run("faulthandler_before", TRITIUM_NUM_THREADS="1")
    assert Report(text).kernel == "shifted_copy"
    assert text.index("kernel `") < text.index("Fatal Python error: Segmentation fault") < text.index("in far_store")


def test_faulthandler_enabled_later_speaks_first(run):
    text = run("faulthandler_after")
    # A signal that is raised again has no address, but under an emulator.
    assert re.match(r"kernel `shifted_copy` (was stopped by a signal|touched .*) \(SIGSEGV\)", Report(text).first)
    assert text.index("Fatal Python error: Segmentation fault") < text.index("kernel `")


def test_a_handler_that_was_there_is_called(run):
    assert Report(run("handler_before", signal.SIGSEGV)).kernel == "shifted_copy"


@pytest.mark.parametrize("scenario", ["outside", "sent"])
def test_faults_outside_of_kernels_are_not_ours(run, scenario):
    assert run(scenario) == ""


def test_the_handler_can_be_left_out(run):
    assert run("far_store", TRITIUM_FAULT_HANDLER="0") == ""


# -- the parts ---------------------------------------------------------------------------------------------------------


def test_a_record_tells_pointers_and_their_lines():
    module = parse_module("kernel @k(%n: i32, %p: ptr<i32>, %q: ptr<i32>) { %0 = load %p : i32  store %q, %0 }")
    assert fault_record.record(module) == b"k\0\0\1\0p\0\0\0\2\0q\0\0\0\xff\xff"


def test_many_lines_are_cut_short():
    from tritium.ir.core import Loc

    class Access:
        def __init__(self, line):
            self.loc = Loc("k.py", line, 0, line, 1, "k")

    text = fault_record._places([Access(n) for n in (1, 1, 2, 3, 4, 5, 6, 7, 8)])
    assert text.count("-->") == 6 and text.endswith("and 2 more\n")


@pytest.mark.parametrize("arch", ["x86-64-v3", "aarch64"])
def test_llvm_takes_the_handler(arch):
    target = cpu_target(arch)
    # Assembly is left out, which LLVM reads only for this machine.
    text = re.sub(r'call (\w+) asm .*"\((.*)\)', r"call \1 (...) @asm.\1(\2)", faults.faults(target))
    assert "on_fault" in assembly(f"{text}\ndeclare i64 @asm.i64(...)\ndeclare void @asm.void(...)", target)


def test_other_systems_are_left_alone():
    text = faults.faults(cpu_target("aarch64")._replace(triple="arm64-apple-darwin"))
    assert "sigaction" not in text
    assert "@tt.fault.install()" in text


def test_a_kernel_notes_itself_and_each_program():
    text = lower(parse_module("kernel @k(%p: ptr<i32>, %n: i32) { store %p, %n }"), cpu_target("aarch64")).text
    record, program = (re.search(rf"(%\S+) = getelementptr i8, ptr %arena, i64 {offset}\b", text)[1]
                       for offset in map(before_arena, ("record", "program")))
    assert len(re.findall(rf"store ptr @str\d+, ptr {record}\b", text)) == 1
    assert len(re.findall(rf"store volatile i64 %\S+, ptr {program}\b", text)) == 1
