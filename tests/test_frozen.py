"""`tritium.frozen.Frozen` does what a frozen dataclass does."""

from __future__ import annotations

import copy
import dataclasses
import pickle

import pytest

from tritium.backends.compiler import GPUTarget, Options
from tritium.frozen import Frozen


class Ours(Frozen):
    """A record."""

    name: str
    size: int = 4

    @property
    def double(self) -> int:
        return 2 * self.size


class More(Ours):
    rows: tuple[NoSuchName, ...] = ()  # noqa: F821  annotations stay text
    names: dict = {}  # noqa: RUF012  nobody changes it
    call: object = len


@dataclasses.dataclass(frozen=True, kw_only=True)
class Theirs:
    name: str
    size: int = 4


def test_a_record_has_its_fields():
    x = Ours(name="a")
    assert (x.name, x.size, x.double) == ("a", 4, 8) and vars(x) == {"name": "a", "size": 4}
    assert repr(x) == repr(Theirs(name="a")).replace("Theirs", "Ours")
    assert More(name="b", rows=(1,)).call("abc") == 3
    assert list(vars(More(name="b"))) == ["name", "size", "rows", "names", "call"]


def test_records_are_compared_by_class_and_fields():
    assert Ours(name="a") == Ours(name="a", size=4) != Ours(name="a", size=5)
    assert hash(Ours(name="a")) == hash(Ours(name="a", size=4)) and Ours(name="a") != More(name="a") != "a"


@pytest.mark.parametrize("fields, told", [({}, "Ours needs name"), ({"name": "a", "hue": 1}, "Ours takes no hue")])
def test_fields_that_lack_or_are_unknown_are_refused(fields, told):
    with pytest.raises(TypeError, match=told):
        Ours(**fields)


@pytest.mark.parametrize("change", [lambda x: setattr(x, "size", 1), lambda x: setattr(x, "colour", 1),
                                    lambda x: delattr(x, "size")])
def test_nothing_is_changed(change):
    with pytest.raises(dataclasses.FrozenInstanceError):
        change(Ours(name="a"))


def test_dataclasses_takes_it_for_one_of_its_own():
    x = Ours(name="a")
    assert dataclasses.is_dataclass(Ours) and dataclasses.replace(x, size=1) == Ours(name="a", size=1)
    assert [(field.name, field.default) for field in dataclasses.fields(x)] == \
        [(field.name, field.default) for field in dataclasses.fields(Theirs)]
    assert dataclasses.asdict(GPUTarget("cuda", "90", "32")) == {"backend": "cuda", "arch": 90, "warp_size": 32}
    assert dataclasses.replace(GPUTarget("cuda", 90, 32), arch=80) == GPUTarget("cuda", 80, 32)
    assert dataclasses.replace(More(name="a"), size=1).names == {}
    assert dataclasses.replace(Options(), num_warps=8) == Options(num_warps=8)


@pytest.mark.parametrize("x", [Ours(name="a"), More(name="b", rows=(1, 2)), GPUTarget("hip", "gfx942", 64), Options()],
                         ids=lambda x: type(x).__name__)
def test_copies_are_equal(x):
    for made in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert made == x and type(made) is type(x)
