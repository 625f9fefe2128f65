"""Python's garbage collector and the compiler."""

import gc

import pytest

from tritium.compiler.collector import paused


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
    assert collected == [0] and gc.isenabled()


def test_a_few_objects_are_left(collected):
    with paused():
        make_cycles(10)
    assert collected == []


def test_a_collector_that_is_off_stays_off(collected):
    gc.disable()
    try:
        with paused():
            make_cycles(gc.get_threshold()[0] + 100)
        assert not gc.isenabled() and collected == []
    finally:
        gc.enable()
