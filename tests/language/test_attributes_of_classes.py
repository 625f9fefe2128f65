"""Kernels as attributes of classes: launched from instances, not bound to them; methods of aggregates are bound."""

import pickle
from typing import NamedTuple

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tritium.interp.eager import InterpretedFunction


@triton.jit
def fill(out, value, BLOCK: tl.constexpr):
    tl.store(out + tl.arange(0, BLOCK), value)


class Layer:
    kernel = fill
    tuned = triton.autotune([triton.Config({"BLOCK": 4})], key=[])(fill)
    still = staticmethod(fill)

    @triton.jit
    def own(out, value, BLOCK: tl.constexpr):
        tl.store(out + tl.arange(0, BLOCK), value + 1)

    def __init__(self):
        self.mine = fill

    def forward(self, out):
        self.kernel[(1,)](out, 3.0, BLOCK=4)
        return out


class Derived(Layer):
    pass


@pytest.mark.parametrize("layer", [Layer(), Layer, Derived(), Derived], ids=["instance", "class", "derived", "sub"])
@pytest.mark.parametrize("name", ["kernel", "still", "own"])
def test_a_kernel_is_itself_in_a_class(layer, name):
    out = np.zeros(4, np.float32)
    getattr(layer, name)[(1,)](out, 2.0, BLOCK=4)
    assert (out == (3 if name == "own" else 2)).all()


def test_methods_launch_it():
    assert (Layer().forward(np.zeros(4, np.float32)) == 3).all()
    out = np.zeros(4, np.float32)
    Layer().tuned[(1,)](out, 5.0)
    assert (out == 5).all()
    Layer().mine[(1,)](out, 6.0, BLOCK=4)
    assert (out == 6).all()


def test_an_interpreted_kernel_is_itself_too():
    class Interpreted:
        kernel = InterpretedFunction(fill.fn)

    out = np.zeros(4, np.float32)
    Interpreted().kernel[(1,)](out, 7.0, BLOCK=4)
    assert (out == 7).all()


def test_a_module_of_torch():
    torch = pytest.importorskip("torch")

    class Module(torch.nn.Module):
        kernel = fill

        def forward(self, x):
            out = torch.empty_like(x)
            self.kernel[(1,)](out, 4.0, BLOCK=4)
            return out

    assert Module()(torch.zeros(4)).tolist() == [4.0] * 4


def test_pickling_names_it():
    assert pickle.loads(pickle.dumps(Layer().own)) is Layer.own
    assert pickle.loads(pickle.dumps(Layer().kernel)) is fill


class Pair(NamedTuple):
    a: object
    b: object

    @triton.jit
    def total(self):
        return self.a + self.b


@tl.core._aggregate
class Point:
    x: tl.tensor
    y: tl.tensor

    def __init__(self, x, y):
        self.x = x
        self.y = y

    @triton.jit
    def scaled(self, factor):
        return Point(self.x * factor, self.y * factor)


@triton.jit
def methods(out):
    point = Point(tl.load(out), tl.load(out + 1)).scaled(2)
    tl.store(out, point.x)
    tl.store(out + 1, point.y)
    tl.store(out + 2, Pair(point.x, point.y).total())


@pytest.mark.parametrize("kernel", [methods, InterpretedFunction(methods.fn)], ids=["native", "interpreted"])
def test_methods_of_values_are_bound(kernel):
    out = np.array([1, 2, 0], np.int32)
    kernel[(1,)](out)
    assert out.tolist() == [2, 4, 6]


class Shape:
    """A constant of a kernel whose method runs while the kernel is compiled."""

    def __init__(self, n):
        self.n = n

    def __repr__(self):
        return f"Shape({self.n})"

    @triton.constexpr_function
    def doubled(self):
        return self.n * 2


@triton.jit
def sized(out, SHAPE: tl.constexpr):
    tl.store(out, SHAPE.doubled())


def test_compile_time_methods_are_bound_to_any_object():
    out = np.zeros(1, np.int32)
    sized[(1,)](out, Shape(4))
    assert out.tolist() == [8] and Shape(3).doubled() == 6
