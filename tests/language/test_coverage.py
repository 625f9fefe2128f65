"""Every public name of the language on every engine, by the tables that docs/coverage.md is made of."""

import functools
import re

import numpy as np
import pytest

import tritium.language as tl
from tests.language.coverage.engines import ENGINES, GPUS, cuda
from tests.language.coverage.kernels import Kernels, check, compare
from tests.language.coverage.page import GAPS, PAGE, declared, render
from tests.language.coverage.rows import Form, all_rows
from tests.language.test_surface import NAMES, OTHERS
from tritium.errors import TritonError
from tritium.language.extra import libdevice, library

ROWS = {row.name: row for row in all_rows()}
METHODS = """
    to cast broadcast_to trans permute split view reshape expand_dims item store advance atomic_cas atomic_xchg
    atomic_add atomic_load atomic_store atomic_poll
    atomic_max atomic_min atomic_and atomic_or atomic_xor exp exp2 log log2 cos sin sqrt sqrt_rn rsqrt abs
    erf floor ceil reduce associative_scan gather histogram cdiv sigmoid softmax ravel max argmax min argmin sum xor_sum
    reduce_or cumsum cumprod flip sort logical_and logical_or type dtype shape numel T
""".split()
MODULES = "core math random standard extra target_info".split()
UNLISTED = {"str_to_ty"}  # a function of the host


@functools.cache
def kernels():
    return Kernels(all_rows())


def check_name(name, engine, column):
    """A name works, or is refused as the page says."""
    reason = GAPS.get((name, column))
    if reason is None:
        check(ROWS[name], kernels()[name], engine)
        return
    with pytest.raises(TritonError, match=re.escape(reason)):
        check(ROWS[name], kernels()[name], engine)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", ROWS)
@pytest.mark.filterwarnings("ignore:view is deprecated")
def test_name(name, engine):
    check_name(name, ENGINES[engine], engine)


@pytest.mark.parametrize(("name", "gpu"), [(name, [*GPUS][k % len(GPUS)]) for k, name in enumerate([*ROWS][::23])])
@pytest.mark.filterwarnings("ignore:view is deprecated")
def test_name_on_an_emulated_gpu(name, gpu):
    """A sample: the page is written by running all."""
    check_name(name, GPUS[gpu], gpu)


@pytest.mark.parametrize(("name", "gpu"), [*GAPS])
def test_names_that_a_gpu_refuses(name, gpu):
    check_name(name, GPUS[gpu], gpu)


@pytest.mark.gpu
@pytest.mark.parametrize("name", ROWS)
@pytest.mark.filterwarnings("ignore:view is deprecated")
def test_name_on_a_gpu(name):
    check_name(name, cuda, "sm_90a")


def test_no_name_is_missing():
    wanted = {f"tl.{name}" for name in {*tl.__all__, *MODULES} - UNLISTED}
    wanted |= {f"libdevice.{name}" for name in libdevice.__all__} | {f"x.{name}" for name in METHODS}
    wanted |= {f"tl.math.{name}" for name in tl.math.__all__}
    assert wanted - set(ROWS) == set()


def test_every_name_of_the_reference_is_a_row():
    """The reference's own list, not what we happen to export."""
    assert {f"tl.{name}" for name in {*NAMES, *OTHERS} - UNLISTED} - set(ROWS) == set()


def test_every_name_has_forms():
    assert all(row.forms for row in all_rows()) and len(ROWS) == len(all_rows())


def test_every_overload_of_the_library_has_a_form():
    short = {name for name, overloads in library.OVERLOADS.items()
             if len(ROWS[f"libdevice.{name}"].forms) < len(overloads)}
    assert short == set()


def test_the_page_is_up_to_date():
    assert PAGE.read_text() == render(declared()), "run python docs/make_coverage.py"


def test_values_that_differ_are_noticed():
    one = Form("x", "x", 0)
    with pytest.raises(AssertionError, match=r"gives 2.0 at \(1,\), expected 3.0; 1 of 2 differ"):
        compare(one, np.array([1, 2], np.float32), np.array([1, 3], np.float32))
    compare(one._replace(ulps=4), np.float32([1 + 2**-22, np.nan]), np.float32([1, np.nan]))
    with pytest.raises(AssertionError):
        compare(one._replace(ulps=1), np.float32([1 + 2**-21]), np.float32([1]))
