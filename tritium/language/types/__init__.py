"""Types and values of the language: dtypes, constants, tensors, promotion."""
