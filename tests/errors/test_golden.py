"""What users read when a kernel is wrong: one golden text for each mistake (`pytest --update` writes them)."""

import re
from pathlib import Path

import pytest

from tritium.errors import CompilationError, InternalError
from tritium.frontend import lower

from . import (  # noqa: F401
    mistakes_in_blocks,
    mistakes_in_calls,
    mistakes_in_control,
    mistakes_in_memory,
    mistakes_in_names,
    mistakes_in_types,
    mistakes_of_habit,
    mistakes_of_newcomers,
)
from .cases import CASES

GOLDEN = Path(__file__).parent / "golden"


def _told(error):
    """The class and text of an error and of its causes, free of this machine's paths."""
    parts = []
    while error is not None and len(parts) < 5:
        parts.append(f"{type(error).__name__}: {error}")
        error = error.__cause__
    text = "\n\ncaused by\n".join(parts)
    text = text.replace("integer division or modulo by zero", "division by zero")  # as before Python 3.14
    return re.sub(r"(--> )\S*/", r"\1", text) + "\n"


@pytest.mark.parametrize("name", sorted(CASES))
def test_golden(name, request):
    case = CASES[name]
    with pytest.raises(CompilationError) as raised:
        lower(case.kernel, case.signature, case.constants)
    told = _told(raised.value)
    path = GOLDEN / f"{name}.txt"
    if request.config.getoption("--update"):
        path.write_text(told)
    assert told == path.read_text()


@pytest.mark.parametrize("name", sorted(CASES))
def test_says_where_and_never_blames_itself(name):
    case = CASES[name]
    with pytest.raises(CompilationError) as raised:
        lower(case.kernel, case.signature, case.constants)
    error = raised.value
    assert not isinstance(error, InternalError)
    assert re.search(r"\(at \d+:\d+: in \w+\)", str(error)) and "^" in str(error)
    assert error.src is not None and error.node is not None


def test_no_golden_is_left_over():
    assert {path.stem for path in GOLDEN.glob("*.txt")} == set(CASES)
