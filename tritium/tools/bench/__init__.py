"""`python -m tritium bench`: benchmark kernels against torch, Triton, ..., compare runs. docs/bench.md

The parts: `targets` what can be measured, `peers` the rivals, `measuring` takes samples in turns, `spread` says what
may be concluded from them, `machine` sees who else uses the machine, `limits` what it reaches, `running` puts them
together; `history` keeps runs, `comparing` compares them, `report` shows them, `command` is the command line.
"""

from typing import Any

__all__ = ["Case", "benchmark"]


def __getattr__(name: str) -> Any:
    if name in __all__:  # the collection of kernels is imported only by those who measure
        from tritium.tools.bench import targets

        return getattr(targets, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
