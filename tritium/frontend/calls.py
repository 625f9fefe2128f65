"""Calls: the language's builtins, functions from their source, compile-time Python, a few Python builtins."""

from __future__ import annotations

import ast
import builtins
import inspect
from types import FunctionType, MethodType

from ..errors import CompilationError, TritonError, UnsupportedLanguageConstruct, explain, fail
from ..ir import types as T
from ..language.builtins import elementwise, indexing, program
from ..language.source import dependencies, spelling_hints
from ..language.source.function import ConstexprFunction, Source, cdiv
from ..language.types import values
from ..language.types.limits import check_call
from ..language.types.returned_constants import Returned, plain, settled
from . import attributes, control, diagnose, functions
from .scope import Closure, Frame, describe, function_of, is_aggregate, same

DEEPEST = 200  # calls within calls


def language(name):
    """A public function of the language."""
    from .. import language as tl
    return getattr(tl, name)


def call(b, node, dropped=False):
    """A Call node; `dropped` when nobody uses the result."""
    callee = b.visit(node.func)
    args, kwargs = arguments(b, node)
    if dropped:
        _check_use(b, node, callee)
    b.at(node)
    return invoke(b, node, callee, args, kwargs)


def arguments(b, node):
    """The values of a call's arguments: a list and a dict."""
    args, kwargs = elements(b, node.args), {}
    for keyword in node.keywords:
        if keyword.arg is None:
            raise diagnose.unsupported(b, node, "unpacking a dict with ** is not supported", at=keyword.value,
                                       hint="write the keyword arguments one by one")
        kwargs[keyword.arg] = b.visit(keyword.value)
    return args, kwargs


def elements(b, nodes):
    """The values of several expressions; `*t` gives those of a tuple."""
    found = []
    for node in nodes:
        if type(node) is not ast.Starred:
            found.append(b.visit(node))
            continue
        packed = b.visit(node.value)
        if not isinstance(packed, (builtins.tuple, list)):
            raise diagnose.error(b, node, f"only a tuple can be unpacked with *, not {describe(packed)}")
        found += packed
    return found


def _check_use(b, node, callee):
    function = callee.__func__ if type(callee) is MethodType else callee
    if not isinstance(function, (Source, values.Builtin)) or not function._must_use_result:
        return
    why = function._must_use_result
    raise diagnose.error(b, node, f"The result of {ast.unparse(node.func)} is not being used. "
                         f"{why if isinstance(why, str) else ''}".rstrip(), hint="bind it to a name")


def invoke(b, node, callee, args, kwargs):
    """Call any value that can be called in a kernel."""
    if type(callee) is MethodType:
        if isinstance(callee.__func__, (values.Builtin, Source)):
            callee, args = callee.__func__, [callee.__self__, *args]
        elif values.parts_of(callee.__self__) is not None:  # plain Python in an aggregate
            return run_python(b, node, callee, args, kwargs)
    if type(callee) in (FunctionType, MethodType) and hasattr(callee, "__triton_aggregate__"):  # static, of the class
        return run_python(b, node, callee, args, kwargs)
    if values.is_builtin(callee):
        return call_builtin(b, node, values.as_builtin(callee), args, kwargs)
    if isinstance(callee, ConstexprFunction):
        return _call_constexpr(b, node, callee, args, kwargs)
    if isinstance(callee, Source):
        return call_source(b, node, callee, args, kwargs)
    if type(callee) is Closure:
        return _call_closure(b, node, callee, args, kwargs)
    python = _PYTHON.get(callee) if isinstance(callee, _HASHABLE) else None
    if python is not None:
        return python(b, node, args, kwargs)
    if isinstance(callee, type):
        return _construct(b, node, callee, args, kwargs)
    return _call_python(b, node, callee, args, kwargs)


# --- builtins and compile-time functions --------------------------------------------------------------------------
def call_builtin(b, node, builtin, args, kwargs):
    """A function of the language written in Python."""
    if not builtin.adapts:
        args, kwargs = list(map(plain, args)), {name: plain(x) for name, x in kwargs.items()}
    try:
        return _made(builtin.fn(b, *args, **kwargs))
    except (CompilationError, RecursionError) as raised:
        if isinstance(raised, CompilationError) and raised.node is None:
            raise diagnose.from_builtin(b, node, raised) from None
        raise
    except TritonError:
        raise
    except Exception as raised:
        _check_signature(b, node, builtin, builtin.signature, args, kwargs)
        raised = _about_argument(builtin, raised, args, kwargs)
        made = diagnose.from_builtin(b, node, raised, builtin.signature, len(args))
        raise made from made.__cause__


