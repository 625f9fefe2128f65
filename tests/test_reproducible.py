"""The same source gives the same code in every process: nothing follows the addresses of objects, or hashes of text."""

import hashlib
import json
import os
import sys

import tritium as triton
from tests.backends.gpu import test_dot_chains as chains
from tests.processes import run
from tritium.backends.compiler import GPUTarget
from tritium.compiler import ASTSource
from tritium.ir import core

TARGETS = {"cuda:90": GPUTarget("cuda", 90, 32), "gfx942": GPUTarget("hip", "gfx942", 64),
           "cpu": GPUTarget("cpu", "x86-64-v3", 0)}  # fmt: skip
CONSTANTS = {"K": 64, "N": 64, "BK": 32, "M": 128, "PRECISION": "tf32"}
STAGES = "ttir", "ttgir", "llir", "ptx", "amdgcn"
SEEDS = 2654435761, 1000000007, 48271, 40503


def digests(seed: int) -> dict[str, str]:
    """Kernel, target and stage -> the digest of its text, where sets of values are walked in an order of their own."""
    for kind in (core.Arg, core.Op, core.Block, core.Module):
        kind.__hash__ = lambda x: (id(x) >> 4) * seed & 0xFFFFFFFF
    found = {}
    for kernel in (chains.gradients, chains.product, chains.solved):
        constants = {p.name: CONSTANTS[p.name] for p in kernel.params if p.is_constexpr}
        types = {p.name: "constexpr" if p.is_constexpr else "*fp16" if p.name.endswith("_ptr") else "i32"
                 for p in kernel.params}  # fmt: skip
        source = ASTSource(kernel, types, constants)
        for name, target in TARGETS.items():
            made = triton.compile(source, target=target).asm
            found |= {f"{kernel.__name__} {name} {stage}": hashlib.sha256(str(made[stage]).encode()).hexdigest()
                      for stage in STAGES if stage in made}  # fmt: skip
    return found


def test_all_stages_are_the_same(tmp_path):
    """Two processes hash text differently; each compiles the kernels twice, with an order of values of its own."""
    found = []
    for number in "12":
        env = {**os.environ, "PYTHONHASHSEED": number, "TRITIUM_CACHE_DIR": str(tmp_path), "TRITON_ALWAYS_COMPILE": "1"}
        done = run(["-m", "tests.test_reproducible", number], env=env)
        assert not done.returncode, done.stderr
        found += json.loads(done.stdout)
    first, *others = found
    assert len(first) > 25
    for other in others:
        assert [name for name in first if first[name] != other[name]] == []


if __name__ == "__main__":
    print(json.dumps([digests(seed) for seed in SEEDS[int(sys.argv[1]) - 1 :: 2]]))
