"""Expand PTX: inline assembly of straight-line PTX becomes other ops, for targets that are not NVIDIA's."""

from __future__ import annotations

from .. import ops
from ..ir.core import walk
from ..ir.rewrite import sweep
from .functions import each_function


@each_function
def expand_ptx(module):
    """Replace inline assembly that `ops.ptx` can read by other ops; other assembly stays.

    >>> from tritium.ir.text import parse_module
    >>> print(expand_ptx(parse_module('''kernel @f(%x: u32) {
    ...   %0 = inline_asm %x {asm="not.b32 $0, $1;", constraints="=r,r", types=(u32,), pure=True, pack=1} : u32
    ...   print %0 {prefix=""}
    ... }''')), end="")
    kernel @f(%x: u32) {
      %1 = constant {value=-1, type=u32} : u32
      %2 = xor %x, %1 : u32
      print %2 {prefix=""}
    }
    """
    if all(op.kind is not ops.inline_asm for op in walk(module.body)):
        return module
    return sweep(module, _rule)


def _rule(b, op):
    if op.kind is not ops.inline_asm or not op.types:
        return None
    from ..ops import ptx  # few kernels have it

    if ptx.refusal(op):
        return None
    return ptx.expand(b, op)
