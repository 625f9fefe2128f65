"""A folder for PYTHONPATH: it holds nothing but what `import triton` finds there."""
