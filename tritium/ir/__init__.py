"""The tile IR: types, values, the builder, its text form and its verifier. Knows nothing of Triton, NumPy or LLVM."""
