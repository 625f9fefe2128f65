"""One program on the blocks of a cluster: which axes are split, and what each block does."""
