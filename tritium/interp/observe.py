"""Watching a run: what the sanitizer, the visualiser and the profiler attach to the interpreter."""

from __future__ import annotations


class Observer:
    """Told about every program and every op of a run. Override what you need.

    `m` is the machine: `m.pid` is the running program, `m.memory` what it touches. Inputs and outputs are NumPy arrays
    (read only by convention), pointers among them as uint64 addresses.

    >>> class Count(Observer):
    ...     ops = 0
    ...     def after(self, m, op, inputs, outputs):
    ...         self.ops += 1
    >>> from tritium.interp.machine import interpret
    >>> from tritium.ir.text import parse_module
    >>> count = Count()
    >>> interpret(parse_module("kernel @f(%x: i32) {\\n  %0 = add %x, %x : i32\\n}"), [1], (4,), observers=[count])
    >>> count.ops
    4
    """

    def begin(self, m):
        """A program starts."""

    def end(self, m):
        """The program is done."""

    def before(self, m, op, inputs):
        """An op is about to run."""

    def after(self, m, op, inputs, outputs):
        """An op has run; `outputs` has one array for each result."""

    def fault(self, m, op, fault) -> bool:
        """A memory access went wrong (`fault` is a `memory.Fault`). True leaves those lanes out and goes on."""
        return False
