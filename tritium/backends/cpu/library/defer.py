"""Deferred products: iterations of a loop over K that follow each other are multiplied as one product.

    tt.dot.defer(ptr pending, i64 most, i64 right, i64 down, i1 stays, ptr function, A, B, C, M, N, K, lda, ldb, ...)
    tt.dot.flush(ptr pending)

A kernel that is written for a GPU takes 32 or 64 ks in an iteration, as many as registers and shared memory hold. A CPU
reads and writes all of C for each product. So `defer` puts off `function(A, B, C, ...)` until it is known whether the
next product continues it: with the columns of A and the rows of B behind those that it has, `right` and `down` bytes
apart, and with at most so many ks in all. Operands that do not stay where they are until then are multiplied at once.
`flush` does what has been put off.
"""

from __future__ import annotations

from ...llvm.structs import Struct
from ...llvm.writer import Val, Writer
from .dot_signature import PARAMETERS

SYMBOLS = ("tt.dot.defer", "tt.dot.flush")
NOTHING = -1  # the ks where no product is pending
_FIELDS = [("ptr", "function"), *((kind, name) for kind, name in map(str.split, PARAMETERS))]
PENDING = Struct("pending", **{name: "i8" if kind == "i1" else kind for kind, name in _FIELDS})


def text() -> str:
    """The LLVM text of both functions.

    >>> text().count("define void")
    2
    """
    w = Writer()
    defer, flush = SYMBOLS

    def at(pending: Val, field: str) -> Val:
        return w.gep("i8", pending, w.const("i64", PENDING.offset(field)))

    with w.function("void", flush, ["ptr pending"]) as (pending,):
        begun = w.compare("icmp ne", w.load("i64", at(pending, "K")), w.const("i64", NOTHING))
        with w.when(begun):
            function, *arguments = [w.load(kind, at(pending, name)) for kind, name in _FIELDS]
            w.store(w.const("i64", NOTHING), at(pending, "K"))
            w.effect(f"call void {function}({', '.join(x.typed for x in arguments)})")
        w.ret()
    own = ["ptr pending", "i64 most", "i64 right", "i64 down", "i1 stays", "ptr function"]
    with w.function("void", defer, [*own, *PARAMETERS]) as (pending, most, right, down, stays, *new):
        old = {name: w.load(kind, at(pending, name)) for kind, name in _FIELDS}
        this = {name: x for (_, name), x in zip(_FIELDS, new, strict=True)}
        for name, step in (("A", right), ("B", down)):
            old[name] = w.gep("i8", old[name], w.binary("mul", old["K"], step))
        follows = [w.compare("icmp eq", old[name], this[name])
                   for name in ("A", "B", "M", "N", "lda", "ldb", "function")]
        begun = w.compare("icmp ne", old["K"], w.const("i64", NOTHING))
        depth = w.binary("add", old["K"], this["K"])
        continues = w.all_of(begun, stays, *follows, w.compare("icmp sle", depth, most))
        with w.when(continues):
            w.store(depth, at(pending, "K"))
        with w.when(w.binary("xor", continues, w.const("i1", True))):
            w.call("void", flush, pending)
            for name, x in this.items():
                w.store(x, at(pending, name))
            with w.when(w.binary("xor", stays, w.const("i1", True))):
                w.call("void", flush, pending)
        w.ret()
    return w.text()
