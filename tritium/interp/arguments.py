"""Arguments of an eager launch: tensors become pointers into memory, numbers scalars of the type a compiled kernel has.

An int equal to 1 and None are constants, as they are when compiled. Tensors of a device are copied to the host for the
launch, whole storages, and back after it.
"""

from __future__ import annotations

import inspect
from typing import Any

from ..errors import fail
from ..ir import types as T
from ..language.builtins import descriptors
from ..language.source.function import Source
from ..language.types import dtypes, values
from ..language.types.annotations import declaration
from ..language.types.constants import constexpr
from ..ops.meaning import scalar_of
from ..protocols import short
from ..refusals import refusal
from ..tensors import address_of, check_constant, constant_value, hold, is_descriptor, misfit, reader_of, scalar, unfit


class Declared:
    """A parameter: what its annotation says, and whether an int equal to 1 makes it a constant."""

    def __init__(self, parameter: inspect.Parameter, specialize=True):
        self.name, self.specialize = parameter.name, specialize
        said = declaration(parameter.annotation)
        self.is_constant, self.is_const, self.type = said.is_constexpr, said.is_const, said.type


class Arguments:
    """Turns the arguments of one launch into language values. `make(type, array)` makes a tensor of an array."""

    def __init__(self, machine, make):
        self.machine, self.make = machine, make
        self.copies: dict[int, tuple] = {}

    def value(self, declared, x):
        """The language value of an argument for a parameter."""
        if declared.is_constant:
            x = constant_value(values.unwrap(x))
            check_constant(x)
            return x
        if declared.type and x is not None:
            return self._forced(declared, values.unwrap(x))
        return self._free(declared, hold(x), declared.name)

    def _forced(self, declared, x):
        kind = dtypes.parse_signature(declared.type).ir
        if type(kind) is T.Ptr:
            return self._pointer(hold(x), kind, declared.name)
        number = x if isinstance(x, int | float) else scalar(x)
        if number is None:
            raise misfit(x, declared.type)
        return self._scalar(kind, number)

    def _free(self, declared, x, name) -> Any:
        if isinstance(x, constexpr):
            return x.value
        if isinstance(x, tuple):
            parts = [self._free(Plain, part, f"{name}[{k}]") for k, part in enumerate(x)]
            return getattr(x, "_make", values.tuple)(parts)
        plain = scalar(x)
        if plain is None and isinstance(x, int | float):
            plain = values.number(x)
        if plain is not None:
            return plain if type(plain) is int and plain == 1 and declared.specialize else \
                self._scalar(scalar_type(plain), plain)
        if is_descriptor(x):
            return self._descriptor(x, name)
        reader = reader_of(x)
        if reader is not None:
            pointee = dtypes.parse_signature(reader.element(x))
            return self._pointer(x, T.Ptr(pointee.ir, declared.is_const), name)
        if x is None or isinstance(x, Source | dtypes.dtype):
            return x
        raise unfit(x)

    def _scalar(self, kind, x):
        return self.make(kind, scalar_of(x, kind))

    def _pointer(self, x, kind, name):
        address_of(x)  # refuses what has none
        return self.make(kind, self.machine.argument(kind, self.on_host(x), name))

    def _descriptor(self, x, name):
        base = self._free(Plain, x.base, name)
        shape = [self._scalar(T.i32, n) for n in x.shape]
        strides = [self._scalar(T.i64, n) for n in x.strides]
        return descriptors.tensor_descriptor(base, shape, strides, x.block_shape, getattr(x, "padding", "zero"),
                                             "tf32" if getattr(x, "round_f32_to_tf32", False) else "")

    # --- memory of other devices ----------------------------------------------------------------------------------
    def on_host(self, x):
        """The argument itself, or where its memory is on a device, a copy that `give_back` copies back."""
        reader = reader_of(x)
        if reader is None or reader.device(x) in (None, "cpu"):
            return x
        owner = x.base if hasattr(x, "base") and hasattr(x.base, "untyped_storage") else x
        if not hasattr(owner, "untyped_storage"):
            raise fail(TypeError, f"cannot copy a {type(x).__name__} from {reader.device(x)} to the host",
                       hint="pass a torch tensor, or an array in host memory")
        storage = owner.untyped_storage()
        if storage.data_ptr() not in self.copies:
            self.copies[storage.data_ptr()] = storage, storage.cpu()
        return OnHost(owner, self.copies[storage.data_ptr()][1])

    def give_back(self):
        """Copy what the kernel may have changed to the devices it came from."""
        for storage, host in self.copies.values():
            storage.copy_(host)


class Plain:
    """The declaration of what has none: an element of a tuple."""

    specialize, is_const = True, False


class OnHost:
    """A device tensor's elements in the host's copy of its storage; `memory.locate` reads it like a tensor."""

    def __init__(self, tensor, storage):
        self.tensor, self.storage = tensor, storage
        self.shape, self.dtype = tensor.shape, tensor.dtype
        self.stride, self.element_size, self.numel = tensor.stride, tensor.element_size, tensor.numel

    def untyped_storage(self):
        """The copy."""
        return self.storage

    def data_ptr(self):
        """Where the first element is in the copy."""
        return self.storage.data_ptr() + self.tensor.data_ptr() - self.tensor.untyped_storage().data_ptr()


def scalar_type(x):
    """The IR type of a number given to a parameter without a type of its own.

    >>> scalar_type(7), scalar_type(2**31), scalar_type(2**63), scalar_type(True), scalar_type(0.5)
    (i32, i64, u64, i1, f32)
    """
    if isinstance(x, bool):
        return T.i1
    if isinstance(x, float):
        return T.f32
    for kind in (T.i32, T.i64):
        if -(1 << kind.bits - 1) <= x < 1 << kind.bits - 1:
            return kind
    if 0 <= x < 1 << 64:
        return T.u64
    raise refusal(OverflowError, f"{short(x)} does not fit in 64 bits")
