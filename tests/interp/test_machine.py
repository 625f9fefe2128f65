"""The machine: observers, errors with a place, regions, printing."""

import numpy as np
import pytest

from tritium.errors import InterpreterError
from tritium.interp import assembly
from tritium.interp.machine import AccessError, Machine, interpret
from tritium.interp.memory import Memory
from tritium.interp.observe import Observer
from tritium.ir import types as T
from tritium.ir.core import Loc
from tritium.ir.text import parse_module

COPY = """kernel @copy(%x: ptr<f32>, %y: ptr<f32>) {
  %pid = program_id {axis=0} : i32
  %four = constant {value=4, type=i32} : i32
  %base = mul %pid, %four : i32
  %b4 = splat %base {shape=(4,)} : tile<4xi32>
  %i = arange {start=0, end=4} : tile<4xi32>
  %at = add %b4, %i : tile<4xi32>
  %xs = splat %x {shape=(4,)} : tile<4xptr<f32>>
  %ys = splat %y {shape=(4,)} : tile<4xptr<f32>>
  %px = addptr %xs, %at : tile<4xptr<f32>>
  %py = addptr %ys, %at : tile<4xptr<f32>>
  %v = load %px : tile<4xf32>
  store %py, %v
}"""


class Recorder(Observer):
    def __init__(self):
        self.events = []

    def begin(self, m):
        self.events.append(("begin", m.pid))

    def end(self, m):
        self.events.append(("end", m.pid))

    def before(self, m, op, inputs):
        self.events.append(("before", op.kind.name, len(inputs)))

    def after(self, m, op, inputs, outputs):
        self.events.append(("after", op.kind.name, [x.shape for x in outputs]))


def test_observers_see_every_program_and_op():
    x, y, seen = np.arange(8, dtype=np.float32), np.zeros(8, np.float32), Recorder()
    interpret(parse_module(COPY), [x, y], (2,), observers=[seen])
    assert y.tolist() == x.tolist()
    assert [e for e in seen.events if e[0] in ("begin", "end")] == [
        ("begin", (0, 0, 0)), ("end", (0, 0, 0)), ("begin", (1, 0, 0)), ("end", (1, 0, 0))]
    names = [e[1] for e in seen.events if e[0] == "before"]
    assert names[:12] == ["program_id", "constant", "mul", "splat", "arange", "add", "splat", "splat", "addptr",
                          "addptr", "load", "store"]
    assert ("after", "load", [(4,)]) in seen.events and ("after", "store", []) in seen.events


def test_observers_see_inside_loops():
    module = parse_module("""kernel @f(%n: i32) {
      %zero = constant {value=0, type=i32} : i32
      %one = constant {value=1, type=i32} : i32
      %r = for %zero, %n, %one, %zero : i32 {
      ^(%i: i32, %a: i32):
        %b = add %a, %i : i32
        yield %b
      }
    }""")
    seen = Recorder()
    interpret(module, [5], observers=[seen])
    assert sum(e[:2] == ("after", "add") for e in seen.events) == 5
    assert seen.events[-2][:2] == ("after", "for")  # once its turns are over


def test_out_of_bounds_names_program_lane_and_argument():
    """S32: which program, which element, of which argument."""
    x, y = np.zeros(6, np.float32), np.zeros(8, np.float32)
    with pytest.raises(AccessError) as caught:
        interpret(parse_module(COPY), [x, y], (2,))
    error = caught.value
    assert error.pid == (1, 0, 0) and error.index == (2,) and error.argument.name == "x"
    assert error.address == x.ctypes.data + 24
    text = str(error)
    assert "load outside of memory: program (1, 0, 0) in lane (2,) reads 4 bytes" in text
    assert "as 1 other lanes do" in text and "past the end of `x` (6 elements of float32)" in text
    assert "it would be element 6" in text and "hint: mask the lanes" in text
    assert isinstance(error, InterpreterError)


def test_the_error_points_at_the_source():
    module = parse_module("kernel @f(%x: ptr<i32>) {\n  %v = load %x : i32\n}")
    module.body.ops[0].loc = Loc("k.py", 12, 4, 12, 20, "f")
    with pytest.raises(AccessError, match=r"--> k.py:12:5"):
        interpret(module, [None])


