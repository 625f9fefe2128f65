"""The memory of arguments: it lasts as long as the launch, and what is read-only is not written."""

import gc
import weakref

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tritium.errors import InterpreterError
from tritium.interp import eager
from tritium.tensors import reader_of
from tritium.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def copy(src, dst, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(dst + i, tl.load(src + i))


@triton.jit
def maybe(src, dst, flag):
    if flag > 0:
        tl.store(dst, tl.load(src))


@triton.jit
def count(counter, other):
    tl.atomic_add(counter, tl.load(other))


@triton.jit
def through_a_helper(p, q, N: tl.constexpr):
    for k in range(2):
        p += k * N
        copy(q, p, N)


@triton.jit
def to_one_of(pair, N: tl.constexpr):
    copy(pair[0], pair[1], N)


@triton.jit
def move_tile(source, target, N: tl.constexpr):
    target.store([0], source.load([0]))


def compiled(kernel, *args, **kwargs):
    return kernel[(1,)](*args, **kwargs)


def interpreted(kernel, *args, **kwargs):
    eager.launch(kernel, (1,), args, kwargs)


ROADS = pytest.mark.parametrize("launch", [compiled, interpreted])


# -- how long it lasts -------------------------------------------------------------------------------------------------


class Arena:
    """Memory that is spoilt as soon as nobody holds an array over it."""

    def __init__(self, size=64):
        self.memory = np.zeros(size, np.float32)
        self.given = 0

    def lend(self, start=0):
        class Lent(np.ndarray):
            def __del__(lent):
                self.memory[:] = np.nan

        self.memory[:] = 7
        self.given += 1
        return self.memory[start:].view(Lent)


class Lazy:
    """A tensor that exports an array it makes for the purpose and does not keep; each time somewhere else."""

    def __init__(self, versioned):
        self.arena, self.versioned = Arena(), versioned

    def __dlpack__(self, **wishes):
        made = self.arena.lend(start=self.arena.given % 4)
        return made.__dlpack__(**wishes) if self.versioned else made.__dlpack__()

    def __dlpack_device__(self):
        return 1, 0


class Image:
    """An array whose interface is computed: its bytes are made for the purpose and not kept."""

    def __init__(self):
        self.arena = Arena()

    @property
    def __array_interface__(self):
        return {"data": self.arena.lend(), "typestr": "<f4", "shape": (64,), "version": 3}


@ROADS
@pytest.mark.parametrize("make", [lambda: Lazy(False), lambda: Lazy(True), Image], ids=["dlpack", "versioned", "image"])
def test_memory_that_is_made_for_a_launch_lasts_until_its_end(launch, make):
    x, y = make(), np.zeros(64, np.float32)
    reader_of(x)  # looks whether it has an interface, once for its type
    before = x.arena.given
    for times in range(before + 1, before + 4):
        y[:] = 0
        launch(copy, x, y, N=32)
        assert (y[:32] == 7).all() and x.arena.given == times, "the tensor is asked once for a launch"
        gc.collect()
        assert np.isnan(x.arena.memory).all(), "what it gave is not kept any longer"


def test_a_compiled_kernel_holds_its_arguments_too():
    x, y = Lazy(True), np.zeros(64, np.float32)
    kernel = compiled(copy, x, y, N=32)
    y[:] = 0
    kernel[(1, 1, 1)](x, y, 32)
    assert (y[:32] == 7).all()


def test_a_launch_that_fails_lets_go_of_its_arguments():
    x = Lazy(True)
    with pytest.raises(TypeError, match="argument `dst`"):
        compiled(copy, x, [1], N=32)
    gc.collect()
    assert np.isnan(x.arena.memory).all()


def test_arguments_are_not_kept_after_a_launch():
    x, y = np.zeros(64, np.float32), np.zeros(64, np.float32)
    compiled(copy, x, y, N=32)
    seen = weakref.ref(x)
    compiled(copy, x, y, N=32)
    del x
    gc.collect()
    compiled(copy, y, y, N=32)
    assert seen() is None


# -- what may be written -----------------------------------------------------------------------------------------------


def frozen(x):
    x = x.copy()
    x.flags.writeable = False
    return x


@ROADS
@pytest.mark.parametrize("kernel, arguments, name", [
    (copy, lambda x: (x, frozen(x), 4), "dst"), (maybe, lambda x: (x, frozen(x), 3), "dst"),
    (count, lambda x: (frozen(x), x), "counter"), (through_a_helper, lambda x: (frozen(x), x, 4), "p"),
], ids=["store", "branch", "atomic", "helper"])  # fmt: skip
def test_a_store_to_read_only_memory_is_refused(launch, kernel, arguments, name):
    args = arguments(np.ones(64, np.float32))
    before = [np.copy(x) for x in args]
    with pytest.raises((ValueError, InterpreterError), match=f"(?s)`{name}`.*read-only|read-only.*`{name}`"):
        launch(kernel, *args)
    assert all((x == y).all() for x, y in zip(before, args))


def test_the_native_launcher_looks_at_every_launch():
    x, y, read_only = np.ones(64, np.float32), np.zeros(64, np.float32), frozen(np.zeros(64, np.float32))
    for _ in range(3):
        compiled(copy, x, y, N=16)
        with pytest.raises(ValueError, match="argument `dst` of kernel `copy`: the kernel stores to it"):
            compiled(copy, x, read_only, N=16)
        compiled(copy, read_only, y, N=16)
    y.flags.writeable = False
    with pytest.raises(ValueError, match="argument `dst`"):
        compiled(copy, x, y, N=16)
    y.flags.writeable = True
    compiled(copy, x, y, N=16)
    assert not read_only.any() and (y[:16] == 1).all()


@ROADS
def test_read_only_memory_in_a_tuple_or_a_descriptor(launch):
    x, y = np.ones(64, np.float32), np.zeros(64, np.float32)
    launch(to_one_of, (frozen(x), y), N=16)
    assert (y[:16] == 1).all()
    y[:] = 0

    def tile(array):
        return TensorDescriptor.from_tensor(array, [16])

    launch(move_tile, tile(frozen(x)), tile(y), N=16)
    assert (y[:16] == 1).all()
    with pytest.raises((ValueError, InterpreterError), match=r"(?s)`target`.*read-only|read-only.*`target`"):
        launch(move_tile, tile(x), tile(frozen(y)), N=16)


# -- no memory ---------------------------------------------------------------------------------------------------------


@ROADS
def test_an_empty_tensor_needs_no_memory(launch):
    torch = pytest.importorskip("torch")
    y = torch.zeros(4)
    for _ in range(3):
        launch(maybe, torch.zeros(0), y, 0)
    assert not y.any()


def test_a_tensor_that_loses_its_memory_is_refused_by_the_native_launcher():
    torch = pytest.importorskip("torch")
    x, y = torch.ones(16), torch.zeros(16)
    for _ in range(2):
        compiled(copy, x, y, N=16)
    x.untyped_storage().resize_(0)
    with pytest.raises(ValueError, match="argument `src` of kernel `copy`: it has 16 elements and no memory"):
        compiled(copy, x, y, N=16)
