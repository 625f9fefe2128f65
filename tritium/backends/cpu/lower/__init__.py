"""Tile IR to LLVM for CPUs, one file for each family of ops."""
