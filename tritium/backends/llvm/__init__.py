"""What every backend needs of LLVM: a text writer, target machines, pass lists, and an engine for the host."""
