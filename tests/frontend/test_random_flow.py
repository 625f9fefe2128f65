"""S09: random programs with loops, break, continue and return do in the IR what they do in Python."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from . import programs

X = [3, 1, 4, 1, 5, 9, 2, 6]


@given(seed=st.integers(0, 1 << 32))
def test_agrees_with_python(tmp_path_factory, seed):
    text = programs.program(seed)
    module = programs.lower_program(tmp_path_factory.mktemp("flow") / f"p{seed}.py", text)
    for a, b, c in ((0, 1, 2), (5, 3, 7), (9, 200, 33)):
        assert programs.run_ir(module, X, a, b, c) == programs.run_python(text, X, a, b, c)


@pytest.mark.parametrize("seed", [34, 266, 332, 465, 10333])
def test_seeds_that_found_defects(tmp_path, seed):
    text = programs.program(seed)
    module = programs.lower_program(tmp_path / f"p{seed}.py", text)
    assert programs.run_ir(module, X, 5, 3, 7) == programs.run_python(text, X, 5, 3, 7)
