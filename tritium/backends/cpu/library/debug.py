"""Output of kernels: `device_print`, one line per element, in Triton's format.

    pid (0, 1, 0) idx ( 3,  12) value: 7

All text but the values is known when the kernel is compiled, so a line is one call of libc's `dprintf`, which writes
it whole: lines of threads do not mix, and nothing has to be flushed.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...llvm.writer import Val, Writer

# How C spells each kind of value; `*` stands for the number of hexadecimal digits.
_SPELLED = {"none": "", "int": "%lld", "uint": "%llu", "float": "%f", "exponent": "%a", "pointer": "%p",
            "hex": "0x%0*llx"}  # fmt: skip


def line_format(text: str, kind: str, shape: Sequence[int] = (), digits: int = 0) -> str:
    """The C format of a line; `text` stands between the index and the value.

    `kind` is "int", "uint", "float", "exponent", "pointer", "hex" (of `digits` digits), or "none" for a line
    without a value. An index takes ceil(log10(size)) columns.

    >>> line_format(" x: ", "int", (4, 128))
    'pid (%lld, %lld, %lld) idx (%1lld, %3lld) x: %lld\\n'
    >>> line_format(" 100%", "none")
    'pid (%lld, %lld, %lld) 100%%\\n'
    """
    if kind not in _SPELLED:
        raise ValueError(f"unknown kind {kind!r}; use one of {', '.join(_SPELLED)}")
    columns = ", ".join(f"%{max(len(str(size - 1)), 1)}lld" for size in shape)
    where = f" idx ({columns})" if kind != "none" else ""
    spelled = _SPELLED[kind].replace("*", str(digits))
    return f"pid (%lld, %lld, %lld){where}{text.replace('%', '%%')}{spelled}\n"


def print_line(w: Writer, text: str, kind: str, program: Sequence[Val], shape: Sequence[int] = (),
               index: Sequence[Val] = (), x: Val | None = None, digits: int = 0) -> None:
    """Write a call that prints one line: `program` and `index` are i64, `x` is i64, double or ptr, depending on `kind`.

    >>> w = Writer()
    >>> with w.function("void", "hello", ["i64 p"]) as (p,):
    ...     print_line(w, " hello", "none", [p, w.const("i64", 0), w.const("i64", 0)])
    ...     w.ret()
    >>> "@dprintf(i32 1, ptr @str0, i64 %p, i64 0, i64 0)" in w.text()
    True
    """
    arguments = [w.const("i32", 1), w.string(line_format(text, kind, shape, digits)), *program, *index]
    if x is not None:
        arguments.append(x)
    w.declare("dprintf", "i32", ["i32", "ptr", "..."])
    w.effect(f"call i32 (i32, ptr, ...) @dprintf({', '.join(a.typed for a in arguments)})", "i32")