def test_an_observer_may_let_faults_pass():
    class Collect(Observer):
        faults = 0

        def fault(self, m, op, fault):
            self.faults += int(fault.bad.sum())
            return True

    x, y, watch = np.arange(6, dtype=np.float32), np.full(8, 9, np.float32), Collect()
    interpret(parse_module(COPY), [x, y], (2,), observers=[watch])
    assert watch.faults == 2
    assert y.tolist() == [0, 1, 2, 3, 4, 5, 0, 0]


def test_numbers_become_arguments():
    module = parse_module("""kernel @f(%out: ptr<i64>, %a: i8, %b: i1, %c: u64) {
      %x = cast %a {to=i64} : i64
      %y = cast %b {to=i64} : i64
      %z = cast %c {to=i64} : i64
      %s = add %x, %y : i64
      %t = add %s, %z : i64
      store %out, %t
    }""")
    out = np.zeros(1, np.int64)
    interpret(module, [out, 300, True, 2**64 - 1])
    assert out[0] == 44 + 1 - 1


def test_pointers_made_from_integers():
    module = parse_module("""kernel @f(%table: ptr<i64>, %out: ptr<f32>) {
      %a = load %table : i64
      %p = cast %a {to=ptr<f32>} : ptr<f32>
      %v = load %p : f32
      store %out, %v
    }""")
    hidden, out = np.array([2.5], np.float32), np.zeros(1, np.float32)
    interpret(module, [np.array([hidden.ctypes.data]), out])
    assert out[0] == 2.5


def test_pointers_loaded_from_memory():
    module = parse_module("""kernel @f(%table: ptr<ptr<f32>>, %out: ptr<f32>) {
      %p = load %table : ptr<f32>
      %v = load %p : f32
      store %out, %v
    }""")
    hidden, out = np.array([2.5], np.float32), np.zeros(1, np.float32)
    interpret(module, [np.array([hidden.ctypes.data], np.uint64), out])
    assert out[0] == 2.5


# --- regions --------------------------------------------------------------------------------------------------------
def region(text):
    """The region of a one-op kernel that maps it."""
    module = parse_module(f"""kernel @f(%x: tile<4xi32>) {{
      %0 = map %x : tile<4xi32> {{
      ^(%a: i32):
        {text} }}
    }}""")
    return module.body.ops[0].regions[0]


class Calls(Observer):
    def __init__(self):
        self.count = 0

    def after(self, m, op, inputs, outputs):
        self.count += 1


def test_straight_regions_run_once_for_all_elements():
    block, watch = region("%b = mul %a, %a : i32\n yield %b\n"), Calls()
    out, = Machine(observers=[watch]).map_region(block, [np.arange(6, dtype=np.int32).reshape(2, 3)])
    assert out.tolist() == [[0, 1, 4], [9, 16, 25]] and watch.count == 1


def test_branches_become_selects():
    block = region("%z = constant {value=0, type=i32} : i32\n %c = lt %a, %z : i1\n"
                   "%r = if %c : i32 {\n %n = sub %z, %a : i32\n yield %n\n } {\n yield %a\n }\n yield %r\n")
    watch = Calls()
    out, = Machine(observers=[watch]).map_region(block, [np.array([-3, 4, 0, -1], np.int32)])
    assert out.tolist() == [3, 4, 0, 1] and watch.count == 4  # constant, lt, sub, select


def test_loops_run_element_by_element():
    block = region("%z = constant {value=0, type=i32} : i32\n %o = constant {value=1, type=i32} : i32\n"
                   "%r = for %z, %a, %o, %z : i32 {\n ^(%i: i32, %s: i32):\n %t = add %s, %i : i32\n yield %t\n }\n"
                   "yield %r\n")
    out, = Machine().map_region(block, [np.array([0, 1, 4, 5], np.int32)])
    assert out.tolist() == [0, 0, 6, 10]


def test_a_constant_region_fills_the_shape():
    block = region("%z = constant {value=7, type=i32} : i32\n yield %z\n")
    out, = Machine().map_region(block, [np.zeros((2, 2), np.int32)])
    assert out.tolist() == [[7, 7], [7, 7]]


def test_values_are_freed_after_their_last_use():
    module = parse_module("""kernel @f(%x: i32) {
      %t = splat %x {shape=(4,)} : tile<4xi32>
      %u = add %t, %t : tile<4xi32>
      %v = add %u, %u : tile<4xi32>
    }""")
    machine = Machine()
    machine.run_kernel(module, [np.array(1, np.int32)], (0, 0, 0))
    assert machine._plans[module.body].slots == [None] * 4


