"""Types are interned, describe themselves, and read themselves back."""

import copy
import pickle

import pytest

from tritium.ir import types as T


def test_equal_types_are_one_object():
    assert T.Tile((4, 8), T.f32) is T.Tile((4, 8), T.f32)
    assert T.Ptr(T.f16) is T.Ptr(T.f16)
    assert T.Ptr(T.f16) is not T.Ptr(T.f16, const=True)
    assert T.Tile((4,), T.Ptr(T.i8)) is T.Tile((4,), T.Ptr(T.i8))
    assert T.Tile((4,), T.f32) is not T.Tile((4,), T.i32)


COMPOSED = (T.Ptr(T.bf16), T.Ptr(T.Ptr(T.i32), const=True), T.Tile((2, 3), T.f8e5), T.Tile((1,), T.Ptr(T.i1)))


@pytest.mark.parametrize("t", [*T.SCALARS.values(), *COMPOSED], ids=str)
def test_text_and_copies_come_back_as_the_same_object(t):
    assert T.parse_type(str(t)) is t
    assert pickle.loads(pickle.dumps(t)) is t
    assert copy.deepcopy(t) is t and copy.copy(t) is t


@pytest.mark.parametrize("text", ["f33", "tile<f32>", "ptr<>", "tile<4x>", "tile<4xf32", "ptr<const>", ""])
def test_what_is_not_a_type_is_refused(text):
    with pytest.raises(ValueError, match="not a type"):
        T.parse_type(text)


def test_parts_of_types():
    tile = T.Tile((4, 8), T.f16)
    assert (T.element(tile), T.shape(tile), T.numel(tile)) == (T.f16, (4, 8), 32)
    assert (T.element(T.i8), T.shape(T.i8), T.numel(T.i8)) == (T.i8, (), 1)
    assert T.with_shape(tile, ()) is T.f16 and T.with_shape(T.f16, (4, 8)) is tile
    assert T.with_element(tile, T.i1) is T.Tile((4, 8), T.i1) and T.with_element(T.f32, T.i1) is T.i1
    assert T.is_ptr(T.Tile((4,), T.Ptr(T.f32))) and not T.is_ptr(T.i64)


def test_scalars_know_their_formats():
    assert [t.bytes for t in (T.i1, T.i8, T.bf16, T.f64)] == [1, 1, 2, 8]
    assert T.i32.signed and not T.u32.signed and not T.i1.signed
    assert all(1 + t.exponent + t.mantissa == t.bits for t in T.FLOATS)
    assert set(T.INTS) | set(T.FLOATS) == set(T.SCALARS.values()) and not set(T.INTS) & set(T.FLOATS)
