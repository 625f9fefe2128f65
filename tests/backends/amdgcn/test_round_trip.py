"""Machine code comes back from LLVM's disassembler and assembler unchanged.

llvmlite has neither, so an `llvm-mc` on the path is needed: LLVM 20 or newer knows all architectures. A sample of the
collection is disassembled here; `everything.py` does it for all kernels.
"""

import pytest

from tests.backends.amdgcn.compiled import TARGETS, comes_back, compiled, disassembled, llvm_mc, object_of
from tests.backends.amdgcn.everything import fitting, kernels_of
from tritium.backends.amdgcn.compile import assembled

SAMPLE = ("softmax", "matmul, fp16", "attention, causal", "topk", "histogram")


@pytest.fixture(params=TARGETS)
def arch(request):
    """An architecture that the `llvm-mc` of this machine knows."""
    if not llvm_mc(request.param):
        pytest.skip(f"no llvm-mc on the path knows {request.param}: LLVM 20 and newer know all architectures")
    return request.param


@pytest.mark.parametrize("name", SAMPLE)
def test_code_of_the_collection_comes_back(arch, name, tmp_path):
    for _, module, options in kernels_of([name])[name]:
        llir = compiled(module, arch, **fitting(options, arch))[0]["llir"]
        assert comes_back(object_of(llir, arch), assembled(llir, arch), arch, tmp_path)


def test_the_assembly_of_other_code_is_told_apart(arch, tmp_path):
    (_, module, _), *_ = kernels_of(["softmax"])["softmax"]
    mine, theirs = (compiled(module, arch, num_warps=n)[0]["llir"] for n in (1, 2))
    assert not comes_back(object_of(mine, arch), assembled(theirs, arch), arch, tmp_path)


def test_bytes_that_are_no_instruction(arch):
    with pytest.raises(AssertionError, match="invalid instruction"):
        disassembled(b"\xff" * 8, arch)
