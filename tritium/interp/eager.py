"""Eager execution: the user's own Python function runs, program by program, on tensors that hold NumPy arrays.

`print`, `assert`, `breakpoint()` and pdb work inside a kernel; TRITON_INTERPRET=1 makes every kernel run like this.

    >>> from tritium.language.standard import cdiv
    >>> with using(EagerBuilder(Machine())) as b:
    ...     print(b.call(cdiv, [7, 2]))
    4
"""

from __future__ import annotations

import bdb
import contextlib
import re
import sys
from contextvars import ContextVar
from functools import partial
from types import FunctionType, ModuleType, SimpleNamespace

import numpy as np

from .. import knobs
from ..errors import InterpreterError, TritonError, cut, fail, is_ours, users_frames
from ..ir.core import Loc, Op
from ..ir.opdef import types_of
from ..language.builtins.grid import asked, grid_sizes
from ..language.source import dialect, rehearsal, spelling_hints
from ..language.source.dependencies import is_language
from ..language.source.function import ConstexprFunction, Source
from ..language.types.annotations import check_listed
from ..language.types.values import HINT_OF_NONE, tensor, type_of, using
from ..refusals import misnamed, of_argument, refusal
from .arguments import Arguments, Declared
from .float_state import default_floats
from .machine import Machine, programs
from .memory import Memory
from .show import tensor_text
from .syntax import SUPPORT, eager_form
from .together import Member, run_together

__all__ = ["Datum", "EagerBuilder", "InterpretedFunction", "launch", "observing"]

_OBSERVERS: ContextVar[tuple] = ContextVar("observers", default=())


class Datum:
    """A value of the IR that is known: what a tensor holds as its handle in an eager kernel.

    >>> from tritium.ir.types import i32
    >>> print(Datum(i32, np.array(2, np.int32)))
    [2]
    """

    __slots__ = ("data", "type")

    def __init__(self, type, data):
        self.type, self.data = type, data

    def __str__(self):
        return tensor_text(self.type, self.data)

    def __repr__(self):
        return f"Datum({self.type}, {self.data!r})"


class EagerBuilder:
    """The builder of an eager kernel: an op is evaluated as soon as it is emitted."""

    target = None

    def __init__(self, machine, kernel=None, **options):
        self.machine, self.kernel = machine, kernel
        machine.is_eager = True
        self.options = SimpleNamespace(**{"num_warps": 4, "num_stages": 3, "num_ctas": 1, "debug": False,
                                          "sanitize_overflow": True, "sanitized": False, "enable_fp_fusion": True,
                                          **options})
        self._regions = {}
        self.dialect = dialect.of(kernel) if kernel is not None else dialect.OLDEST
        self.decided = False  # whether a run-time condition chose which `return` of the function at hand is reached

    def emit(self, kind, operands, attrs=None, regions=(), loc=None):
        """Evaluate an op; gives its value, a tuple of its values, or None when it has none."""
        attrs = attrs or {}
        operands = tuple(operands)
        types = types_of(kind, [x.type for x in operands], attrs, regions)
        op = Op(kind, operands, attrs, types, tuple(regions), loc or (self.loc if self.machine.observers else None))
        made = [Datum(t, x) for t, x in zip(types, self.machine.execute(op, [x.data for x in operands]))]
        return made[0] if len(made) == 1 else tuple(made) or None

    def call(self, fn, args=(), kwargs=None):
        """Call a device function with language values."""
        if not isinstance(fn, Source) or isinstance(fn, ConstexprFunction):
            return fn(*args, **(kwargs or {}))
        outer = self.dialect, self.decided
        self.decided = False
        if not is_language(fn):  # those follow their caller
            self.dialect = dialect.of(fn)
        try:
            return eager_form(fn)(*args, **(kwargs or {}))
        finally:
            self.dialect, self.decided = outer

    def region_of(self, fn, arg_types):
        """A block that applies a function to scalars of these IR types."""
        written = type(fn) is FunctionType and not fn.__closure__ and getattr(fn, "text", None)
        whose = written[1] if written else fn  # a lambda is made anew whenever its line runs
        key = (id(whose), tuple(arg_types), self.dialect.name)
        if key not in self._regions:
            self._regions[key] = fn, self._trace(fn, arg_types)
        return self._regions[key][1]

    def _trace(self, fn, arg_types):
        """Let the frontend lower a function of scalars: it is applied to every element, often many at once."""
        from ..frontend.lower import KernelBuilder
        from ..frontend.scope import Frame, function_of
        within = self.kernel if self.kernel is not None else fn
        b = KernelBuilder(within, self.options)
        b.frame = Frame(function_of(within), {}, is_kernel=True)
        b.frame.dialect = self.dialect
        b.at(b.frame.function.node)
        return b.region_of(_with_text(fn), arg_types)

    @property
    def loc(self):
        """The line of the user's code that is running."""
        return location(sys._getframe(1))


