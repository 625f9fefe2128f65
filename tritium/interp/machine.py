"""Runs a module op by op on NumPy arrays, one program after the other: what every backend is compared with.

    >>> from tritium.ir.text import parse_module
    >>> twice = parse_module('''kernel @twice(%x: ptr<i32>) {
    ...   %v = load %x : i32
    ...   %w = add %v, %v : i32
    ...   store %x, %w
    ... }''')
    >>> x = np.array([21], np.int32)
    >>> interpret(twice, [x])
    >>> x
    array([42], dtype=int32)
"""

from __future__ import annotations

import contextlib
import itertools
import sys
import time

import numpy as np

from ..errors import InterpreterError, fail, innermost
from ..ir import types as T
from ..ir.core import Module
from ..ir.rewrite import substitute, sweep
from ..named_tuples import NamedTuple
from ..ops import constant, if_, select
from ..ops.meaning import np_dtype, scalar_of
from . import assembly
from .float_state import default_floats
from .memory import Fault, Memory
from .show import print_lines


class AccessError(InterpreterError):
    """A program touched memory it may not; `pid`, `index`, `address` and `argument` (the nearest) say where."""

    def __init__(self, message, pid, index, address, argument):
        super().__init__(message)
        self.pid, self.index, self.address, self.argument = pid, index, address, argument


def interpret(module, args, grid=(1,), *, observers=(), strict=True):
    """Run every program of a launch, x outermost. `args` are buffers (or None, or addresses) and numbers."""
    machine = Machine(Memory(strict), grid, observers)
    values = [machine.argument(arg.type, value, arg.name) for arg, value in zip(module.args, args, strict=True)]
    with default_floats():
        for pid in programs(machine.grid):
            machine.run_kernel(module, values, pid)


def programs(grid):
    """The program ids of a grid, x outermost and z innermost.

    >>> list(programs((2, 1, 2)))
    [(0, 0, 0), (0, 0, 1), (1, 0, 0), (1, 0, 1)]
    """
    x, y, z = map(range, grid)
    return ((i, j, k) for i in x for j in y for k in z)  # a product would hold all the sizes in memory


class Step(NamedTuple):
    """One op ready to run: where its operands are, where its results go, and which values nobody needs afterwards."""

    op: object
    evaluate: object
    inputs: tuple
    outputs: tuple
    dead: tuple


class Plan(NamedTuple):
    """A block ready to run. `slots` is the storage it shares with the blocks around and inside it."""

    block: object
    slots: list
    params: tuple
    steps: list
    yields: tuple


