"""`@jit`: kernels as objects, and the fast way of a launch. The slow way, with the compiler, is `dispatch`."""

from __future__ import annotations

import importlib
import inspect
import warnings
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Protocol, TypeVar, overload

from tritium import knobs
from tritium.errors import cut
from tritium.language.source.function import Source
from tritium.locks import imported, once, once_property
from tritium.refusals import misnamed, refusal, told_at_the_call
from tritium.runtime.launch import Form, Launcher

T = TypeVar("T")  # the type of the function that is a kernel
P = ParamSpec("P")
R = TypeVar("R")

if TYPE_CHECKING:
    from tritium.compiler.kernel import CompiledKernel
    from tritium.runtime.dispatch import DeviceCache
    from tritium.runtime.specialize import KernelParam

    class Launch(Protocol[P]):
        """`kernel[grid]`. Editors show the kernel's own parameters; checkers accept every call, for a launch takes
        options too, may leave to a tuner what that chooses, and gives plain values to constants."""

        @overload
        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> CompiledKernel: ...
        @overload
        def __call__(self, *args: Any, **options: Any) -> CompiledKernel: ...

__all__ = ["JITFunction", "KernelInterface", "jit"]


# What is looked for here and lives elsewhere.
_HOMES = {
    "MockTensor": "tensors", "TensorWrapper": "tensors", "reinterpret": "tensors",
    "KernelParam": "runtime.specialize", "mangle_type": "runtime.specialize",
    "native_specialize_impl": "runtime.specialize", "JitFunctionInfo": "runtime.dispatch",
    "ConstexprFunction": "language.source.function", "constexpr_function": "language.source.function",
    "JITCallable": "language.source.function",
    "find_paths_if": "_utils", "get_iterable_path": "_utils",
}  # fmt: skip


