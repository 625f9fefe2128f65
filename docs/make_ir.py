"""Write docs/ir.md: every op of the tile IR, from the classes that declare them.

    python docs/make_ir.py            # write it
    python docs/make_ir.py --check    # say whether it is up to date

Each op's line of text is its first one in tests/text/roundtrip.tir.
"""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "ir.md"
EXAMPLES = ROOT / "tests" / "text" / "roundtrip.tir"
sys.path[:0] = [str(ROOT), str(ROOT / "docs")]

from generated import write_or_check  # noqa: E402

from tritium.backends.cpu.fuse import ops as cpu_ops  # noqa: E402, F401  (declares the ops of the CPU stage)
from tritium.backends.gpu import ops as gpu_ops  # noqa: E402, F401  (declares the ops of the GPU stage)
from tritium.ir import text as ir_text  # noqa: E402
from tritium.ir import types as T  # noqa: E402
from tritium.ir.builder import Builder  # noqa: E402
from tritium.ir.core import Loc, Module, Op, walk  # noqa: E402
from tritium.ir.opdef import KINDS, PLACEMENT, TRAITS, OpKind  # noqa: E402
from tritium.ops import elementwise  # noqa: E402
from tritium.tools.opt import modules  # noqa: E402

INTRODUCTION = """\
# The tile IR

This page is written by `docs/make_ir.py` from the classes that declare the ops; `make docs` writes it again. How a new
op is declared is in [adding-an-op.md](adding-an-op.md); [opt.md](opt.md) runs passes on such texts.

A module is one kernel and the functions it calls. An op *is* its value; operands are values defined before, attributes
are constants of the op, regions are blocks of ops that end in `yield`. Everything is immutable. An
op that has an effect is never removed, and stays in order with others that have one. What is printed can be read again:

"""


def main() -> int:
    text = page()
    return write_or_check(PAGE, text, sys.argv[1:])


def page() -> str:
    """The whole document."""
    grammar = (ir_text.__doc__ or "").partition("\n\n")[2].rstrip()
    groups, found = grouped(), examples()
    parts = [INTRODUCTION + grammar + "\n", types()]
    for name, kinds in groups.items():
        rows = [kind for kind in kinds if kind.row is not None]
        others = [kind for kind in kinds if kind.row is None]
        if rows:
            parts.append(table(rows))
        if others:
            parts.append(f"## {(sys.modules[name].__doc__ or name).split(chr(10))[0].split('. ')[0].rstrip('.')}\n")
            parts += [section(kind, found[kind]) for kind in others]
    parts.append(index(groups))
    return "\n".join(parts)


def grouped() -> dict[str, list[OpKind]]:
    """The ops by the module that declares them, those of backends last."""
    groups: dict[str, list[OpKind]] = {}
    for kind in KINDS.values():
        groups.setdefault(kind.infer.__module__, []).append(kind)
    ours = [name for name in groups if name.startswith("tritium.")]
    return {name: groups[name] for name in sorted(ours, key=lambda name: (".backends." in name, name))}


def types() -> str:
    """What types there are."""
    integers = ", ".join(f"`{t}`" for t in T.INTS)
    floats = ", ".join(f"`{t}`" for t in T.FLOATS)
    placement = ", ".join(f"`{name}`" for name in PLACEMENT)
    return f"""\
## Types

| | |
|---|---|
| integers | {integers} (`i1` is a truth value, `u` has no sign) |
| floats | {floats} |
| pointers | `ptr<f32>`; `ptr<const f32>` cannot be stored through |
| tiles | `tile<64x32xf16>`, `tile<8xptr<f32>>`: sizes are powers of two |

Passes and backends query the traits of an op, which [adding-an-op.md](adding-an-op.md) defines.

At the GPU stage any op may also carry these attributes, which do not change its meaning: {placement}. They give the
layout of its result, the vector width of an access, its addresses in shared memory, and what it waits for before it
writes there.
"""


def examples() -> dict[OpKind, Op]:
    """An op of each kind, as it is written in the tests of the text form."""
    text = EXAMPLES.read_text()
    found: dict[OpKind, Op] = {}
    for module in modules(text, str(EXAMPLES)):
        for body in (module.body, *[function.body for function in module.functions]):
            for op in walk(body):
                found.setdefault(op.kind, op)
    return found


def section(kind: OpKind, example: Op) -> str:
    """One op that has a class of its own."""
    facts = [("operands", operands(kind)), ("attributes", attributes(kind)), ("types", signature(example)),
             ("traits", ", ".join(traits(kind)))]
    listed = "\n".join(f"| {name} | {value} |" for name, value in facts if value)
    return f"""\
### `{kind.name}`

{inspect.cleandoc(kind.doc)}

    {line_of(example)}

| | |
|---|---|
{listed}
"""


