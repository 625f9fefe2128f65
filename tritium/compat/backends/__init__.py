"""Modules that Triton's users look for in `triton.backends`."""
