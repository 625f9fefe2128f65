"""Constants of user-defined types, and kernels that take one."""

import dataclasses

import numpy as np

import tritium as triton
import tritium.language as tl


@triton.jit
def call(p, F: tl.constexpr):
    tl.store(p, F(2) * 1.0)


@triton.jit
def attribute(p, X: tl.constexpr):
    tl.store(p, X.v * 1.0)


def run(kernel, constant):
    y = np.zeros(1, np.float32)
    kernel[(1,)](y, constant)
    return float(y[0])


class Scale:
    def __init__(self, v):
        self.v = v

    def __call__(self, x):
        return self.v * x

    def times(self, x):
        return self.v * x

    def __repr__(self):
        return "Scale()"


class Plain:
    pass


@dataclasses.dataclass
class Data:
    v: int
    more: object = None


@dataclasses.dataclass(frozen=True)
class Frozen:
    v: int
    more: object = None


def plain(**state):
    made = Plain()
    vars(made).update(state)
    return made
