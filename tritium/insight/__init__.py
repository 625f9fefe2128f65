"""See why: what kernels do and what they cost. Facts are data classes; what draws them only draws."""
