"""Checks before accesses: what the pass writes, and what the interpreter makes of it."""

import numpy as np

from tritium.interp.machine import interpret
from tritium.ir.text import parse_module
from tritium.passes import instrument
from tritium.passes.instrument import rereads, sites, synchronises

SUM = """kernel @f(%x: ptr<i32>, %y: ptr<i32>, %n: i32) {
  %0 = arange {start=0, end=8} : tile<8xi32>
  %1 = splat %n {shape=(8,)} : tile<8xi32>
  %2 = mul %0, %1 : tile<8xi32>
  %3 = splat %x {shape=(8,)} : tile<8xptr<i32>>
  %4 = addptr %3, %2 : tile<8xptr<i32>>
  %5 = load %4 : tile<8xi32>
  %6 = splat %y {shape=(8,)} : tile<8xptr<i32>>
  %7 = addptr %6, %0 : tile<8xptr<i32>>
  store %7, %5
}"""


def test_what_fails_a_check_is_left_out_by_the_interpreter_too():
    module = instrument(parse_module(SUM))
    x, y, context = np.arange(16, dtype=np.int32), np.full(8, -1, np.int32), np.zeros(1, np.int8)
    interpret(module, [x, y, 2, context])
    assert y.tolist() == [0, 2, 4, 6, 8, 10, 12, 14]
    interpret(module, [x, y, 3, context])
    assert y.tolist() == [0, 3, 6, 9, 12, 15, 0, 0]


def test_the_facts_of_an_instrumented_module():
    module = instrument(parse_module(SUM))
    assert [(site.access, site.origin, site.shape) for site in sites(module)] == [("load", 0, (8,)), ("store", 1, (8,))]
    assert [len(op.operands) for op in module.body.ops if op.kind.name == "check"] == [3, 2]  # one index may overflow
    assert rereads(module) == [] and not synchronises(module)


WAITS = """kernel @f(%lock: ptr<i32>, %x: ptr<i32>) {
  %0 = constant {value=0, type=i32} : i32
  while {
    %1 = atomic_cas %lock, %0, %0 : i32
    %2 = ne %1, %0 : i1
    yield %2
  } {
    yield
  }
  store %x, %0
  %3 = load %x : i32
  store %x, %3
}"""


def test_a_loop_that_waits_gets_a_bound():
    module = instrument(parse_module(WAITS))
    loop, = (op for op in module.body.ops if op.kind.name == "while")
    assert [op.kind.name for op in loop.regions[0].ops][-3:] == ["patience", "and", "yield"]
    assert synchronises(module) and rereads(module) == [1]
    assert [site.access for site in sites(module)] == ["swap", "wait", "store", "load", "store"]
    x = np.array([5], np.int32)
    interpret(module, [np.zeros(1, np.int32), x, np.zeros(1, np.int8)])
    assert x.tolist() == [0]
