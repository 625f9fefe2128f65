"""Kernels written in tile IR: what the tests of the CPU backend build, launch and compare them with."""

import ctypes
import mmap
import struct

import numpy as np

from tritium import ops, passes
from tritium.backends.cpu.compile import prepare
from tritium.backends.cpu.lower.function import lower
from tritium.backends.cpu.runtime.image import Runtime
from tritium.backends.llvm.target import compile_text, cpu_target
from tritium.interp.machine import interpret
from tritium.ir import types as T
from tritium.ir.builder import Builder
from tritium.ir.core import Module
from tritium.ir.verify import verify

# The parameters of a kernel's function in LLVM.
KERNEL = ["ptr args", "i64 begin", "i64 end", "ptr grid", "ptr arena"]
rng = np.random.default_rng(0)


def slot(t, x):
    """A kernel argument as its 8 bytes."""
    if isinstance(x, np.ndarray):
        return struct.pack("<Q", x.ctypes.data)
    return struct.pack({T.f32: "<fxxxx", T.f64: "<d"}.get(t, "<q"), x)


class B(Builder):
    """A builder with the few words the kernels below repeat."""

    def c(self, x, t=T.i32):
        return ops.constant(self, value=x, type=t)

    def full(self, x, shape, t=T.i32):
        return ops.splat(self, x if not isinstance(x, (int, float)) else self.c(x, t), shape=tuple(shape))

    def range(self, n, axis=0, rank=1, shape=None):
        x = ops.arange(self, start=0, end=n)
        for k in range(rank):
            if k != axis:
                x = ops.expand_dims(self, x, axis=k)
        return x if shape is None else ops.broadcast(self, x, shape=tuple(shape))

    def at(self, p, *strides, shape):
        """Pointers p + sum(stride * index)."""
        shape = tuple(shape)
        total = None
        for axis, stride in enumerate(strides):
            i = self.range(shape[axis], axis, len(shape), shape)
            s = self.full(stride, shape)
            term = ops.mul(self, i, s)
            total = term if total is None else ops.add(self, total, term)
        return ops.addptr(self, self.full(p, shape), total)

    def rows(self, p, shape):
        """Pointers to a row-major array."""
        strides = [int(np.prod(shape[k + 1 :])) for k in range(len(shape))]
        return self.at(p, *strides, shape=shape)

    def get(self, p, shape):
        return ops.load(self, self.rows(p, shape))

    def put(self, p, x):
        ops.store(self, self.rows(p, T.shape(x.type)) if T.shape(x.type) else p, x)

    def fold(self, kind, *types):
        with self.region([*types, *types]) as r:
            out = kind(self, *r.args) if callable(kind) else None
            ops.yield_(self, *(out if isinstance(out, tuple) else (out,)))
        return r.block


def module(build, *arg_types, name="kernel"):
    b = B()
    args = [b.argument(t, f"a{k}") for k, t in enumerate(arg_types)]
    build(b, *args)
    return verify(Module(name, b.finish(), {}))


def launch(m, args, grid=(1,), opt=2):
    cpu = cpu_target()
    m = m.replace(attrs={**m.attrs, "launch_checks": True})  # as for arguments that share no memory
    m = prepare(passes.run(m, passes.CLEANUP), cpu)
    text, name, arena, _ = lower(m, cpu)
    library = Runtime.get().load(compile_text(text, cpu, opt=opt))
    slots = b"".join(slot(a.type, x) for a, x in zip(m.args, args, strict=True))
    Runtime.get().launch_raw(library.address(name), arena, *(*grid, 1, 1)[:3], slots)
    return text


def check(build, arg_types, args, grid=(1,), tolerance=0.0, opt=2):
    """Run on the interpreter and on the CPU; all arrays must agree."""
    m = module(build, *arg_types)
    theirs, mine = ([x.copy() if isinstance(x, np.ndarray) else x for x in args] for _ in range(2))
    interpret(m, theirs, grid)
    text = launch(m, mine, grid, opt)
    for k, (x, y) in enumerate(zip(theirs, mine, strict=True)):
        if isinstance(x, np.ndarray):
            if x.dtype.kind in "iub" or tolerance == 0:
                np.testing.assert_array_equal(y, x, err_msg=f"argument {k}")
            else:
                np.testing.assert_allclose(
                    y.astype(np.float64), x.astype(np.float64), rtol=tolerance, atol=tolerance, err_msg=f"argument {k}"
                )
    return text


def floats(*shape, dtype=np.float32):
    return rng.standard_normal(shape).astype(dtype)


F, I = T.Ptr(T.f32), T.Ptr(T.i32)


def guarded(x):
    """A copy of an array that ends where memory does: the page behind it cannot be touched."""
    page = mmap.PAGESIZE
    size = -(-x.nbytes // page) * page
    memory = mmap.mmap(-1, size + page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    assert ctypes.CDLL(None, use_errno=True).mprotect(ctypes.c_void_p(start + size), page, mmap.PROT_READ * 0) == 0
    copy = np.frombuffer(memory, x.dtype, x.size, size - x.nbytes).reshape(x.shape)
    copy[...] = x
    return copy
