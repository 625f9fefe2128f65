"""Meta-parameters that are computed from arguments (S16)."""

import numpy as np
import pytest

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


def test_what_is_no_function_is_refused():
    with pytest.raises(TypeError, match=r"(?s)BLOCK of kernel `double_kernel` is no function: 64.*lambda args: 64"):
        heuristics({"BLOCK": 64})(double_kernel)


def test_a_name_that_the_launch_does_not_have_is_said():
    h = heuristics({"BLOCK": lambda args: args["N"]})(double_kernel)
    for call in (h[(1,)], lambda *args: h.warmup(*args, grid=(1,))):
        with pytest.raises(KeyError, match=r"(?s)heuristic for BLOCK of kernel `double_kernel` asks for 'N'.*did you "
                                           "mean n") as caught:
            call(np.ones(4, np.float32), 4)
        assert "warmup," not in str(caught.value) and caught.value.__context__ is None


def test_errors_of_a_function_itself_stay():
    table = {64: 1}
    h = heuristics({"BLOCK": lambda args: table[args["n"]]})(double_kernel)
    with pytest.raises(KeyError, match=r"^3$"):
        h[(1,)](np.ones(4, np.float32), 3)