def __getattr__(name: str):
    if name in _HOMES:
        return getattr(importlib.import_module(f"tritium.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@once
def _dispatch():
    return imported("tritium.runtime.dispatch")


def get_full_name(fn: Any) -> str:
    """The name of a function within its module's.

    >>> from tritium.kernels.vector_add import add_kernel
    >>> get_full_name(add_kernel)
    'tritium.kernels.vector_add.add_kernel'
    """
    return f"{fn.__module__}.{fn.__qualname__}"


def get_jit_fn_file_line(fn: Any) -> tuple[str, int]:
    """The file of a kernel, and the line of its `def`.

    >>> from tritium.kernels.vector_add import add_kernel
    >>> get_jit_fn_file_line(add_kernel)[1] == add_kernel.def_file_line_number
    True
    """
    while not isinstance(fn, Source):
        fn = fn.fn
    return fn.file, fn.def_line


class KernelInterface(Generic[T]):
    """What can be launched as `kernel[grid](*args)`: kernels, and what wraps them. A subclass defines `run`.

    >>> class Loud(KernelInterface):
    ...     def run(self, *args, grid, warmup, **kwargs):
    ...         print(f"{len(args)} arguments over {grid}")
    >>> Loud()[(2, 1)](1, 2, 3)
    3 arguments over (2, 1)
    """

    run: Callable[..., Any]
    arg_names: list[str]

    def warmup(self, *args: Any, grid: Any, **kwargs: Any) -> CompiledKernel:
        """Compile without launching; a `torch.dtype` stands for a tensor of it."""
        from tritium.tensors import MockTensor

        try:
            return self.run(*map(MockTensor.wrap_dtype, args), grid=grid, warmup=True, **kwargs)
        except Exception as error:
            cut(error, keep=knobs.compilation.front_end_debugging)
            raise

    def __getitem__(self: KernelInterface[Callable[P, Any]], grid: Any) -> Launch[P]:
        def launch(*args, **kwargs) -> Any:
            try:
                return self.run(*args, grid=grid, warmup=False, **kwargs)
            except Exception as error:
                cut(error, keep=knobs.compilation.front_end_debugging)
                raise

        call: Any = launch
        return call


class _Caches(dict):
    """Device -> `DeviceCache`, made when asked for; dropping one also drops the specialisations at hand."""

    def __init__(self, make: Callable[[], DeviceCache], forget: Callable[[], None]):
        super().__init__()
        self._make, self._forget = make, forget

    def __missing__(self, device) -> DeviceCache:
        return self.setdefault(device, self._make())  # the first of several threads decides

    def clear(self) -> None:
        super().clear()
        self._forget()

    def pop(self, *args):
        self._forget()
        return super().pop(*args)

    def __delitem__(self, device) -> None:
        self._forget()
        super().__delitem__(device)


class JITFunction(Source, KernelInterface[T]):
    """A kernel: a function that runs once for each program of a grid.

    >>> import numpy as np
    >>> from tritium.kernels.vector_add import add_kernel
    >>> x, out = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    >>> compiled = add_kernel[(1,)](x, x, out, 4, BLOCK=4)
    >>> out, add_kernel.arg_names[-1], compiled.name
    (array([0., 2., 4., 6.], dtype=float32), 'BLOCK', 'add_kernel')
    """

    if TYPE_CHECKING:  # other kernels may call it, and give plain values to its constants
        @overload
        def __call__(self: JITFunction[Callable[P, R]], *args: P.args, **kwargs: P.kwargs) -> R: ...
        @overload
        def __call__(self: JITFunction[Callable[P, R]], *args: Any, **kwargs: Any) -> R: ...
        def __call__(self, *args, **kwargs) -> Any: ...

    def __init__(self, fn, version=None, do_not_specialize=None, do_not_specialize_on_alignment=None, debug=None,
                 noinline=None, repr=None, launch_metadata=None):
        super().__init__(fn)
        self.src  # noqa: B018  read now: the file may change before the first launch
        self.version = version
        self.do_not_specialize = tuple(do_not_specialize or ())
        self.do_not_specialize_on_alignment = tuple(do_not_specialize_on_alignment or ())
        self._debug, self.noinline = debug, bool(noinline)
        self._repr, self.launch_metadata = repr, launch_metadata

    _own = (*Source._own, "requests", "launcher", "pre_run_hooks", "device_caches", "_grids", "_native", "_lookup")

    def _begin(self) -> None:
        super()._begin()
        self.pre_run_hooks: list[Callable] = []
        self.device_caches: dict[Any, DeviceCache] = _Caches(self.create_binder, self._forget)
        self.requests: dict[tuple[str, str], Any] = {}  # (target, key) -> what was compiled: `recompile` compares them
        # The launcher's, once there is one: an attribute of the kernel itself is found faster.
        self._grids: dict[tuple, Callable] = {}
        self._native: Callable | None = None
        self._lookup: Callable | None = None

    @once_property
    def params(self) -> list[KernelParam]:
        """The parameters, with what their annotations say."""
        from tritium.runtime.specialize import KernelParam

        plain, unaligned = self.do_not_specialize, self.do_not_specialize_on_alignment
        parameters = self.signature.parameters.items()
        self._check_listed((*plain, *unaligned))
        return [KernelParam(i, parameter, i in plain or name in plain, i in unaligned or name in unaligned)
                for i, (name, parameter) in enumerate(parameters)]  # fmt: skip

    def _check_listed(self, listed: Iterable[int | str]) -> None:
        for name in listed:
            if name not in self.arg_names and name not in range(len(self.arg_names)):
                warnings.warn_explicit(
                    f"jit of kernel `{self.__name__}`: do_not_specialize lists {name!r}, which is no parameter\nhint: "
                    f"{misnamed(self.__name__, str(name), self.arg_names)}", UserWarning, self.file, self.def_line)

    @once_property
    def arg_names(self) -> list[str]:
        """The names of the parameters."""
        return list(self.signature.parameters)

    @property
    def debug(self) -> bool | None:
        """Whether launches that do not say so check device asserts; it may be set at any time."""
        return self._debug

    @debug.setter
    def debug(self, value: bool | None) -> None:
        self._debug = value
        self._forget()

    @property
    def file_name(self) -> str:
        """The file that defines the kernel."""
        return self.file

    @property
    def def_file_line_number(self) -> int:
        """The line of its `def`."""
        return self.def_line

    @property
    def def_file_col_number(self) -> int:
        """The column of its `def`, counted from 1."""
        return self._text[2] + 1

    @property
    def constexprs(self) -> list[int]:
        """The indices of the parameters annotated as constants."""
        return [param.num for param in self.params if param.is_constexpr]

    def repr(self, spec) -> str:
        """The kernel's symbol for a specialisation."""
        if self._repr is None:
            return self.__name__.rpartition(".")[2]
        # Another kernel's `repr` may call this one with what it was given itself: constants by name.
        constants = {path if isinstance(path, str) else self.arg_names[path[0]]: value
                     for path, value in spec.constants.items() if isinstance(path, str) or len(path) == 1}
        return str(self._repr(SimpleNamespace(constants=constants, signature=spec.signature)))

    def is_gluon(self) -> bool:
        """Whether it is written in Gluon: no."""
        return False

    def __hash__(self) -> int:
        return hash(self.cache_key)

    # -- launching ----------------------------------------------------------------------------------------------------

    def __getitem__(self: JITFunction[Callable[P, Any]], grid: Any) -> Launch[P]:
        if not self.pre_run_hooks:
            if grid.__class__ is tuple:
                try:
                    call = self._grids.get(grid)
                except TypeError:  # sizes that are symbols, in a rehearsal, cannot be hashed
                    call = None
                if call is not None:
                    return call
            elif self._native is not None:
                return self._native(grid)
        return self._over(grid)

    def _over(self, grid) -> Callable:
        call = self.launcher.over(grid)
        if not self.pre_run_hooks:
            return call

        def hooked(*args, **kwargs):
            self._call_hooks(args, kwargs)
            return call(*args, **kwargs)

        return hooked

    @once_property
    def launcher(self) -> Launcher:
        """The generated functions that bind arguments and launch."""
        from tritium.backends.compiler import NAMES

        options = tuple(name for name in self.arg_names if name in NAMES)
        launcher = Launcher(self.__name__, self.signature, self._launch, options)
        self._grids = launcher.grids
        return launcher

    # What frameworks use that compile a kernel themselves, as a launch would, perhaps in another process.

    def create_binder(self) -> DeviceCache:
        """An empty cache for the current device. Its `binder` takes the arguments of a launch; it returns them by name,
        the type and the key of each, and the keywords that are options."""
        return _dispatch().new_cache(self)

    @once_property
    def compile(self) -> Callable[..., CompiledKernel]:
        """`triton.compile`."""
        return imported("tritium.compiler").compile

    @once_property
    def ASTSource(self) -> type:
        """`triton.compiler.ASTSource`: a kernel with the types of its arguments."""
        return imported("tritium.compiler").ASTSource

    def _forget(self) -> None:
        if "launcher" in self.__dict__:
            self.launcher.disarm()

    def run(self, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> CompiledKernel:
        """Launch over `grid`, or with `warmup` only compile."""
        if not warmup:
            kernel: Any = self
            return kernel[grid](*args, **kwargs)
        self._call_hooks(args, kwargs)
        return (self._lookup or self.launcher.warmup)(*args, **kwargs)

    def warmup(self, *args: Any, grid: Any, **kwargs: Any) -> CompiledKernel:
        """Compile without launching; a `torch.dtype` stands for a tensor of it. The grid does not matter.

        >>> import numpy as np
        >>> from tritium.kernels.vector_add import add_kernel
        >>> x = np.ones(8, np.float32)
        >>> add_kernel.warmup(x, x, x, 8, BLOCK=8, grid=(1,)).name
        'add_kernel'
        """
        try:
            lookup = self._lookup
            if lookup is not None and not self.pre_run_hooks:
                return lookup(*args, **kwargs)
            if self.pre_run_hooks or not self._runs_plainly():
                return super().warmup(*args, grid=grid, **kwargs)
            return self.launcher.warmup(*args, **kwargs)
        except Exception as error:
            cut(error, keep=knobs.compilation.front_end_debugging)
            raise

    def _runs_plainly(self) -> bool:
        """Whether nobody has put another `run` in the place of this class's."""
        return type(self).run is JITFunction.run and "run" not in self.__dict__

    def _call_hooks(self, args: tuple, kwargs: dict[str, Any]) -> None:
        for hook in self.pre_run_hooks:
            hook(*args, **kwargs)

    def _launch(self, sizes: tuple[int, int, int] | None, values: tuple, options: dict[str, Any],
                form: Form | None = None):
        kernel = _dispatch().launch(self, sizes, values, options, form)
        self._native = self.launcher.native
        if self._runs_plainly():
            self._lookup = self.launcher.lookup
        return kernel

    def preload(self, specialization_data: str):
        """Compile what a cache hook was told about, perhaps in another process."""
        return _dispatch().preload(self, specialization_data)

    def add_pre_run_hook(self, hook: Callable) -> None:
        """Call `hook(*args, **kwargs)` before each launch."""
        if not callable(hook):
            raise TypeError(f"a hook is a function, not {hook!r}")
        self.pre_run_hooks.append(hook)


def _check_keywords(kernel: str, parameters: list[str], options: list[str]) -> None:
    from tritium.runtime import dispatch

    dispatch.check_keywords(kernel, parameters, options)


@overload
def jit(fn: T) -> JITFunction[T]: ...
@overload
def jit(*, version: Any = None, repr: Callable | None = None, launch_metadata: Callable | None = None,
        do_not_specialize: Iterable[int | str] | None = None,
        do_not_specialize_on_alignment: Iterable[int | str] | None = None, debug: bool | None = None,
        noinline: bool | None = None) -> Callable[[T], JITFunction[T]]: ...
@told_at_the_call
def jit(fn: Any = None, *, version=None, repr=None, launch_metadata=None, do_not_specialize=None,
        do_not_specialize_on_alignment=None, debug=None, noinline=None) -> Any:
    """Make a function a kernel, or a function kernels call; with TRITON_INTERPRET=1, one that runs as plain Python.

    With `noinline`, kernels call it rather than contain it: it is compiled once for all calls with the same types and
    constants, and takes scalars, pointers and constants but no blocks.

    >>> from tritium.language.builtins.grid import grid_sizes
    >>> jit(noinline=True)(grid_sizes)
    JITFunction(tritium.language.builtins.grid:grid_sizes)
    """

    @told_at_the_call
    def decorate(fn):
        if inspect.isfunction(fn) and fn.__code__.co_flags & inspect.CO_VARKEYWORDS:
            raise refusal(TypeError, "JIT functions do not support **kw parameters",
                          f"name the parameters of {fn.__name__} one by one")
        if isinstance(fn, KernelInterface) and not isinstance(fn, JITFunction):
            raise refusal(TypeError, f"@triton.jit makes a kernel of a function, not of a {type(fn).__name__}",
                          "write @triton.jit right above the def, and @triton.autotune or @triton.heuristics above it")
        if knobs.runtime.interpret:
            from tritium.interp.eager import InterpretedFunction

            return InterpretedFunction(fn, do_not_specialize, debug, _check_keywords, do_not_specialize_on_alignment)
        return JITFunction(fn, version, do_not_specialize, do_not_specialize_on_alignment, debug, noinline, repr,
                           launch_metadata)

    return decorate if fn is None else decorate(fn)
