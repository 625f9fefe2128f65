"""What each process of a job checks: `python distributed_checks.py FOLDER RANK PROCESSES DEVICE`. One JSON of results.

The processes meet in a file of the folder, so no port is chosen. Every check is SPMD: all processes make the same whole
tensors, take their parts, and compare with what one process computes.
"""

import json
import os
import sys
import traceback
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn.functional as F

import tritium as triton
import tritium.language as tl
import tritium.torch
from tests.torch.samples import attention, rms, samples
from tritium.torch import parallel, sharding, tuning
from tritium.torch.library import OPERATORS

CHECKS = {}


def check(function):
    CHECKS[function.__name__] = function
    return function


class Here:
    """This process: its part of tensors, the same numbers in all processes."""

    def __init__(self, rank, size, device):
        self.rank, self.size, self.device = rank, size, device

    def normal(self, *shape):
        return torch.randn(shape).to(self.device)

    def part(self, x, axis):
        return x.chunk(self.size, axis)[self.rank].contiguous()

    def whole(self, x, axis):
        """The parts of all processes, put together."""
        parts = [torch.empty_like(x) for _ in range(self.size)]
        dist.all_gather(parts, x.detach().contiguous())
        return torch.cat(parts, axis)


def close(x, y, tolerance=2e-4):
    torch.testing.assert_close(x, y, rtol=tolerance, atol=tolerance)


# -- written out -------------------------------------------------------------------------------------------------------


@check
def a_layer_that_is_split(here):
    """Columns, then rows with chunks and a norm: results and gradients of all weights."""
    x, up, down = here.normal(12, 16), here.normal(16, 24), here.normal(24, 16)
    gain, d1, d2 = here.normal(16), here.normal(12, 16), here.normal(12, 16)
    leaves = [t.clone().requires_grad_() for t in (x, up, down, gain)]
    hidden = leaves[0] + F.silu(leaves[0] @ leaves[1]) @ leaves[2]
    expected = torch.autograd.grad([hidden, rms(hidden, leaves[3])], leaves, [d1, d2])
    for chunks in (1, 3):
        mine = [t.clone().requires_grad_() for t in (x, here.part(up, 1), here.part(down, 0), gain)]
        inner = OPERATORS["silu"](parallel.column_parallel(mine[0], mine[1], precision="ieee"))
        out, normed = parallel.row_parallel_norm(inner, mine[2], mine[3], residual=mine[0], chunks=chunks,
                                                 precision="ieee")
        close(out, hidden)
        close(normed, rms(hidden, gain))
        got = torch.autograd.grad([out, normed], mine, [d1, d2])
        close(got[0], expected[0], 2e-3)
        close(here.whole(got[1], 1), expected[1], 2e-3)
        close(here.whole(got[2], 0), expected[2], 2e-3)
        close(got[3], expected[3], 2e-3)


@check
def row_parallel_alone(here):
    x, weight = here.normal(7, 16), here.normal(16, 9)
    for chunks in (1, 2, 100):
        got = parallel.row_parallel(here.part(x, 1), here.part(weight, 0), chunks=chunks, precision="ieee")
        close(got, x @ weight)


@check
def attention_over_a_ring(here):
    for causal in (False, True):
        q, k, v, d = (here.normal(2, 3, 16 * here.size, 16) for _ in range(4))
        leaves = [t.clone().requires_grad_() for t in (q, k, v)]
        expected, logs = attention(*leaves, causal)
        gradients = torch.autograd.grad(expected, leaves, d)
        mine = [here.part(t, 2).requires_grad_() for t in (q, k, v)]
        out, lse = parallel.ring_attention(*mine, causal)
        close(out, here.part(expected, 2))
        close(lse, here.part(logs, 2))
        for got, wanted in zip(torch.autograd.grad(out, mine, here.part(d, 2)), gradients):
            close(got, here.part(wanted, 2), 2e-3)


@check
def a_group_of_some(here):
    """A group whose ranks are not those of the job."""
    group = dist.new_group([here.size - 1])
    if here.rank == here.size - 1:
        x, weight = here.normal(4, 8), here.normal(8, 8)
        close(parallel.row_parallel(x, weight, group=group, precision="ieee"), x @ weight)
        q = here.normal(1, 16, 16)
        close(parallel.ring_attention(q, q, q, True, group=group)[0], attention(q, q, q, True)[0])


# -- DTensor -----------------------------------------------------------------------------------------------------------


def mesh_of(here):
    from torch.distributed.device_mesh import init_device_mesh

    return init_device_mesh(here.device, (here.size,))


def tensors(x):
    return list(x) if isinstance(x, (tuple, list)) else [x]


@check
def every_rule(here):
    """Each operator with each of its rules: inputs placed so, the result is that of whole tensors, moved by nobody."""
    from torch.distributed.tensor import distribute_tensor

    sharding.register()
    mesh = mesh_of(here)
    for name, rule in sharding.RULES.items():
        sample = samples(here.device)[name]
        expected = tensors(OPERATORS[name](*sample.args))
        for results, inputs in [*rule(*sample.args), ([None], None)]:
            left = iter(inputs or [sharding._whole()] * 9)
            args = [distribute_tensor(x, mesh, [next(left)]) if torch.is_tensor(x) else x for x in sample.args]
            got = tensors(OPERATORS[name](*args))
            for g, e, placed in zip(got, expected, results if inputs else [sharding._whole()] * len(got)):
                assert g.placements == (placed,), (name, g.placements, placed)
                close(g.full_tensor().double(), e.double(), 1e-3)


