"""What the GPU backends share: layouts, their assignment, shared memory and the lowering to LLVM."""
