"""Launching on AMD GPUs, through the HIP runtime."""
