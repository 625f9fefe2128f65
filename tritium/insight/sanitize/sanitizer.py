"""`with tritium.sanitize() as report:`: CPU kernels check every access of memory.

    >>> import numpy as np, tritium
    >>> from tritium.kernels.vector_add import add_kernel
    >>> x = np.ones(100, np.float32)
    >>> with tritium.sanitize() as report:
    ...     _ = add_kernel[(1,)](x, x, x[:50], 100, BLOCK=128)
    >>> report.kinds(), list(report)[0].tensor, list(report)[0].index
    (['out of bounds'], 'z_ptr', 50)
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from tritium import knobs
from tritium.backends.cpu import checked
from tritium.backends.cpu.library.check import PATTERN
from tritium.insight.sanitize import whole_process
from tritium.insight.sanitize.report import Finding, Report, findings
from tritium.locks import lock, once

__all__ = ["Finding", "Report", "sanitize", "start", "told"]

_lock = lock()
_open: list[Report] = []  # the reports of open contexts, the innermost last
_for_good = contextlib.ExitStack()


@once
def _whole() -> Report:
    """The report of the whole process, for TRITIUM_SANITIZE=1: told as it is found, and summed up at the end."""
    return Report(lambda finding: print(finding.text(), end="\n\n", file=sys.stderr, flush=True))


def told(found: checked.Found) -> None:
    """Hear of a launch that did something wrong; `knobs.sanitizer` unless it was set."""
    for finding in findings(found):
        tell(finding)


def tell(finding: Finding) -> None:
    """Add a finding to the report that is open, else to that of the process."""
    with _lock:
        report = _open[-1] if _open else None
    (_whole() if report is None else report).add(finding)


def note(text: str) -> None:
    """Add what is to be known besides to the report that is open, else to that of the process."""
    with _lock:
        report = _open[-1] if _open else None
    (_whole() if report is None else report).note(text)


@contextlib.contextmanager
def sanitize(*, patience: float = checked.PATIENCE, report: Report | None = None, target: str | None = None,
             programs: int = 32) -> Iterator[Report]:
    """Within it, kernels on the CPU check every access; what they find is in the report, a new one unless given.

    Accesses that fail do not happen. Loops that wait for another program give up after `patience` seconds. With a
    `target` such as "cuda:90a", kernels are compiled for that GPU and run on an emulated one, on tensors of the CPU.
    At most `programs` programs of a launch run there, and results are those of the CPU.

    >>> with sanitize() as report:
    ...     pass
    >>> bool(report)
    False
    """
    report = Report() if report is None else report
    with knobs.internal.scope(), _uninitialised(), _device(target, programs):
        before, checked.patience = checked.patience, patience
        knobs.sanitize = True
        with _lock:
            _open.append(report)
        try:
            yield report
        finally:
            checked.patience = before
            with _lock:
                _open.remove(report)


def _device(target: str | None, programs: int) -> contextlib.AbstractContextManager:
    """Where launches go: to an emulated GPU, if one is named."""
    if target is None:
        return contextlib.nullcontext()
    from tritium.insight.emulator.driver import emulated

    return emulated(target, programs)


def start() -> None:
    """Sanitize from here on: what TRITIUM_SANITIZE=1 does when tritium is imported."""
    whole_process.end_with(_whole)
    with contextlib.suppress(ImportError):
        import torch  # noqa: F401  (so that memory it makes without contents is known)
    if knobs.sanitize_target:
        _for_good.enter_context(_device(knobs.sanitize_target, 32))
    _for_good.enter_context(_uninitialised())


# --- memory without contents ------------------------------------------------------------------------------------------
_MAKERS = {"torch": ("empty", "empty_like", "empty_strided"), "numpy": ("empty", "empty_like"),
           "torch.Tensor": ("new_empty", "new_empty_strided"),
           "torch._C._dynamo.guards": ("_empty_strided_cpu",)}  # what Inductor writes; fmt: skip


@contextlib.contextmanager
def _uninitialised() -> Iterator[None]:
    """Within it, what torch and NumPy make without contents holds a pattern that loads are compared with."""
    import numpy  # noqa: F401  (the launcher needs it anyway)

    undo, on = [], threading.Event()
    on.set()
    for home, names in _MAKERS.items():
        first, *rest = home.split(".")
        owner: Any = functools.reduce(lambda x, name: getattr(x, name, None), rest, sys.modules.get(first))
        for name in names:
            original = getattr(owner, name, None)
            if original is None:
                continue
            setattr(owner, name, _filling(original, on))
            undo.append((owner, name, original))
    try:
        yield
    finally:
        on.clear()
        for owner, name, original in undo:
            setattr(owner, name, original)


def _filling(make: Callable, on: threading.Event) -> Callable:
    """A function that makes memory, and fills it as long as `on` is set: code that torch.compile wrote keeps it."""
    def made(*args, **kwargs):
        out = make(*args, **kwargs)
        if on.is_set():
            _fill(out)
        return out

    made.__wrapped__ = make
    made.__name__, made.__doc__ = make.__name__, make.__doc__
    return made


def _fill(x: Any) -> None:
    """Fill new memory with the pattern, and remember it."""
    import numpy as np

    torch = sys.modules.get("torch")
    if torch is not None and isinstance(x, torch.Tensor):
        if x.device.type != "cpu" or type(x) is not torch.Tensor or x.layout is not torch.strided:
            return
        address, size = x.untyped_storage().data_ptr(), x.untyped_storage().nbytes()
    elif type(x) is np.ndarray and x.dtype.kind in "biufc" and x.flags.owndata:
        address, size = x.ctypes.data, x.nbytes
    else:
        return
    if size < 8 or not address:
        return
    memory: Any = (ctypes.c_uint64 * (size // 8)).from_address(address)
    np.frombuffer(memory, np.uint64)[:] = PATTERN
    checked.uninitialised.add(address)
    weakref.finalize(x, checked.uninitialised.discard, address).atexit = False
