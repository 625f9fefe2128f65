"""Branches, loops, returns and conditions as kernels write them."""

import pytest
import torch

import tritium as triton
import tritium.language as tl


@triton.jit
def nested_returns(cond1, cond2, val1, val2, val3, out):
    val = 0
    if tl.load(cond1):
        if tl.load(cond2):
            val = val1
        else:
            return
    else:
        if tl.load(cond2):
            val = val2
        else:
            val = val3
    tl.store(out, val)


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("second", [True, False])
def test_nested_returns(run, first, second):
    out = torch.full((1,), -1, dtype=torch.int32)
    run(nested_returns, (1,), torch.tensor([first]), torch.tensor([second]), 10, 20, 30, out)
    assert out.item() == {(True, True): 10, (True, False): -1, (False, True): 20, (False, False): 30}[first, second]


@triton.jit
def sign_of(x):
    if x > 0:
        return 1
    elif x < 0:
        return -1
    else:
        return 0


@triton.jit
def returns_in_functions(x, out):
    i = tl.program_id(0)
    tl.store(out + i, sign_of(tl.load(x + i)))


def test_returns_in_functions(run):
    x, out = torch.tensor([3.0, -2.0, 0.0]), torch.zeros(3, dtype=torch.int32)
    run(returns_in_functions, (3,), x, out)
    assert out.tolist() == [1, -1, 0]


@triton.jit
def masked_programs(out, n, HALF: tl.constexpr):
    pid = tl.program_id(0)
    if pid >= n:
        return
    if HALF:
        if pid % 2 == 0:
            return
    tl.store(out + pid, pid)


@pytest.mark.parametrize("half", [True, False])
def test_programs_that_leave_early(run, half):
    out = torch.full((8,), -1, dtype=torch.int32)
    run(masked_programs, (8,), out, 5, HALF=half)
    assert out.tolist() == [p if p < 5 and not (half and p % 2 == 0) else -1 for p in range(8)]


@triton.jit
def loops(out, n, lo, hi, step, N: tl.constexpr):
    acc = 0
    for i in range(n):
        acc += i
    tl.store(out, acc)
    for i in range(lo, hi, step):
        acc -= i
    tl.store(out + 1, acc)
    for i in range(10, 0, -3):
        acc += i * 100
    tl.store(out + 2, acc)
    for _ in range(0, 0):
        acc = acc * 0
    tl.store(out + 3, acc)
    for i in tl.range(0, N, num_stages=3):
        for j in tl.static_range(0, 4, 2):
            acc += i * j
    tl.store(out + 4, acc)
    k = 0
    while k < n and acc > -10**6:
        k += 2
        acc -= 7
    tl.store(out + 5, k)
    tl.store(out + 6, acc)


def test_loops(run):
    out = torch.zeros(7, dtype=torch.int64)
    run(loops, (1,), out, 6, 2, 11, 4, N=3)
    acc = 15
    want = [acc]
    acc -= sum(range(2, 11, 4))
    want.append(acc)
    acc += 100 * sum(range(10, 0, -3))
    want += [acc, acc]
    acc += sum(i * j for i in range(3) for j in (0, 2))
    want += [acc, 6, acc - 21]
    assert out.tolist() == want


@triton.jit
def wide_counters(out, lo, hi: tl.int64, step):
    i = 0
    for j in range(lo, hi, step):
        tl.static_assert(j.dtype == tl.int64)
        tl.store(out + i, j)
        i += 1
    for k in range(2**33, 2**33 + 2):
        tl.store(out + i, k)
        i += 1


def test_counters_of_64_bits(run):
    out = torch.zeros(5, dtype=torch.int64)
    run(wide_counters, (1,), out, 2**35 - 5, 2**35 + 4, 4)
    assert out.tolist() == [2**35 - 5, 2**35 - 1, 2**35 + 3, 2**33, 2**33 + 1]


@triton.jit
def binary_search(table, keys, out, n):
    key = tl.load(keys + tl.program_id(0))
    lo = 0
    hi = n
    while lo < hi:
        mid = lo + (hi - lo) // 2
        if tl.load(table + mid) < key:
            lo = mid + 1
        else:
            hi = mid
    tl.store(out + tl.program_id(0), lo)


def test_binary_search(run):
    table, keys = torch.sort(torch.randn(37)).values, torch.randn(9)
    out = torch.zeros(9, dtype=torch.int32)
    run(binary_search, (9,), table, keys, out, 37)
    assert torch.equal(out.long(), torch.searchsorted(table, keys))


@triton.jit
def collatz(x, out):
    """A loop within a loop, both ending at run time."""
    n = tl.load(x + tl.program_id(0))
    steps = 0
    while n != 1:
        while n % 2 == 0:
            n = n // 2
            steps += 1
        if n != 1:
            n = 3 * n + 1
            steps += 1
    tl.store(out + tl.program_id(0), steps)


def test_nested_while(run):
    x, out = torch.tensor([1, 6, 7, 27], dtype=torch.int64), torch.zeros(4, dtype=torch.int32)
    run(collatz, (4,), x, out)
    assert out.tolist() == [0, 8, 16, 111]