# --- printing and asserting -----------------------------------------------------------------------------------------
def test_print(capsys):
    module = parse_module("""kernel @f(%n: i32) {
      %i = arange {start=8, end=12} : tile<4xi32>
      %h = constant {value=1.5, type=f32} : f32
      print %i {prefix=" x: "}
      print %h, %n {prefix=": "}
      print {prefix=" here"}
      print %n {prefix=" n: ", hex=True}
    }""")
    interpret(module, [-1], (1, 2))
    out = capsys.readouterr().out.split("\n")
    assert out[:4] == [f"pid (0, 0, 0) idx ({k}) x: {k + 8}" for k in range(4)]
    assert out[4:8] == ["pid (0, 0, 0) idx (): (operand 0) 1.500000", "pid (0, 0, 0) idx (): (operand 1) -1",
                        "pid (0, 0, 0) here", "pid (0, 0, 0) idx () n: 0xffffffff"]
    assert out[8].startswith("pid (0, 1, 0) idx (0)")


def test_print_aligns_indices(capsys):
    module = parse_module("kernel @f() {\n  %i = arange {start=0, end=16} : tile<16xi32>\n"
                          "  %t = reshape %i {shape=(1, 16)} : tile<1x16xi32>\n  print %t {prefix=\" \"}\n}")
    interpret(module, [])
    out = capsys.readouterr().out.split("\n")
    assert out[3] == "pid (0, 0, 0) idx (0,  3) 3" and out[15] == "pid (0, 0, 0) idx (0, 15) 15"


def test_assertions():
    module = parse_module("""kernel @f(%n: i32) {
      %i = arange {start=0, end=4} : tile<4xi32>
      %m = splat %n {shape=(4,)} : tile<4xi32>
      %c = lt %i, %m : tile<4xi1>
      assert %c {message="too far"}
    }""")
    interpret(module, [4])
    with pytest.raises(AssertionError, match=r"failed in program \(0, 0, 0\) in lane \(2,\): too far"):
        interpret(module, [2])


def test_masked_assertions():
    module = parse_module("""kernel @f(%c: i1, %m: i1) {
      assert %c, %m {message=""}
    }""")
    interpret(module, [False, False])
    with pytest.raises(AssertionError):
        interpret(module, [False, True])


def test_assumptions_are_checked():
    module = parse_module("kernel @f(%c: i1) {\n  assume %c\n}")
    interpret(module, [True])
    with pytest.raises(AssertionError, match=r"tl.assume"):
        interpret(module, [False])


def test_assembly_is_run_by_who_registered():
    module = parse_module('kernel @f(%p: ptr<i32>) {\n  %0 = load %p : i32\n  %1 = inline_asm %0 {asm="inc", '
                          'constraints="=r,r", types=(i32,), pure=True, pack=1} : i32\n  store %p, %1\n}')
    x = np.array([4], np.int32)
    before = assembly.register(lambda op, xs: [x + 1 for x in xs])
    try:
        interpret(module, [x])
        assert x[0] == 5
        assembly.register(None)
        with pytest.raises(InterpreterError, match="'inc'"):
            interpret(module, [x])
    finally:
        assembly.register(before)


def test_programs_run_x_outermost():
    class Order(Observer):
        def __init__(self):
            self.pids = []

        def begin(self, m):
            self.pids.append(m.pid)

    order = Order()
    interpret(parse_module("kernel @f() {\n}"), [], (2, 1, 2), observers=[order])
    assert order.pids == [(0, 0, 0), (0, 0, 1), (1, 0, 0), (1, 0, 1)]


def test_arguments_must_match():
    with pytest.raises(ValueError, match="zip"):
        interpret(parse_module("kernel @f(%x: i32) {\n}"), [])


def test_null_pointers():
    assert Machine(Memory()).argument(T.Ptr(T.f32), None) == 0


def test_observers_see_calls_and_what_happens_inside():
    module = parse_module("""kernel @k(%x: i32) { %y = call %x {callee="f", returns=(i32,), memory=""} : i32 }
    function @f(%x: i32) { %y = call %x {callee="g", returns=(i32,), memory=""} : i32 yield %y }
    function @g(%x: i32) { %y = add %x, %x : i32 yield %y }""")
    seen = []

    class Watch(Observer):
        def after(self, m, op, inputs, outputs):
            seen.append((op.kind.name, [call.attrs["callee"] for call in m.calls], int(outputs[0])))

    interpret(module, [4], observers=[Watch()])
    assert seen == [("add", ["f", "g"], 8), ("call", ["f"], 8), ("call", [], 8)]
