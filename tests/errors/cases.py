"""Kernels with one mistake each: `@mistake(...)` gives the parameters' types and constants."""

from typing import NamedTuple

import tritium as triton

CASES = {}


class Case(NamedTuple):
    kernel: object
    signature: dict
    constants: dict


def mistake(**parameters):
    """Register a kernel; a string is the type of a parameter, anything else (or `const(...)`) its constant value."""
    def register(fn):
        constants = {name: value[0] if isinstance(value, list) else value
                     for name, value in parameters.items() if not isinstance(value, str)}
        signature = {name: "constexpr" if name in constants else kind for name, kind in parameters.items()}
        assert fn.__name__ not in CASES, fn.__name__
        CASES[fn.__name__] = Case(triton.jit(fn), signature, constants)
        return fn
    return register
