"""Meta-parameters that are computed from arguments (S16)."""

import numpy as np

import tritium as triton
from tests.runtime.tuned_kernels import Recorder, double_kernel, launch, timer
from tritium.runtime.autotuner import Config, autotune
from tritium.runtime.heuristic import Heuristics, heuristics


def test_values_see_arguments_and_earlier_values():
    kernel = Recorder()
    h = heuristics({"BLOCK": lambda args: args["n"] * 2, "EVEN": lambda args: args["BLOCK"] % 4 == 0})(kernel)
    launch(h, None, 8)
    assert kernel.launches[0][1] == {"grid": (1,), "warmup": False, "BLOCK": 16, "EVEN": True}


def test_a_computed_value_overrides_a_passed_one():
    kernel = Recorder()
    h = Heuristics(kernel, kernel.arg_names, {"BLOCK": lambda args: 32})
    launch(h, None, 8, BLOCK=1)
    launch(h, None, 8, 1)
    assert kernel.launches[0][1]["BLOCK"] == 32
    assert kernel.launches[1][0] == (None, 8, 32)


def test_under_autotune():
    kernel = Recorder({1: 2.0, 2: 1.0})
    h = heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})(kernel)
    t = autotune([Config({"BLOCK": 1}), Config({"BLOCK": 2})], ["n"], do_bench=timer(kernel))(h)
    launch(t, None, 9)
    assert kernel.launches[-1][1]["EVEN"] is False and kernel.launches[-1][1]["BLOCK"] == 2
    assert t.arg_names == kernel.arg_names and t.base_fn is kernel.fn


def test_warmup():
    kernel = Recorder()
    heuristics({"BLOCK": lambda args: args["n"]})(kernel).warmup(None, 8, grid=(1,))
    assert kernel.warmups[0][1]["BLOCK"] == 8


def test_a_real_kernel():
    h = heuristics({"BLOCK": lambda args: triton.next_power_of_2(args["n"])})(double_kernel)
    x = np.ones(100, np.float32)
    kernel = h[(1,)](x, 100)
    assert (x == 2).all() and kernel.asm["ttir"].count("128") > 0
