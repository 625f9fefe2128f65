"""The LLVM layer of all backends: a text writer, target machines, pass lists, and a JIT linker for the host."""
