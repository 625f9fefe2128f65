"""The parts of the CPU runtime besides its core: what kernels call. They are looked at when a kernel calls one."""

from __future__ import annotations

import functools

from ...launcher.parts import Part
from ...llvm import notation, structs, writer
from ..library import check, defer, dot, dot_amx, dot_neon, dot_signature, dot_vnni, dot_x86, partial, sort, tile_copy

PARTS = (
    *(Part(f"partial.{n}", s, (notation, partial), lambda _, n=n: partial.partial(n), "written")
      for n, s in partial.SYMBOLS.items()),
    Part("check", check.SYMBOLS, (notation, structs, check, *check.MODULES), check.check),
    Part("tile", tile_copy.SYMBOLS, (notation, tile_copy), lambda _: tile_copy.tile_copy(), "written"),
    *(Part(s, (s,), (dot, dot_amx, dot_neon, dot_signature, dot_vnni, dot_x86, writer),
           functools.partial(dot.dot, kind=kind), "written" if kind[0] == "f" else "all")  # bytes spill without passes
      for kind, s in dot.SYMBOLS.items()),
    *(Part(s, (s,), (dot_amx, dot_signature, writer), lambda _, kind=kind, how=how: dot_amx.dot_tiles(kind, how))
      for how, symbols in ((False, dot_amx.SYMBOLS), (True, dot_amx.BY_COLUMNS)) for kind, s in symbols.items()),
    Part("dot.defer", defer.SYMBOLS, (defer, dot_signature, writer), lambda _: defer.text()),
    *(Part(s, (s,), (sort, writer), functools.partial(sort.sort, kind=kind)) for kind, s in sort.SYMBOLS.items()),
)
