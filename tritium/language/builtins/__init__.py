"""The builtins of `tl`: each writes ops of the tile IR."""
