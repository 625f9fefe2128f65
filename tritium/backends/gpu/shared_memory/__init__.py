"""Shared memory: what each op takes of it, and the passes that say where it lies and who waits for whom."""
