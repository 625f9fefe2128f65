"""A collection of kernels, each a file to read: the kernel, a thin host function, and a reference in NumPy.

The host functions take torch tensors (CPU or CUDA) or NumPy arrays and return the same kind. They are what the demo
runs, what the benchmarks measure and what the tests compare with float64 references.

    >>> import numpy as np
    >>> from tritium.kernels.vector_add import vector_add
    >>> vector_add(np.float32([1, 2, 3]), np.float32([10, 20, 30]))
    array([11., 22., 33.], dtype=float32)
"""
