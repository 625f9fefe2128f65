"""From Python functions to the tile IR.

    module = frontend.lower(kernel, {"x": "*fp32", "n": "i32", "BLOCK": "constexpr"}, {"BLOCK": 128})
    print(module)
"""

from .lower import KernelBuilder, lower

__all__ = ["KernelBuilder", "lower"]
