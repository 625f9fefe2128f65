"""`python -m tritium version`: installed versions and available devices."""

from __future__ import annotations

import argparse
import importlib.metadata
import platform
import tomllib
from pathlib import Path


def installed(package: str) -> str:
    """The version of an installed package, or a word for its absence.

    >>> installed("no-such-package-anywhere")
    'not installed'
    """
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def own_version() -> str:
    """The version of tritium, installed or run from a checkout.

    >>> own_version()[0].isdigit()
    True
    """
    project = Path(__file__).parents[2] / "pyproject.toml"
    if not project.is_file():
        return installed("tritium")
    return tomllib.loads(project.read_text())["project"]["version"] + f" (checkout in {project.parent})"


def rows() -> list[tuple[str, str]]:
    """Name and value of everything worth knowing in a bug report.

    >>> dict(rows())["tritium"] == own_version()
    True
    """
    import tritium
    from tritium.backends.llvm.target import cpu_target, llvm_version

    target = cpu_target()
    return [
        ("tritium", own_version()),
        ("language", f"Triton {tritium.__version__}"),
        ("Python", f"{platform.python_version()} on {platform.platform(terse=True)}"),
        ("LLVM", f"{llvm_version()} (llvmlite {installed('llvmlite')})"),
        ("CPU", f"{target.cpu} ({target.simd})"),
        *((package, installed(package)) for package in ("numpy", "ml_dtypes", "torch", "cuda-bindings")),
        ("target", str(tritium.runtime.driver.active.get_current_target())),
    ]


def main(arguments: list[str]) -> int:
    """Print the table."""
    argparse.ArgumentParser("python -m tritium version", description=__doc__).parse_args(arguments)
    for name, value in rows():
        print(f"{name:<14} {value}")
    return 0
