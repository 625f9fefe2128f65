"""What LLVM's scheduling intrinsics make of loops with matrix instructions on AMD GPUs, without a device.

    python benchmarks/amd_scheduling.py [gfx942 ...]     # prints the table of docs/amd.md; half a minute for each

A cell has the accesses to memory that stand between the first and the last matrix instruction of the loop's body, out
of all that it has; vector registers; and words kept in memory for want of them.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

import tritium as triton
import tritium.language as tl
from tests.backends.amdgcn.compiled import compiled, instructions, object_of
from tests.backends.gpu.modules import module_of
from tritium.backends.amdgcn.assemble.link import link
from tritium.backends.amdgcn.assemble.resources import resources_of
from tritium.backends.amdgcn.compile import assembled


@triton.jit
def product(a, b, c, K, ahead, behind, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr, across: tl.constexpr):
    """a @ b, where b is contiguous along K, or across it."""
    i, j, kk = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BK)
    total = tl.zeros((M, N), tl.float32)
    for k in range(0, K, BK):
        x = tl.load(a + i[:, None] * ahead + (k + kk)[None, :])
        if across:
            y = tl.load(b + j[None, :] + (k + kk)[:, None] * behind)
        else:
            y = tl.load(b + j[None, :] * behind + (k + kk)[:, None])
        total = tl.dot(x, y, total)
    tl.store(c + i[:, None] * N + j[None, :], total)


# (rows, columns, K of an iteration, warps, whether b is contiguous across K)
SIZES = [(64, 64, 64, 4, True), (128, 128, 32, 4, True), (128, 128, 64, 4, True), (128, 128, 64, 4, False),
         (256, 128, 32, 8, True), (128, 256, 64, 4, True), (256, 256, 64, 8, True)]  # fmt: skip
_MMA = re.compile(r"= call [^\n]*\.mfma\.[^\n]*\n")
_MEMORY = re.compile(r"(ds_read|ds_write|buffer_load|global_load)")


def groups(block: str) -> list[str]:
    """Calls that ask for reads of shared memory, a matrix instruction, and a load, again and again."""
    products, reads = len(_MMA.findall(block)), len(re.findall(r"= load [^\n]*addrspace\(3\)", block))
    loads, each = len(re.findall(r"call [^\n]*buffer\.load", block)), max(1, round(reads / products))
    call = "  call void @llvm.amdgcn.sched.group.barrier(i32 {}, i32 {}, i32 0)".format
    return [line for k in range(products)
            for line in (call(0x100, each), call(8, 1), *([call(0x20, 1)] if k < loads else []))]  # fmt: skip


WAYS = {
    "LLVM alone": lambda block: [],
    "`iglp.opt(0)`": lambda block: ["  call void @llvm.amdgcn.iglp.opt(i32 0)"],
    "`sched.group.barrier`": groups,
}
_DECLARED = """
declare void @llvm.amdgcn.iglp.opt(i32 immarg)
declare void @llvm.amdgcn.sched.group.barrier(i32 immarg, i32 immarg, i32 immarg)
"""


def asked(text: str, way) -> str:
    """LLVM text with the calls behind the last matrix instruction of each basic block."""
    blocks = re.split(r"(?m)^(?=[\w.]+:)", text)
    for k, block in enumerate(blocks):
        if ends := [found.end() for found in _MMA.finditer(block)]:
            blocks[k] = block[: ends[-1]] + "".join(f"{line}\n" for line in way(block)) + block[ends[-1] :]
    return "".join(blocks) + _DECLARED


def body_of(text: str) -> str:
    """The shortest loop with matrix instructions."""
    loops = []
    for branch in re.finditer(r"s_c?branch\w* (\.LBB\d+_\d+)", text):
        start = text.find(f"{branch[1]}:")
        if 0 <= start < branch.start() and "v_mfma" in text[start : branch.start()]:
            loops.append(text[start : branch.start()])
    return min(loops, key=len)


def cell(text: str, arch: str) -> str:
    """What the code of LLVM text comes to."""
    found = resources_of(link(object_of(text, arch)))
    lines = [line.strip() for line in body_of(instructions(assembled(text, arch))).splitlines()]
    kinds = ["M" if line.startswith("v_mfma") else "m" for line in lines if line.startswith("v_mfma")
             or _MEMORY.match(line)]  # fmt: skip
    inner = kinds[kinds.index("M") : len(kinds) - kinds[::-1].index("M")]
    kept = f", {found['n_spills']} kept" if found["n_spills"] else ""
    return f"{inner.count('m')} of {kinds.count('m')}, {found['n_regs']}{kept}"


def main(architectures: list[str]) -> None:
    print(f"| product | GPU | {' | '.join(WAYS)} |\n|---|---|{'---:|' * len(WAYS)}")
    half = np.zeros((256, 1024), np.float16)
    for m, n, k, warps, across in SIZES:
        args = [half, half, np.zeros((m, n), np.float32), 1024, 1024, 1024, m, n, k, across]
        module = module_of(product, args)[0]
        for arch in architectures or ("gfx942", "gfx950"):
            text = compiled(module, arch, num_warps=warps)[0]["llir"]
            cells = [cell(asked(text, way), arch) for way in WAYS.values()]
            name = f"{m} x {n} x {k}, {warps} warps{'' if across else ', along K'}"
            print(f"| {name} | {arch} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
