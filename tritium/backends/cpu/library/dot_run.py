"""Products of iterations that follow each other, as one product.

    tt.dot.join(ptr run, i64 most, i64 right, i64 down, i1 stays, ptr function, A, B, C, M, N, K, lda, ldb, ldc, ...)
    tt.dot.finish(ptr run)

A loop over the ks of a product takes few of them in an iteration where it is written for the registers of a GPU. A CPU
reads and writes all of C for each product. So `join` puts off `function(A, B, C, ...)` until it is known whether the
next product continues it: with the columns of A and the rows of B behind those that it has, `right` and `down` bytes
apart, and with at most so many ks in all. Operands that do not stay where they are until then are multiplied at once.
`finish` does what has been put off.
"""

from __future__ import annotations

from ...llvm.structs import Struct
from ...llvm.writer import Val, Writer
from .dot_signature import PARAMETERS

SYMBOLS = ("tt.dot.join", "tt.dot.finish")
NOTHING = -1  # the ks of a run without a product that has been put off
_FIELDS = [("ptr", "function"), *((kind, name) for kind, name in map(str.split, PARAMETERS))]
RUN = Struct("run", **{name: "i8" if kind == "i1" else kind for kind, name in _FIELDS})


def text() -> str:
    """The LLVM text of both functions.

    >>> text().count("define void")
    2
    """
    w = Writer()
    join, finish = SYMBOLS

    def at(run: Val, field: str) -> Val:
        return w.gep("i8", run, w.const("i64", RUN.offset(field)))

    with w.function("void", finish, ["ptr run"]) as (run,):
        begun = w.compare("icmp ne", w.load("i64", at(run, "K")), w.const("i64", NOTHING))
        with w.when(begun):
            function, *arguments = [w.load(kind, at(run, name)) for kind, name in _FIELDS]
            w.store(w.const("i64", NOTHING), at(run, "K"))
            w.effect(f"call void {function}({', '.join(x.typed for x in arguments)})")
        w.ret()
    own = ["ptr run", "i64 most", "i64 right", "i64 down", "i1 stays", "ptr function"]
    with w.function("void", join, [*own, *PARAMETERS]) as (run, most, right, down, stays, *new):
        old = {name: w.load(kind, at(run, name)) for kind, name in _FIELDS}
        this = {name: x for (_, name), x in zip(_FIELDS, new, strict=True)}
        for name, step in (("A", right), ("B", down)):
            old[name] = w.gep("i8", old[name], w.binary("mul", old["K"], step))
        follows = [w.compare("icmp eq", old[name], this[name])
                   for name in ("A", "B", "M", "N", "lda", "ldb", "function")]
        begun = w.compare("icmp ne", old["K"], w.const("i64", NOTHING))
        depth = w.binary("add", old["K"], this["K"])
        joins = w.all_of(begun, stays, *follows, w.compare("icmp sle", depth, most))
        with w.when(joins):
            w.store(depth, at(run, "K"))
        with w.when(w.binary("xor", joins, w.const("i1", True))):
            w.call("void", finish, run)
            for name, x in this.items():
                w.store(x, at(run, name))
            with w.when(w.binary("xor", stays, w.const("i1", True))):
                w.call("void", finish, run)
        w.ret()
    return w.text()