@triton.jit
def short_circuits(bias, flag, n, out, USE: tl.constexpr):
    if bias is not None and tl.load(bias) > 0:
        tl.store(out, 1)
    if USE and n > 3:
        tl.store(out + 1, 1)
    if not USE or n == 5:
        tl.store(out + 2, 1)
    if bias is None or (tl.load(bias) < 0 and USE):
        tl.store(out + 3, 1)
    inside = (n > 2 and n < 9) or n == 100
    tl.store(out + 4, inside)
    if flag:
        tl.store(out + 5, 1)
    if not (n > 7):
        tl.store(out + 6, 1)
    y = 3 if n > 4 else 4
    z = tl.load(out) + 1 if USE else undefined_name  # noqa: F821
    tl.store(out + 7, y + z)


@pytest.mark.parametrize("bias", [None, -1.0, 2.0])
def test_conditions(run, bias):
    out = torch.zeros(8, dtype=torch.int32)
    pointer = None if bias is None else torch.tensor([bias])
    run(short_circuits, (1,), pointer, True, 5, out, USE=True)
    first = int(bias is not None and bias > 0)
    assert out.tolist() == [first, 1, 1, int(bias is None or bias < 0), 1, 1, 1, 3 + first + 1]


@triton.jit
def static_branches(x, out, N: tl.constexpr, KIND: tl.constexpr, p=None):
    i = tl.arange(0, N)
    if KIND == "sum":
        v = tl.sum(tl.load(x + i), 0)
    elif KIND == "max":
        v = tl.max(tl.load(x + i), 0)
    elif KIND is None:
        v = 0.0
    else:
        raise ValueError("never compiled")
    if p is not None:
        v += tl.load(p)
    if N > 1000:
        tl.store(out + tl.arange(0, 3), v)
    if N == 8 and KIND == "sum":
        v *= 2
    tl.store(out, v)


def test_branches_decided_at_compile_time(run):
    x, out = torch.randn(8), torch.zeros(1)
    for kind, want in (("sum", 2 * x.sum()), ("max", x.max()), (None, torch.tensor(0.0))):
        run(static_branches, (1,), x, out, N=8, KIND=kind)
        torch.testing.assert_close(out[0], want)
    run(static_branches, (1,), x, out, 8, "max", out.clone())


@triton.jit
def pointers_chosen(a, b, out, n, N: tl.constexpr):
    p = a
    if tl.program_id(0) % 2 == 1:
        p = b
        offset = 1
    else:
        offset = 2
    i = tl.arange(0, N)
    q = tl.where(i < n, p + i, out + N * 2)
    tl.store(out + tl.program_id(0) * N + i, tl.load(q) + offset)


def test_pointers_chosen_at_run_time(run):
    a, b = torch.randn(8), torch.randn(8)
    out = torch.zeros(24)
    run(pointers_chosen, (2,), a, b, out, 5, N=8)
    want = torch.where(torch.arange(8) < 5, torch.stack([a, b]), 0.0) + torch.tensor([[2.0], [1.0]])
    torch.testing.assert_close(out[:16].view(2, 8), want)


@triton.jit
def one_element_block(x, out):
    v = tl.load(x + tl.arange(0, 1))
    if v > 2:
        tl.store(out, 1)
    m = tl.max(v, 0)
    if m:
        tl.store(out + 1, 1)


@pytest.mark.filterwarnings("ignore")
def test_blocks_of_one_element_as_conditions(run):
    out = torch.zeros(2, dtype=torch.int32)
    run(one_element_block, (1,), torch.tensor([3.0]), out)
    assert out.tolist() == [1, 1]


@triton.jit
def variables_of_branches(x, out, n):
    if n > 3:
        a = tl.load(x)
        b = a * 2
    else:
        a = tl.load(x + 1)
        b = a - 1
    tl.store(out, a)
    tl.store(out + 1, b)
    total = tl.load(x) * 0
    for k in range(n):
        if k % 2 == 0:
            part = tl.load(x + k)
            total += part
        elif k == 3:
            total = total * 10
        else:
            total -= 1
    tl.store(out + 2, total)


@pytest.mark.parametrize("n", [2, 6])
def test_variables_born_in_branches(run, n):
    x, out = torch.arange(1.0, 9.0), torch.zeros(3)
    run(variables_of_branches, (1,), x, out, n)
    a = x[0] if n > 3 else x[1]
    total = 0.0
    for k in range(n):
        total = total + x[k] if k % 2 == 0 else total * 10 if k == 3 else total - 1
    assert out.tolist() == [a, a * 2 if n > 3 else a - 1, total]


@triton.jit
def reused_names(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    v = v.to(tl.float16)
    v = tl.sum(v.to(tl.float32), axis=0)
    v = v.to(tl.int32) if N > 100 else v
    i = v * 2
    tl.store(out, i)


def test_names_change_type_outside_loops(run):
    x, out = torch.arange(8.0), torch.zeros(1)
    run(reused_names, (1,), x, out, N=8)
    assert out.item() == 56


@triton.jit
def leaves_loops(x, out, n, limit):
    at = -1
    for i in range(n):
        v = tl.load(x + i)
        if v < 0:
            continue
        if v > limit:
            at = i
            break
    tl.store(out, at)
    k = 0
    while True:
        k += 3
        if k > limit:
            break
    tl.store(out + 1, k)


def test_break_and_continue(run):
    out = torch.zeros(2, dtype=torch.int32)
    run(leaves_loops, (1,), torch.tensor([1.0, -99.0, 5.0, 50.0]), out, 4, 4.0)
    assert out.tolist() == [2, 6]