def line_of(op: Op) -> str:
    """An op as the text form writes it, its regions left out."""
    loc = op.loc
    assert isinstance(loc, Loc)
    lines = EXAMPLES.read_text().split("\n")[loc.line - 1:loc.end_line]
    return lines[0][loc.col:loc.end_col] + " { ... }" * len(op.regions)


def operands(kind: OpKind) -> str:
    """The operands by the names that the type rule gives them."""
    found = []
    for parameter in inspect.signature(kind.infer).parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            found.append(f"`{parameter.name}` ...")
        elif parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
            found.append(f"`{parameter.name}`" + (" (optional)" if parameter.default is None else ""))
    return ", ".join(found) or "none"


def attributes(kind: OpKind) -> str:
    """The attributes, with their defaults: those are not printed."""
    return ", ".join(f"`{name}={ir_text.print_attr(kind.defaults[name])}`" if name in kind.defaults else f"`{name}`"
                     for name in kind.attrs)


def signature(op: Op) -> str:
    """The types of the example."""
    results = ", ".join(map(str, op.types)) or "()"
    return f"`({', '.join(str(x.type) for x in op.operands)}) -> {results}`"


def traits(kind: OpKind) -> list[str]:
    """What passes ask of an op of this kind."""
    effects = {"": "no effect", "read": "reads memory", "write": "has an effect"}
    found = [effects[kind.effects] + (" (depends on the op)" if kind.effect else "")]
    found += ["closes a region"] * kind.terminator + ["elementwise"] * kind.elementwise
    found += ["has regions"] * ("regions" in inspect.signature(kind.infer).parameters)
    found += ["folds"] * (kind.fold is not None) + [f"`{name}`" for name in TRAITS if getattr(kind, name)]
    found += [f"{kind.cost} to compute"] * (kind.cost != "slow")
    return [*found, *(["no meaning in the interpreter"] * (kind.eval is None and not kind.terminator))]


CLASSES = [("any", elementwise.ANY), ("integers", T.INTS), ("integers but `i1`", elementwise.INT),
           ("floats", T.FLOATS), ("integers but `i1`, floats", (*elementwise.INT, *elementwise.FLOAT))]


def table(kinds: list[OpKind]) -> str:
    """The elementwise ops: all of one form."""
    rows = "\n".join(f"| `{k.name}` | {k.row.arity} | {elements(k.row)} | {row_traits(k.row)} | {k.doc} |"
                     for k in kinds)
    return f"""\
## Elementwise ops: one row of a table each

They act lane by lane on scalars, or on tiles of one shape. Operands have one type, and so has the result unless the
table says otherwise. None has an effect, and none has attributes.

    {row_line(kinds[0])}

| op | operands | element types | traits | |
|---|---|---|---|---|
{rows}

`slow` ops are rather kept than computed again; the result of an `exact` op is one of the operands' values or bits.
`steps` ops make runs of equal or consecutive numbers from an index and a number, as x // 4 does.
"""


def elements(row: elementwise.Row) -> str:
    """The element types that a row takes, and gives if it gives others."""
    if row.signature:
        return "; ".join(f"`{', '.join(map(str, operands))} -> {result}`" for *operands, result in row.signature)
    accepted = next((name for name, known in CLASSES if set(known) == set(row.accepts)),
                    ", ".join(f"`{t}`" for t in row.accepts))
    return accepted + ("" if row.result == "same" else f" -> `{row.result}`")


def row_traits(row: elementwise.Row) -> str:
    """What the algebra knows of a row."""
    found = {"commutes": row.commutes, f"unit {row.unit}": row.unit is not None, "idempotent": row.idempotent,
             "steps": row.steps, "exact": row.exact, "slow": row.cost == "slow"}
    return ", ".join(name for name, holds in found.items() if holds)


def row_line(kind: OpKind) -> str:
    """An op of a row as the text form writes it."""
    b = Builder()
    t = T.f32 if T.f32 in kind.row.accepts else kind.row.accepts[0]
    kind(b, *[b.argument(T.Tile((8,), t), name) for name in "xyzw"[:kind.row.arity]])
    return str(Module("f", b.finish())).split("\n")[1].strip()


def index(groups: dict[str, list[OpKind]]) -> str:
    """Where the ops are declared."""
    files = {name: Path(sys.modules[name].__file__ or "").relative_to(ROOT).as_posix() for name in groups}
    rows = "\n".join(f"| `{files[name]}` | {len(kinds)} |" for name, kinds in groups.items())
    return f"## Where they are declared\n\n| file | ops |\n|---|---|\n{rows}\n"


if __name__ == "__main__":
    sys.exit(main())
