"""What GPU passes ask about a module: affine accesses, polynomials of scalars, preconditions."""