class Machine:
    """The state of a launch: memory, grid, the running program. Ops are evaluated with it as `m`."""

    def __init__(self, memory=None, grid=(1, 1, 1), observers=()):
        self.memory = Memory() if memory is None else memory
        self.grid = (*map(int, grid), 1, 1, 1)[:3]
        self.pid = (0, 0, 0)
        self.observers = tuple(observers)
        self.functions = {}
        self.calls = []  # the `call` ops that the running op is inside of, the outermost first
        self.is_eager = False  # whether Python's own frames tell the line that runs
        self._plans = {}
        self._vector = {}

    # --- running ------------------------------------------------------------------------------------------------------
    def argument(self, t, value, name=""):
        """The machine's form of a kernel argument."""
        if type(t) is not T.Ptr:
            return scalar_of(value, t)
        if value is None:
            return np.array(0, np.uint64)
        if isinstance(value, (int, np.integer)):
            self.memory.admit(np.uint64(value))
            return np.array(value, np.uint64)
        return np.array(self.memory.add(value, name), np.uint64)

    def run_kernel(self, module, args, pid):
        """Run one program."""
        self.functions = {function.name: function.body for function in module.functions}
        with self.program(pid), np.errstate(all="ignore"):
            self.run(module.body, args)

    @contextlib.contextmanager
    def program(self, pid):
        """The program `pid` runs inside the `with`."""
        self.pid = tuple(pid)
        for observer in self.observers:
            observer.begin(self)
        yield
        for observer in self.observers:
            observer.end(self)

    def run(self, block, args):
        """Run a block with these parameters; gives the values it yields."""
        plan = self._plans.get(block) or self._prepare(block)
        slots = plan.slots
        for slot, value in zip(plan.params, args, strict=True):
            slots[slot] = value
        execute = self.execute if self.observers else None
        for op, evaluate, inputs, outputs, dead in plan.steps:
            xs = [slots[k] for k in inputs]
            made = execute(op, xs) if execute else evaluate(self, op, *xs)
            if type(made) is tuple:
                for slot, value in zip(outputs, made):
                    slots[slot] = value
            elif outputs:
                slots[outputs[0]] = made
            for slot in dead:
                slots[slot] = None
        return tuple([slots[k] for k in plan.yields])

    def call(self, op, args):
        """Run the function that a `call` names."""
        self.calls.append(op)
        made = self.run(self.functions[op.attrs["callee"]], args)
        self.calls.pop()
        return made

    def execute(self, op, inputs):
        """Run one op on arrays and tell the observers; gives a tuple with one array for each result."""
        for observer in self.observers:
            observer.before(self, op, inputs)
        made = op.kind.eval(self, op, *inputs)
        outputs = made if type(made) is tuple else (made,) if op.types else ()
        for observer in self.observers:
            observer.after(self, op, inputs, outputs)
        return outputs

    def _prepare(self, block):
        """Number the values of a block and of the blocks in it, and note where each is used last."""
        number, slots = {}, []

        def define(x):
            number[x] = len(slots)
            slots.append(None)
            return number[x]

        def prepare(block):
            params = tuple(define(a) for a in block.args)
            body = [op for op in block.ops if not op.kind.terminator]
            outputs = [tuple(define(r) for r in op.results) for op in body]  # first, for regions see what is above them
            for op in body:
                for region in op.regions:
                    prepare(region)
            yields = tuple(number[y] for y in block.yields)
            dead = last_uses({*params, *itertools.chain(*outputs)} - {*yields}, body, outputs, number)
            steps = [Step(op, op.kind.eval, tuple(number[x] for x in op.operands), outs, gone)
                     for op, outs, gone in zip(body, outputs, dead)]
            self._plans[block] = Plan(block, slots, params, steps, yields)

        prepare(block)
        return self._plans[block]

    def map_region(self, block, arrays):
        """Apply a region of scalar ops to every element of arrays of one shape; gives one array for each yield."""
        arrays = [np.asarray(a) for a in arrays]
        dims = arrays[0].shape if arrays else ()
        at_once = self._vector_form(block)
        if at_once is not None:
            return [np.broadcast_to(out, dims) for out in self.run(at_once, arrays)]
        lanes = [self.run(block, [np.asarray(a[at]) for a in arrays]) for at in np.ndindex(dims)]
        types = [np_dtype(y.type) for y in block.yields]
        return [np.array([lane[k] for lane in lanes], t).reshape(dims) for k, t in enumerate(types)]

    def _vector_form(self, block):
        """A block that does for arrays at once what `block` does for each element, or None."""
        if block not in self._vector:
            straight = sweep(Module("", block), branches_to_selects).body
            self._vector[block] = straight if is_lanewise(straight) else None
        return self._vector[block]

    # --- what ops ask for ---------------------------------------------------------------------------------------------
    def load(self, op, p, mask, other):
        t = T.element(op.type)
        out = self._access(op, mask, lambda mask: self.memory.load(t, p, mask, other))
        if type(t) is T.Ptr:
            self.memory.admit(out)
        return out

    def store(self, op, p, value, mask):
        t = T.element(op.operands[1].type)
        self._access(op, mask, lambda mask: self.memory.store(t, p, value, mask))

    def atomic(self, op, p, value, mask):
        t, how = T.element(op.type), op.attrs["how"]
        return self._access(op, mask, lambda mask: self.memory.atomic(t, how, p, value, mask))

    def atomic_cas(self, op, p, expected, value):
        t = T.element(op.type)
        return self._access(op, None, lambda mask: self.memory.atomic_cas(t, p, expected, value, mask))

    def _access(self, op, mask, access):
        try:
            return access(mask)
        except Fault as fault:
            answers = [observer.fault(self, op, fault) for observer in self.observers]  # each hears of it
            if not any(answers):
                raise self._access_error(op, fault) from None
            return access(~fault.bad if mask is None else mask & ~fault.bad)

    def _access_error(self, op, fault):
        index, address = fault.first
        argument = self.memory.nearest(address)
        lane = f" in lane {index}" if index else ""
        others = int(fault.bad.sum()) - 1
        text = (f"{op.kind.name} {fault.problem}: program {self.pid}{lane} {'writes' if fault.store else 'reads'} "
                f"{fault.size} bytes at {address:#x}" + (f", as {others} other lanes do" if others else ""))
        if argument is not None:
            text += f"\nnote: that is {argument.where(address)}"
        text += self._whence(op)
        if len(op.operands) < (3 if fault.store else 2):
            text += "\nhint: mask the lanes that lie outside, as in tl.load(p, mask=offsets < n)"
        return AccessError(text, self.pid, index, address, argument)

    def _whence(self, op):
        """The line of an op, and those of the calls around it."""
        if self.is_eager:
            return ""
        return _where(op) + "".join(f"\nnote: called from here{_where(call)}" for call in reversed(self.calls))

    def pointer_made(self, addresses):
        """A pointer came from an integer: it may lead to memory that is not an argument's."""
        self.memory.admit(addresses)

    def print(self, op, values):
        types = [x.type for x in op.operands]
        sys.stdout.writelines(print_lines(self.pid, op.attrs["prefix"], types, values, op.attrs["hex"],
                                          op.attrs["exponents"]))

    def assert_failed(self, op, failed):
        index = f" in lane {tuple(np.argwhere(failed)[0].tolist())}" if np.ndim(failed) else ""
        said = f": {op.attrs['message']}" if op.attrs["message"] else ""
        raise fail(AssertionError, f"device assertion failed in program {self.pid}{index}{said}{self._whence(op)}")

    def check_assumption(self, op, cond):
        if not np.all(cond):
            raise AssertionError(f"tl.assume was told something false in program {self.pid}")

    def clock(self, what):
        return np.array(time.perf_counter_ns(), np.int64) if what != "smid" else np.array(0, np.int32)

    def inline_asm(self, op, xs):
        from ..ops import ptx

        return assembly.run(op, xs) if ptx.refusal(op) else tuple(self.run(ptx.block(op), xs))


def _where(op):
    if not op.loc:
        return ""
    loc = innermost(op.loc)
    return f"\n  --> {loc.file}:{loc.line}:{loc.col + 1}"


def is_lanewise(block):
    """True when every op acts on each lane by itself, so that arrays may stand for scalars."""
    return all(op.kind.elementwise or op.kind.terminator or op.kind is constant for op in block.ops)


def branches_to_selects(b, op):
    """if c then x else y -> select(c, x, y), where both branches may be computed."""
    if op.kind is not if_ or not all(map(is_lanewise, op.regions)):
        return None
    then, other = (substitute(b, region, ()) for region in op.regions)
    return tuple(select(b, op.operands[0], x, y) for x, y in zip(then, other))


def last_uses(slots, ops, outputs, number):
    """For each op, which of `slots` no later op (nor any region in one) uses."""
    dead, waiting = [], set(slots)
    for op, outs in zip(reversed(ops), reversed(outputs)):
        used = {number[x] for x in used_values(op)} | {*outs}
        dead.append(tuple(waiting & used))
        waiting -= used
    return dead[::-1]


def used_values(op):
    """Every value an op or the ops in its regions take."""
    yield from op.operands
    for region in op.regions:
        for inner in region.ops:
            yield from used_values(inner)
