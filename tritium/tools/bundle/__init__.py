"""Bundles of kernels compiled ahead of time: `python -m tritium bundle`."""
