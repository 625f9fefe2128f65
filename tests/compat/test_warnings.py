"""What a kernel is warned about, with the line of the kernel that is meant."""

import warnings

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tritium.language.builtins.elementwise import BlocksDeprecation


@triton.jit
def doubtful(x):
    i = tl.arange(0, 4)
    a = tl.where(i, 1, 2)
    b = i << 40
    c = tl.view(i, [2, 2])
    d = min(i, 2)
    e = min(tl.load(x), 2)
    tl.store(x + i, a + b + d + e + tl.sum(c))


EXPECTED = [
    (2, UserWarning, "non-boolean condition"), (3, UserWarning, "exceeds the maximum bitwidth"),
    (4, UserWarning, "view is deprecated"), (5, BlocksDeprecation, "use tl.minimum"),
]  # fmt: skip


def test_warnings_name_the_line(engine):
    with pytest.warns() as seen:
        warnings.simplefilter("always")
        engine(doubtful, [np.zeros(4, np.int32)])
    start = doubtful.fn.__code__.co_firstlineno + 1  # the line of `def`
    assert [(w.lineno - start, w.category) for w in seen] == [(line, kind) for line, kind, _ in EXPECTED]
    assert {w.filename for w in seen} == {__file__}
    for w, (_, _, phrase) in zip(seen, EXPECTED):
        assert phrase in str(w.message)
    assert issubclass(BlocksDeprecation, DeprecationWarning) and issubclass(BlocksDeprecation, UserWarning)
