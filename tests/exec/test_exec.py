"""Kernels in text with `# run:` lines, on the interpreter and on every backend present.

    # run: @f([1, 2, 3], _, 3) == [1, 3, 6]        `_` is an output, as long as what is expected of it
    # run: @f([1, 2, 3]) == [1, 3, 6]              without `_`, the arrays from the first on are compared
    # run: @f(_, grid=(4, 2)) ~= [0.1, nan]        ~= allows a few units in the last place
    # run: @f(_) == [0x7F, 0x80] bits              expected (and given) as bits
    # run: @f(_) == [zero, 1.0]                    a zero of either sign; 0.0 and -0.0 are each only themselves

A line belongs to the kernel of that name in the same file.
"""

import ast
import contextlib
import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from tests.exec.backends import backends_present
from tritium.ir import types as T
from tritium.ir.text import parse_module
from tritium.ir.verify import verify
from tritium.ops.meaning import np_dtype, scalar_of

FOLDER = Path(__file__).parent
OUTPUT = object()


class Zero(float):
    """A zero of either sign: what min and max of +0 and -0 may give."""


class Run(NamedTuple):
    path: Path
    line: int
    kernel: str
    args: list
    grid: tuple
    expected: list
    close: bool
    bits: bool

    def __str__(self):
        return f"{self.path.stem}:{self.line}"


_NAMES = {"_": OUTPUT, "zero": Zero(), "nan": float("nan"), "inf": float("inf")}


def value(node):
    if isinstance(node, ast.Name):
        return _NAMES[node.id]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -value(node.operand)
    if isinstance(node, (ast.List, ast.Tuple)):
        return [value(part) for part in node.elts]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):  # [0] * 8
        return value(node.left) * value(node.right)
    return ast.literal_eval(node)


def runs_of(path):
    """The run lines of a file, each with the text of its kernel."""
    text = path.read_text()
    whole = r"^(kernel @(\w+)\(.*?^\}(?:\n+function .*?^\})*)"
    kernels = {name: body for body, name in re.findall(whole, text, re.M | re.S)}
    found = []
    for number, row in enumerate(text.split("\n"), 1):
        if not row.startswith("# run:"):
            continue
        call, how, wanted, bits = re.fullmatch(r"# run: (@\w+\(.*\)) (==|~=) (.*?)( bits)?", row).groups()
        node = ast.parse(call[1:], mode="eval").body
        grid = next((tuple(value(k.value)) for k in node.keywords if k.arg == "grid"), (1,))
        expected = value(ast.parse(f"[{wanted}]", mode="eval").body)
        found.append(Run(path, number, kernels[node.func.id], [value(a) for a in node.args], grid, expected,
                         how == "~=", bool(bits)))
    assert found, f"{path} runs nothing"
    return found


def array(t, values, bits):
    """A buffer of a pointee type."""
    values = np.asarray(values, object)
    if bits:
        return np.array(values, f"u{t.bytes}").view(np_dtype(t))
    flat = [scalar_of(v, t) for v in values.reshape(-1)]
    return np.array(flat, np_dtype(t)).reshape(values.shape)


def arguments(run, module):
    """The arguments of a run, and which of them are compared."""
    args, outputs = [], []
    wanted = iter(run.expected)
    for arg, given in zip(module.args, run.args, strict=True):
        if type(arg.type) is not T.Ptr:
            args.append(given)
            continue
        pointee = arg.type.pointee
        if given is OUTPUT:
            args.append(np.zeros(np.shape(next(wanted)), np_dtype(pointee)))
            outputs.append(len(args) - 1)
        else:
            args.append(array(pointee, given, run.bits))
    if OUTPUT not in run.args:
        outputs = [k for k, x in enumerate(args) if isinstance(x, np.ndarray)][:len(run.expected)]
    return args, outputs


CASES = [run for path in sorted(FOLDER.glob("*.tir")) for run in runs_of(path)]


@pytest.mark.parametrize("backend", backends_present())
@pytest.mark.parametrize("run", CASES, ids=str)
def test_run(run, backend):
    module = verify(parse_module(run.kernel))
    args, outputs = arguments(run, module)
    backends_present()[backend](module, args, run.grid)
    for at, wanted in zip(outputs, run.expected, strict=True):
        pointee = module.args[at].type.pointee
        compare(args[at], array(pointee, wanted, run.bits), run, pointee, signless(wanted))


def signless(wanted):
    """Which of the expected values are zeros of either sign."""
    wanted = np.asarray(wanted, object)
    return np.array([isinstance(v, Zero) for v in wanted.reshape(-1)], bool).reshape(wanted.shape)


def compare(got, expected, run, t, either):
    """Fail unless an array holds what is expected; the sign of zero is not looked at where `either` is true."""
    if run.close:
        np.testing.assert_allclose(got.astype(np.float64), expected.astype(np.float64), rtol=2.0 ** -(t.mantissa - 3))
        return
    if run.bits or t is T.f8e4b15:
        got, expected = got.view(f"u{got.itemsize}"), expected.view(f"u{got.itemsize}")
    elif t.is_float:
        got, expected = got.astype(np.float64), expected.astype(np.float64)
        zero = (expected == 0) & ~either
        assert np.array_equal(np.signbit(got[zero]), np.signbit(expected[zero]))
    np.testing.assert_array_equal(got, expected)


def test_a_wrong_answer_fails(tmp_path):
    """The runner itself: a run line that says something false is an error."""
    path = tmp_path / "wrong.tir"
    path.write_text("kernel @f(%x: ptr<i32>) {\n  %v = load %x : i32\n  store %x, %v\n}\n# run: @f([1]) == [2]\n")
    run, = runs_of(path)
    with pytest.raises(AssertionError):
        test_run(run, "interpreter")


@pytest.mark.parametrize("given, wanted, right", [
    ("-0.0", "zero", True), ("0.0", "zero", True), ("1e-45", "zero", False), ("nan", "zero", False),
    ("-0.0", "-0.0", True), ("-0.0", "0.0", False), ("0.0", "-0.0", False)])
def test_the_sign_of_zero_counts_unless_it_is_open(tmp_path, given, wanted, right):
    path = tmp_path / "zeros.tir"
    path.write_text("kernel @f(%x: ptr<f32>) {\n  %v = load %x : f32\n  store %x, %v\n}\n"
                    f"# run: @f([{given}]) == [{wanted}]\n")
    run, = runs_of(path)
    with contextlib.nullcontext() if right else pytest.raises(AssertionError):
        test_run(run, "interpreter")
