"""Names of Triton's experimental part, so that files that import them can be imported."""