def _about_argument(builtin, raised, args, kwargs):
    """A value without what tensors have was given where one is needed: name the parameter."""
    if type(raised) is not AttributeError or hasattr(raised, "hint"):
        return raised
    names = list(builtin.signature.parameters)
    for name, value in (*zip(names, args), *kwargs.items()):
        if value is raised.obj:
            return fail(TypeError, f"{builtin.__name__} needs a tensor as `{name}`, not {describe(value)}",
                        argument=name)
    return raised


def _made(result):
    """What Python code handed back, as a value of the language."""
    result = values.unwrap(result)
    return values.tuple(result) if type(result) in (builtins.tuple, list) else result


def _check_signature(b, node, function, signature, args, kwargs):
    """Say that a call has wrong arguments rather than what came of it."""
    try:
        signature.bind(*args, **kwargs)
    except TypeError as wrong:
        name = function.__name__
        unknown = next((key for key in kwargs if key not in signature.parameters), None)
        hint = spelling_hints.declaration(name, signature, unknown)
        if "missing" in str(wrong) and dependencies.is_language(function):
            hint = spelling_hints.whole_call(name) or hint
        raise diagnose.error(b, node, f"{name}(): {wrong}", hint=hint) from None


def _call_constexpr(b, node, function, args, kwargs):
    """A function that runs while the kernel is compiled; `cdiv` is arithmetic, which run-time values have too."""
    runtime = any(type(x) is values.tensor for x in (*args, *kwargs.values()))
    if runtime and function is cdiv:
        return run_python(b, node, function.fn, args, kwargs)
    args, kwargs = list(map(plain, args)), {name: plain(x) for name, x in kwargs.items()}
    try:
        return values.unwrap(function.fn(*args, **kwargs))
    except TritonError:
        raise
    except Exception as raised:
        _check_signature(b, node, function, function.signature, args, kwargs)
        if runtime:
            name = function.__name__
            made = diagnose.error(
                b, node, f"{name} runs while the kernel is compiled: it takes constants only. {_first_line(raised)}",
                hint="compute it before the launch and pass it as a `tl.constexpr` argument"
                if dependencies.is_language(function) else f"pass constants, or decorate {name} with @triton.jit")
            made.__cause__ = raised
        else:
            made = diagnose.from_builtin(b, node, raised)
        raise made from made.__cause__


def _first_line(raised):
    return str(raised).partition("\n")[0]


def run_python(b, node, function, args, kwargs):
    """The result of plain Python, which runs while the kernel is compiled."""
    args, kwargs = list(map(plain, args)), {name: plain(x) for name, x in kwargs.items()}
    try:
        with values.using(b):
            return _made(function(*args, **kwargs))
    except (TritonError, RecursionError):
        raise
    except Exception as raised:
        explain(raised, hint=getattr(raised, "hint", None))  # about the user's values, also where a type is made
        made = diagnose.from_builtin(b, node, raised)
        raise made from made.__cause__


def _construct(b, node, cls, args, kwargs):
    """A class called: constexpr, a named tuple, an aggregate, a type of the language."""
    if not is_aggregate(cls) and not issubclass(cls, builtins.tuple) and cls not in _OF_ANYTHING:
        _check_constants(b, node, cls.__name__, args, kwargs)
    return run_python(b, node, cls, args, kwargs)


_OF_ANYTHING = (values.constexpr, program.condition)


def _call_python(b, node, function, args, kwargs):
    """Anything else that can be called: a function written in C, or a method of a constant, on constants."""
    name = getattr(function, "__qualname__", None) or repr(function)
    if not callable(function):
        raise diagnose.error(b, node, f"{describe(function)} cannot be called", at=node.func,
                             hint=_instead_of_call(node, function))
    called = getattr(node, "func", None)
    if type(called) is ast.Subscript and isinstance(kernel := b.visit(called.value), Source):
        raise diagnose.error(b, node, "a kernel cannot launch a kernel", at=node.func,
                             hint=f"call it as a function, {kernel.__name__}(...), or launch it from Python")
    if type(function) is FunctionType and not dependencies.is_language(function):
        if called is None or isinstance(called, ast.Name):  # a constant: `@tl.constexpr` above it, or an argument
            return run_python(b, node, function, map(values.wrap, args),
                              {name: values.wrap(x) for name, x in kwargs.items()})
        raise diagnose.error(
            b, node, f"Unsupported function referenced: {name} is plain Python", at=node.func,
            hint=spelling_hints.of_callable(function.__name__, function.__module__ or ""))
    _check_constants(b, node, name, args, kwargs)
    b.checked(node, lambda _: check_call(function, [*args, *kwargs.values()]))
    return run_python(b, node, function, args, kwargs)


