"""`tritium.profile`: what the kernels of a block of code cost where they run."""
