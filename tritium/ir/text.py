"""The one text form of the IR: whatever is printed can be parsed back.

    kernel @scale(%x: ptr<f32> {divisible=16}, %n: i32) {num_warps=4} {
      %0 = program_id {axis=0} : i32
      %1:2 = for %lo, %hi, %one, %0, %z : i32, f32 {
      ^(%i: i32, %a: i32, %b: f32):
        yield %a, %b
      }
      store %x, %1#1
    }

The functions that a kernel calls follow it, as `function @scaled(%x: f32) { ... yield %3 }`.

`#` at the start of a word opens a comment to the end of the line.
"""

from __future__ import annotations

import re

from .core import Arg, Block, Loc, Module, Op, Result
from .opdef import KINDS, PLACEMENT
from .types import Type, parse_type


# --- printing ---------------------------------------------------------------------------------------------------
def print_module(module, locs=False):
    """The text of a module; with `locs`, each line ends in a comment naming the user's source line."""
    return _Printer(locs).module(module)


class _Printer:
    def __init__(self, locs):
        self.locs, self.lines = locs, []

    def fresh(self, key, wish=""):
        if not wish:
            number = str(len(self.names))
            if number not in self.taken:
                self.taken.add(number)
                self.names[key] = name = f"%{number}"
                return name
        wish = re.sub(r"\W", "_", wish) if wish else ""
        if not wish or wish in self.taken or wish.isdigit():
            n = len(self.names)
            while f"{wish}{n}" in self.taken:
                n += 1
            wish = f"{wish}_{n}" if wish else str(n)
        self.taken.add(wish)
        self.names[key] = f"%{wish}"
        return self.names[key]

    def use(self, x):
        return f"{self.names[x.op]}#{x.index}" if type(x) is Result else self.names[x]

    def parameter(self, arg):
        return f"{self.fresh(arg, arg.name)}: {arg.type}" + (f" {print_attrs(arg.attrs)}" if arg.attrs else "")

    def module(self, module):
        self.function("kernel", module)
        for function in module.functions:
            self.lines.append("")
            self.function("function", function)
        return "\n".join(self.lines) + "\n"

    def function(self, word, function):
        self.names, self.taken = {}, set()
        args = ", ".join(self.parameter(a) for a in function.args)
        attrs = f" {print_attrs(function.attrs)}" if function.attrs else ""
        self.lines.append(f"{word} @{function.name}({args}){attrs} {{")
        self.block(function.body, 1)
        self.lines.append("}")

    def block(self, block, depth):
        for op in block.ops:
            self.op(op, "  " * depth, depth)

    def op(self, op, indent, depth):
        head = op.kind.name
        if op.operands:
            names = self.names
            head += " " + ", ".join([names[x] if type(x) is not Result else self.use(x) for x in op.operands])
        if op.attrs:
            shown, usual = op.attrs, op.kind.defaults
            if usual:
                shown = {k: v for k, v in shown.items()
                         if k not in usual or usual[k] != v or type(usual[k]) is not type(v)}
            if shown:
                head += f" {print_attrs(shown)}"
        if op.types:
            name = self.fresh(op)
            many = f":{len(op.types)}" if len(op.types) > 1 else ""
            head = f"{name}{many} = {head} : {', '.join([t.text for t in op.types])}"
        if op.regions:
            head += " {"
        if self.locs and op.loc:
            head += f"  # {op.loc.file}:{op.loc.line}"
        self.lines.append(indent + head)
        for k, region in enumerate(op.regions):
            if k:
                self.lines.append(indent + "} {")
            if region.args:
                self.lines.append(f"{indent}^({', '.join(self.parameter(a) for a in region.args)}):")
            self.block(region, depth + 1)
        if op.regions:
            self.lines.append(indent + "}")


def print_attrs(attrs):
    """`{axis=0, mode="x"}`"""
    return "{" + ", ".join([f"{k}={print_attr(v)}" for k, v in attrs.items()]) + "}"


def print_attr(v):
    """One attribute as the parser reads it."""
    if type(v) is int:
        return str(v)
    if isinstance(v, str):
        return '"' + v.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
    if isinstance(v, (tuple, list)):
        return "(" + ", ".join(map(print_attr, v)) + ("," if len(v) == 1 else "") + ")"
    if isinstance(v, dict):
        return print_attrs(v)
    if v is None or isinstance(v, (bool, int, float, Type)):
        return repr(v)
    raise TypeError(f"attribute values are plain data, got {v!r}")


