"""Each pass on small modules: the file names the pass, a case is input and output (see tests/cases.py)."""

from pathlib import Path

import pytest

from tests import cases
from tritium import passes
from tritium.errors import InternalError
from tritium.ir import types as T
from tritium.ir.core import Block
from tritium.ir.text import parse_module, print_module
from tritium.ir.verify import verify
from tritium.passes import accumulate, dce, licm, reduce_early, simplify, sink_stores
from tritium.passes.legalize import TargetInfo, legalize

NATIVE_HALF = TargetInfo(floats=frozenset((T.f16, T.f32, T.f64)), rows=frozenset((("exp2", T.f32),)),
                    casts=frozenset((a, b) for a in (T.f16, T.f32, T.f64) for b in (T.f16, T.f32, T.f64)))
ONLY_WIDE_DOT = TargetInfo(dot=frozenset((T.f32, T.f64)))
DOT_AS_HALF = TargetInfo(dot_as={T.f8e5: T.f16, T.f8e4b15: T.bf16},
                         casts=frozenset((a, b) for a in T.FLOATS for b in (T.f16, T.bf16)))

# What a file runs. Passes that leave dead code behind are followed by dce, so that a case shows what remains.
PIPELINES = {
    "simplify": (simplify, dce),
    "simplify_control": (simplify, dce),
    "dce": (dce,),
    "licm": (licm,),
    "accumulate": (accumulate, dce),
    "apply_hints": (passes.apply_hints, dce),
    "apply_ranges": (passes.apply_ranges,),
    "reduce_early": (reduce_early, dce),
    "sink_stores": (sink_stores, dce),
    "legalize": (legalize(), dce),
    "legalize_native_half": (legalize(NATIVE_HALF), dce),
    "legalize_dot": (legalize(ONLY_WIDE_DOT), dce),
    "legalize_dot_as": (legalize(DOT_AS_HALF), dce),
    "cleanup": passes.CLEANUP,
    "functions": passes.CLEANUP,
    "expand_ptx": (passes.expand_ptx, simplify, dce),
    "inline_calls": (passes.inline_calls,),
    "promise_arguments": (passes.promise_arguments,),
}


@pytest.mark.parametrize("case", cases.parameters(Path(__file__).parent))
def test_case(case, request):
    module = verify(parse_module(case.kernel))
    before = print_module(module)
    pipeline = PIPELINES[case.path.stem]
    after = verify(passes.run(module, pipeline))
    assert print_module(module) == before, "a pass changed its input"
    assert passes.run(after, pipeline) is after, "a second run changed something"
    cases.check(case, print_module(after), request.config.getoption("--update"))


def test_every_pass_has_a_file():
    assert {p.stem for p in Path(__file__).parent.glob("*.tir")} == set(PIPELINES)


def test_run_shows_every_step():
    module = parse_module("kernel @f(%x: i32) {\n  %0 = add %x, %x : i32\n}")
    seen = []
    result = passes.run(module, (simplify, dce), watch=lambda step, before, after: seen.append((step, before, after)))
    assert [step for step, _, _ in seen] == [simplify, dce]
    assert seen[0][1] is module and seen[0][2] is module and seen[1][2] is result


def test_run_names_the_pass_that_broke_the_module():
    module = parse_module("kernel @f(%x: i32) {\n  %0 = add %x, %x : i32\n  print %0 {prefix=\"\"}\n}")

    def breaks(module):
        return module.replace(body=Block(module.args, module.body.ops[1:]))

    breaks.__module__ = "tritium.passes.breaks"
    with pytest.raises(InternalError, match=r"not defined before it.*after pass breaks"):
        passes.run(module, (breaks,))


def test_a_pass_that_left_the_module_alone_runs_again_only_after_a_change():
    module, ran, seen = parse_module("kernel @f(%x: i32) { %0 = add %x, %x : i32 }"), [], []

    def idle(module):
        ran.append(len(module.body.ops))
        return module

    passes.run(module, (idle, passes.licm, idle, passes.dce, idle), lambda *step: seen.append(step[0]))
    assert ran == [1, 0] and seen == [idle, passes.licm, idle, passes.dce, idle]


def test_first_that_takes_the_last_if_none_will_do():
    seen, module = [], parse_module("kernel @f(%x: i32) { %0 = add %x, %x : i32 }")
    choice = passes.first_that(lambda made: False, lambda module: ((passes.dce,), (passes.simplify, passes.licm)))
    assert passes.run(module, (choice,), lambda *step: seen.append(step)) is module
    assert [step for step, *_ in seen] == [passes.simplify, passes.licm]  # what was given up is not shown


def test_first_that_passes_over_what_changes_nothing():
    module = parse_module("kernel @f(%x: i32) { %0 = add %x, %x : i32 }")
    never = passes.must_change(passes.licm)
    choice = passes.first_that(lambda made: True, lambda module: ((never,), (passes.dce,)))
    assert not passes.run(module, (choice,)).body.ops and passes.name_of(never) == "licm"


def test_passes_of_alternatives_are_verified():
    module = parse_module("kernel @f(%x: i32) { %0 = add %x, %x : i32 print %0 {prefix=\"\"} }")
    breaks = lambda module: module.replace(body=Block(module.args, module.body.ops[1:]))
    with pytest.raises(InternalError, match="not defined before it"):
        passes.run(module, (passes.first_that(lambda made: True, lambda module: ((breaks,),)),))
