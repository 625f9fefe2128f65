"""Templates of tensor maps: the native launcher and Python compute the same tensors."""

import ctypes
import json
import random

import pytest

from tritium.backends.launcher import image
from tritium.backends.llvm.target import compile_text
from tritium.backends.nvptx.runtime import implicit_args
from tritium.backends.nvptx.runtime.tensor_map import COMPUTED, Template, total, value

I, P = ctypes.c_int, ctypes.c_void_p
PROBE = """
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare i32 @cuTensorMapEncodeTiled(ptr, i32, i32, ptr, ptr, ptr, ptr, ptr, i32, i32, i32, i32)
declare i32 @cuTensorMapReplaceAddress(ptr, ptr)
define i1 @probe(ptr %implicit, ptr %slots, ptr %grid) {
  %described = call i1 @describe_all(ptr %implicit, ptr %slots, ptr %grid)
  ret i1 %described
}
"""


@pytest.fixture(scope="module")
def describe():
    """A function: the tensors that the native launcher asks the driver for."""
    seen = []

    @ctypes.CFUNCTYPE(I, P, I, I, P, P, P, P, P, I, I, I, I)
    def encode(out, kind, rank, address, dims, steps, *rest):
        read = lambda pointer, count: list((ctypes.c_int64 * count).from_address(pointer))
        seen.append(((address or 0), read(dims, rank), read(steps, rank - 1)))
        return 0

    @ctypes.CFUNCTYPE(I, P, P)
    def exchange(out, address):
        return 0

    known = {"cuTensorMapEncodeTiled": encode, "cuTensorMapReplaceAddress": exchange}
    known = {name: ctypes.cast(function, P).value for name, function in known.items()}
    symbols = image.load(compile_text(implicit_args.text() + PROBE, image.host()), known, ("probe",))
    probe = ctypes.CFUNCTYPE(ctypes.c_bool, P, P, P)(symbols["probe"])

    def run(maps, arguments, grid):
        seen.clear()
        implicit = implicit_args.ImplicitArguments(maps, False, len(arguments))
        words = [(ctypes.c_int64 * len(x))(*x) for x in (arguments, grid)]
        assert probe(implicit.address, *map(ctypes.addressof, words))
        return list(seen)

    yield run
    assert encode and exchange  # kept as long as native code calls them


class Forms:
    """Random templates."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def slot(self, depth):
        if depth == 0 or self.random.random() < 0.5:
            return self.random.choice([1, 2, 3, 4, -1, -2, -3])
        return (self.random.choice(COMPUTED), self.sum(depth - 1), self.sum(depth - 1))

    def sum(self, depth=2):
        slots = lambda: tuple(self.slot(depth) for _ in range(self.random.choice([0, 1, 1, 2, 6])))
        return tuple((self.random.choice([1, 2, -1, 3, 64]), slots()) for _ in range(self.random.choice([1, 1, 2])))

    def template(self):
        dims = tuple((self.sum(), self.sum()) for _ in range(self.random.choice([1, 2, 3])))
        return ("fp16", 2, 0, self.sum(), dims, (8,) * len(dims), 128)

    def launch(self):
        numbers = [self.random.choice([0, 1, -1, 2, 3, -7, 5, 16, 100, -2]) for _ in range(4)]
        return [4096, *numbers], [self.random.choice([1, 2, 7]) for _ in range(3)]


def largest(form, arguments, grid):
    """The largest magnitude on the way to the value of a sum: Python's integers have no end."""
    parts = [side for _, slots in form for slot in slots if not isinstance(slot, int) for side in slot[1:]]
    return max([abs(total(form, arguments, grid)), *(largest(x, arguments, grid) for x in parts)])


@pytest.mark.parametrize("seed", range(4))
def test_both_compute_the_same_tensors(describe, seed):
    forms, compared = Forms(seed), 0
    for _ in range(100):
        maps, (arguments, grid) = [forms.template() for _ in range(2)], forms.launch()
        read_back = json.loads(json.dumps(maps))  # as from a cache of kernels
        for template, found in zip(maps, describe(read_back, arguments, grid)):
            address, sizes, strides = Template(*template).tensor(arguments, grid)
            sums = [template[3], *(x for dim in template[4] for x in dim)]
            if max(largest(x, arguments, grid) for x in sums) < 1 << 56:
                compared += 1
                assert found == (address % (1 << 64), sizes[::-1], strides[-2::-1])
    assert compared > 100


@pytest.mark.parametrize(("name", "results"), [
    ("mul", [6, -6, 0, -7, -(1 << 62)]), ("div", [1, -1, 0, -7, -(1 << 62)]), ("rem", [1, 1, 0, 0, 0]),
    ("min", [2, -2, 0, -1, -1]), ("max", [3, 3, 7, 7, 1 << 62]),
])
def test_divisions_are_those_of_kernels_and_trap_nowhere(describe, name, results):
    sides = [(3, 2), (3, -2), (7, 0), (7, -1), (1 << 62, -1)]
    form = ((1, ((name, ((1, (1,)),), ((1, (2,)),)),)),)
    template = ("fp16", 2, 0, (), ((form, ((8, ()),)), (((8, ()),), ((1, ()),))), (8, 8), 128)
    for (a, b), result in zip(sides, results):
        ((_, (_, found), _),) = describe([template], [4096, a, b], [1, 1, 1])
        assert found == result == value(form[0][1][0], [4096, a, b], (1, 1, 1))


def test_no_division_of_the_least_integer_traps(describe):
    form = ((1, (("div", ((1, (1,)),), ((1, (2,)),)),)),)
    template = ("fp16", 2, 0, (), ((form, ((8, ()),)), (((8, ()),), ((1, ()),))), (8, 8), 128)
    assert describe([template], [4096, -(1 << 63), -1], [1, 1, 1])[0][1] == [8, -(1 << 63)]


def test_a_value_of_several_maps_is_computed_once():
    half = ("div", ((1, (1,)),), ((2, ()),))
    form = ((1, (half, 1, 1, 1, 2)),)
    template = ("fp16", 2, 0, (), ((form, ((8, ()),)), (((1, (half,)),), ((1, ()),))), (8, 8), 128)
    made = implicit_args.ImplicitArguments([template] * 3, False, 3)
    assert made.memory.values == 2  # the half, and a product of the last two factors