@check
def a_layer_of_dtensors(here):
    """Weights placed as in tensor parallelism; DTensor moves what has to move, forward and backward."""
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    sharding.register()
    mesh = mesh_of(here)
    x, up, down, gain = here.normal(12, 16), here.normal(16, 24), here.normal(24, 16), here.normal(16)
    leaves = [t.clone().requires_grad_() for t in (x, up, down, gain)]
    expected = rms(F.silu(leaves[0] @ leaves[1]) @ leaves[2], leaves[3])
    gradients = torch.autograd.grad(expected.square().sum(), leaves)
    placed = (Replicate(), Shard(1), Shard(0), Replicate())
    mine = [distribute_tensor(t, mesh, [p]).requires_grad_() for t, p in zip((x, up, down, gain), placed)]
    ops = torch.ops.tritium
    inner = ops.silu(ops.matmul(mine[0], mine[1], "", "ieee"))
    assert inner.placements == (Shard(1),)
    out = ops.rms_norm(ops.matmul(inner, mine[2], "", "ieee"), mine[3])
    close(out.full_tensor(), expected)
    for got, wanted in zip(torch.autograd.grad(out.square().sum(), mine), gradients):
        close(got.full_tensor(), wanted, 2e-3)


@check
def attention_by_heads(here):
    from torch.distributed.tensor import Shard, distribute_tensor

    sharding.register()
    q, k, v = (here.normal(2, 4, 20, 16) for _ in range(3))
    mine = [distribute_tensor(t, mesh_of(here), [Shard(1)]).requires_grad_() for t in (q, k, v)]
    out, lse = torch.ops.tritium.attention(*mine, True)
    assert out.placements == lse.placements == (Shard(1),)
    assert out.to_local().shape[1] * here.size == 4
    leaves = [t.clone().requires_grad_() for t in (q, k, v)]
    expected = attention(*leaves, True)[0]
    close(out.full_tensor(), expected)
    gradients = torch.autograd.grad(expected.square().sum(), leaves)
    for got, wanted in zip(torch.autograd.grad(out.square().sum(), mine), gradients):
        assert got.placements == (Shard(1),)
        close(got.full_tensor(), wanted, 2e-3)


# -- tuning ------------------------------------------------------------------------------------------------------------


@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(z_ptr + at, tl.load(x_ptr + at, mask=at < n) + tl.load(y_ptr + at, mask=at < n), mask=at < n)


def tuned(here, measured, blocks=(16, 32, 64, 128, 256, 512, 1024)):
    """A tuner whose clock says something else in each process, and notes what it was asked to measure."""
    def clock(trial, quantiles):
        trial()
        measured.append(1)
        return [float((len(measured) * 7 + here.rank * 3) % 11 + 1)] * 3

    return triton.autotune([triton.Config({"BLOCK": b}) for b in blocks], key=["n"], do_bench=clock)(add_kernel)


def launch(here, tuner, n):
    x, z = torch.ones(n, device=here.device), torch.zeros(n, device=here.device)
    tuner[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, x, z, n)
    assert (z == 2).all()


def gathered(x):
    out = [None] * dist.get_world_size()
    dist.all_gather_object(out, x)
    return out


@check
def tuning_is_shared(here):
    measured = []
    tuner = tuned(here, measured)
    with tuning.shared():
        for n in (1000, 2000):
            launch(here, tuner, n)
    assert len(tuner.configs_timings) == 7
    choices = gathered([str(config) for config in tuner.cache.values()])
    assert all(choice == choices[0] for choice in choices), choices
    assert sum(gathered(len(measured))) == 14  # each configuration once for each key, in one process


@check
def who_comes_late_measures_nothing(here):
    measured = []
    tuner = tuned(here, measured)
    with tuning.shared():
        if here.rank == 0:
            launch(here, tuner, 3000)
        dist.barrier()
        launch(here, tuner, 3000)
    assert len(measured) == (7 if here.rank == 0 else 0)
    assert len(set(gathered(str(tuner.best_config)))) == 1


@check
def a_share_of_a_process_that_is_gone(here):
    """A process took all shares and died: the others measure them after `patience`."""
    from tritium.runtime import distributed_tuning

    measured = []
    tuner = tuned(here, measured)
    store = dist.PrefixStore(f"alone-{here.rank}", dist.distributed_c10d._get_default_store())
    taken = distributed_tuning.name_of
    distributed_tuning.name_of = lambda *args: "gone"
    try:
        store.add("tritium/tuning/gone/taken", 5)
        with tuning.shared(store, processes=2, patience=timedelta(milliseconds=50)):
            launch(here, tuner, 4000)
    finally:
        distributed_tuning.name_of = taken
    assert len(measured) == 7


@check
def an_error_is_everybodys(here):
    def clock(trial, quantiles):
        raise ArithmeticError("the clock is broken")

    configs = [triton.Config({"BLOCK": b}) for b in (16, 32)]
    tuner = triton.autotune(configs, key=["n"], do_bench=clock)(add_kernel)
    try:
        with tuning.shared():
            launch(here, tuner, 5000)
    except Exception as error:
        assert "the clock is broken" in str(error)
    else:
        raise AssertionError("it went unnoticed")


def main(folder, rank, size, device):
    rank, size = int(rank), int(size)
    if device == "cuda":
        torch.cuda.set_device(rank)
    dist.init_process_group("nccl" if device == "cuda" else "gloo", init_method=f"file://{folder}/meeting", rank=rank,
                            world_size=size, timeout=timedelta(seconds=120))
    results, here = {}, Here(rank, size, device)
    for name, function in CHECKS.items():
        torch.manual_seed(2)
        try:
            function(here)
            results[name] = "ok"
        except Exception:
            results[name] = traceback.format_exc()
        everybody = gathered(results[name])
        if any(result != "ok" for result in everybody):  # processes may be out of step: what follows means nothing
            break
    with open(os.path.join(folder, f"{rank}.json"), "w") as file:
        json.dump(results, file)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
