"""The slow way of a launch: specialise the arguments, look the kernel up, compile it, launch it, arm the fast way."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from tritium import backends, knobs
from tritium.backends.compiler import NAMES, BaseBackend, GPUTarget, Options, check_names
from tritium.backends.driver import Call, DriverBase, driver
from tritium.compiler import ASTSource, CompiledKernel, compile, make_backend
from tritium.compiler.background import active_mode
from tritium.compiler.collector import paused
from tritium.errors import explain
from tritium.language.source.fingerprints import COMMON, fingerprint
from tritium.locks import busy, imported, lock
from tritium.named_tuples import NamedTuple
from tritium.refusals import UnknownName, misnamed, of_argument, refusal
from tritium.runtime.jit import JITFunction, get_full_name
from tritium.runtime.launch import Form, captured
from tritium.runtime.specialize import KernelParam, attrs_of, constants_of, functions_in, key_of
from tritium.tensors import device_of, hold


class DeviceCache(NamedTuple):
    """What one device has of a kernel: key -> compiled kernel, and specialisation -> key."""

    kernels: dict[str, Any]
    keys: dict[Any, str]
    target: GPUTarget
    backend: BaseBackend
    binder: Callable


class JitFunctionInfo(NamedTuple):
    """The kernel a hook is told about."""

    module: str
    name: str
    jit_function: JITFunction


class Request(NamedTuple):
    """One compilation: everything that decides its result."""

    key: str
    signature: dict[str, Any]
    constants: dict[tuple[int, ...], Any]
    attrs: dict[tuple[int, ...], list]
    options: Options
    warmup: bool
    values: tuple = ()  # the arguments of the launch, while it is under way


def launch(fn: JITFunction, sizes: tuple[int, int, int] | None, values: tuple, options: dict[str, Any],
           form: Form | None = None):
    """Launch a kernel on bound arguments; without `sizes`, only compile it. None when a hook cancelled that.

    With `form`, later calls written like this one may go the fast way.
    """
    check_keywords(fn.__name__, fn.arg_names, options)
    values = tuple(_each(fn, values, lambda param, x: x if param.is_constexpr else hold(x)))
    drv = _driver(fn, values)
    with paused(), drv.on_device_of(values):
        return _launch(fn, drv, sizes, values, options, form)


def _launch(fn: JITFunction, drv: DriverBase, sizes: tuple[int, int, int] | None, values: tuple,
            options: dict[str, Any], form: Form | None):
    cache, pairs, given, key = _specialized(fn, drv, values, options)
    functions = [fn, *(part for param, x in zip(fn.params, values) if param.is_constexpr for part in functions_in(x))]
    for function in functions:
        function.check_globals()
    kernel: Any = cache.kernels.get(key)
    if kernel is None:
        request = _request(fn, cache, key, pairs, values, given, sizes is None)
        with _compiling, busy():
            kernel = cache.kernels.get(key) or _compile(fn, cache, request)
    if kernel is None:
        return None
    if sizes is not None:
        kernel = kernel.result()
        kernel.launch(sizes, values)
    if form is not None:
        _arm(fn, drv, kernel, form, options, functions, list(zip(fn.params, pairs, values)), sizes is not None)
    return kernel


def _specialized(fn: JITFunction, drv: DriverBase, values: tuple, options: dict[str, Any]) -> tuple:
    """(the device's cache, types and keys of the arguments, all options, the kernel's key) of a launch."""
    pairs = tuple(_each(fn, values, KernelParam.specialize))
    cache = _device_cache(fn, drv)
    given = dict(options)
    if options.get("debug", fn.debug) or knobs.runtime.debug:
        given["debug"] = True
    if knobs.sanitize and (cache.target.backend == "cpu" or drv.emulates):
        given["sanitized"] = True
    try:
        return cache, pairs, given, _key(fn, cache, pairs, given)
    except TypeError:
        _each(fn, pairs, lambda _param, pair: key_of(pair))  # names the argument that is no constant
        raise


def wanted(fn: JITFunction, values: tuple, options: dict[str, Any]) -> tuple[DeviceCache, Request, bool]:
    """(the device's cache, what a launch needs, whether it is there); nothing is compiled."""
    check_keywords(fn.__name__, fn.arg_names, options)
    values = tuple(_each(fn, values, lambda param, x: x if param.is_constexpr else hold(x)))
    drv = _driver(fn, values)
    with drv.on_device_of(values):
        cache, pairs, given, key = _specialized(fn, drv, values, options)
        return cache, _request(fn, cache, key, pairs, values, given, True), key in cache.kernels


def _arm(fn: JITFunction, drv: DriverBase, kernel: Any, form: Form, options: dict[str, Any], functions: list,
         arguments: list[tuple], launched: bool) -> None:
    """Have later calls like this one, which launched a kernel or only compiled it, go the fast way."""
    if launched and "torch.autograd.profiler" in sys.modules:
        imported("tritium.runtime.torch_names").follow_torch()
    if launched and (knobs.runtime.launch_enter_hook or knobs.runtime.launch_exit_hook):
        return  # they want to see every launch
    if not isinstance(kernel, CompiledKernel):
        return  # it is still being compiled
    arguments[:len(form.written)] = [(*argument[:2], x) for argument, x in zip(arguments, form.written)]
    like = (launched, id(kernel), *form[:2], *(type(x) for _, _, x in arguments))
    seen = {key: held for function in functions for key, held in function.used_global_vals.items()}
    call = Call(arguments, *form[:2], options, captured(seen))
    make = drv.guarded_launch if launched else drv.guarded_lookup
    fn.launcher.arm_for(like, lambda: make(kernel, call), launched)


def _each(fn: JITFunction, values: tuple, look: Callable[[KernelParam, Any], Any]) -> list:
    """What `look` gives for each parameter and its argument; an error is about that argument."""
    done: list[Any] = []
    try:
        for param, x in zip(fn.params, values):
            done.append(look(param, x))
    except Exception as error:
        named = of_argument(error, fn.__name__, fn.arg_names[len(done)])
        raise named from named.__cause__
    return done


def check_keywords(kernel: str, parameters: list[str], options: Iterable[str]) -> None:
    """Refuse keywords of a launch that are neither parameters nor options.

    >>> check_keywords("add", ["x", "n"], ["num_warps"])
    """
    for name in ("device", "device_type", "stream"):
        if name in options:
            raise refusal(AssertionError, f"{name} option is deprecated; current {name} will be used")
    try:
        check_names(options)
    except KeyError as error:
        unknown = next(name for name in options if error.args[0].startswith(f"Keyword argument {name} "))
        raise refusal(UnknownName, error.args[0], misnamed(kernel, unknown, parameters, NAMES)) from None


def _driver(fn: JITFunction, values: tuple) -> DriverBase:
    """The driver of the device the tensors are on.

    Among those of a GPU there may be some of the host: the GPU reaches pinned memory, its launcher refuses the rest.
    """
    found = first = None
    devices = _each(fn, values, lambda param, x: None if param.is_constexpr else device_of(x))
    for param, device in zip(fn.params, devices):
        if device in (None, found):
            continue
        if found is None or _reaches(device, found):
            found, first = device, param.name
        elif not _reaches(found, device):
            raise refusal(ValueError, f"Pointer argument (at {param.num}) cannot be accessed from Triton: {param.name} "
                          f"is on {device}, an argument before it on {found}, in a launch of kernel `{fn.__name__}`",
                          "a tensor on meta has a shape and no memory: make it on a device" if "meta" in (device, found)
                          else f"move one of them: x.to({str(found)!r})")
    try:
        return driver.of_device(found)
    except ValueError as error:
        if first is None:
            raise
        raise of_argument(explain(error, hint=None), fn.__name__, first) from None


def _reaches(device: str, host: str) -> bool:
    """Whether `host` is the host, whose memory kernels on the other device may take."""
    return host == "cpu" and backends.present(device) and backends.get(device).takes_host_memory


def _device_cache(fn: JITFunction, drv: DriverBase) -> DeviceCache:
    device = drv.get_current_device()
    if driver.is_usual(drv):
        return fn.device_caches[device]
    device = (drv.get_current_target().backend, device)
    found = fn.device_caches.get(device)
    return found or fn.device_caches.setdefault(device, new_cache(fn, drv))


def new_cache(fn: JITFunction, drv: DriverBase | None = None) -> DeviceCache:
    """An empty cache for the current device of a driver, the usual one by default."""
    target = (drv or driver.usual).get_current_target()
    return DeviceCache({}, {}, target, make_backend(target), partial(_bound, fn))


def _bound(fn: JITFunction, /, *args, **kwargs) -> tuple[dict[str, Any], list[tuple[Any, Any]], dict[str, Any]]:
    """(arguments by name, type and key of each, options) of a launch: what `DeviceCache.binder` returns."""
    values, options = fn.launcher.bind(*args, **kwargs)
    values = _each(fn, values, lambda param, x: x if param.is_constexpr else hold(x))
    return dict(zip(fn.arg_names, values)), _each(fn, tuple(values), KernelParam.specialize), options


_PLAIN = COMMON - {float}  # there are many floats that repr calls nan


def _key(fn: JITFunction, cache: DeviceCache, pairs: tuple, options: dict[str, Any]) -> str:
    """The kernel's key in memory: its function, and the text of its specialisation and options."""
    chosen = fn.cache_key + (fingerprint(dict(sorted(options.items()))) if options else "")
    known = (*map(key_of, pairs), chosen)
    key = cache.keys.get(known)
    if key is None:
        # What most arguments are specialised to, `repr` tells apart as well, and sooner.
        plain = all(type_.__class__ is str and value.__class__ in _PLAIN for type_, value in pairs)
        key = cache.keys[known] = (repr(pairs) if plain else fingerprint(pairs)) + chosen
    return key


# -- compiling ---------------------------------------------------------------------------------------------------------


def _request(fn: JITFunction, cache: DeviceCache, key: str, pairs: tuple, values: tuple, options: dict[str, Any],
             warmup: bool) -> Request:
    constants: dict = {}
    attrs: dict = {}
    for i, ((type_, promise), value) in enumerate(zip(pairs, values)):
        constants |= constants_of(type_, value, (i,))
        attrs |= attrs_of(type_, promise, (i,))
    signature = {name: type_ for name, (type_, _) in zip(fn.arg_names, pairs)}
    return Request(key, signature, constants, attrs, cache.backend.parse_options(options), warmup, values)


# Threads that want the same kernel wait for the first; compiling many at a time is what AsyncCompileMode is for.
_compiling = lock()


def _compile(fn: JITFunction, cache: DeviceCache, request: Request):
    """Compile, now or in the background; None when the cache hook says no."""
    if _call_hook(knobs.runtime.jit_cache_hook, fn, cache, request):
        return None
    if not (knobs.why or knobs.runtime.recompile_hook):
        return _make(fn, cache, request)
    from tritium.runtime import recompile  # not needed by those who do not ask

    with recompile.telling(fn, cache.target, request, active_mode.get() is not None):
        return _make(fn, cache, request)


def _make(fn: JITFunction, cache: DeviceCache, request: Request):
    src = ASTSource(fn, request.signature, request.constants, request.attrs)
    fn.requests[str(cache.target), request.key] = request._replace(values=())

    def finish(kernel) -> None:
        cache.kernels[request.key] = kernel
        _call_hook(knobs.runtime.jit_post_compile_hook, fn, cache, request)

    mode = active_mode.get()
    if mode is not None:
        env = knobs.cache_invalidating_env()
        unique = (fn.cache_key, str(cache.target), request.key)
        kernel = mode.submit(unique, partial(compile, src, cache.target, request.options, env), finish)
        cache.kernels[request.key] = kernel
        kernel.when_failed(lambda: cache.kernels.get(request.key) is kernel and cache.kernels.pop(request.key, None))
        return kernel
    kernel = compile(src, cache.target, request.options)
    finish(kernel)
    return kernel


# The options a cache hook is told about.
_TOLD = ("num_warps", "num_ctas", "num_stages", "enable_fp_fusion", "launch_cooperative_grid", "extern_libs")


def _call_hook(hook: Callable | None, fn: JITFunction, cache: DeviceCache, request: Request) -> bool:
    """Tell a hook about a compilation; a true answer cancels it."""
    if hook is None:
        return False
    from tritium.runtime import saved

    name = fn.__qualname__
    chosen = {option: getattr(request.options, option) for option in _TOLD}
    data = saved.Specialization(get_full_name(fn), request.signature, request.constants, request.attrs,
                                vars(request.options), request.key, dict(vars(cache.target)))
    device = next(device for device, held in list(fn.device_caches.items()) if held is cache)
    told = {"key": request.key, "signature": request.signature, "device": device, "constants": request.constants,
            **chosen, "configs": [request.attrs], "specialization_data": saved.dump(data),
            "is_warmup": request.warmup}  # fmt: skip
    options = ", ".join(f"{option}={chosen[option]}" for option in _TOLD[:5])
    types = ", ".join(f"{param}: {type_}" for param, type_ in request.signature.items())
    return bool(hook(key=request.key, repr=f"{name}[{options}]({types})", fn=JitFunctionInfo(fn.module, name, fn),
                     compile=told, is_manual_warmup=request.warmup, already_compiled=False))


def preload(fn: JITFunction, specialization_data: str):
    """Compile what a cache hook was told about, so that the launch it stands for finds it."""
    from tritium.runtime import saved

    data = saved.load(specialization_data)
    name = get_full_name(fn)
    if data.name != name:
        raise RuntimeError(f"Specialization data is for {data.name} but trying to preload for {name}")
    cache = _device_cache(fn, driver.active)
    if data.target is not None and (other := GPUTarget(**data.target)) != cache.target:
        raise RuntimeError(f"Specialization data is for {other} but trying to preload for {cache.target}")
    options = cache.backend.parse_options(data.options)
    with _compiling, busy():
        return _compile(fn, cache, Request(data.key, data.signature, data.constants, data.attrs, options, True))
