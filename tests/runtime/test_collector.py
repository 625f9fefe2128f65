"""Python's garbage collector and the compiler."""

import gc

import pytest

import tritium.compiler
from tests.runtime.jit_kernels import X, add
from tritium.compiler.collector import paused
from tritium.runtime import dispatch


@pytest.fixture
def collected():
    """The generation of each collection that is made."""
    found, note = [], lambda phase, info: phase == "stop" and found.append(info["generation"])
    gc.collect()
    gc.callbacks.append(note)
    yield found
    gc.callbacks.remove(note)


def make_cycles(count):
    """So many lists that only the collector gets rid of."""
    for _ in range(count):
        x = []
        x.append(x)


def test_only_young_objects_are_collected_at_the_end(collected):
    least = gc.get_threshold()[0]
    with paused(), paused():
        make_cycles(least + 100)
        assert collected == []
    assert collected == [0] and gc.isenabled() and gc.get_threshold()[0] == least


def test_a_few_objects_are_left(collected):
    with paused():
        make_cycles(10)
    assert collected == []


def test_a_collector_that_is_off_stays_off(collected):
    least = gc.get_threshold()[0]
    gc.disable()
    try:
        with paused():
            make_cycles(least + 100)
        assert not gc.isenabled() and collected == []
    finally:
        gc.enable()


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("fails", [True, False])
def test_garbage_is_not_collected_while_a_kernel_is_compiled(fake, monkeypatch, enabled, fails):
    """The program's garbage is no concern of the compiler; what the user had chosen holds again afterwards."""
    seen, before = [], gc.get_threshold()

    def build(*args, **options):
        seen.append(gc.isenabled() and gc.get_threshold()[0] > 0)
        if fails:
            raise RuntimeError("no")
        return compile_(*args, **options)

    compile_ = dispatch.compile
    monkeypatch.setattr(dispatch, "compile", build)
    (gc.enable if enabled else gc.disable)()
    try:
        if fails:
            with pytest.raises(RuntimeError, match="no"):
                add[(1,)](X, X, 3)
        else:
            add[(1,)](X, X, 3)
        assert gc.isenabled() is enabled and gc.get_threshold() == before
    finally:
        gc.enable()
    assert seen == [False]


def test_garbage_is_not_collected_while_the_key_is_computed(monkeypatch):
    """The key of a kernel takes a syntax tree, whose objects would bring a collection about."""
    seen, key = [], tritium.compiler.get_cache_key

    def watched(*args):
        seen.append(gc.get_threshold()[0])
        return key(*args)

    monkeypatch.setattr(tritium.compiler, "get_cache_key", watched)
    types = {"x_ptr": "*fp32", "y_ptr": "*fp32", "n": "i32"}
    tritium.compile(tritium.compiler.ASTSource(add, types, {"BLOCK": 8}), target="x86-64-v3")
    assert seen == [0] and gc.get_threshold()[0] > 0
