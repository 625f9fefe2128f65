"""Exception classes and the caret renderer (LANGUAGE 19)."""

import ast
import pickle

import pytest

from tritium import errors
from tritium.errors import CompilationError, Span, fail, node_span, render

TEXT = "def k(x):\n    y = tl.sum(\n        x,\n        0)\n"
CALL = ast.parse(TEXT).body[0].body[0].value


def test_text_has_message_arrow_source_caret_note_and_hint():
    span = Span("k.py", 5, 8, 5, 13, "    z = x + y", def_line=3, function="kernel", label="128 against 64")
    note = Span("k.py", 4, 8, 4, 20, "    y = tl.load(y_ptr)", def_line=3)
    assert render("cannot add", [span], [("y has shape (64,) from here", note)], "make them equal") == """\
cannot add
  --> k.py:5:9 (at 3:8: in kernel)
  5 |     z = x + y
    |         ^^^^^ 128 against 64
note: y has shape (64,) from here
  --> k.py:4:9 (at 2:8:)
  4 |     y = tl.load(y_ptr)
    |         ^^^^^^^^^^^^
hint: make them equal"""


def test_span_over_several_lines_underlines_each():
    assert str(CompilationError(TEXT, CALL, "bad axis")) == """\
bad axis
  --> at 2:8:
  2 |     y = tl.sum(
    |         ^^^^^^^
  3 |         x,
    |         ^^
  4 |         0)
    |         ^^"""


def test_a_tall_span_shows_its_first_lines_and_its_last():
    rows = [f"line{i}" for i in range(20)]
    shown = render("m", [Span("k.py", 95, 0, 114, 6, "\n".join(rows))]).splitlines()
    assert [row.split("|")[1].strip() for row in shown if "line" in row] == ["line0", "line1", "line2", "line19"]
    assert shown[2] == "   95 | line0" and shown[-2] == "  114 | line19"


def test_caret_counts_characters_not_bytes_and_keeps_tabs():
    text = "\té = 'çç' + x"
    node = ast.parse(text.strip()).body[0].value
    node.col_offset, node.end_col_offset = node.col_offset + 1, node.end_col_offset + 1
    span = node_span(node, [text])
    assert text[span.col:span.end_col] == "'çç' + x"
    assert render("m", [span]).splitlines()[-1] == "    | \t    ^^^^^^^^"


def test_wide_characters_take_two_columns():
    assert render("m", [Span("", 1, 4, 1, 5, "日本 x = y")]).splitlines()[-1] == "    |       ^"


def test_column_of_the_arrow_counts_removed_indentation():
    assert str(Span("k.py", 7, 8, 7, 9, "", def_line=6, indent=4)) == "k.py:7:13 (at 2:8:)"


@pytest.mark.parametrize("error", [
    CompilationError(TEXT, CALL, "bad", hint="do", notes=[("n", Span("k.py", 1, 0, 1, 1, "x"))]),
    CompilationError(None, None, "nowhere"),
    errors.CompileTimeAssertionFailure(TEXT, CALL),
    errors.UnsupportedLanguageConstruct(TEXT, CALL, "no"),
    errors.OutOfResources(3, 2, "shared memory"),
    errors.InterpreterError("boom"),
    errors.PTXASError("boom"),
    errors.AutotunerError("boom"),
    errors.InternalError("boom", "file.ttir"),
], ids=lambda error: type(error).__name__)
def test_errors_survive_pickling(error):
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error) and str(copy) == str(error) and isinstance(copy, errors.TritonError)


def test_fields():
    error = CompilationError(TEXT, CALL, "bad", hint="do")
    assert (error.src, error.node, error.error_message, error.hint) == (TEXT, CALL, "bad", "do")
    assert "at 2:8:" in error.message == str(error)


def test_out_of_resources_text():
    error = errors.OutOfResources(300, 228, "shared memory")
    assert (error.required, error.limit, error.name) == (300, 228, "shared memory")
    assert str(error).startswith("out of resource: shared memory, Required: 300, Hardware limit: 228.")


def test_fail_carries_hint_and_argument():
    error = fail(IndexError, "axis 3", hint="use 1", argument="axis")
    assert type(error) is IndexError and (error.hint, error.argument, str(error)) == ("use 1", "axis", "axis 3")
