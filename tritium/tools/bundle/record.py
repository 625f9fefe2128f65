"""What a program launches, noted while it runs: kernels with their arguments and options, and what tuners chose."""

from __future__ import annotations

from typing import Any

from tritium import knobs
from tritium.tools.bundle.build import options_of
from tritium.tools.bundle.manifest import Wanted, target_of

__all__ = ["Recorder"]


class Recorder:
    """Notes launches inside a `with`. Launches that measure configurations of a tuner do not count.

    >>> import numpy as np
    >>> from tritium.kernels.vector_add import add_kernel
    >>> x = np.ones(16, np.float32)
    >>> with Recorder() as recorder:
    ...     _ = add_kernel[(1,)](x, x, x.copy(), 16, BLOCK=16)
    >>> [one.label for one in recorder.wanted([])]
    ['tritium.kernels.vector_add:add_kernel']
    """

    def __init__(self):
        self.kernels: dict[int, Any] = {}
        self.choices: list[dict[str, Any]] = []
        self._scopes: list[Any] = []

    def __enter__(self) -> Recorder:
        self._scopes = [knobs.runtime.scope(), knobs.autotuning.scope(), knobs.compilation.scope()]
        for scope in self._scopes:
            scope.__enter__()
        knobs.runtime.launch_enter_hook.add(self._launched)
        self._before = knobs.autotuning.listener
        knobs.autotuning.listener = self._tuned
        return self

    def __exit__(self, *failure: Any) -> None:
        knobs.runtime.launch_enter_hook.remove(self._launched)
        for scope in reversed(self._scopes):
            scope.__exit__(*failure)

    def _launched(self, told: Any) -> None:
        from tritium.runtime.tuning import is_measuring

        kernel = told.launch[0]
        if not is_measuring() and getattr(kernel.src, "fn", None) is not None:
            self.kernels.setdefault(id(kernel), kernel)

    def _tuned(self, **told: Any) -> None:
        from tritium.runtime import kept, tuning
        from tritium.runtime.jit import get_full_name

        fn = tuning.innermost(told["fn"], lambda f: hasattr(f, "cache_key"))
        if fn is not None:
            config = told["best_config"]
            self.choices.append({"function": get_full_name(fn), "source": fn.cache_key,
                                 "key": list(kept.key_text(told["key"])), "config": kept.config_dict(config)})
        if self._before is not None:
            self._before(**told)

    def wanted(self, targets: list[Any]) -> list[Wanted]:
        """The kernels that were launched, for these machines; without any, for the one they ran on."""
        found: dict[tuple, Wanted] = {}
        for kernel in self.kernels.values():
            src, fn = kernel.src, kernel.src.fn
            options = _given(kernel)
            ran_on = kernel.metadata.target
            machines = targets or [target_of(f"{ran_on.backend}:{ran_on.arch}")]
            key = (src.hash(), repr(sorted(options.items())))
            found.setdefault(key, Wanted(f"{fn.module}:{fn.__qualname__}", src, options, machines))
        return list(found.values())


def _given(kernel: Any) -> dict[str, Any]:
    """The options of a kernel that are not what its machine usually has."""
    from tritium.compiler import make_backend

    usual = vars(make_backend(kernel.metadata.target).parse_options({}))
    return {name: value for name, value in vars(options_of(kernel)).items()
            if value != usual[name] and name not in ("arch", "backend_name", "warp_size")}
