"""What can be measured: the kernels of the collection, and what users register in files of their own.

A `Target` makes a `Case` for a size, a dtype and a device; a case has functions of no arguments that compete, a check,
and the work that one call is.

    from tritium.tools.bench import Case, benchmark

    @benchmark(sizes=[1 << 16, 1 << 20])
    def double(size, dtype, device):
        x = np.ones(size, dtype)
        return Case(lambda: launch(x), reference=lambda: 2 * x, rivals={"numpy": lambda: x + x}, bytes=2 * x.nbytes)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tritium.kernels.registry import TOLERANCE, Kernel, as_float64, kernels

__all__ = ["Case", "Target", "benchmark", "collected", "error_of"]


@dataclass
class Case:
    """One thing to measure: `run` is ours, `rivals` do the same. With `reference`, results are compared before.

    >>> Case(lambda: 1.0, reference=lambda: 1.0).error()
    0.0
    """

    run: Callable[[], Any]
    reference: Callable[[], Any] | None = None
    rivals: dict[str, Callable[[], Any]] = field(default_factory=dict)
    bytes: float = 0  # that one call has to move
    flops: float = 0  # floating-point operations of one call
    bound: str = ""  # "memory" or "compute": by default compute, if flops are given and bytes are not
    tolerance: float = 1e-5  # of the largest difference, as a part of the largest value
    kind: str = "float32"  # which limit of the machine it is compared with, if it is bound by computing
    checked: Callable[[], float] | None = None  # gives the error itself, where `run` and `reference` do not tell it
    arguments: tuple = ()  # what rivals are called with, for kernels of the collection

    def __post_init__(self):
        self.bound = self.bound or ("compute" if self.flops and not self.bytes else "memory")

    def error(self) -> float | None:
        """The largest difference from the reference, as a part of the largest value; None without a reference."""
        if self.checked is not None:
            return self.checked()
        return None if self.reference is None else error_of(self.run(), self.reference())


def error_of(got: Any, expected: Any) -> float:
    """The largest difference as a part of the largest expected value; infinite where shapes differ or a NaN is.

    >>> error_of(np.float32([1, 2]), [1, 2.2]) < 0.1, error_of([1.0], [1.0, 2.0])
    (True, inf)
    """
    got, expected = (np.asarray(as_float64(x), dtype=np.float64) for x in (got, expected))
    if got.shape != expected.shape:
        return float("inf")
    same = got == expected  # equal infinities are no distance apart
    apart = np.abs(np.where(same, 0.0, got) - np.where(same, 0.0, expected)).max(initial=0.0)
    finite = np.abs(expected[np.isfinite(expected)]).max(initial=0.0)
    return float("inf") if np.isnan(apart) else float(apart / max(finite, 1e-30))


@dataclass(frozen=True)
class Target:
    """Something with a name that can be measured.

    `make(size, dtype, device)` gives a case.
    """

    name: str
    make: Callable[[Any, str, str], Case]
    title: str = ""
    group: str = ""
    sizes: Mapping[str, Sequence[Any]] = field(default_factory=dict)  # device -> sizes
    dtypes: tuple[str, ...] = ("float32",)
    size_is: str = ""
    record: Kernel | None = None  # where it is a kernel of the collection
    source: str = ""  # the file it comes from, if that is the user's
    mark: Any = None  # what perf_report made, for a point of it

    def usual_dtype(self, device: str) -> str:
        """The dtype to measure: the first, but float32 on a CPU, where rivals have nothing faster.

        >>> collected()["matmul"].usual_dtype("cuda"), collected()["matmul"].usual_dtype("cpu")
        ('float16', 'float32')
        """
        return "float32" if device == "cpu" and "float32" in self.dtypes else self.dtypes[0]


def collected() -> dict[str, Target]:
    """The kernels of the collection.

    >>> collected()["softmax"].group
    'softmax'
    """
    return {record.name: _from_record(record) for record in kernels().values()}


def _from_record(record: Kernel) -> Target:
    sizes = {device: (size,) for device, size in record.sizes.items()}
    return Target(record.name, lambda size, dtype, device: case_of(record, size, dtype, device), record.title,
                  record.group, sizes, record.dtypes, record.size_is, record)


HEAVY_BYTES, HEAVY_FLOPS = 1 << 28, 2e11  # beyond, a reference in float64 takes longer than the measurement


def case_of(record: Kernel, size: Any, dtype: str, device: str) -> Case:
    """The case of a kernel of the collection. What is too large for its reference is checked at the CPU's size.

    >>> case_of(kernels()["vector_add"], 1000, "float32", "numpy").bytes
    12000
    """
    arguments = record.make_arguments(size, dtype, device)
    moved, done = record.bytes(*arguments), record.flops(*arguments)
    heavy = moved > HEAVY_BYTES or done > HEAVY_FLOPS

    def error() -> float:
        small = record.make_arguments(record.sizes["cpu"], dtype, device) if heavy and "cpu" in record.sizes else None
        return record.error(*(small or arguments))

    kind = "tf32" if "tf32" in record.name else dtype
    return Case(lambda: record.wrapper(*arguments), None, {}, moved, done, record.bound, record.tolerance(dtype), kind,
                error, arguments)


# ---------------------------------------------------------------------------------------------------------------------
# Users' own

_MARK = "_tritium_benchmark"


def benchmark(fn: Callable | None = None, *, name: str = "", sizes: Iterable[Any] = (None,),
              dtypes: Iterable[str] = ("float32",)) -> Any:
    """Decorator: `tritium bench run FILE` measures the case that the function returns.

    The function takes those of `size`, `dtype` and `device` that it names. It returns a `Case`, or a function to time.

    >>> @benchmark(sizes=[10, 100])
    ... def adding(size):
    ...     return Case(lambda: sum(range(size)), reference=lambda: size * (size - 1) // 2)
    >>> [target.name for target in targets_in({"adding": adding}, "mine.py")]
    ['adding']
    """
    if fn is None:
        return lambda fn: benchmark(fn, name=name, sizes=sizes, dtypes=dtypes)
    if not callable(fn):
        raise TypeError(f"@benchmark decorates a function, not {fn!r}")
    unknown = set(inspect.signature(fn).parameters) - {"size", "dtype", "device"}
    if unknown:
        raise TypeError(f"{fn.__name__}: a benchmark takes size, dtype and device, not {', '.join(sorted(unknown))}")
    setattr(fn, _MARK, {"name": name or fn.__name__, "sizes": tuple(sizes), "dtypes": tuple(dtypes)})
    return fn


def targets_in(names: Mapping[str, Any], path: str) -> list[Target]:
    """The benchmarks among the names of a user's file: decorated functions, and marks of `perf_report`.

    >>> targets_in({"x": 3}, "mine.py")
    []
    """
    from tritium.testing import Mark
    from tritium.tools.bench.marks import targets_of

    found: list[Target] = []
    for value in {id(value): value for value in names.values()}.values():
        said = getattr(value, _MARK, None)
        if isinstance(said, dict):
            found.append(_from_function(value, said, path))
        elif isinstance(value, Mark):
            found += targets_of(value, path)
    return found


def _from_function(fn: Callable, said: dict[str, Any], path: str) -> Target:
    wanted = list(inspect.signature(fn).parameters)

    def make(size: Any, dtype: str, device: str) -> Case:
        given = {"size": size, "dtype": dtype, "device": device}
        made = fn(**{name: given[name] for name in wanted})
        if callable(made):
            return Case(made)
        if not isinstance(made, Case):
            raise TypeError(f"{said['name']} returned {type(made).__name__}: return a Case, or a function to time")
        if made.tolerance == Case.tolerance:
            made.tolerance = TOLERANCE.get(dtype, Case.tolerance)
        return made

    sizes = {"cpu": said["sizes"], "cuda": said["sizes"]}
    about = (inspect.getdoc(fn) or "").split("\n")[0].rstrip(".")
    return Target(said["name"], make, about, "own", sizes, said["dtypes"], source=path)
