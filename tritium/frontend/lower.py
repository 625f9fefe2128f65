"""From a Python function to a module of the tile IR: the builder, and the kernel's parameters."""

from __future__ import annotations

import sys
from collections.abc import Collection
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from ..errors import TritonError, fail
from ..ir import types as T
from ..ir.builder import Builder
from ..ir.core import Module, Result, Value
from ..language.source.dialect import OLDEST
from ..language.types import dtypes, values
from ..language.types.annotations import check_listed
from ..locks import lock
from . import binding, budget, calls, control, diagnose, expressions, functions, statements
from .scope import Frame, function_of


def lower(source, signature, constants=None, attrs=None, options=None, target=None):
    """The module of a kernel for the given types and constants of its parameters.

    `signature` maps each parameter to a type string ("*fp32", "i32", "constexpr", a tuple of such); `constants` maps
    names, or index paths into tuples, to values; `attrs` maps names or index paths to lists such as
    [["tt.divisibility", 16]].

    >>> from tritium.kernels.vector_add import add_kernel
    >>> types = {"x_ptr": "*fp32", "y_ptr": "*fp32", "z_ptr": "*fp32", "n": "i32", "BLOCK": "constexpr"}
    >>> print(str(lower(add_kernel, types, {"BLOCK": 64})).partition("(")[0])
    kernel @add_kernel
    """
    check_listed(source)
    function = function_of(source)
    b = KernelBuilder(source, options, target)
    names = parameters(b, source, signature, _by_path(source, constants), _by_path(source, attrs))
    b.frame = Frame(function, names, is_kernel=True)
    b.at(function.node)
    with _deep_recursion():
        try:
            control.run(b, function.node.body)
        except budget.Exhausted:
            raise budget.too_large(b, source) from None
        except RecursionError:
            raise diagnose.error(b, function.node, f"{source.__name__} nests too deeply to be compiled",
                                 hint="split its longest expression into several statements") from None
    attrs = {} if b.dialect is OLDEST else {"dialect": b.dialect.name}
    return Module(source.__name__, b.finish(), attrs, [kept.module for kept in b.kept])


_deepening = lock()
_found = []  # the recursion limit before any thread lowered, once for each thread that does


@contextmanager
def _deep_recursion(limit=20_000):
    """Let expressions and inlined calls nest deeper than Python's default allows.

    The limit is the whole process's: the thread that leaves last restores it.
    """
    with _deepening:
        _found.append(_found[0] if _found else sys.getrecursionlimit())
        sys.setrecursionlimit(max(_found[0], limit))
    try:
        yield
    finally:
        with _deepening:
            before = _found.pop()
            if not _found:
                sys.setrecursionlimit(before)


class KernelBuilder(Builder):
    """Builds the ops of a kernel while its functions are visited; what builtins get as `b`.

    `frame` is the function being lowered, `node` the syntax its ops come from and `loc` its place. `kept` are the
    functions that are called rather than inlined; `inlining` says that all are inlined here.
    """

    def __init__(self, kernel, options=None, target=None):
        super().__init__()
        self.kernel, self.options, self.target = kernel, options if options is not None else _defaults(), target
        self.frame: Any = None  # a Frame from the first function on
        self.node = None
        self.kept: list[functions.Kept] = []
        self.nothing: dict[Any, Any] = {}  # calls, and names bound to them, of functions that returned no value
        self.inlining = False
        self.budget = budget.Budget()

    @property
    def dialect(self):
        """What the release of Triton that the function at hand is written for decides."""
        return self.frame.dialect

    def at(self, node):
        """Ops emitted from now on come from `node`."""
        self.node = node
        self.loc = self.frame.loc(node)

    def visit(self, node):
        """The value of an expression."""
        held = self.budget
        held.left -= 1
        if held.left < 0:
            raise held.exhausted()
        handler = expressions.EXPRESSIONS.get(type(node))
        if handler is None:
            kind = type(node).__name__
            raise diagnose.unsupported(self, node, f"unsupported AST node type: {kind}",
                                       hint=expressions.INSTEAD.get(kind))
        try:
            return handler(self, node)
        except (TritonError, RecursionError):
            raise
        except Exception as raised:
            made = diagnose.from_exception(self, node, raised)
            raise made from made.__cause__

    def statement(self, node, rest):
        """Lower one statement; returns how control may leave it early."""
        self.budget.left -= 1
        try:
            return statements.statement(self, node, rest)
        except (TritonError, RecursionError):
            raise
        except Exception as raised:
            made = diagnose.from_exception(self, node, raised)
            raise made from made.__cause__

    def checked(self, node, function, *args):
        """`function(b, *args)`; what it raises is reported at `node`."""
        try:
            return function(self, *args)
        except (TritonError, RecursionError):
            raise
        except Exception as raised:
            made = diagnose.from_exception(self, node, raised)
            raise made from made.__cause__

    # --- what builtins need ---------------------------------------------------------------------------------------
    def call(self, fn, args, kwargs=None):
        """The value of a device function called with these values."""
        return calls.invoke(self, self.node, fn, list(args), dict(kwargs or {}))

    def region_of(self, fn, arg_types):
        """A block that applies a function to scalars of these IR types; it uses nothing from outside.

        It is applied to whole tiles, so that nothing in it is called.
        """
        seen, self._seen = self._seen, [{}]
        inlining, self.inlining = self.inlining, True
        try:
            with self.region(arg_types) as region:
                result = self.call(fn, [values.tensor(arg) for arg in region.args])
                handles = values.flatten(binding.decay(self, result))[0]
        finally:
            self._seen, self.inlining = seen, inlining
        block = control.close(self, region.block, handles)
        _check_closed(block, fn)
        return block


