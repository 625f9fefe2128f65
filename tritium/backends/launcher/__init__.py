"""Launching with no Python in between: builtins written in LLVM that look at arguments and run kernels.

`launcher` and `guards` write them, `record` describes what the arguments of a call must look like, `calls` makes such a
record of a launch, and `parts` compiles what a backend adds and keeps it on disk.
"""
