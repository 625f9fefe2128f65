"""The CUDA driver: loading, launching, memory, tensor maps."""
