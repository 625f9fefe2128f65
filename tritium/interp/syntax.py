"""The user's function, rewritten as little as eager execution needs, on the same lines of the same file.

Most of Python means the right thing on tensors already. What does not (numbers that an assignment makes tensors, `and`,
`x[i] = v`, ...) becomes a call of a function of `meaning_of_python`, reached through a hidden closure variable:

    n = 4                   n = __tt.bind(4)
    x[i] = v                x = __tt.setitem(x, i, __tt.bind(v))
    a and b                 __tt.both(lambda: a, lambda: b)
    for i in range(n):      for i in __tt.range(n):
"""

from __future__ import annotations

import ast
import builtins
import copy
from types import CellType, FunctionType
from typing import Any
from weakref import WeakKeyDictionary, ref

from ..language.types import values
from . import meaning_of_python

SUPPORT, LAMBDAS = "__tt", "__tt_lambdas"
_FORMS: WeakKeyDictionary[ast.AST, FunctionType] = WeakKeyDictionary()


def eager_form(source) -> FunctionType:
    """The Python function of a `Source`, rewritten; breakpoints and tracebacks still name the user's own lines.

    A function that `exec` made has no text to rewrite: it runs as it is, and numbers it assigns stay Python's.
    """
    if not source.has_text:
        return source.fn
    node = source.parse().body[0]
    found = _FORMS.get(node)
    if found is None:
        found = _FORMS[node] = _rewrite(source, copy.deepcopy(node))
    return found


def _rewrite(source, node):
    indent = source.span(node).indent
    _forget_declarations(node)
    rewriter = Rewriter(source, _bound_names(node))
    node.body = [made for statement in node.body for made in rewriter.statements(statement)]
    parts: Any = ast.walk(node)
    for part in parts:
        if "col_offset" in part._attributes and hasattr(part, "col_offset"):
            part.col_offset += indent
            part.end_col_offset += indent
    ast.increment_lineno(node, source.def_line - 1)
    return _function(source, node, rewriter.lambdas)


def _forget_declarations(node):
    """Decorators, annotations and defaults belong to the original, which has them evaluated."""
    node.decorator_list, node.returns = [], None
    spec = node.args
    for argument in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs, spec.vararg, spec.kwarg):
        if argument is not None:
            argument.annotation = None
    spec.defaults, spec.kw_defaults = [], [None] * len(spec.kwonlyargs)


def _function(source, node, lambdas):
    """Compile `node` with the original's globals, defaults and closure, and two variables more."""
    original = source.fn
    cells: dict[str, Any] = dict(zip(original.__code__.co_freevars, original.__closure__ or ()))
    cells[SUPPORT] = CellType(meaning_of_python)
    cells[LAMBDAS] = CellType([(ref(source), part) for part in lambdas])
    outer: Any = ast.FunctionDef("outer", ast.arguments([], [ast.arg(name) for name in cells], None, [], [], None, []),
                            [] if node.name in cells else [ast.Global([node.name])], [], None)
    outer.body.append(node)  # its own name means inside it what it means outside
    if "type_params" in ast.FunctionDef._fields:
        outer.type_params = []
    tree = ast.fix_missing_locations(ast.Module([ast.copy_location(outer, node)], []))
    code = _inner_code(_inner_code(compile(tree, source.file, "exec", dont_inherit=True), "outer"), node.name)
    made = FunctionType(code, original.__globals__, original.__name__, original.__defaults__,
                        tuple(cells[name] for name in code.co_freevars))
    made.__kwdefaults__, made.__qualname__ = original.__kwdefaults__, original.__qualname__
    made.__module__, made.__doc__ = original.__module__, original.__doc__
    return made


def _inner_code(code, name):
    return next(part for part in code.co_consts if hasattr(part, "co_code") and part.co_name == name)


def _bound_names(node):
    """Every name the function binds, its parameters included."""
    spec = node.args
    names = {a.arg for a in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs, spec.vararg, spec.kwarg) if a is not None}
    for part in ast.walk(node):
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
            names.add(part.id)
    return names