def _instead_of_call(node, function):
    """The hint for a call of what is no function: a type, or an attribute such as `x.numel`."""
    if isinstance(function, values.dtypes.dtype):
        return f"a type converts no values: write x.to({ast.unparse(node.func)}), or tl.cast"
    if type(node.func) is ast.Attribute:
        return f"write {ast.unparse(node.func)} without parentheses"
    return None


def _check_constants(b, node, name, args, kwargs):
    for value in (*args, *kwargs.values()):
        if not values.is_constant(value):
            raise diagnose.error(b, node, f"{name} runs in Python while the kernel is compiled: it cannot take "
                                 f"{describe(value)}, a run-time value", hint=_instead_of(name))


def _instead_of(name):
    if name == "str.format":
        return 'print values at run time with tl.device_print("x", x)'
    return spelling_hints.instead_of_builtin(name) or spelling_hints.instead_of(name)


# --- functions from their source ----------------------------------------------------------------------------------
def call_source(b, node, source, args, kwargs):
    """The body of a function in place of its call; a call of those marked `noinline`."""
    function = function_of(source)
    names = bind(b, node, function, args, kwargs)
    _keep_constants(function, names)

    def lower(frame):
        _check_recursion(b, node, frame)
        return _lowered(b, node, frame, lambda: control.check_returns(b, function, control.run(b, function.node.body)))

    if source.noinline:
        names = {name: settled(b, value) for name, value in names.items()}
        _check_scalars(b, node, source, names)
        called = functions.call(b, function, names, lower)
        if called is not None:
            return _noted(b, node, function, called.value)
    return _noted(b, node, function, lower(Frame(function, names, caller=b.frame.loc(node), parent=b.frame)))


def _noted(b, node, function, result):
    """The result of a call; that there is none is worth knowing when somebody uses it."""
    if result is None:
        b.nothing[node] = function
    return result


def _lowered(b, node, frame, lower):
    """Lower in another frame; errors come back with the place of the call."""
    outer, b.frame = b.frame, frame
    b.budget.call(frame.function)
    try:
        lower()
        return frame.names.get(control.RESULT)
    except CompilationError as inner:
        b.frame = outer
        made = diagnose.from_callee(b, node, inner, frame.source)
        raise made from made.__cause__
    finally:
        b.frame = outer
        b.at(node)


def _call_closure(b, node, closure, args, kwargs):
    spec = closure.node.args
    if kwargs or spec.vararg or spec.kwonlyargs or spec.defaults or len(args) != len(spec.args):
        raise diagnose.error(b, node, f"this lambda takes {len(spec.args)} positional arguments, got "
                             f"{len(args) + len(kwargs)}")
    names = {parameter.arg: value for parameter, value in zip(spec.args, args)}
    home = closure.frame
    frame = Frame(home.function.part(closure.node), names, caller=b.frame.loc(node), parent=b.frame, within=home)
    _check_recursion(b, node, frame)

    def lower():
        names[control.RESULT] = b.visit(closure.node.body)

    return _lowered(b, node, frame, lower)


def bind(b, node, function, args, kwargs):
    """The callee's names, from the arguments: Python's rules. Constants stay constants."""
    parameters = function.parameters
    if not kwargs and parameters.simple and len(args) == len(parameters.positional):
        return dict(zip(parameters.positional, args))
    try:
        bound = function.source.signature.bind(*args, **kwargs)
    except TypeError as wrong:
        message, hint = _in_words(str(wrong), function, args, kwargs)
        raise diagnose.error(b, node, f"{function.name}() {message}", hint=hint,
                             notes=[(f"{function.name} is declared here", function.heading())]) from None
    bound.apply_defaults()
    names = {}
    for name, value in bound.arguments.items():
        kind = parameters.kinds[name]
        if kind is inspect.Parameter.VAR_KEYWORD:
            raise diagnose.unsupported(b, node, f"{function.name} takes **{name}, which kernels cannot",
                                       hint="name its parameters one by one")
        names[name] = values.tuple(value) if kind is inspect.Parameter.VAR_POSITIONAL else values.unwrap(value)
    return names


def _keep_constants(function, names):
    """A parameter annotated with tl.constexpr is the number itself, also where another function returned it."""
    for name, value in names.items():
        if isinstance(value, (Returned, builtins.tuple)) and function.parameters.is_constant(name):
            names[name] = plain(value)


