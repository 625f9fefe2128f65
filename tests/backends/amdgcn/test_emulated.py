"""Kernels in tile IR on emulated AMD GPUs: they agree with the interpreter, and nothing races or is out of bounds."""

import numpy as np
import pytest

from tests.backends.gpu.test_modules import BATTERY, borrowed, checking
from tests.exec import test_exec
from tritium.ir import types as T
from tritium.ir.text import parse_module

SAMPLE = 4


@pytest.fixture(autouse=True)
def emulated(monkeypatch, run_amd):
    for part in BATTERY:
        monkeypatch.setattr(part, "check", checking(run_amd))


globals().update(borrowed())


@pytest.mark.parametrize("run", test_exec.CASES, ids=str)
def test_text_kernels(run, run_amd):
    module = parse_module(run.kernel)
    args, outputs = test_exec.arguments(run, module)
    run_amd(module, args, run.grid, num_warps=2)
    for at, wanted in zip(outputs, run.expected, strict=True):
        pointee = module.args[at].type.pointee
        expected = test_exec.array(pointee, wanted, run.bits)
        if run.close and pointee is T.f32:  # the fast exponentials flush what is below the normal range to zero
            args[at], expected = (np.where(np.abs(x) < 2.0**-126, np.float32(0), x) for x in (args[at], expected))
        test_exec.compare(args[at], expected, run, pointee, test_exec.signless(wanted))