class Rewriter(ast.NodeTransformer):
    """Rewrites the statements of one function; `bound` are the names it binds."""

    def __init__(self, source, bound):
        self.source, self.bound = source, bound
        self.outside = source.get_capture_scope()
        self.declared: frozenset[str] = frozenset()  # names whose next assignment keeps constants
        given = {ast.dump(part.value) if isinstance(part.value, ast.Constant) else part
                 for part in ast.walk(source.parse()) if isinstance(part, ast.Return)}
        self.one_result = len(given) == 1  # every `return` gives the same constant, or there is one `return`
        self.temporaries = 0
        self.lambdas: list[ast.Lambda] = []  # as they were written

    def statements(self, node):
        """What stands for a statement: one or several."""
        made = self.visit(node)
        return made if isinstance(made, list) else [made]

    # --- names ----------------------------------------------------------------------------------------------------
    def is_builtin(self, node, *names):
        """Whether `node` names a Python builtin that nothing here hides."""
        return isinstance(node, ast.Name) and node.id in names and node.id not in self.bound \
            and node.id not in self.outside and hasattr(builtins, node.id)

    def visit_Name(self, node):
        """A global `tl.constexpr(...)` is its value in a kernel."""
        if isinstance(node.ctx, ast.Load) and node.id not in self.bound \
                and isinstance(self.outside.get(node.id), values.constexpr):
            return self.call("keep", node, node)
        return node

    def visit_Attribute(self, node):
        """A constant has a `.value` and a `.type`."""
        self.generic_visit(node)
        if isinstance(node.ctx, ast.Load) and node.attr in ("value", "type"):
            return self.call(f"{node.attr}_of", node, node.value)
        if isinstance(node.ctx, ast.Load) and values.is_tensors_own(0, node.attr) and not self.is_outer(node.value):
            node.value = self.call("tensor_of", node.value, node.value)
        return node

    def visit_Subscript(self, node):
        """A constant has no axes of its own, but `x[None]` gives it one, as it does to a scalar."""
        self.generic_visit(node)
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if isinstance(node.ctx, ast.Load) and parts and all(isinstance(part, ast.Constant) and part.value is None
                                                            for part in parts):
            return self.call("new_axes", node, node.value, node.slice)
        return node

    def visit_Lambda(self, node):
        """A lambda knows its text: where it is applied to every element, the frontend lowers it."""
        self.lambdas.append(copy.deepcopy(node))
        place = ast.Subscript(ast.Name(LAMBDAS, ast.Load()), ast.Constant(len(self.lambdas) - 1), ast.Load())
        self.generic_visit(node)
        return self.call("written_as", node, node, place)

    def is_outer(self, node):
        """Whether `node` names something outside of the function, such as the module in `tl.sum`."""
        while isinstance(node, ast.Attribute):
            node = node.value
        return isinstance(node, ast.Name) and node.id not in self.bound

    # --- assignments ----------------------------------------------------------------------------------------------
    def visit_Assign(self, node):
        """Numbers become tensors; an element of a tile is exchanged in a new tile."""
        self.generic_visit(node)
        kept = kept_of(node.targets[0], self.declared) if len(node.targets) == 1 else False
        if kept is not False:
            self.declared -= {part.id for part in ast.walk(node.targets[0]) if isinstance(part, ast.Name)}
            node.value = self.call("keep_some", node.value, node.value, ast.copy_location(kept, node.value))
            return ast.fix_missing_locations(node)
        node.value = self.call("bind", node.value, node.value)
        if len(node.targets) == 1 and self.is_element(node.targets[0]):
            return self.exchange(node.targets[0], node.value, node)
        after: list[ast.stmt] = []
        node.targets = [self.targets(target, after) for target in node.targets]
        return [node, *after]

    def is_element(self, target):
        """Whether a target is `x[i]` of a local `x`."""
        return isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name) \
            and target.value.id in self.bound

    def targets(self, target, after):
        """A target in which elements of tiles are temporaries; `after` gets what puts them into their tiles."""
        if isinstance(target, (ast.Tuple, ast.List)):
            target.elts = [self.targets(part, after) for part in target.elts]
        elif self.is_element(target):
            name = self.temporary()
            after.append(self.exchange(target, ast.copy_location(ast.Name(name, ast.Load()), target), target))
            return ast.copy_location(ast.Name(name, ast.Store()), target)
        return target

    def exchange(self, target, value, at):
        """`x[i] = v` as `x = setitem(x, i, v)`."""
        tile = ast.copy_location(ast.Name(target.value.id, ast.Load()), target)
        made = self.call("setitem", at, tile, index_of(target.slice), value)
        name = ast.copy_location(ast.Name(target.value.id, ast.Store()), target)
        return ast.copy_location(ast.Assign([name], made), at)

    def temporary(self):
        """A name no user has."""
        self.temporaries += 1
        return f"{SUPPORT}_{self.temporaries}"

    def visit_AugAssign(self, node):
        """`x += e` is `x = x + e`."""
        self.generic_visit(node)
        target: Any = node.target
        if isinstance(target, ast.Name):
            made = ast.copy_location(ast.BinOp(ast.copy_location(ast.Name(target.id, ast.Load()), target), node.op,
                                               node.value), node)
            return ast.copy_location(ast.Assign([target], self.call("bind", node, made)), node)
        if not self.is_element(target):
            return node
        name = self.temporary()
        index = ast.copy_location(ast.Assign([ast.Name(name, ast.Store())], index_of(target.slice)), node)
        target.slice = ast.copy_location(ast.Name(name, ast.Load()), target)
        old = ast.Subscript(ast.Name(target.value.id, ast.Load()), ast.Name(name, ast.Load()), ast.Load())
        made = self.call("bind", node, ast.BinOp(old, node.op, node.value))
        return [ast.fix_missing_locations(index), ast.fix_missing_locations(self.exchange(target, made, node))]

    def visit_AnnAssign(self, node):
        """`x: tl.constexpr = e` keeps a constant; any other annotation means nothing."""
        constant = "constexpr" in ast.unparse(node.annotation)
        node.annotation = ast.copy_location(ast.Constant(None), node.annotation)
        self.generic_visit(node)
        if node.value is not None:
            node.value = self.call("keep" if constant else "bind", node.value, node.value)
        elif constant and isinstance(node.target, ast.Name):
            self.declared = self.declared | {node.target.id}
        return node

    def visit_NamedExpr(self, node):
        """`(x := e)` binds as `x = e` does."""
        self.generic_visit(node)
        node.value = self.call("bind", node.value, node.value)
        return node

    def visit_Compare(self, node):
        """`x < y < z` of tensors is combined element by element."""
        self.generic_visit(node)
        if len(node.ops) == 1:
            return node
        written: Any = tuple(_SYMBOLS[type(how)] for how in node.ops)
        symbols = ast.copy_location(ast.Constant(written), node)
        return self.call("chained", node, symbols, node.left, *map(later, node.comparators))

    def visit_Return(self, node):
        """A number that a function returns is a constant, or a tensor: that depends on the release."""
        self.generic_visit(node)
        if node.value is not None:
            node.value = self.call("give_back_constant" if self.one_result else "give_back", node.value, node.value)
        return node

    def visit_If(self, node: ast.If | ast.While):
        """Whether a `return` was chosen at run time is remembered."""
        returns = holds_return(node)
        node.test = self.visit(node.test)
        before = self.declared
        node.body = [made for part in node.body for made in self.statements(part)]
        then, self.declared = self.declared, before
        node.orelse = [made for part in node.orelse for made in self.statements(part)]
        self.declared = then & self.declared
        if returns:
            node.test = self.call("decide", node.test, node.test)
        return node

    def visit_While(self, node):
        """As `if`."""
        return self.visit_If(node)

    # --- conditions and loops -------------------------------------------------------------------------------------
    def visit_BoolOp(self, node):
        """`and`, `or`: known operands decide at once, tensors are combined element by element."""
        self.generic_visit(node)
        name = "both" if isinstance(node.op, ast.And) else "either"
        return self.call(name, node, *[later(value) for value in node.values])

    def visit_UnaryOp(self, node):
        """`not x` of a tensor is a tensor."""
        self.generic_visit(node)
        return self.call("negate", node, node.operand) if isinstance(node.op, ast.Not) else node

    def visit_IfExp(self, node):
        """A run-time condition makes the result a tensor."""
        self.generic_visit(node)
        return self.call("choose", node, node.test, later(node.body), later(node.orelse))

    def visit_For(self, node):
        """The index of a loop over a range is a tensor."""
        returns = holds_return(node)
        if isinstance(node.iter, ast.Call) and self.is_builtin(node.iter.func, "range"):
            node.iter.func = self.support("range", node.iter.func)
        self.generic_visit(node)
        if returns:
            node.iter = self.call("decide_loop", node.iter, node.iter)
        return node

    def visit_Assert(self, node):
        """Every element must hold."""
        self.generic_visit(node)
        node.test = self.call("holds", node.test, node.test)
        return node

    def visit_Call(self, node):
        """`min` and `max` of tensors are tl.minimum and tl.maximum."""
        if self.is_builtin(node.func, "min", "max", "isinstance"):
            node.func = self.support(ast.unparse(node.func), node.func)
        return self.generic_visit(node)

    # --- new nodes ------------------------------------------------------------------------------------------------
    def support(self, name, at):
        """The function `name` of `meaning_of_python`."""
        owner = ast.copy_location(ast.Name(SUPPORT, ast.Load()), at)
        return ast.copy_location(ast.Attribute(owner, name, ast.Load()), at)

    def call(self, name, at, *args):
        """A call of it, which stands where `at` does."""
        return ast.copy_location(ast.Call(self.support(name, at), list(args), []), at)


