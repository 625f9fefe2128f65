"""Warm-ups: a known signature is found without Python, another one is compiled (S11, S42)."""

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.runtime.roads import BLOCK, N, arrays, scale, warm
from tritium import knobs
from tritium.backends.launcher.parts import NATIVE
from tritium.runtime import dispatch
from tritium.runtime.jit import JITFunction
from tritium.tensors import MockTensor

torch = pytest.importorskip("torch")
SCALE = tl.constexpr(3)


@triton.jit
def captures(out_ptr):
    tl.store(out_ptr, SCALE)


@pytest.fixture(autouse=True)
def fresh():
    for kernel in (scale, captures):
        kernel.device_caches.clear()
        kernel.pre_run_hooks.clear()
    yield
    scale.pre_run_hooks.clear()


@pytest.fixture
def slow(monkeypatch):
    """Notes the launches and warm-ups that Python dispatched."""
    seen, original = [], dispatch.launch
    monkeypatch.setattr(dispatch, "launch", lambda *args: seen.append(1) or original(*args))
    return seen


def test_a_known_signature_is_found_without_python(slow):
    x, out = arrays(torch.from_numpy)
    first = warm(x, out, N, 2.0, num_warps=2)
    for _ in range(4):
        assert warm(x, out, N, 3.0, num_warps=2) is first
    assert len(slow) == (2 if NATIVE else 5)
    launched = scale[(3,)](x, out, N, 2.0, BLOCK=BLOCK, num_warps=2)
    assert launched is first


@pytest.mark.parametrize("other", [
    lambda x, out: scale.warmup(x, out, N + 1, 2.0, BLOCK=BLOCK, grid=(1,)),
    lambda x, out: scale.warmup(x, out, 1, 2.0, BLOCK=BLOCK, grid=(1,)),
    lambda x, out: scale.warmup(x, out, 2**40, 2.0, BLOCK=BLOCK, grid=(1,)),
    lambda x, out: scale.warmup(x[1:], out, N, 2.0, BLOCK=BLOCK, grid=(1,)),
    lambda x, out: scale.warmup(x.half(), out, N, 2.0, BLOCK=BLOCK, grid=(1,)),
    lambda x, out: scale.warmup(x, out, N, 2, BLOCK=BLOCK, grid=(1,)),
    lambda x, out: scale.warmup(x, out, N, 2.0, BLOCK=64, grid=(1,)),
    lambda x, out: scale.warmup(x, out, N, 2.0, BLOCK=BLOCK, num_warps=8, grid=(1,)),
], ids=["multiple", "one", "width", "alignment", "dtype", "type", "constant", "option"])
def test_other_signatures_are_told_apart(other):
    x, out = arrays(torch.from_numpy)
    for _ in range(3):
        first = warm(x, out, N, 2.0)
    for _ in range(3):
        found = other(x, out)
        assert found is not first and warm(x, out, N, 2.0) is first
        assert other(x, out) is found


def test_dtypes_and_mocks_stand_for_tensors(slow, monkeypatch):
    monkeypatch.setattr(knobs, "backend", "cpu")  # a dtype says nothing of a device
    x, out = arrays(torch.from_numpy)
    first = warm(x, out, N, 2.0)
    for _ in range(4):
        assert warm(torch.float32, torch.float32, N, 2.0) is first
        assert warm(MockTensor(torch.float32), MockTensor("fp32", [4, 4]), N, 2.0) is first
        assert warm(torch.float16, torch.float32, N, 2.0).src.signature["x_ptr"] == "*fp16"
    assert len(slow) == (1 + 2 + 4 + 2 if NATIVE else 13)


def test_the_grid_of_a_warm_up_is_asked_for_and_not_looked_at():
    x, out = arrays()
    for _ in range(3):
        with pytest.raises(TypeError, match="grid"):
            scale.warmup(x, out, N, 2.0, BLOCK=BLOCK)
        assert scale.warmup(x, out, N, 2.0, BLOCK=BLOCK, grid=None) is warm(x, out, N, 2.0)


def test_wrong_arguments_of_a_warm_up():
    x, out = arrays()
    for _ in range(3):
        with pytest.raises(TypeError, match="missing 1 required positional argument: 'factor'"):
            warm(x, out, N)
        with pytest.raises(KeyError, match="num_wraps"):
            warm(x, out, N, 2.0, num_wraps=2)
        with pytest.raises(TypeError, match="argument `x_ptr` of kernel `scale`: failed to specialize argument"):
            warm([1.0], out, N, 2.0)
        warm(x, out, N, 2.0)


def test_captured_variables_are_looked_at(monkeypatch):
    out = np.zeros(1, np.int32)
    first = [captures.warmup(out, grid=(1,)) for _ in range(3)]
    assert len(set(first)) == 1
    monkeypatch.setitem(captures.fn.__globals__, "SCALE", tl.constexpr(4))
    with pytest.raises(RuntimeError, match="SCALE"):
        captures.warmup(out, grid=(1,))
    monkeypatch.undo()
    assert captures.warmup(out, grid=(1,)) is first[0]


def test_settings_are_looked_at_again():
    x, out = arrays()
    for _ in range(3):
        first = warm(x, out, N, 2.0)
    with knobs.runtime.scope():
        knobs.runtime.debug = True
        assert warm(x, out, N, 2.0).metadata.debug and warm(x, out, N, 2.0) is not first
    assert warm(x, out, N, 2.0) is first


def test_hooks_before_a_run_see_warm_ups():
    x, out = arrays()
    for _ in range(3):
        warm(x, out, N, 2.0)
    seen = []
    scale.add_pre_run_hook(lambda *args, **kwargs: seen.append((len(args), sorted(kwargs))))
    for _ in range(2):
        warm(x, out, N, 2.0)
    assert seen == [(4, ["BLOCK"])] * 2


def test_a_class_with_a_run_of_its_own_sees_warm_ups():
    class Loud(JITFunction):
        def run(self, *args, grid, warmup, **kwargs):
            seen.append(warmup)
            return super().run(*args, grid=grid, warmup=warmup, **kwargs)

    seen, kernel, (x, out) = [], Loud(scale.fn), arrays()
    for _ in range(3):
        kernel.warmup(x, out, N, 2.0, BLOCK=BLOCK, grid=(1,))
    assert seen == [True] * 3
