"""Statements that are not control flow: assignments, expressions on their own, assertions."""

from __future__ import annotations

import ast

from ..errors import explain
from ..language.builtins import indexing
from ..language.source import spelling_hints
from ..language.types import values
from ..language.types.returned_constants import plain
from . import binding, calls, control, diagnose, expressions, loops
from .scope import MISSING, Unbound, names_of


def assign(b, node):
    """`x = e`: a constant becomes a tensor, only `x: tl.constexpr = e` keeps it."""
    if len(node.targets) != 1:
        raise diagnose.unsupported(b, node, "Simultaneous multiple assignment is not supported.",
                                   hint="write one assignment for each name")
    value = b.visit(node.value)
    b.at(node)
    kept = b.frame.declared.intersection(names_of(node.targets[0]).writes)
    if kept:
        binding.store(b, node.targets[0], _kept(b, node.targets[0], value, kept))
        b.frame.declared -= kept
        return
    try:
        value = binding.decay(b, value)
    except TypeError as refused:
        if type(node.targets[0]) is ast.Name:
            text = f"{node.targets[0].id}: tl.constexpr = {ast.unparse(node.value)}"
            explain(refused, hint=f"keep it as a constant: `{text}`")
        raise
    binding.store(b, node.targets[0], value)
    if value is None and node.value in b.nothing:
        b.nothing[node.targets[0]] = b.nothing[node.value]


def assign_annotated(b, node):
    """`x: tl.constexpr = e` keeps a constant, `x: tl.constexpr` that of the next assignment; others mean nothing."""
    if node.value is None:
        if _is_constexpr(b, node.annotation) and type(node.target) is ast.Name:
            b.frame.declared |= {node.target.id}
        return
    value = plain(b.visit(node.value))
    b.at(node)
    if not _is_constexpr(b, node.annotation):
        binding.store(b, node.target, binding.decay(b, value))
        return
    name = node.target.id if type(node.target) is ast.Name else None
    if name is None:
        raise diagnose.unsupported(b, node, "only a name can be annotated with tl.constexpr", at=node.target)
    bound = b.frame.names.get(name, MISSING)
    # An unrolled loop comes by the same line again.
    if bound is not MISSING and type(bound) is not Unbound and b.frame.places.get(name) is not node:
        raise diagnose.error(
            b, node, f"{name} is already defined. constexpr cannot be reassigned.", at=node.target,
            notes=[(f"{name} is defined here", b.frame.places[name])] if name in b.frame.places else (),
            hint="use another name")
    b.frame.bind(name, value, node)  # the place tells that it ends with the branch it is in


def _kept(b, target, value, names):
    """The value of an assignment in which the constants of some names stay constants."""
    if type(target) is ast.Name:
        return plain(value) if target.id in names else binding.decay(b, value)
    if type(target) in (ast.Tuple, ast.List) and isinstance(value, tuple) and len(value) == len(target.elts):
        return values.tuple([_kept(b, part, item, names) for part, item in zip(target.elts, value)])
    return binding.decay(b, value)


def _is_constexpr(b, annotation):
    """Whether an annotation is `tl.constexpr`, in any spelling; it is not evaluated, so it may be anything."""
    if type(annotation) is ast.Constant:
        return isinstance(annotation.value, str) and "constexpr" in annotation.value
    return (type(annotation) is ast.Attribute and annotation.attr == "constexpr") or \
        (type(annotation) is ast.Name and annotation.id == "constexpr")


def assign_updated(b, node):
    """`x += e` is `x = x + e`."""
    target, kind = node.target, type(node.target)
    if kind is ast.Name:
        old = b.frame.lookup(target.id)
    elif kind is ast.Subscript:
        owner, index = b.visit(target.value), b.visit(target.slice)
        old = b.checked(target, indexing.getitem, owner, index)
    else:
        binding.store(b, target, None)  # says why not
    value = b.visit(node.value)
    b.at(node)
    made = binding.decay(b, expressions.apply(b, expressions.symbol_of(node.op), old, value))
    if kind is ast.Name:
        b.frame.bind(target.id, made, node)
    else:
        binding.store(b, target, made)


def expression(b, node):
    """An expression on its own: for its effect."""
    value = node.value
    if type(value) is ast.Constant:
        return  # a docstring, or `...`
    if type(value) is ast.Call:
        calls.call(b, value, dropped=True)
    else:
        b.visit(value)


def assert_(b, node):
    """`assert c, "why"` is tl.device_assert."""
    test = b.visit(node.test)
    message = b.visit(node.msg) if node.msg is not None else ""
    b.at(node)
    calls.call_builtin(b, node, calls.language("device_assert"), [test, message], {})


def nothing(b, node):
    """`pass`"""


# What to write instead of a statement that kernels do not have.
INSTEAD = {
    "FunctionDef": "define the function outside of the kernel, decorated with @triton.jit",
    "ClassDef": "define the class outside of the kernel",
    "Try": "nothing raises in a kernel: test conditions with `if`",
    "Raise": "use tl.static_assert for constants, tl.device_assert at run time",
    "Import": "import at the top of the file",
    "ImportFrom": "import at the top of the file",
    "Global": "a kernel cannot change globals: store the value through a pointer",
    "Nonlocal": "a kernel cannot change variables outside of it: store the value through a pointer",
    "With": "call the function directly",
    "Delete": "names need not be deleted",
    "Match": "write `if` and `elif`",
}

SIMPLE = {
    ast.Assign: assign, ast.AnnAssign: assign_annotated, ast.AugAssign: assign_updated, ast.Expr: expression,
    ast.Assert: assert_, ast.Pass: nothing, ast.Return: control.return_, ast.Break: control.break_,
    ast.Continue: control.continue_,
}  # fmt: skip
LOOPS = {ast.For: loops.for_, ast.While: loops.while_}


def statement(b, node, rest):
    """Lower one statement; `rest` follows it. Returns how control may leave early, or None."""
    kind = type(node)
    if kind in SIMPLE:
        return SIMPLE[kind](b, node)
    if kind in LOOPS:
        return LOOPS[kind](b, node, rest)
    if kind is ast.FunctionDef:
        raise diagnose.unsupported(b, node, "nested function definition is not supported: nested function definitions "
                                   "are not allowed inside a @triton.jit kernel", hint=INSTEAD["FunctionDef"], at=node)
    hint = INSTEAD.get(kind.__name__)
    if kind is ast.Import and node.names[0].name.partition(".")[0] in spelling_hints.DEBUGGERS:
        hint = spelling_hints.instead_of_builtin("breakpoint")
    raise diagnose.unsupported(b, node, f"unsupported AST node type: {kind.__name__}", hint=hint)