# --- parsing ----------------------------------------------------------------------------------------------------
class ParseError(ValueError):
    """An IR text that cannot be read: `reason` says why, `loc` where.

    >>> parse_module("kernel @f() {\\n  %0 = ad : i32\\n}")
    Traceback (most recent call last):
    tritium.ir.text.ParseError: line 2: no op is called 'ad'
    """

    def __init__(self, reason, loc):
        super().__init__(f"line {loc.line}: {reason}")
        self.reason, self.loc = reason, loc

    def __reduce__(self):
        return ParseError, (self.reason, self.loc)


_TOKEN = re.compile(r"""\s+|\#(?!\d)[^\n]*|(?P<string>"(?:[^"\\]|\\.)*")|(?P<type>(?:tile|ptr)<)
    |(?P<value>%\w+(?:\#\d+)?)
    |(?P<number>-?(?:inf\b|nan\b|0x[0-9a-fA-F]+|\d+\.?\d*(?:e[+-]?\d+)?))|(?P<symbol>@[\w.$]+)|(?P<word>[A-Za-z_]\w*)
    |(?P<punct>[{}()\[\]:,=^])""", re.X)


def parse_module(text):
    """The module a text stands for.

    >>> print(parse_module("kernel @f(%x: i32) {\\n  %0 = add %x, %x : i32\\n}"), end="")
    kernel @f(%x: i32) {
      %1 = add %x, %x : i32
    }
    """
    parser = _Parser(text)
    module = parser.module()
    parser.expect_end()
    return module


def parse_modules(text, file):
    """All modules of a text, one after the other. Each op's `loc` is its place in the text, which is called `file`.

    >>> [m.name for m in parse_modules("kernel @f() { }  function @g() { yield }  kernel @h() { }", "two.tir")]
    ['f', 'h']
    """
    parser, modules = _Parser(text, file), []
    while not modules or not parser.at_end():
        modules.append(parser.module())
    return modules


