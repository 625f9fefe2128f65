"""The collection of kernels on emulated AMD GPUs, on little data: every kernel gives what its reference does."""

import pytest

from tests.backends.gpu.toy import collection
from tritium.insight import emulator

SAMPLE = 4


@pytest.mark.parametrize("name", collection.CASES)
def test_collection(amd, run_amd, name):
    collection.check(name, run_amd, lambda module, **options: emulator.llvm_of(module, amd, **options))
