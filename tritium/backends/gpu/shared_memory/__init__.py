"""Shared memory: what each op takes of it, and the pass that says where (`allocate_shared`)."""
