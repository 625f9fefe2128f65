"""Scratch memory on a device: who allocates it."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar


def no_allocator(size: int, alignment: int, stream):
    """The allocator until one is set: it refuses.

    >>> no_allocator(128, 16, None)
    Traceback (most recent call last):
    RuntimeError: Kernel requires a runtime memory allocation, but no allocator was set. Use triton.set_allocator
    """
    raise RuntimeError(
        "Kernel requires a runtime memory allocation, but no allocator was set. Use triton.set_allocator")


class NullAllocator:
    """`no_allocator` as a class: `set_allocator(NullAllocator())` takes an allocator away.

    >>> set_allocator(NullAllocator())
    """

    def __call__(self, size: int, alignment: int, stream):
        return no_allocator(size, alignment, stream)


_allocator: ContextVar[Callable] = ContextVar("allocator", default=no_allocator)


def set_allocator(allocator: Callable | None) -> None:
    """Use `allocator(size, alignment, stream)` for the scratch memory of kernels that need some; None refuses again.

    >>> set_allocator(lambda size, alignment, stream: None)
    """
    _allocator.set(allocator or no_allocator)


def get_allocator() -> Callable:
    """The allocator kernels use now.

    >>> callable(get_allocator())
    True
    """
    return _allocator.get()