class _Parser:
    def __init__(self, text, file=None):
        from .. import ops  # noqa: F401  (fills KINDS)
        self.text, self.file, self.tokens, self.k = text, file, [], 0
        at = 0
        while at < len(text):
            found = _TOKEN.match(text, at)
            if not found:
                raise ParseError(f"cannot read {text[at:at + 20]!r}", self.loc(at, at + 1))
            kind, piece, end = found.lastgroup, found.group(), found.end()
            if kind == "type":
                depth = 1
                while depth:
                    if end >= len(text):
                        raise ParseError("a type is not closed", self.loc(at, found.end()))
                    depth += {"<": 1, ">": -1}.get(text[end], 0)
                    end += 1
                piece = text[at:end]
            if kind:
                self.tokens.append((kind, piece, at))
            at = end
        self.tokens.append(("end", "", len(text)))

    def loc(self, start, end):
        """The place of characters `start` to `end` of the text."""
        first, last = (self.text.count("\n", 0, at) + 1 for at in (start, end))
        columns = [at - (self.text.rfind("\n", 0, at) + 1) for at in (start, end)]
        return Loc(self.file or "", first, columns[0], last, columns[1])

    def error(self, message, taken=0):
        """An error at the next token, or `taken` tokens before it."""
        _, piece, at = self.tokens[min(self.k - taken, len(self.tokens) - 1)]  # the text may end too early
        return ParseError(message, self.loc(at, at + len(piece)))

    def at_end(self):
        return self.tokens[self.k][0] == "end"

    def peek(self, piece):
        return self.tokens[self.k][1] == piece

    def accept(self, piece):
        if self.peek(piece) and self.tokens[self.k][0] != "end":
            self.k += 1
            return True
        return False

    def expect(self, piece):
        if not self.accept(piece):
            raise self.error(f"expected {piece!r}, found {self.tokens[self.k][1]!r}")

    def expect_end(self):
        if not self.at_end():
            raise self.error(f"unexpected {self.tokens[self.k][1]!r} after the kernel")

    def take(self, *kinds):
        kind, piece, _ = self.tokens[self.k]
        if kind not in kinds:
            raise self.error(f"expected {' or '.join(kinds)}, found {piece!r}")
        self.k += 1
        return piece

    def module(self):
        kernel, functions = self.function("kernel"), []
        while self.peek("function"):
            functions.append(self.function("function"))
        return kernel.replace(functions=functions)

    def function(self, word):
        self.expect(word)
        self.values = {}
        name = self.take("symbol")[1:]
        self.expect("(")
        args = self.parameters(")")
        attrs = self.attrs() if self.peek("{") and self.is_attrs() else {}
        self.expect("{")
        body = Block(args, self.ops())
        self.expect("}")
        return Module(name, body, attrs)

    def is_attrs(self):
        return self.tokens[self.k + 1][0] == "word" and self.tokens[self.k + 2][1] == "="

    def parameters(self, close):
        args = []
        while not self.accept(close):
            name = self.take("value")
            self.expect(":")
            arg = Arg(self.type(), "" if name[1:].isdigit() else name[1:])
            if self.peek("{"):
                arg.attrs.update(self.attrs())
            self.values[name] = arg
            args.append(arg)
            self.accept(",")
        return args

    def type(self):
        return self.type_of(self.take("type", "word"))

    def type_of(self, piece):
        try:
            return parse_type(piece)
        except ValueError as wrong:
            raise self.error(str(wrong), taken=1) from None

    def attrs(self):
        self.expect("{")
        attrs = {}
        while not self.accept("}"):
            key = self.take("word")
            self.expect("=")
            attrs[key] = self.attr()
            self.accept(",")
        return attrs

    def attr(self):
        kind, piece, _ = self.tokens[self.k]
        if self.accept("("):
            items = []
            while not self.accept(")"):
                items.append(self.attr())
                self.accept(",")
            return tuple(items)
        if piece == "{":
            return self.attrs()
        self.k += 1
        if kind == "string":
            return re.sub(r"\\(.)", lambda e: {"n": "\n"}.get(e[1], e[1]), piece[1:-1])
        if kind == "number":
            return float(piece) if re.search(r"[.]|\de|inf|nan", piece) and "0x" not in piece else int(piece, 0)
        words = {"True": True, "False": False, "None": None, "inf": float("inf"), "nan": float("nan")}
        if piece in words:
            return words[piece]
        if kind in ("word", "type"):
            return self.type_of(piece)
        raise self.error(f"not an attribute value: {piece!r}", taken=1)

    def ops(self):
        ops = []
        while not self.peek("}"):
            ops.append(self.op())
        return ops

    def value(self):
        piece = self.take("value")
        name, _, index = piece.partition("#")
        if name not in self.values:
            raise self.error(f"{name} is not defined here", taken=1)
        value = self.values[name]
        return Result(value, int(index)) if index else value

    def op(self):
        start, name, count = self.k, None, 0
        if self.tokens[self.k][0] == "value":
            name, count = self.take("value"), 1
            if self.accept(":"):
                count = int(self.take("number"))
            self.expect("=")
        word = self.take("word")
        if word not in KINDS:
            raise self.error(f"no op is called {word!r}", taken=1)
        kind, operands, attrs, types = KINDS[word], [], {}, []
        while self.tokens[self.k][0] == "value" and not self.starts_line():
            operands.append(self.value())
            if not self.accept(","):
                break
        if self.peek("{") and self.is_attrs() and not self.tokens[self.k + 1][1] == "}":
            attrs = self.attrs()
        attrs = {**{k: v for k, v in kind.defaults.items() if k not in attrs}, **attrs}
        unknown = [k for k in attrs if k not in kind.attrs and k not in PLACEMENT]
        if unknown:
            raise self.error(f"op {word} has no attribute {unknown[0]!r}", taken=1)
        attrs = {k: attrs[k] for k in (*kind.attrs, *PLACEMENT) if k in attrs}
        if count:
            self.expect(":")
            types.append(self.type())
            while self.accept(","):
                types.append(self.type())
        loc = self.loc_since(start) if self.file else None
        regions = []
        while self.peek("{"):
            self.expect("{")
            args = self.parameters_of_region()
            regions.append(Block(args, self.ops()))
            self.expect("}")
        op = Op(kind, tuple(operands), attrs, tuple(types), tuple(regions), loc)
        if name:
            self.values[name] = op
        return op

    def loc_since(self, start):
        """The place from token `start` to the last one taken."""
        _, piece, at = self.tokens[self.k - 1]
        return self.loc(self.tokens[start][2], at + len(piece))

    def starts_line(self):
        """True when the current value begins the next op (`%3 = ...`), not an operand of this one."""
        near = [piece for _, piece, _ in self.tokens[self.k:self.k + 4]]
        return near[1] == "=" or (near[1] == ":" and near[3:] == ["="])

    def parameters_of_region(self):
        if not self.accept("^"):
            return []
        self.expect("(")
        args = self.parameters(")")
        self.expect(":")
        return args
