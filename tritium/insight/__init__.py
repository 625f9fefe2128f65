"""See why: what kernels do and what they cost. Facts are data classes; what draws them only draws.

`tritium.explain`, `tritium.profile` and `tritium.sanitize` are the ways in.
"""
