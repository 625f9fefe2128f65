"""The specification of the tile IR on NumPy: `machine` runs modules, `eager` runs the user's own Python function."""