def _with_text(fn):
    """A lambda of an eager kernel as the frontend knows it; anything else as it is."""
    if type(fn) is not FunctionType or not hasattr(fn, "text"):
        return fn
    from ..frontend.scope import Closure, Frame, function_of  # kernels without such functions need no frontend

    source, node = fn.text
    captured = dict(zip(fn.__code__.co_freevars, (cell.cell_contents for cell in fn.__closure__ or ())))
    names = {name: value for name, value in captured.items() if not name.startswith(SUPPORT)}
    return Closure(node, Frame(function_of(source()), names, is_kernel=True))


# --- launching --------------------------------------------------------------------------------------------------------
class InterpretedFunction(Source):
    """A kernel that runs as plain Python: what `@jit` makes when TRITON_INTERPRET is set."""

    def __init__(self, fn, do_not_specialize=None, debug=None, check_keywords=None,
                 do_not_specialize_on_alignment=None):
        super().__init__(fn)
        self._check_keywords = check_keywords  # refuses keywords that are neither parameters nor options
        self.do_not_specialize, self.debug = frozenset(do_not_specialize or ()), debug
        self.do_not_specialize_on_alignment = frozenset(do_not_specialize_on_alignment or ())
        self.pre_run_hooks = []

    def __getitem__(self, grid):
        return partial(self._run, grid)

    def run(self, *args, grid, warmup=False, **kwargs):
        """Run every program of the grid, one after the other unless they wait for each other; nothing to warm up."""
        if not warmup:
            self._run(grid, *args, **kwargs)

    def _run(self, grid, /, *args, **kwargs):
        if (tell := rehearsal.current.get()) is not None:
            return tell(self, grid, args, kwargs)
        try:
            options = [name for name in kwargs if name not in self.signature.parameters]
            if options and self._check_keywords is not None:
                self._check_keywords(self.__name__, self.arg_names, options)
            for hook in self.pre_run_hooks:
                hook(*args, **kwargs)
            launch(self, grid, args, {"debug": self.debug, **kwargs} if self.debug else kwargs)
        except Exception as error:
            cut(error, keep=knobs.compilation.front_end_debugging)
            raise

    def warmup(self, *args, grid, **kwargs):
        """Nothing: an interpreted kernel is not compiled."""

    def add_pre_run_hook(self, hook):
        """Call `hook(*args, **kwargs)` before each launch."""
        if not callable(hook):
            raise TypeError(f"a hook is a function, not {hook!r}")
        self.pre_run_hooks.append(hook)


@contextlib.contextmanager
def observing(*observers):
    """Let observers watch every eager launch inside the `with`.

    >>> from tritium.interp.observe import Observer
    >>> with observing(Observer()):
    ...     len(_OBSERVERS.get())
    1
    """
    token = _OBSERVERS.set((*_OBSERVERS.get(), *observers))
    try:
        yield
    finally:
        _OBSERVERS.reset(token)


def launch(source, grid, args, kwargs, *, observers=(), strict=True):
    """Run a kernel (any `Source`) eagerly over a grid. Keywords that are not parameters are options or ignored.

    A traceback goes from the user's launch straight into the user's kernel.
    """
    try:
        _launch(source, grid, args, kwargs, observers, strict)
    except Exception as error:
        cut(error, keep=knobs.compilation.front_end_debugging)
        raise


def _launch(source, grid, args, kwargs, observers, strict):
    check_listed(source)
    parameters = source.signature.parameters
    try:
        bound = source.signature.bind(*args, **{k: v for k, v in kwargs.items() if k in parameters})
    except TypeError as error:
        unknown = next((name for name in kwargs if name not in parameters), "")
        nearest = misnamed(source.__name__, unknown, list(parameters))
        raise refusal(TypeError, f"{source.__name__}() {error}",
                      f"{unknown} is no parameter: {nearest}" if unknown else nearest) from None
    bound.apply_defaults()
    sizes = asked(grid, source.__name__, bound.arguments) if callable(grid) else grid
    watching = (*_OBSERVERS.get(), *observers)
    machine = Machine(Memory(strict), grid_sizes(sizes), watching)
    options = {name: kwargs[name] for name in ("num_warps", "num_stages", "num_ctas", "sanitize_overflow")
               if name in kwargs}
    options["debug"] = bool(kwargs.get("debug") or knobs.runtime.debug)
    arguments = Arguments(machine, lambda kind, data: tensor(Datum(kind, data)))
    plain = getattr(source, "do_not_specialize", ())
    for k, (name, parameter) in enumerate(parameters.items()):
        declared = Declared(parameter, specialize=not {k, name} & set(plain))
        try:
            bound.arguments[name] = arguments.value(declared, bound.arguments[name])
        except Exception as error:
            named = of_argument(error, source.__name__, name)
            raise named from named.__cause__
    function = eager_form(source)

    def run(machine, pids):
        with using(EagerBuilder(machine, source, **options)), np.errstate(all="ignore"), default_floats():
            for pid in pids:
                run_program(machine, pid, lambda: _check_result(source, function(*bound.args, **bound.kwargs)))

    try:
        if kwargs.get("launch_cooperative_grid"):
            pids = list(programs(machine.grid))
            members = [Member(machine.memory, machine.grid, watching) for _ in pids]
            run_together(members, lambda member: run(member, [pids[member.k]]))
        else:
            run(machine, programs(machine.grid))
    finally:
        arguments.give_back()


