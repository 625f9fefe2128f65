"""`tl.device_print` writes the same lines in every way, to the character."""

import numpy as np

import tritium as triton
import tritium.language as tl
from tests.language.coverage.engines import cuda


@triton.jit
def printed(x):
    i = tl.arange(0, 4)
    v = tl.load(x + i)
    tl.device_print("v", v)
    tl.device_print("half", tl.where(i < 3, v, 2.0).to(tl.float16), hex=True)  # the bits of NaN are the target's
    tl.device_print("quarter", i.to(tl.float8e5), hex=True)
    tl.device_print("two ", tl.arange(0, 2), tl.arange(2, 4))
    tl.device_print("a\tb", tl.arange(0, 2)[:, None])
    tl.device_print("100% %d", tl.program_id(0))
    tl.device_print("", (i[:, None] - 1).to(tl.uint8).reshape(4))
    tl.device_print("i1", i > 2)
    tl.device_print("here")


LINES = """\
 idx (0) v: 0.100000
 idx (1) v: -0.000000
 idx (2) v: inf
 idx (3) v: nan
 idx (0) half: 0x2e66
 idx (1) half: 0x8000
 idx (2) half: 0x7c00
 idx (3) half: 0x4000
 idx (0) quarter: 0x00
 idx (1) quarter: 0x3c
 idx (2) quarter: 0x40
 idx (3) quarter: 0x42
 idx (0) two: (operand 0) 0
 idx (1) two: (operand 0) 1
 idx (0) two: (operand 1) 2
 idx (1) two: (operand 1) 3
 idx (0, 0) a\tb: 0
 idx (1, 0) a\tb: 1
 idx () 100% %d: 0
 idx (0): 255
 idx (1): 0
 idx (2): 1
 idx (3): 2
 idx (0) i1: 0
 idx (1) i1: 0
 idx (2) i1: 0
 idx (3) i1: 1
 here
"""


def test_lines(engine, capfd):
    engine(printed, [np.float32([0.1, -0.0, np.inf, np.nan])])
    lines, wanted = capfd.readouterr().out.splitlines(), [f"pid (0, 0, 0){line}" for line in LINES.splitlines()]
    if engine is cuda:  # in no order; what is no block, once for each thread
        wanted += 127 * [line for line in wanted if "idx (" not in line or "idx ()" in line]
        lines, wanted = sorted(lines), sorted(wanted)
    assert lines == wanted
