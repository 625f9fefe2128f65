"""docs/ir.md is what docs/make_ir.py writes, and lists every op."""

import importlib.util
import sys
from pathlib import Path

import pytest

from tritium.ir.opdef import KINDS, TRAITS

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def maker():
    spec = importlib.util.spec_from_file_location("make_ir", ROOT / "docs" / "make_ir.py")
    module = importlib.util.module_from_spec(spec)
    before = list(sys.path)
    spec.loader.exec_module(module)
    sys.path[:] = before
    return module


def test_the_page_is_up_to_date(maker):
    assert maker.page() == maker.PAGE.read_text(), "run make docs"


def test_every_op_is_on_the_page(maker):
    text = maker.PAGE.read_text()
    ours = [kind for kind in KINDS.values() if kind.infer.__module__.startswith("tritium.")]
    assert len(ours) > 190
    for kind in ours:
        shown = f"### `{kind.name}`\n\n{kind.doc.splitlines()[0]}" if kind.row is None else f"\n| `{kind.name}` | "
        assert shown in text, kind.name


def test_what_is_said_of_an_op(maker):
    load, add = KINDS["load"], KINDS["add"]
    assert maker.operands(load) == "`p`, `mask` (optional), `other` (optional)"
    assert maker.attributes(load) == '`cache=""`, `eviction=""`, `volatile=False`'
    assert maker.traits(load) == ["reads memory (depends on the op)", "`positionwise`", "`global_memory`"]
    assert maker.row_line(add) == "%2 = add %x, %y : tile<8xf32>" and maker.elements(add.row) == "any"
    assert maker.row_traits(add.row) == "commutes, unit 0"


def test_the_page_about_adding_ops_lists_the_traits():
    text = (ROOT / "docs" / "adding-an-op.md").read_text()
    rows = "".join(f"| `{name}` | {meaning} |\n" for name, meaning in TRAITS.items())
    assert f"| trait | an op that has it |\n|---|---|\n{rows}\n" in text, rows
