"""S41: every kernel of the collection is an operator: right, with gradients, under vmap, clean under opcheck."""

import functools

import pytest
import torch

from tests.torch.samples import samples
from tritium.torch.gradients import GRADIENTS
from tritium.torch.library import OPERATORS, ROWS

NAMES = list(ROWS)
BATCHED = [name for name, row in ROWS.items() if row.vmap is not None]


@functools.cache
def all_samples(device):
    return samples(device)


def tensors(x):
    return [part for part in (x if isinstance(x, (tuple, list)) else [x]) if isinstance(part, torch.Tensor)]


def as_float64(x):
    if isinstance(x, (list, tuple)):
        return [as_float64(part) for part in x]
    return x.double() if isinstance(x, torch.Tensor) and x.is_floating_point() else x


def close(got, expected, tolerance):
    got, expected = tensors(got), tensors(expected)
    assert len(got) == len(expected) and len(got)
    for g, e in zip(got, expected):
        torch.testing.assert_close(g.to(e.dtype), e, rtol=tolerance, atol=tolerance)


def test_each_row_has_a_sample_and_each_gradient_a_row():
    assert set(all_samples("cpu")) == set(NAMES) and set(GRADIENTS) < set(NAMES) and set(OPERATORS) == set(NAMES)
    assert {name for name in NAMES if all_samples("cpu")[name].grads} == set(GRADIENTS)


@pytest.mark.parametrize("name", NAMES)
def test_results(device, name):
    sample = all_samples(device)[name]
    got = getattr(torch.ops.tritium, name)(*sample.args, **(sample.kwargs or {}))
    if sample.reference is None:  # a picture, or chance: the tests of the kernels compare those
        assert got.device.type == device and torch.isfinite(got.float()).all()
    elif name == "compact":  # in the order of arrival
        values, indices = sample.reference(*sample.args)
        assert torch.equal(got[1].sort()[0], indices) and torch.equal(got[0].sort()[0], values.sort()[0])
    else:
        close(got, sample.reference(*map(as_float64, sample.args)), sample.tolerance)


@pytest.mark.parametrize("name", NAMES)
def test_opcheck(device, name):
    sample = all_samples(device)[name]
    args = [x.detach().clone().requires_grad_() if k in sample.grads else x for k, x in enumerate(sample.args)]
    torch.library.opcheck(getattr(torch.ops.tritium, name).default, tuple(args), sample.kwargs or {})


@pytest.mark.parametrize("name", [name for name in GRADIENTS if name != "dropout"])
def test_gradients(device, name):
    """Against those of the reference in float64, for a gradient of the result that is not the same everywhere."""
    sample = all_samples(device)[name]

    def gradients(function, args):
        inputs = {k: args[k].detach().clone().requires_grad_() for k in sample.grads}
        out = tensors(function(*(inputs.get(k, x) for k, x in enumerate(args)), **(sample.kwargs or {})))[0]
        torch.manual_seed(3)
        d = torch.randn(out.shape, dtype=torch.float32).to(out)
        return torch.autograd.grad(out, list(inputs.values()), d)

    got = gradients(OPERATORS[name], sample.args)
    expected = gradients(sample.reference, as_float64(sample.args))
    assert [g.dtype for g in got] == [sample.args[k].dtype for k in sample.grads]
    close(got, expected, 10 * sample.tolerance)


@pytest.mark.parametrize("name, count", [("vector_add", 2), ("transpose", 1), ("first_column", 1)])
def test_gradcheck_in_float64(device, name, count):
    """Those whose kernels compute in the type of their arguments."""
    args = [torch.randn(3, 4, dtype=torch.float64, device=device, requires_grad=True) for _ in range(count)]
    assert torch.autograd.gradcheck(OPERATORS[name], args)


def test_dropout_drops_the_same_gradients(device):
    x = torch.ones(1000, device=device, requires_grad=True)
    y = OPERATORS["dropout"](x, 0.5, 3)
    y.sum().backward()
    assert torch.equal(x.grad, y) and 0 < (y == 0).sum() < 1000


def test_gradients_that_are_expanded(device):
    """`sum().backward()` gives a gradient whose strides are zero; kernels walk through memory."""
    x, weight, bias = (torch.randn(4, 8, device=device), torch.randn(8, device=device), torch.randn(8, device=device))
    expected = torch.autograd.grad(torch.nn.functional.layer_norm(x.requires_grad_(), (8,), weight, bias).sum(), x)[0]
    got = torch.autograd.grad(OPERATORS["layer_norm"](x, weight, bias)[0].sum(), x)[0]
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", BATCHED)
def test_vmap(device, name):
    """Each tensor alone with an axis more, and all of them, give what a loop gives."""
    sample = all_samples(device)[name]
    op, places = OPERATORS[name], [k for k, x in enumerate(sample.args) if isinstance(x, torch.Tensor)]
    for chosen in [*((k,) for k in places), tuple(places)]:
        def member(x, i, chosen=chosen):
            return x if x.is_floating_point() is False else x * (1 + 0.25 * i)

        members = [[member(x, i) if k in chosen else x for k, x in enumerate(sample.args)] for i in range(3)]
        stacked = [torch.stack([m[k] for m in members], 1) if k in chosen else x for k, x in enumerate(sample.args)]
        dims = tuple(1 if k in chosen else None for k in range(len(stacked)))
        got = torch.vmap(lambda *args: op(*args), dims)(*stacked)
        singles = [tensors(op(*m)) for m in members]
        close(got, tuple(torch.stack(parts) for parts in zip(*singles)), 1e-5)


def test_importing_tritium_does_not_import_torch():
    import subprocess
    import sys

    done = subprocess.run([sys.executable, "-c", "import tritium, sys; print('torch' in sys.modules)"],
                          capture_output=True, text=True)
    assert done.stdout.strip() == "False", done.stderr
