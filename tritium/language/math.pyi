# Written by docs/make_stubs.py from the objects themselves: change those, and run it again.

from .core import (
    abs as abs,
    ceil as ceil,
    cos as cos,
    div_rn as div_rn,
    erf as erf,
    exp as exp,
    exp2 as exp2,
    fdiv as fdiv,
    floor as floor,
    fma as fma,
    log as log,
    log2 as log2,
    rsqrt as rsqrt,
    sin as sin,
    sqrt as sqrt,
    sqrt_rn as sqrt_rn,
    umulhi as umulhi,
)

__all__: list[str]
