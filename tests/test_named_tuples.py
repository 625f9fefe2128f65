"""`tritium.named_tuples.NamedTuple` does what `typing.NamedTuple` does."""

from __future__ import annotations

import copy
import pickle
import typing

import pytest

from tritium.named_tuples import NamedTuple


class Ours(NamedTuple):
    """A row."""

    name: str
    size: int = 4
    rest: tuple[NoSuchName, ...] = ()  # noqa: F821  annotations stay text

    @property
    def double(self) -> int:
        return 2 * self.size


class Theirs(typing.NamedTuple):
    name: str
    size: int = 4
    rest: tuple = ()


class Sized(Ours):
    def __new__(cls, size: int):
        return super().__new__(cls, "sized", size)


class Empty(NamedTuple):
    pass


def test_fields_and_defaults():
    assert Ours._fields == Ours.__match_args__ == Theirs._fields and Ours._field_defaults == Theirs._field_defaults
    assert Ours("a") == ("a", 4, ()) == Theirs("a") and hash(Ours("a")) == hash(Theirs("a"))
    x = Ours(rest=(1,), name="a")
    assert (x.name, x.size, x.rest, x.double) == ("a", 4, (1,), 8) and x._asdict() == Theirs(*x)._asdict()
    assert repr(x) == repr(Theirs(*x)).replace("Theirs", "Ours") and Empty() == () and repr(Empty()) == "Empty()"


def test_tuples_are_made_of_others():
    x = Ours("a", 1)
    assert x._replace(size=2) == ("a", 2, ()) and Ours._make(iter("abc")).rest == "c"
    for copied in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert copied == x and type(copied) is Ours
    match x:
        case Ours(name, size):
            assert (name, size) == ("a", 1)


@pytest.mark.parametrize("call", [
    lambda kind: kind(), lambda kind: kind(1, 2, 3, 4), lambda kind: kind(1, colour=2), lambda kind: kind(1, name=2),
    lambda kind: kind._make([1]), lambda kind: kind(1)._replace(colour=2), lambda kind: setattr(kind(1), "name", 2),
    lambda kind: setattr(kind(1), "colour", 2),
])
def test_mistakes_are_refused_alike(call):
    told = []
    for kind in (Ours, Theirs):
        with pytest.raises((TypeError, ValueError, AttributeError)) as caught:
            call(kind)
        told.append((caught.type, str(caught.value).replace(kind.__name__, "Row")))
    assert told[0] == told[1]


def test_a_default_in_the_middle_is_refused():
    with pytest.raises(TypeError, match="a field without a default follows one with a default"):
        type(Ours)("Wrong", (NamedTuple,), {"__annotations__": {"a": "int", "b": "int"}, "a": 1})


def test_a_subclass_may_have_a_constructor_of_its_own():
    assert Sized(7) == ("sized", 7, ()) and isinstance(Sized(7), Ours) and Ours("b").name == "b" and Sized(8).size == 8


def test_each_class_has_a_constructor_of_its_own():
    class First(NamedTuple):
        x: int

    class Second(NamedTuple):
        y: int = 1

    assert "__new__" not in First.__dict__
    assert First(x=2).x == 2 and Second().y == 1 and Second(y=3) == (3,) and First(5) == (5,)
    assert First.__new__ is not Second.__new__
