"""Kernels of linear attention with chunks and of speculative decoding: block pointers, heuristics, flags, returns."""

import pytest
import torch

import tritium as triton
import tritium.language as tl

from .conftest import close

torch.manual_seed(23)


# --- sums within chunks of sequences that lie behind each other -------------------------------------------------------
@triton.heuristics({
    "VARIABLE": lambda args: args["starts"] is not None,
    "SCALED": lambda args: args["scale"] is not None,
})
@triton.jit(do_not_specialize=["T"])
def sums_in_chunks(x, out, scale, starts, chunks, T, H: tl.constexpr, BT: tl.constexpr, REVERSE: tl.constexpr,
                   VARIABLE: tl.constexpr, SCALED: tl.constexpr):
    chunk, head = tl.program_id(0), tl.program_id(1)
    if VARIABLE:
        n, chunk = tl.load(chunks + chunk * 2).to(tl.int32), tl.load(chunks + chunk * 2 + 1).to(tl.int32)
        first, end = tl.load(starts + n).to(tl.int32), tl.load(starts + n + 1).to(tl.int32)
        T = end - first
    else:
        first = 0
    source = tl.make_block_ptr(x + first * H + head, (T,), (H,), (chunk * BT,), (BT,), (0,))
    target = tl.make_block_ptr(out + first * H + head, (T,), (H,), (chunk * BT,), (BT,), (0,))
    v = tl.load(source, boundary_check=(0,)).to(tl.float32)
    total = tl.cumsum(v, axis=0)
    if REVERSE:
        total = -total + tl.sum(v, axis=0)[None] + v
    if SCALED:
        total *= scale
    tl.store(target, total.to(target.dtype.element_ty), boundary_check=(0,))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("lengths", [[77], [13, 37, 27]], ids=str)
def test_sums_within_chunks(lengths, reverse):
    H, BT, T = 3, 32, sum(lengths)
    counts = [triton.cdiv(n, BT) for n in lengths]
    starts = torch.tensor([0, *lengths]).cumsum(0)
    chunks = torch.tensor([(n, c) for n, count in enumerate(counts) for c in range(count)])
    x = torch.randn(T, H).bfloat16()
    out = torch.empty(T, H)
    variable = (starts, chunks) if len(lengths) > 1 else (None, None)
    sums_in_chunks[(sum(counts), H)](x, out, 0.5 if reverse else None, *variable, T=T, H=H, BT=BT, REVERSE=reverse)
    pieces = [piece for part in x.double().split(lengths) for piece in part.split(BT)]
    want = [piece.flip(0).cumsum(0).flip(0) * 0.5 if reverse else piece.cumsum(0) for piece in pieces]
    close(out, torch.cat(want), 1e-5)


# --- inverses of triangular matrices, two blocks of 16 at a time ------------------------------------------------------
@triton.jit
def inverse_of_a_block(a, row, rows, T, BT: tl.constexpr, AT: tl.constexpr):
    """The inverse of 1 plus what lies below the diagonal of a block, a row after the other."""
    i = tl.arange(0, 16)
    block = tl.make_block_ptr(a, (T, BT), (BT, 1), (row, AT), (16, 16), (1, 0))
    found = -tl.where(i[:, None] > i[None, :], tl.load(block, boundary_check=(0, 1)), 0)
    for k in range(2, min(16, rows)):
        line = tl.where(i < k, -tl.load(a + (row + k) * BT + AT + i), 0.0)
        line += tl.sum(line[:, None] * found, 0)
        found = tl.where((i == k)[:, None], line, found)
    return found + (i[:, None] == i[None, :])


