"""What GPU passes ask about a module: affine accesses, small dividends, preconditions."""
