"""Tests of the name `triton`, which another package may have by the time they run."""

import sys

import pytest


@pytest.fixture(autouse=True, scope="module")
def no_other_triton():
    """Take a Triton that torch has imported in this process out of the way, and put it back."""
    foreign = {name: module for name, module in sys.modules.items()
               if name.partition(".")[0] == "triton" and not getattr(module, "__name__", "").startswith("tritium")}
    for name in foreign:
        del sys.modules[name]
    yield
    sys.modules.update(foreign)
