"""Printing and checking, while a kernel is compiled and while it runs."""

from __future__ import annotations

from tritium.errors import CompileTimeAssertionFailure, fail
from tritium.ir import types as T

from ..source.dialect import of_builder
from ..types.constants import unwrap
from ..types.values import tensor, to_tensor
from .broadcasting import broadcast_together
from .calling import builtin
from .casting import convert, splat_constant
from .deferred import ops

__all__ = ["device_assert", "device_print", "expect_zero", "static_assert", "static_print"]


@builtin
def static_print(b, *values, sep: str = " ", end: str = "\n", file=None, flush: bool = False) -> None:
    """Python's `print`, while the kernel is compiled; a tensor shows its type.

        tl.static_print("block size", BLOCK)
    """
    print(*[unwrap(value) for value in values], sep=unwrap(sep), end=unwrap(end), file=file, flush=bool(flush))


@builtin
def static_assert(b, cond, msg="") -> None:
    """Stop the compilation when a compile-time condition is false.

        tl.static_assert(BLOCK % 16 == 0, "BLOCK must be a multiple of 16")
    """
    cond, msg = unwrap(cond), unwrap(msg)
    if not isinstance(cond, bool):
        shown = cond.type if isinstance(cond, tensor) else f"{type(cond).__name__} {cond!r}"
        raise fail(NotImplementedError, f"Assertion condition could not be determined at compile-time: it is {shown}. "
                   "Make sure that it depends only on `constexpr` values",
                   hint="use tl.device_assert for what is known at run time", argument="cond")
    if not cond:
        raise CompileTimeAssertionFailure(None, None, str(msg) if msg else "static assertion failed")


@builtin
def device_print(b, prefix, *args, hex: bool = False) -> None:
    """Print a line for every element of the arguments while the kernel runs; `print` is the same.

    With `hex` integers are printed as `0x0000001f`, floats by their bits; from 3.9 on floats as `0x1.8p+0`.

        tl.device_print("x", x)
        print("pid", tl.program_id(0))
    """
    prefix = unwrap(prefix)
    if not isinstance(prefix, str):
        raise fail(AssertionError, f"device_print needs a string first, got {prefix!r}",
                   hint='write print("x", x)', argument="prefix")
    if not all(c.isascii() and (c.isprintable() or c in "\t\n\r\v\f") for c in prefix):
        raise fail(AssertionError, f"{prefix!r} is not an ascii string", argument="prefix")
    for value in args:
        if isinstance(unwrap(value), str):
            raise fail(TypeError, f"device_print takes one string, then values: {unwrap(value)!r} is a second string",
                       hint='print each value with its own name: tl.device_print("x", x)')
    values = [to_tensor(b, value) for value in args]
    style = {"hex": bool(hex), "exponents": bool(hex) and of_builder(b).prints_hex_floats}
    ops.print_(b, *[value.handle for value in values], prefix=line_prefix(prefix, bool(values)), **style)


def line_prefix(prefix, has_values):
    """The prefix as it is printed: set off from the index, with a colon before a value.

    >>> line_prefix("value", True), line_prefix("x:", True), line_prefix("x ", True), line_prefix("here", False)
    (' value: ', ' x: ', ' x: ', ' here')
    """
    if has_values and not prefix.endswith(": "):
        prefix = prefix.removesuffix(" ").removesuffix(":") + ": "
    return " " + prefix if len(prefix) > 2 and not prefix.startswith(" ") else prefix


@builtin
def device_assert(b, cond, msg="", mask=None) -> None:
    """Stop the kernel when the condition fails for an element whose `mask` holds. Checked with `debug=True` only.

        tl.device_assert(index < n, "index out of range", mask=mask)
    """
    if not b.options.debug:
        return
    msg = unwrap(msg)
    if not isinstance(msg, str):
        raise fail(TypeError, f"the message of device_assert is a string known at compile time, got {msg!r}",
                   argument="msg")
    operands = [convert(b, to_tensor(b, x), T.i1) for x in (cond, mask) if x is not None]
    ops.assert_(b, *[x.handle for x in broadcast_together(b, *operands)], message=msg)


@builtin
def expect_zero(b, x, mask):
    """x itself, which must be 0 where `mask` holds: checked with `debug=True` only.

        x = tl.expect_zero(tl.load(ptrs, mask=inside, other=0.0), ~inside)
    """
    value, where = to_tensor(b, x), convert(b, to_tensor(b, mask), T.i1)
    if b.options.debug:
        condition = tensor(ops.eq(b, value.handle, splat_constant(b, 0, value.handle.type)))
        operands = broadcast_together(b, condition, where)
        ops.assert_(b, *[operand.handle for operand in operands], message="expect_zero: a value is not zero")
    return value
