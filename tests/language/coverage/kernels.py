"""The kernels of the coverage table: what its rows say, written to a file as a user would write it."""

import ast
import atexit
import importlib.util
import re
import shutil
import tempfile
from pathlib import Path

import ml_dtypes
import numpy as np

from .engines import target_of
from .pool import POOL

DTYPES = {
    "bool": "int1", "int8": "int8", "int16": "int16", "int32": "int32", "int64": "int64", "uint8": "uint8",
    "uint16": "uint16", "uint32": "uint32", "uint64": "uint64", "float16": "float16", "bfloat16": "bfloat16",
    "float32": "float32", "float64": "float64", "float8_e5m2": "float8e5", "float8_e4m3fn": "float8e4nv",
    "float8_e4m3fnuz": "float8e4b8", "float8_e5m2fnuz": "float8e5b16",
}  # fmt: skip

PRELUDE = '''from typing import NamedTuple

import tritium as triton
import tritium.language as tl
from tritium.language.extra import libdevice

FIVE = tl.constexpr(5)
NAME = tl.constexpr("gelu")


class Pair(NamedTuple):
    first: tl.tensor
    second: tl.tensor


@triton.aggregate
class Box:
    first: tl.tensor
    second: tl.tensor


@triton.jit
def add(a, b):
    return a + b


@triton.jit
def pair(a, ia, b, ib):
    first = (a > b) | ((a == b) & (ia < ib))
    return tl.where(first, a, b), tl.where(first, ia, ib)


@triton.jit
def line(a1, b1, a2, b2):
    return a1 * a2, b1 * a2 + b2


@triton.jit
def branch(a, b):
    if a > b:
        r = a - b
    else:
        r = b - a
    return r


@triton.jit
def swap(a0, a1, b0, b1):
    return a1 + b1, a0 - b0


@triton.jit
def read_only(p: tl.const):
    return tl.load(p + tl.arange(0, 16))
'''


def names_in(form):
    """The values of the pool that a form's text speaks of: `x` is loaded, `x_ptr` is a pointer."""
    names = [node for node in ast.walk(ast.parse(form.text)) if isinstance(node, ast.Name)]
    bound = {node.id for node in names if isinstance(node.ctx, ast.Store)}
    return sorted({node.id for node in names if node.id.removesuffix("_ptr") in POOL} - bound)


def statements(form):
    """The lines of a form's text before its last expression, and that expression."""
    lines = form.text.split("\n")
    first = ast.parse(form.text).body[-1].lineno - 1
    return lines[:first], "\n".join(lines[first:])


def pointers(name, shape):
    """The text of pointers to the elements of an array."""
    terms = [name]
    for axis, size in enumerate(shape):
        stride = int(np.prod(shape[axis + 1:]))
        index = ", ".join(":" if axis == k else "None" for k in range(len(shape)))
        terms.append(f"tl.arange(0, {size})" + (f"[{index}]" if len(shape) > 1 else "")
                     + (f" * {stride}" if stride != 1 else ""))
    return " + ".join(terms)


def type_text(value):
    """The text of the type that a value like this array has in a kernel."""
    element = f"tl.{DTYPES[value.dtype.name]}"
    return f"tl.block_type({element}, {list(value.shape)})" if value.shape else element


def arguments_of(row):
    """The arguments of a row's kernel by name: a fresh copy of every input, and an output for every value."""
    inputs = {}
    for name in sorted({name for form in row.forms for name in names_in(form)}):
        value = POOL[name.removesuffix("_ptr")]
        is_tile = isinstance(value, np.ndarray) and not name.endswith("_ptr")
        inputs[f"{name}_in" if is_tile else name] = value.copy() if isinstance(value, np.ndarray) else value
    outs = {f"out{k}_{n}": np.zeros_like(value)
            for k, form in enumerate(row.forms) for n, value in enumerate(form.expected)}
    return inputs, outs


def text_of(row, symbol):
    """The kernel of a row."""
    inputs, outs = arguments_of(row)
    lines = ["@triton.jit", f"def {symbol}({', '.join([*inputs, *outs])}):"]
    for name, value in inputs.items():
        if name.endswith("_in"):
            lines.append(f"    {name[:-3]} = tl.load({pointers(name, value.shape)})")
    for k, form in enumerate(row.forms):
        before, last = statements(form)
        lines += [f"    {line}" for line in before] + [f"    value{k} = {last}"]
        several = len(form.expected) > 1
        if several:
            lines.append(f"    tl.static_assert(len(value{k}) == {len(form.expected)})")
        for n, value in enumerate(form.expected):
            got = f"value{k}[{n}]" if several else f"value{k}"
            lines.append(f"    tl.static_assert({got}.type == {type_text(value)})")
            lines.append(f"    tl.store({pointers(f'out{k}_{n}', value.shape)}, {got})")
    return "\n".join(lines) + "\n"


class Kernels:
    """The kernels of rows, by name, imported from one file: the compiler reads their source there."""

    def __init__(self, rows):
        self.symbols = {row.name: f"k{n}_{re.sub(r'[^a-z0-9]+', '_', row.name.lower())}" for n, row in enumerate(rows)}
        folder = Path(tempfile.mkdtemp(prefix="tritium-coverage-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        path = folder / "coverage_kernels.py"
        path.write_text("\n\n".join([PRELUDE, *[text_of(row, self.symbols[row.name]) for row in rows]]))
        spec = importlib.util.spec_from_file_location("coverage_kernels", path)
        self.module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.module)

    def __getitem__(self, name):
        return getattr(self.module, self.symbols[name])


def check(row, kernel, engine):
    """Run a row's kernel; raises what the engine raises, or AssertionError where a value is not what it must be."""
    inputs, outs = arguments_of(row)
    engine(kernel, [*inputs.values(), *outs.values()])
    target = target_of(engine)
    for k, form in enumerate(row.forms):
        for n, value in enumerate(form.expected_on(target)):
            compare(form, outs[f"out{k}_{n}"], value)


def compare(form, got, value):
    """Equal, or off by no more than the form's units in the last place."""
    x, y = got.astype(np.float64), value.astype(np.float64)
    same = (got == value) | (np.isnan(x) & np.isnan(y))
    if form.ulps:
        size = np.abs(np.nan_to_num(y))  # where terms cancel, the other values tell how large they were
        unit = float(ml_dtypes.finfo(value.dtype).eps) * np.maximum(size, size.mean())
        same |= np.abs(x - y) <= form.ulps * unit
    if not np.all(same):
        at = tuple(np.argwhere(~np.atleast_1d(same))[0].tolist())
        raise AssertionError(f"{form.text} gives {np.atleast_1d(got)[at]} at {at}, expected "
                             f"{np.atleast_1d(value)[at]}; {np.sum(~same)} of {np.size(same)} differ")
