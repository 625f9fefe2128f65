"""Copies to shared memory that run by themselves, and matrices in shared memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .statements import bracketed, statement

if TYPE_CHECKING:
    from ...llvm.writer import Val
    from .lowering import NvLowering


def async_copy(g: NvLowering, target: Val, constant: int, source: Val, size: int, mask: Val | None,
               attrs: Mapping[str, Any]) -> None:
    """Copy `size` bytes from global to shared memory, `constant` bytes behind `target`; zeros where the mask is
    off."""
    how, (source, further) = "cg" if size == 16 else "ca", g.sum_of(source)
    amount = () if mask is None else (g.w.select(mask, g.int(size), g.int(0)),)
    listed = ", ".join((bracketed("$0", constant), bracketed("$1", further), str(size), *["$2"] * len(amount)))
    statement(g, f"cp.async.{how}.shared.global {listed};", target, source, *amount)


def async_commit(g: NvLowering) -> None:
    """Close a group of copies."""
    statement(g, "cp.async.commit_group;")


def async_wait(g: NvLowering, pending: int) -> None:
    """Wait until at most `pending` groups of copies are in flight."""
    statement(g, f"cp.async.wait_group {pending};")


def store_matrices(g: NvLowering, address: Val, words: Sequence[Val]) -> None:
    """Four 8x8 matrices of 16-bit elements to shared memory: 32-bit words of each lane, and its address of a row."""
    statement(g, "stmatrix.sync.aligned.m8n8.x4.shared.b16 [$0], {$1, $2, $3, $4};", address, *words)


def load_matrices(g: NvLowering, address: Val, constant: int, count: int, transposed: bool) -> list[Val]:
    """Words of `count` matrices whose rows of 16 bytes lie at the lanes' addresses, `constant` bytes behind."""
    outs = ", ".join(f"${k}" for k in range(count))
    how = f"ldmatrix.sync.aligned.m8n8.x{count}{'.trans' if transposed else ''}.shared.b16"
    return statement(g, f"{how} {{{outs}}}, {bracketed(f'${count}', constant)};", address, gives=["i32"] * count)