@triton.jit
def triangular_inverse(a, out, T, BT: tl.constexpr, PRECISION: tl.constexpr):
    row = tl.program_id(0) * BT
    upper = inverse_of_a_block(a, row, T - row, T, BT, 0)
    lower = inverse_of_a_block(a, row + 16, T - row - 16, T, BT, 16)
    block = tl.make_block_ptr(a, (T, BT), (BT, 1), (row + 16, 0), (16, 16), (1, 0))
    between = tl.load(block, boundary_check=(0, 1))
    mixed = -tl.dot(tl.dot(lower, between, input_precision=PRECISION), upper, input_precision=PRECISION)
    tl.store(tl.make_block_ptr(out, (T, BT), (BT, 1), (row, 0), (16, 16), (1, 0)), upper, boundary_check=(0, 1))
    tl.store(tl.make_block_ptr(out, (T, BT), (BT, 1), (row + 16, 16), (16, 16), (1, 0)), lower, boundary_check=(0, 1))
    tl.store(tl.make_block_ptr(out, (T, BT), (BT, 1), (row + 16, 0), (16, 16), (1, 0)), mixed, boundary_check=(0, 1))


@pytest.mark.parametrize("precision", ["ieee", "tf32x3"])
def test_inverses_of_triangular_matrices(run, precision):
    T, BT = 70, 32
    a = torch.randn(T, BT) * 0.2
    out = torch.zeros(T, BT)
    run(triangular_inverse, (triton.cdiv(T, BT),), a, out, T, BT=BT, PRECISION=precision, num_warps=2)
    want = torch.zeros(T, BT).double()
    for c in range(0, T, BT):
        n = min(BT, T - c)
        want[c : c + n, :n] = torch.linalg.inv(torch.tril(a[c : c + n, :n].double(), -1) + torch.eye(n))
    close(out, want, 1e-4)


# --- drafts that a larger model accepts or rejects --------------------------------------------------------------------
@triton.jit(do_not_specialize=["longest"])
def accept_drafts(out, ends, drafts, draft_probs, target_probs, bonus, instead, chances, greedy, longest, vocab,
                  CERTAIN: tl.constexpr):
    request = tl.program_id(0)
    if tl.load(greedy + request):
        return
    start = 0 if request == 0 else tl.load(ends + request - 1)
    count = tl.load(ends + request) - start
    rejected = False
    for k in range(count):
        if not rejected:
            token = tl.load(drafts + start + k)
            if CERTAIN:
                drafted = 1
            else:
                drafted = tl.load(draft_probs + (start + k) * vocab + token)
            wanted = tl.load(target_probs + (start + k) * vocab + token)
            if drafted > 0 and wanted / drafted >= tl.load(chances + start + k):
                chosen = token
            else:
                rejected = True
                chosen = tl.load(instead + start + k)
            tl.store(out + request * (longest + 1) + k, chosen)
    if not rejected:
        tl.store(out + request * (longest + 1) + count, tl.load(bonus + request))


@pytest.mark.parametrize("certain", [False, True])
def test_accepted_drafts(run, certain):
    counts, vocab, longest = [3, 0, 5, 2], 37, 5
    total, ends = sum(counts), torch.tensor(counts).cumsum(0).int()
    drafts, instead = torch.randint(0, vocab, (2, total))
    p, q = torch.rand(2, total, vocab).softmax(-1)
    chances = torch.rand(total).double() * (0.05 if certain else 1.3)
    bonus, greedy = torch.randint(0, vocab, (4, 1)), torch.tensor([False, False, False, True])
    out = torch.full((4, longest + 1), -1, dtype=torch.int32)
    run(accept_drafts, (4,), out, ends, drafts, None if certain else p, q, bonus, instead, chances, greedy, longest,
        vocab, CERTAIN=certain, num_warps=1)
    want = torch.full((4, longest + 1), -1, dtype=torch.int32)
    for request, count in enumerate(counts[:3]):
        start = int(ends[request]) - count
        for k in range(count):
            at, token = start + k, drafts[start + k]
            accepted = q[at, token] / (1 if certain else p[at, token]) >= chances[at]
            want[request, k] = token if accepted else instead[at]
            if not accepted:
                break
        else:
            want[request, count] = bonus[request]
    assert torch.equal(out, want)
