"""Why a launch compiles again: from memory, from disk, as an API, as a setting and as a command."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import tritium
import tritium as triton
import tritium.language as tl
from tritium import knobs
from tritium.__main__ import main
from tritium.runtime.recompile import Reason, Recompile, nearest, on_disk, reasons

SOURCE = """
import numpy as np
import triton
import triton.language as tl

@triton.jit
def fill(x, n, s, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, s, mask=i < n)

x = np.zeros(128, np.float32)
"""


@pytest.fixture
def fill():
    @triton.jit
    def fill(x, n, s, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(x + i, s, mask=i < n)

    return fill


X = np.zeros(128, np.float32)
LAUNCH = dict(x=X, n=64, s=2, BLOCK=64)
CHANGES = [  # what is different | kind, name | what is said
    (dict(n=63), "alignment", "n", "n = 63 is no multiple of 16"),
    (dict(n=1), "one", "n", "n is 1, which is compiled in; before it was i32"),
    (dict(n=2**40), "type", "n", "n = 1099511627776 has type i64, before i32"),
    (dict(s=2.5), "type", "s", "s = 2.5 has type fp32, before i32"),
    (dict(s=32), "alignment", "s", "s = 32 is a multiple of 16, and was none before"),
    (dict(s=None), "none", "s", "s is None, which is compiled in; before it was i32"),
    (dict(x=X.astype(np.float16)), "type", "x", "x points to fp16, before to fp32"),
    (dict(x=X[1:]), "alignment", "x", "the address of x is no multiple of 16"),
    (dict(BLOCK=128), "constant", "BLOCK", "BLOCK is 128, before 64"),
    (dict(num_warps=8), "option", "num_warps", "num_warps is 8, before 4"),
    (dict(debug=True), "option", "debug", "debug is True, before False"),
]


@pytest.mark.parametrize("changes, kind, name, text", CHANGES, ids=lambda x: x if isinstance(x, str) else "")
def test_what_is_different_is_named(fill, changes, kind, name, text):
    fill.warmup(**LAUNCH, grid=(1,))
    found = tritium.explain_recompile(fill, **{**LAUNCH, **changes})
    (reason,) = found.reasons
    assert (reason.kind, reason.name, reason.text) == (kind, name, text)
    assert found.how == "needed" and found.nearest == "memory" and text in found.text


def test_an_argument_that_was_one(fill):
    fill.warmup(**{**LAUNCH, "n": 1}, grid=(1,))
    (reason,) = tritium.explain_recompile(fill, **LAUNCH).reasons
    assert reason.kind == "one" and reason.text == "n = 64 is not 1, which was compiled in before"


def test_nothing_is_different(fill):
    fill.warmup(**LAUNCH, grid=(1,))
    before = len(fill.requests)
    assert tritium.explain_recompile(fill, **{**LAUNCH, "n": 32}) is None
    tritium.explain_recompile(fill, **{**LAUNCH, "n": 33})
    assert len(fill.requests) == before  # nothing was compiled


def test_the_nearest_of_several_is_compared(fill):
    for block in (32, 64):
        fill.warmup(**{**LAUNCH, "BLOCK": block}, grid=(1,))
    (reason,) = tritium.explain_recompile(fill, **{**LAUNCH, "n": 63}).reasons
    assert reason.name == "n"


def test_what_was_forgotten_is_not_compared(fill, tmp_path, monkeypatch):
    fill.warmup(**LAUNCH, grid=(1,))
    fill.device_caches.clear()
    monkeypatch.setenv("TRITIUM_CACHE_DIR", str(tmp_path))
    found = tritium.explain_recompile(fill, **LAUNCH)
    assert found.nearest == "" and not found.reasons and "for the first time" in found.text


def test_tuners_are_unwrapped_and_other_things_refused(fill):
    tuned = triton.autotune([triton.Config({"BLOCK": 64})], key=["n"])(fill)
    assert tritium.explain_recompile(tuned, **LAUNCH).kernel == "fill"
    with pytest.raises(TypeError, match=r"decorated with @triton\.jit"):
        tritium.explain_recompile(len)


def test_launches_are_watched(fill):
    with tritium.watch_recompiles() as seen:
        fill[(1,)](**LAUNCH)
        fill[(1,)](**LAUNCH)
        fill[(1,)](**{**LAUNCH, "n": 63})
    fill[(1,)](**{**LAUNCH, "BLOCK": 128})
    assert [one.reasons[0].name if one.reasons else "" for one in seen[1:]] == ["n"] and len(seen) == 2
    assert all(os.path.basename(__file__) in one.where for one in seen) and not knobs.runtime.recompile_hook


def test_trials_of_tuners_are_marked(fill):
    tuned = triton.autotune([triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128})], key=["n"])(fill)
    with tritium.watch_recompiles() as seen:
        tuned[(1,)](X, 64, 2)
        fill[(1,)](X, 63, 2, BLOCK=64)
    assert [one.tuning for one in seen] == [True] * (len(seen) - 1) + [False] and len(seen) >= 3


def test_kernels_in_tuples():
    @triton.jit
    def first(pair, BLOCK: tl.constexpr):
        tl.store(pair[0] + tl.arange(0, BLOCK), pair[1])

    first.warmup((X, 3), BLOCK=16, grid=(1,))
    (reason,) = tritium.explain_recompile(first, (X, 2.5), BLOCK=16).reasons
    assert reason.kind == "type" and "(*fp32, fp32)" in reason.after


def test_a_comparison_that_fails_stops_no_launch(fill, monkeypatch):
    from tritium.runtime import recompile

    monkeypatch.setattr(recompile, "_compared", lambda *args: 1 / 0)
    with tritium.watch_recompiles() as seen, pytest.warns(UserWarning, match="cannot compare fill"):
        fill[(1,)](**LAUNCH)
    assert X[:64].tolist() == [2.0] * 64 and len(seen) == 1


# ---------------------------------------------------------------------------------------------------------------------
# Facts alone


def test_differences_of_what_is_no_argument():
    old = {"source": "a", "compiler": "a", "target": "cpu:host:1", "environment": {}, "options": {"num_warps": "8"}}
    new = {"source": "b", "compiler": "b", "target": "cuda:90:32", "environment": {"USE_IR_LOC": "1"}, "options": {}}
    assert [(r.kind, r.text) for r in reasons(old, new)] == [
        ("compiler", "tritium itself has changed"),
        ("source", "the source of the kernel, or of what it calls, has changed"),
        ("target", "the target is cuda:90:32, before cpu:host:1"),
        ("option", "num_warps is 4, before 8"), ("environment", "USE_IR_LOC is 1, before not set")]


def test_the_same_source_is_nearer_than_the_same_arguments():
    mine = {"source": "s", "constants": {"A": "1", "B": "1", "C": "1"}}
    others = {"source": "t", "constants": {"A": "2", "B": "2", "C": "2"}}
    assert {r.kind for r in nearest([others, mine], {**others, "source": "s"})} == {"constant"}
    assert nearest([], mine) is None


def test_lines_of_text():
    reason = Reason("one", "n", "i32", "1", "n is 1")
    made = Recompile("k", "compiled", (reason,), "disk", "a.py:3", 0.5)
    assert made.text == "k compiled again at a.py:3 (0.50 s): n is 1"
    assert Recompile("k", "submitted", (reason,), "memory").text == "k is being compiled again: n is 1"
    assert json.dumps(Recompile("k", "loaded", (reason,), "memory").facts())


# ---------------------------------------------------------------------------------------------------------------------
# Several processes


@pytest.fixture
def script(tmp_path, monkeypatch):
    """Runs a program in a process of its own, with a cache that lasts."""
    environment = {**os.environ, "TRITIUM_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": os.getcwd()}

    def run(body, *how, **variables):
        path = tmp_path / "script.py"
        path.write_text(SOURCE + body)
        done = subprocess.run([sys.executable, "-m", "tritium", *how, str(path)], capture_output=True, text=True,
                              env={**environment, **variables})
        assert done.returncode == 0, done.stderr
        return done.stderr

    return run


def test_the_setting_prints_a_line_for_each_compilation(script):
    body = "fill[(1,)](x, 64, 2, BLOCK=64)\nfill[(1,)](x, 63, 2, BLOCK=64)\n"
    first = script(body, "run", TRITIUM_WHY="1").strip().split("\n")
    assert len(first) == 2 and first[0].startswith("tritium why: fill compiled for the first time at ")
    assert first[1].endswith("n = 63 is no multiple of 16") and "script.py:13" in first[1]
    assert script(body, "run", TRITIUM_WHY="1") == ""  # all on disk
    other = script(body, "run", TRITIUM_WHY="1", TRITON_F32_DEFAULT="ieee").split("\n")
    assert "TRITON_F32_DEFAULT is ieee, before not set" in other[0]
    changed = script("fill[(1,)](x, 64, 2, BLOCK=32)\n", "run", TRITIUM_WHY="1")
    assert "BLOCK is 32, before 64" in changed


def test_the_command_sums_up(script):
    body = ("fill[(1,)](x, 64, 2, BLOCK=64)\nfill[(1,)](x, 63, 2, BLOCK=64)\nfill[(1,)](x, 1, 2, BLOCK=64)\n"
            "fill[(1,)](x, 64, 2, BLOCK=32)\nfill[(1,)](x, 64, 2, BLOCK=16)\n")
    said = script(body, "why")
    assert said.startswith("tritium why: 5 compiled in ") and "fill: 5 times\n" in said
    assert "for the first time" in said and "n = 63 is no multiple of 16" in said
    assert "do_not_specialize_on_alignment=['n']" in said and "do_not_specialize=['n']" in said
    assert "hint: BLOCK is a constant" in said
    again = script(body, "why")
    assert again == "tritium why: no kernel was compiled, 5 loaded from disk\n"
    assert "loaded from disk" in script(body, "why", "--all")
    found = json.loads(script(body, "why", "--json", "-"))
    assert [one["how"] for one in found] == ["loaded"] * 5 and found[1]["reasons"][0]["name"] == "n"


def test_the_metadata_of_a_kernel_is_what_it_was(fill):
    from tritium.compiler.facts import KEY

    assert KEY not in fill.warmup(**LAUNCH, grid=(1,)).metadata._fields
    fill.device_caches.clear()
    loaded = fill.warmup(**LAUNCH, grid=(1,))
    assert KEY not in loaded.metadata._fields
    assert any(facts["constants"] == {"BLOCK": "64"} for facts in on_disk("fill"))


@pytest.mark.parametrize("arguments, said", [
    ([], "name a script, or -m and a module"), (["none.py"], "cannot open 'none.py': no such file"),
    (["--jsn", "x"], "unrecognized arguments"), (["--json", "no/such/a.json", "here.py"], "there is no such folder"),
])
def test_mistakes(tmp_path, monkeypatch, capsys, arguments, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here.py").write_text("")
    try:
        status = main(["why", *arguments])
    except SystemExit as end:
        status = end.code
    err = capsys.readouterr().err
    assert status == 2 and said in err and err.startswith("tritium why: ") and err.count("\n") == 1
