"""Tests of `tritium.torch` need torch, and run on the CPU and, where there is one, on a GPU."""

import pytest

torch = pytest.importorskip("torch")


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    return request.param


@pytest.fixture(autouse=True)
def same_numbers():
    torch.manual_seed(5)
