"""What exists only because Triton has it: names that programs and frameworks import, and nothing that tritium needs.

The folder mirrors the package. `compat/runtime/cache.py` is imported as `tritium.runtime.cache`: a package that has a
counterpart here also looks for its modules there. Modules here import each other relatively, all else by full names.
"""
