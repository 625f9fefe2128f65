"""Random kernels of integers and control flow, and two ways to run them: by Python itself, and through the IR."""

import importlib.util
import itertools
import random
import sys
import textwrap
from types import SimpleNamespace

import numpy as np

from tritium.frontend import lower
from tritium.interp.machine import interpret
from tritium.ir.verify import verify

SIZE = 16


class Writer:
    """Writes one random program; every value stays in 0..255, so that Python's integers and the IR's agree."""

    def __init__(self, seed, device=False):
        self.random = random.Random(seed)
        self.lines, self.depth, self.fresh, self.device = [], 1, itertools.count(), device
        self.names = ["a", "b", "c"]

    def line(self, text):
        self.lines.append("    " * self.depth + text)

    def atom(self):
        return self.random.choice([*self.names, str(self.random.randrange(8)), f"tl.load(x + ({self.name()} & 7))"])

    def name(self):
        return self.random.choice(self.names)

    def expression(self):
        how = self.random.randrange(4)
        if how == 0:
            return f"({self.atom()} + {self.atom()}) & 255"
        if how == 1:
            return f"({self.atom()} * 3 + {self.atom()}) & 255"
        if how == 2:
            return f"({self.atom()} if {self.test()} else {self.atom()} + 0)"
        return f"({self.atom()} ^ {self.atom()}) & 255"

    def test(self):
        return f"{self.name()} {self.random.choice(['<', '>', '==', '!='])} {self.atom()}"

    def block(self, budget, loops):
        """Some statements, at least one; names bound inside are forgotten after."""
        self.depth += 1
        known = list(self.names)
        start = len(self.lines)
        self.statements(budget, loops)
        if len(self.lines) == start:
            self.line("pass")
        self.names = known
        self.depth -= 1

    def statements(self, budget, loops):
        for _ in range(self.random.randrange(1, budget + 2)):
            if self.statement(budget, loops):
                return

    def statement(self, budget, loops):
        """One statement; True when nothing may follow it."""
        how = self.random.randrange(12)
        if how < 3 or (budget <= 0 and how < 8):
            self.line(f"{self.random.choice(['a', 'b', 'c'])} = {self.expression()}")
        elif how == 3:
            self.line(f"{self.random.choice(['a', 'b', 'c'])} += 1")
        elif how == 4:
            self.line(f"tl.store(out + ({self.name()} & 15), {self.expression()})")
        elif how < 8:
            self.branch(budget - 1, loops)
        elif how < 10 and budget > 0:
            self.loop(budget - 1)
        elif how == 10 and loops:
            self.line(self.random.choice(["break", "continue"]))
            return True
        elif how == 11 and self.random.random() < 0.4:
            self.leave()
            return True
        return False

    def leave(self):
        if self.device:
            self.line(f"return {self.name()} + 0")
        else:
            self.line(f"tl.store(out + 15, {self.name()})")
            self.line("return")

    def branch(self, budget, loops):
        self.line(f"if {self.test()}:")
        self.block(budget, loops)
        if self.random.random() < 0.5:
            self.line("else:")
            self.block(budget, loops)

    def loop(self, budget):
        kind, name = self.random.randrange(4), f"i{next(self.fresh)}"
        if kind == 0:
            self.line(f"{name} = 0")
            self.line(f"while {name} < ({self.name()} & 3) + 1:")
            self.depth += 1
            self.line(f"{name} += 1")
            self.depth -= 1
        elif kind == 1:
            self.line(f"for {name} in tl.static_range({self.random.randrange(1, 4)}):")
        elif kind == 2:
            self.line(f"for {name} in range(({self.name()} & 3) + 1):")
        else:
            self.line(f"for {name} in range(3 + ({self.name()} & 1), 0, -1):")
        known = list(self.names)
        self.names.append(name)
        self.block(budget, True)
        # A loop variable is known after its loop: it always makes a turn.
        self.names = [*known, name]
        if self.random.random() < 0.5:
            self.names = known

    def body(self):
        self.statements(3, False)
        for k, name in enumerate(("a", "b", "c")):
            self.line(f"tl.store(out + {12 + k}, {name})")
        return "\n".join(self.lines)


def program(seed):
    """The text of a random kernel `kernel(x, out, a, b, c)`, which calls a random `helper`."""
    device = Writer(seed * 2 + 1, device=True)
    device.statements(2, False)
    main = Writer(seed)
    main.statements(3, False)
    main.line(f"b = helper(x, out, a, {main.name()}, {main.random.randrange(4)} + 0)")
    body = main.body()
    helper = "\n".join(device.lines)
    return f"""import tritium.language as tl
from tritium.language.source.function import device


@device
def helper(x, out, a, b, c):
    b = b
    c = c
{helper}
    return (a + b) & 255


@device
def kernel(x, out, a, b, c):
{body}
"""


class Pointer:
    """What a pointer is to Python: a list and a place."""

    def __init__(self, data, at=0):
        self.data, self.at = data, at

    def __add__(self, offset):
        return Pointer(self.data, self.at + offset)


def run_python(text, x, a, b, c):
    """The outputs when Python runs the program."""
    def store(pointer, value):
        pointer.data[pointer.at] = value

    names = {"tl": SimpleNamespace(load=lambda p: p.data[p.at], store=store, static_range=range)}
    body = textwrap.dedent(text).replace("import tritium.language as tl", "").replace(
        "from tritium.language.source.function import device", "").replace("@device", "")
    exec(body, names)
    out = [0] * SIZE
    names["kernel"](Pointer(list(x)), Pointer(out), a, b, c)
    return out


def load_module(path, text):
    """Import a program from a file: the compiler reads its source."""
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(f"program_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def lower_program(path, text):
    """The program's module of IR, verified."""
    kernel = load_module(path, text).kernel
    return verify(lower(kernel, {"x": "*i32", "out": "*i32", "a": "i32", "b": "i32", "c": "i32"}))


def run_ir(module, x, a, b, c):
    """The outputs when the machine runs the IR."""
    out = np.zeros(SIZE, np.int32)
    interpret(module, [np.array(x, np.int32), out, a, b, c])
    return out.tolist()
