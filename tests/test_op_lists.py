"""One fact, one place: a property of ops is a trait that their classes declare, not a list of ops in a pass or backend.

The lists are read from the syntax tree: displays such as `(ops.load, ops.store)`, chains of `kind is ops.a or kind is
ops.b`, alternatives of a `match`, and names that `kind.name` is compared with. Tables with a function or a number for
each op are no such lists, nor are the ops that a decorator registers a function for. An algebraic rule may name up to
three operators. docs/adding-an-op.md lists the traits.
"""

import ast
from pathlib import Path

import pytest

from tritium import ops
from tritium.backends.cpu.fuse import ops as cpu_ops
from tritium.backends.gpu import ops as gpu_ops
from tritium.ir.opdef import KINDS, OpKind

ROOT = Path(__file__).resolve().parents[1] / "tritium"
FILES = sorted(path for folder in ("analysis", "backends", "passes") for path in (ROOT / folder).rglob("*.py"))
OPERATORS = 3
MODULES = {"ops": ops, "cpu_ops": cpu_ops, "gpu_ops": gpu_ops}

# (file, ops): why this list is no trait. What stands there must be safe for an op that nobody has added to it.
ALLOWED = {
    ("passes/simplify.py", "expand_dims reshape"): "a pattern: both are reshapes of what is reshaped again",
    ("passes/simplify.py", "constant splat"): "a pattern: one number, in all elements or alone",
    ("passes/instrument.py", "add mul shl sub"): "what is computed in 64 bits too; an overflow elsewhere is not seen",
    ("passes/instrument.py", "add addptr cast hint sub"): "a pattern: a range plus scalars",
    ("backends/gpu/pipeline/ping_pong.py", "ping_pong_signal ping_pong_wait"): "the two marks of one protocol",
    ("backends/gpu/pipeline/ping_pong.py", "buffer_load dot_shared dot_wait load mbarrier_arrive mbarrier_wait"):
        "exceptions: with effects, but known not to synchronize warps",
    ("backends/gpu/pipeline/warp_plan.py", "assume store"): "exceptions: effects that no other program sees",
    ("backends/gpu/pipeline/specialize_warps.py", "num_programs program_id"): "emits both",
    ("backends/gpu/pipeline/tma_stores.py", "atomic store"): "what one op, `tma_store`, can stand for",
}


def kind_of(node):
    """The op that an expression such as `ops.load` names, else None."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in MODULES:
        found = getattr(MODULES[node.value.id], node.attr, None)
        return found if isinstance(found, OpKind) else None
    return None


def compared(node):
    """The ops that the parts of `a.kind is ops.x or a.kind is ops.y` compare with, by what they compare."""
    found = {}
    for part in node.values:
        if isinstance(part, ast.Compare) and len(part.ops) == 1 and isinstance(part.ops[0], ast.Is | ast.IsNot):
            found.setdefault(ast.unparse(part.left), []).append(kind_of(part.comparators[0]))
    return list(found.values())


def lists_of(node):
    """Lists of ops that a node is."""
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return [[kind_of(x) for x in node.elts]]
    if isinstance(node, ast.BoolOp):
        return compared(node)
    if isinstance(node, ast.MatchOr):
        return [[kind_of(p.value) for p in node.patterns if isinstance(p, ast.MatchValue)]]
    if isinstance(node, ast.Compare) and ast.unparse(node.left).endswith("kind.name"):
        names = [x.value for side in node.comparators for x in ast.walk(side) if isinstance(x, ast.Constant)]
        return [[KINDS.get(name) for name in names if isinstance(name, str)]]
    return []


def tables(tree):
    """Nodes that list ops for a table: the keys of `dict.fromkeys`, and arguments of decorators."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "dict.fromkeys":
            found.update(ast.walk(node))
        if isinstance(node, ast.FunctionDef):
            found.update(x for decorator in node.decorator_list for x in ast.walk(decorator))
    return found


def op_lists(tree):
    """(line, sorted names) of each list of ops in a module."""
    listed = tables(tree)
    for node in ast.walk(tree):
        for kinds in lists_of(node) if node not in listed else ():
            kinds = {kind for kind in kinds if kind is not None}
            algebra = len(kinds) <= OPERATORS and all(kind.elementwise for kind in kinds)
            if len(kinds) > 1 and not algebra:
                yield node.lineno, " ".join(sorted(kind.name for kind in kinds))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_properties_of_ops_are_traits(path):
    name = path.relative_to(ROOT).as_posix()
    new = [f"{name}:{line}: {kinds}" for line, kinds in op_lists(ast.parse(path.read_text()))
           if (name, kinds) not in ALLOWED]
    assert not new, "declare a trait with these ops (tritium/ir/opdef.py), and ask for it:\n" + "\n".join(new)


@pytest.mark.parametrize(("name", "kinds"), ALLOWED)
def test_what_is_allowed_is_there(name, kinds):
    assert kinds in [found for _, found in op_lists(ast.parse((ROOT / name).read_text()))], "take it off the list"


# What works on ops, parameters and blocks: these hash by identity, results by what they are, so they key dictionaries
# themselves. An id may come twice, and keeps nothing alive.
VALUES = ("ir", "ops", "passes", "frontend", "backends/gpu", "backends/cpu/fuse", "backends/cpu/lower",
          "backends/nvptx/isa")  # fmt: skip
IDS = {
    "backends/gpu/lower/function.py": "registers, which know the id of the load they come from",
}


@pytest.mark.parametrize("path", sorted(path for folder in VALUES for path in (ROOT / folder).rglob("*.py")),
                         ids=lambda path: str(path.relative_to(ROOT)))  # fmt: skip
def test_values_are_their_own_keys(path):
    lines = [node.lineno for node in ast.walk(ast.parse(path.read_text()))
             if isinstance(node, ast.Name) and node.id == "id" and isinstance(node.ctx, ast.Load)]
    assert not lines or path.relative_to(ROOT).as_posix() in IDS, f"id() in lines {lines}: use the value itself"


@pytest.mark.parametrize("text", [
    "X = (ops.load, ops.store)",
    "X = frozenset({ops.load, gpu_ops.async_load})",
    "def f(op): return op.kind is ops.load or len(op.operands) > 1 or op.kind is ops.store",
    "def f(op): return op.kind is not ops.load and op.kind is not ops.store",
    "match kind:\n    case ops.load | ops.store: pass",
    "def f(op): return op.kind.name in ('load', 'store')",
    "X = [ops.add, ops.sub, ops.mul, ops.fma]",
])  # fmt: skip
def test_the_reader_finds(text):
    assert [kinds for _, kinds in op_lists(ast.parse(text))]


@pytest.mark.parametrize("text", [
    "X = {ops.load: f, ops.store: g}",
    "X = {**dict.fromkeys((ops.load, ops.store), f)}",
    "@lower(ops.load, ops.store)\ndef f(g, op): pass",
    "def f(op): return op.kind in (ops.add, ops.sub)",
    "def f(x, y): return x.kind is ops.load and y.kind is ops.store",
    "def f(op): return op.kind is ops.load",
])  # fmt: skip
def test_the_reader_leaves_alone(text):
    assert not list(op_lists(ast.parse(text)))