_SYMBOLS = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Is: "is",
            ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in"}  # fmt: skip


def kept_of(target, declared):
    """Which names of a target keep constants, as a node of nested tuples of bools; False if none does."""
    if isinstance(target, ast.Name):
        return ast.Constant(True) if target.id in declared else False
    if not isinstance(target, (ast.Tuple, ast.List)):
        return False
    parts = [kept_of(part, declared) for part in target.elts]
    if not any(parts):
        return False
    return ast.Tuple([part or ast.Constant(False) for part in parts], ast.Load())


def holds_return(node):
    """Whether a statement holds a `return`."""
    return any(isinstance(part, ast.Return) for part in ast.walk(node))


def later(node):
    """`lambda: node`"""
    return ast.copy_location(ast.Lambda(ast.arguments([], [], None, [], [], None, []), node), node)


def index_of(node):
    """The expression of an index, where slices are written as calls."""
    if isinstance(node, ast.Slice):
        parts = [part if part is not None else ast.Constant(None) for part in (node.lower, node.upper, node.step)]
        made = ast.Call(ast.Attribute(ast.Name(SUPPORT, ast.Load()), "slice", ast.Load()), parts, [])
        return ast.fix_missing_locations(ast.copy_location(made, node))
    if isinstance(node, ast.Tuple):
        return ast.copy_location(ast.Tuple([index_of(part) for part in node.elts], ast.Load()), node)
    return node
