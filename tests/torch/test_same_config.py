"""benchmarks/same_config.py: what it reads of generated kernels, and what it says of the figures."""

import pytest

from tests.torch.scripts import script

REDUCTION = """
@triton_heuristics.reduction(
    size_hints={'x': 512, 'r0_': 128},
    reduction_hint=ReductionHint.OUTER,
    triton_meta={'signature': {'in_ptr0': '*fp32', 'out_ptr0': '*fp32', 'xnumel': 'i32', 'r0_numel': 'i32', \
'XBLOCK': 'constexpr', 'R0_BLOCK': 'constexpr'}, 'constants': {}},
)
@triton.jit
def triton_red_fused_sum_0(in_ptr0, out_ptr0, xnumel, r0_numel, XBLOCK : tl.constexpr, R0_BLOCK : tl.constexpr):
    xnumel = 500
    r0_numel = 128
    tl.store(out_ptr0, xnumel)
"""
PRODUCT = """
@triton_heuristics.template(

num_stages=3,
num_warps=8,
triton_meta={'signature': {'arg_A': '*bf16', 'arg_B': '*bf16', 'out_ptr0': '*bf16'}},

)
@triton.jit
def triton_mm(arg_A, arg_B, out_ptr0):
    BLOCK_M : tl.constexpr = 128
    BLOCK_N : tl.constexpr = 64
    M = 300
    N = 256
"""


@pytest.fixture(scope="module", name="script")
def loaded():
    return script("same_config")


def test_kernels_are_read_once(script, tmp_path):
    for name, text in (("a", REDUCTION), ("b", REDUCTION.replace("sum_0", "sum_7")), ("c", PRODUCT), ("d", "x = 1\n")):
        path = tmp_path / "side" / "ab" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    found = script.kernels(tmp_path)
    assert [(k["name"], k["kind"], k["hint"]) for k in found] == [("triton_red_fused_sum_0", "red", "OUTER"),
                                                                 ("triton_mm", "tem", None)]  # fmt: skip
    assert [script.configurations(k)[0] for k in found] == [
        {"XBLOCK": 64, "R0_BLOCK": 8, "num_warps": 2}, {"num_stages": 3, "num_warps": 8}]  # fmt: skip
    assert [script.grid(k, script.configurations(k)[0]) for k in found] == [(8,), (12, 1, 1)]


def test_arguments_that_are_not_known_leave_a_kernel_out(script):
    assert script.read(REDUCTION.replace("'*fp32', 'out_ptr0'", "'*fp8', 'out_ptr0'")) is None
    assert script.read(PRODUCT.replace("M = 300", "M = size")) is None


def test_the_report_has_what_is_furthest_behind_first(script):
    found = {"0 k XBLOCK=1": {"triton": 1.0, "tritium": 2.0}, "0 k XBLOCK=8": {"triton": 4.0, "tritium": 1.0},
             "1 m num_warps=4": {"triton": 3.0, "tritium": 3.0}, "2 n": {"triton": 1.0, "tritium": None}}  # fmt: skip
    lines = script.report(found, 1).splitlines()
    assert lines[1].split() == ["1.00", "2.00", "0.50", "0", "k", "XBLOCK=1"]
    assert lines[3] == "3 points: 1.260 by geometric mean, 1 below 0.95, 1 below 0.9"
    assert lines[4] == "2 kernels, each side with its best configuration: 1.000, 0 below 0.95"
    assert lines[5] == "1 points fail with tritium alone: 2 n"
