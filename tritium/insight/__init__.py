"""See why: what kernels do and what they cost. Facts are data classes; what draws them only draws.

`tritium.explain` and `tritium.profile` are the ways in.
"""