def _in_words(message, function, args, kwargs):
    """What is wrong with the arguments, and what to do about it."""
    known = function.parameters.kinds
    for name in kwargs:
        if name not in known:
            return f"has no parameter called {name!r}", spelling_hints.near_parameter(name, known)
    if message.startswith("too many"):
        return (f"takes {len(function.parameters.positional)} arguments, got {len(args) + len(kwargs)}: too many "
                "positional arguments"), None
    hint = spelling_hints.whole_call(function.name) if dependencies.is_language(function.source) else None
    return message.replace("missing a required", "is missing a required"), hint


def _check_scalars(b, node, source, names):
    for name, value in names.items():
        for handle in values.flatten(value)[0]:
            if T.shape(handle.type):
                raise diagnose.error(
                    b, node, f"Function {source.__name__} is marked noinline, but was called with non-scalar argument "
                    f"{name}: {describe(value)}", kind=UnsupportedLanguageConstruct, hint="remove noinline=True")


def _check_recursion(b, node, frame):
    """A call within the same call never ends; one whose constants or types change may."""
    depth, outer = 0, frame.parent
    while outer is not None:
        depth += 1
        if outer.function is frame.function and outer.entry.keys() == frame.entry.keys() and \
                all(same(outer.entry[name], value) for name, value in frame.entry.items()):
            why = "kernels cannot recurse" if frame.source.noinline else "it would be inlined without end"
            raise diagnose.error(
                b, node, f"{frame.function.name} calls itself with arguments of the same types and constants: {why}",
                hint="recursion must end at compile time: change a tl.constexpr argument and test it with `if`")
        outer = outer.parent
    if depth > DEEPEST:
        raise diagnose.error(b, node, f"calls nest more than {DEEPEST} deep", hint="is a recursion missing its end?")


# --- Python's builtins --------------------------------------------------------------------------------------------
def _plain(function):
    """A builtin of one constant: len, int, float."""
    def apply(b, node, args, kwargs):
        value = args[0] if len(args) == 1 and not kwargs else None
        if function is len and isinstance(value, builtins.tuple):
            return len(value)
        if any(not values.is_constant(x) for x in args):
            hint = "use .to(tl.int32) or .to(tl.float32)" if function in (int, float) else "use x.shape[axis]"
            if function is len and type(value) is values.tensor and not value.shape:
                hint = indexing.NO_SHAPE if value.dtype.is_ptr() else "it is a scalar: it has no length"
            raise fail(TypeError, f"{function.__name__}() of a run-time value: {describe(args[0])}", hint=hint)
        return by_python(function, *args, **kwargs)
    return apply


def by_python(function, *args, **kwargs):
    """`function(...)` on the user's constants: what it raises is not our mistake."""
    try:
        return function(*map(plain, args), **kwargs)
    except Exception as raised:
        explain(raised, hint=None)
        raise


def _list(b, node, args, kwargs):
    return by_python(values.tuple, *args, **kwargs)


def _isinstance(b, node, args, kwargs):
    return by_python(isinstance, *(settled(b, arg) for arg in args), **kwargs)


def _getattr(b, node, args, kwargs):
    owner, name, *default = by_python(lambda owner, name, *default: (owner, name, *default), *args)
    if default and not attributes.has(b, owner, name):
        return default[0]
    return attributes.read(b, owner, name)


def _hasattr(b, node, args, kwargs):
    return by_python(attributes.has, b, *args)


def _print(b, node, args, kwargs):
    return call_builtin(b, node, language("device_print"), args, kwargs)


def _extreme(function, name):
    """min and max: of constants by Python, otherwise by the language."""
    def apply(b, node, args, kwargs):
        elementwise.check_several(function.__name__, args)
        if len(args) == 1 and isinstance(args[0], builtins.tuple):
            args = args[0]
        if all(map(values.is_constant, args)):
            return by_python(function, args)
        elementwise.warn_of_blocks(b, name, args)
        found = args[0]
        for value in args[1:]:
            found = invoke(b, node, language(name), [found, value], {})
        return found
    return apply


def _range(b, node, args, kwargs):
    raise diagnose.error(b, node, "range(...) can only be what a `for` goes through",
                         hint="write `for i in range(n):`, or a list comprehension over a constant range")


_HASHABLE = (type, type(len))
_PYTHON = {
    len: _plain(len), int: _plain(int), float: _plain(float), list: _list, isinstance: _isinstance, getattr: _getattr,
    hasattr: _hasattr, print: _print, min: _extreme(min, "minimum"), max: _extreme(max, "maximum"), range: _range,
}  # fmt: skip
