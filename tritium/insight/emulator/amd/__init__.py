"""AMD GPUs in NumPy: CDNA with 64 lanes and MFMA, RDNA with 32 and WMMA."""
