"""Every kernel test runs on NumPy arrays, on torch tensors and, where there is a GPU, on CUDA tensors."""

import numpy as np
import pytest


class Arrays:
    """Inputs of one kind: `of` makes them from NumPy arrays, `back` returns them as float64 (or int64)."""

    def __init__(self, kind):
        self.kind = kind
        self.torch = None if kind == "numpy" else pytest.importorskip("torch")

    def of(self, x, dtype=None):
        """`x` in this kind, as `dtype` ("bfloat16", "float8_e4m3fn", ...); strides are kept."""
        if self.kind == "numpy":
            from tritium.kernels.arrays import numpy_dtype

            return x if dtype is None else x.astype(numpy_dtype(dtype), order="K")
        x = self.torch.from_numpy(x).to(self.kind)
        return x if dtype is None else x.to(getattr(self.torch, dtype))

    def back(self, x):
        """The values, exactly."""
        if isinstance(x, tuple):
            return tuple(map(self.back, x))
        if self.kind == "numpy":
            assert isinstance(x, np.ndarray)
        else:
            assert x.device.type == self.kind
            x = x.cpu()
            x = (x.double() if x.is_floating_point() else x).numpy()
        return x.astype(np.int64 if x.dtype.kind in "iu" else np.float64)


@pytest.fixture(params=["numpy", "cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def arrays(request):
    return Arrays(request.param)


@pytest.fixture
def threads():
    """A function that sets the number of threads for the length of a test."""
    import tritium

    before = tritium.get_num_threads()
    yield tritium.set_num_threads
    tritium.set_num_threads(before)


@pytest.fixture
def rng():
    return np.random.default_rng(7)