def _defaults():
    """Options for a module that nobody will compile: what a launch without any would have."""
    return SimpleNamespace(num_warps=4, num_stages=3, num_ctas=1, debug=False, sanitize_overflow=True,
                           enable_fp_fusion=True, sanitized=False)


def _check_closed(block, fn, outside: Collection[Value] = ()):
    """A combine function is applied in places where the kernel's own values do not exist."""
    known = {*outside, *block.args}
    for op in block.ops:
        for x in op.operands:
            if (x.op if type(x) is Result else x) not in known:
                raise fail(ValueError, f"{fn.__name__} uses a run-time value from outside of it",
                           hint="pass it to the operation as one more input")
        for region in op.regions:
            _check_closed(region, fn, known)
        known.add(op)


# --- parameters ---------------------------------------------------------------------------------------------------
def _by_path(source, given):
    """A dict by parameter name or index path, as one by index path."""
    paths = {name: (index,) for index, name in enumerate(source.arg_names)}
    found = {}
    for key, value in (given or {}).items():
        found[paths[key] if isinstance(key, str) else (key,) if isinstance(key, int) else tuple(key)] = value
    return found


def parameters(b, source, signature, constants, attrs):
    """The values of a kernel's parameters; run-time ones become arguments of the module, in order."""
    return {name: _parameter(b, source, name, signature.get(name, "constexpr"), (index,), constants, attrs)
            for index, name in enumerate(source.arg_names)}


def _parameter(b, source, name, kind, path, constants, attrs):
    if isinstance(kind, tuple):
        parts = [_parameter(b, source, f"{name}_{k}", part, (*path, k), constants, attrs)
                 for k, part in enumerate(kind)]
        return getattr(kind, "_make", values.tuple)(parts)
    if path in constants or kind == "constexpr":
        return values.unwrap(constants[path]) if path in constants else _default(source, name)
    kind = dtypes.parse_signature(kind)
    if isinstance(kind, dtypes.tensor_descriptor_type):
        return _descriptor(b, name, kind, dict(attrs.get(path, ())))
    told = dict(attrs.get(path, ()))
    argument = b.argument(kind.ir, name, **{_PROMISES[what]: told[what] for what in _PROMISES if what in told})
    return values.constant(b, told["tt.equal"], kind.ir) if "tt.equal" in told else values.tensor(argument)


_PROMISES = {"tt.divisibility": "divisible", "tt.pointer_range": "pointer_range"}


def _default(source, name):
    parameter = source.signature.parameters.get(name)
    if parameter is None or parameter.default is parameter.empty:
        raise fail(ValueError, f"the constant {name} of {source.__name__} has no value",
                   hint=f"give {name} a type in the signature, or a value in the constants")
    return values.unwrap(parameter.default)


def _descriptor(b, name, kind, attrs):
    """A descriptor made on the host arrives as its base pointer, its shape and its strides.

    The host has checked that the base and all strides but the last are multiples of 16 bytes, and that the last is 1.
    So rows usually hold whole pieces of 16 bytes too.
    """
    from ..language.builtins.descriptors import tensor_descriptor
    rank, element = len(kind.block_type.shape), kind.block_type.element_ty.ir
    base = b.argument(T.Ptr(element), name, divisible=16)
    piece = max(1, 16 // element.bytes)
    shape = [b.argument(T.i32, f"{name}_shape_{k}", **({"likely_divisible": piece} if k == rank - 1 else {}))
             for k in range(rank)]
    strides = [b.argument(T.i64, f"{name}_stride_{k}", divisible=piece) for k in range(rank)]
    tensors = [values.tensor(x) for x in (base, *shape, *strides)]
    sizes, steps = tensors[1:1 + rank], [*tensors[1 + rank:-1], values.constant(b, 1, T.i64)]
    return tensor_descriptor(tensors[0], sizes, steps, kind.block_type.shape,
                             attrs.get("tt.padding", "zero"), attrs.get("tt.rounding", ""))
