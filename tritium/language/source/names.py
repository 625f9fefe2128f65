"""The names a function's text takes from around it, dotted and in the order they are written: `tl`, `tl.load`, `BLOCK`.

They follow from the text alone. Finding them means parsing it, which takes longer than loading a compiled kernel, so
the cache on disk keeps them: one file for a kernel and all it calls. What the names stand for is looked up anew each
time, by `dependencies`.
"""

from __future__ import annotations

import ast
import hashlib
from typing import TYPE_CHECKING, Any

from tritium import cache
from tritium.errors import CompilationError, fail, render

if TYPE_CHECKING:
    from tritium.language.source.dependencies import Compilable


class Names:
    """The outer names of a function and of those it calls, from the disk where they were found before.

    >>> from tritium.language.source.function import device
    >>> from tritium.language.standard import sigmoid
    >>> names = Names(device(sigmoid.fn))
    >>> names.of(device(sigmoid.fn))
    ['core', 'core.exp']
    """

    def __init__(self, source: Compilable):
        self._folder, self._file = cache.FileCacheManager("names"), _digest(cache.fingerprint() + source.src)
        self._known: dict[str, list[str]] = {}  # hash of a text -> its names
        self._new = False
        kept = cache.read(self._folder, self._file)
        if kept:
            self._known = {line[:64]: line[64:].split() for line in kept.decode().split("\n")}

    def of(self, source: Compilable) -> list[str]:
        """Each outer name of `source` once; the owner of an attribute comes before it."""
        key = _digest(source.src)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = list(find(source))
            self._new = True
        return found

    def keep(self) -> None:
        """Write to disk what was not there."""
        if self._new:
            lines = [" ".join((key, *names)) for key, names in self._known.items()]
            cache.write(self._folder, self._file, "\n".join(lines).encode())


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def find(source: Compilable) -> dict[str, ast.expr]:
    """Outer name -> where it is first written.

    >>> from tritium.language.source.function import device
    >>> from tritium.language.standard import sigmoid
    >>> find(device(sigmoid.fn))["core.exp"].col_offset
    20
    """
    finder = _Finder(source)
    function: Any = source.parse().body[0]
    try:
        finder.visit_body(function)
    except RecursionError:
        raise CompilationError(
            source.src, function, f"{source.__name__} nests too deeply to be compiled",
            span=source.span(function.body[0]), hint="split its longest expression into several statements") from None
    return finder.found


class _Finder:
    """Walks a function's body in the order it is written. Visiting an expression gives its outer name, if it is one."""

    def __init__(self, source: Compilable):
        self.source = source
        self.local: set[str] = set()
        self.found: dict[str, ast.expr] = {}

    def visit(self, node: ast.AST) -> str | None:
        rule = _RULES.get(node.__class__)
        if rule is not None:
            return rule(self, node)
        for field in node._fields:
            value = getattr(node, field)
            if value.__class__ is list:
                for item in value:
                    if isinstance(item, ast.AST):
                        self.visit(item)
            elif isinstance(value, ast.AST):
                self.visit(value)
        return None

    def visit_all(self, nodes) -> None:
        for node in nodes:
            self.visit(node)

    def visit_body(self, function: ast.FunctionDef) -> None:
        """The statements of a function; default values and annotations are evaluated elsewhere, if at all."""
        arguments = function.args
        rest = (arguments.vararg, arguments.kwarg)
        self.local.update(arg.arg for arg in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs))
        self.local.update(arg.arg for arg in rest if arg)
        self.visit_all(function.body)

    def _function(self, node: ast.FunctionDef) -> None:
        self.local.add(node.name)
        self.visit_body(node)

    def _lambda(self, node: ast.Lambda) -> None:
        self.local.update(arg.arg for arg in node.args.args)
        self.visit(node.body)

    def _assign(self, node: ast.Assign) -> None:
        if len(node.targets) != 1:
            hint = "write one assignment per name"
            raise fail(TypeError, render("Simultaneous multiple assignment is not supported.", [self.source.span(node)],
                                         hint=hint), hint=hint)
        self.visit(node.value)
        self.visit(node.targets[0])

    def _annotated(self, node: ast.AnnAssign) -> None:
        self.visit(node.annotation)
        if node.value is not None:
            self.visit(node.value)
        self.visit(node.target)

    def _for(self, node: ast.For) -> None:
        self.visit(node.iter)
        self.visit(node.target)
        self.visit_all(node.body)
        self.visit_all(node.orelse)

    def _comprehension(self, node) -> None:
        for generator in node.generators:
            self.visit(generator.iter)
            self.visit(generator.target)
            self.visit_all(generator.ifs)
        self.visit_all((node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,))

    def _name(self, node: ast.Name) -> str | None:
        if node.ctx.__class__ is ast.Store:
            self.local.add(node.id)
            return None
        return None if node.id in self.local else self._found(node.id, node)

    def _attribute(self, node: ast.Attribute) -> str | None:
        owner = self.visit(node.value)
        return None if owner is None or node.ctx.__class__ is ast.Store else self._found(f"{owner}.{node.attr}", node)

    def _found(self, name: str, node: ast.expr) -> str:
        self.found.setdefault(name, node)
        return name

    def _nothing(self, node: ast.AST) -> None:
        """There is no name in it."""


_RULES = {
    ast.FunctionDef: _Finder._function, ast.Lambda: _Finder._lambda, ast.Assign: _Finder._assign,
    ast.AnnAssign: _Finder._annotated, ast.For: _Finder._for, ast.Name: _Finder._name,
    ast.Attribute: _Finder._attribute,
    **dict.fromkeys((ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp), _Finder._comprehension),
    **dict.fromkeys((ast.Constant, ast.Pass, ast.Break, ast.Continue), _Finder._nothing),
}  # fmt: skip
