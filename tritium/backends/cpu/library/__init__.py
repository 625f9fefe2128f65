"""Routines that compiled kernels call: matrix products, sorting, copies of tiles."""