def _check_result(source, result):
    """A kernel returns nothing."""
    if result is not None:
        raise fail(TypeError, f"{source.__name__} is a kernel, which returns nothing: this is {type_of(result)}",
                   hint="store the result through a pointer: `tl.store(out_ptr, ...)`, then a bare `return`")


def run_program(machine, pid, body):
    """Run one program; what it raises becomes an InterpreterError that names the program and the line."""
    try:
        with machine.program(pid):
            body()
    except bdb.BdbQuit:  # the user left the debugger
        raise
    except Exception as raised:
        made = explained(raised, pid)
        made.__traceback__ = users_frames(raised.__traceback__)
        raise made from (made.__cause__ if made is raised else raised)


# --- errors -----------------------------------------------------------------------------------------------------------
def explained(raised, pid):
    """An InterpreterError for an exception in a kernel: the program, the user's line, what went wrong, a next step."""
    hint = getattr(raised, "hint", None) or _hint(raised)
    if isinstance(raised, TritonError) or hasattr(raised, "hint") or (hint and isinstance(raised, AttributeError)):
        text = str(raised)
    else:
        text = repr(raised)
    frame = innermost(raised.__traceback__)
    if frame is not None and "\n  --> " not in text:
        text += f"\n  --> {frame[0]}:{frame[1]} in {frame[2]}"
    if not isinstance(raised, InterpreterError):
        text += f"\nnote: program {pid} was running"
    if hint and "\nhint: " not in text:
        text += f"\nhint: {hint}"
    if isinstance(raised, InterpreterError):
        raised.error_message = text
        return raised
    return InterpreterError(text)


def _hint(raised):
    """What to write instead of a name that kernels do not have, as the compiler would say."""
    if isinstance(raised, AttributeError) and raised.name is not None:
        from ..frontend import attributes  # a kernel that runs well does not need it

        if not isinstance(raised.obj, tensor | ModuleType) and _within(raised.__traceback__):
            return (f"a function of the language was given {_short(raised.obj)}, which has no {raised.name!r}: pass a "
                    "tensor")
        return attributes.hint(raised.obj, raised.name)
    if isinstance(raised, NameError) and raised.name is not None:
        return f"use tl.{raised.name}" if spelling_hints.is_of_language(raised.name) else None
    if isinstance(raised, TypeError) and "'NoneType'" in str(raised):
        return HINT_OF_NONE
    if isinstance(raised, TypeError):
        called = re.search(r"\b(\w+)\(\)|(?<=define __)\w+(?=__)", str(raised))
        return called and _of_call(called[1] or called[0], str(raised))
    return None


def _of_call(name, problem):
    """What to do about a call that Python refused: one of the language with wrong arguments, or of another function."""
    from .. import language  # a kernel that runs well does not need it

    signature = getattr(getattr(language, name, None), "signature", None)
    if signature is None or " operand " in problem:
        return spelling_hints.instead_of_builtin(name) or spelling_hints.instead_of(name)
    unknown = re.search(r"unexpected keyword argument '(\w+)'", problem)
    declared = spelling_hints.declaration(name, signature, unknown and unknown[1])
    return "missing" in problem and spelling_hints.whole_call(name) or declared


def _within(traceback):
    """Whether a traceback ends in the language's own code."""
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    return is_ours(traceback.tb_frame.f_code.co_filename)


def _short(value):
    text = repr(value)
    return text if len(text) <= 40 else f"a {type(value).__name__}"


def innermost(traceback):
    """(file, line, function) of the innermost line of a traceback that is not tritium's own."""
    found = None
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if not is_ours(code.co_filename):
            found = code.co_filename, traceback.tb_lineno, code.co_name
        traceback = traceback.tb_next
    return found


def location(frame):
    """Where the innermost frame that is not tritium's own stands."""
    while frame is not None and is_ours(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is None:
        return None
    code = frame.f_code
    line, end_line, col, end_col = list(code.co_positions())[frame.f_lasti // 2]
    return Loc(code.co_filename, line or frame.f_lineno, col or 0, end_line or frame.f_lineno, end_col or 0,
               code.co_name)
