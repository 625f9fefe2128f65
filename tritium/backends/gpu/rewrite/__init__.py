"""GPU passes that rewrite expressions and dots, each a module to a better module."""
