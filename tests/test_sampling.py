"""Which combinations of parameters run of the tests marked `sampled`."""

import itertools
from pathlib import Path
from types import SimpleNamespace

import pytest


@pytest.fixture
def covering(pytestconfig):
    """The function of the root's conftest.py."""
    return pytestconfig.pluginmanager.get_plugin(str(Path(__file__).resolve().parents[1] / "conftest.py"))._covering


def cases(**values):
    """The cases of a function with these parameters, as pytest collects them."""
    combinations = itertools.product(*values.values())
    return [_Case("-".join(map(str, row)), dict(zip(values, row))) for row in combinations]


class _Case(SimpleNamespace):
    def __init__(self, nodeid, params):
        super().__init__(nodeid=nodeid, callspec=SimpleNamespace(params=params))

    __hash__ = object.__hash__


def test_every_value_is_shown(covering):
    kept = covering(cases(arch=[80, 90], warps=[1, 4, 8], dtype=["f16", "bf16", "f32", "i8"]))
    assert len(kept) == 4
    for name, count in (("arch", 2), ("warps", 3), ("dtype", 4)):
        assert len({case.callspec.params[name] for case in kept}) == count


def test_rows_of_one_list_all_run(covering):
    assert len(covering(cases(case=list(range(7))))) == 7


def test_the_choice_does_not_depend_on_the_order(covering):
    found = cases(arch=[80, 90], warps=[1, 4, 8])
    names = lambda kept: sorted(case.nodeid for case in kept)
    assert names(covering(found)) == names(covering(found[::-1]))
