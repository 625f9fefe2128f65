"""What an op is: its name, attributes, effects, types and meaning, declared in one place.

    @op("expand_dims", attrs=("axis",))
    class expand_dims:
        '''Insert an axis of size 1.'''
        def infer(x, *, axis): return with_shape(x, ...)
        def eval(m, op, x): return np.expand_dims(x, op.attrs["axis"])

`expand_dims(b, x, axis=0)` then emits one through the builder `b`.
"""

from __future__ import annotations

from tritium.named_tuples import NamedTuple

KINDS: dict[str, OpKind] = {}

# What passes and backends ask of an op instead of its name. Those in `_IMPLIED` come with others.
TRAITS = {
    "view": "holds the elements of its one operand, repeated or at other positions; costs nothing",
    "broadcasts": "a view that adds axes or repeats elements, and keeps their order",
    "positionwise": "computes each element, or accesses it, from the operands' elements at the same position",
    "rematerializable": "may be recomputed where its operands are available",
    "global_memory": "may access global memory",
    "atomic": "updates global memory atomically",
    "combines": "combines the elements along its `axis` by a region",
    "cross_lane": "threads may exchange elements; for `reduce` and `convert` this depends on the layout",
    "mma": "the result is an accumulator that matrix units may hold",
    "async_copy": "issues asynchronous copies between global and shared memory",
    "control_flow": "its regions are loop bodies or branches of the program",
    "message": "sends a message to the host, by a call of the device's runtime",
}
_IMPLIED = {
    "elementwise": ("positionwise", "rematerializable"),
    "view": ("rematerializable",),
    "broadcasts": ("view", "rematerializable"),
    "access": ("positionwise", "global_memory"),
}


class Access(NamedTuple):
    """Which operand of an op is the pointer it accesses global memory through, and which the mask, if it can have one.
    """

    pointer: int
    mask: int | None = None


class Carry(NamedTuple):
    """Where a loop's carried values begin: among its operands, and among the parameters of its regions."""

    operands: int
    parameters: int


class OpKind:
    """The one object that stands for an op name. Compared by identity; calling it emits an op.

    infer(*operand types, **attrs)  -> type, tuple of types, or None for no result (gets `regions=` if there are any)
    check(op)                       -> message of what is wrong with op, or None
    fold(b, op)                     -> a Value that means the same, or None
    eval(m, op, *arrays)            -> NumPy value(s); m is the interpreter's machine

    `effects` is "", "read" or "write"; where it depends on the op, `effect(op)` says it. `elementwise` ops act lane by
    lane on equal shapes; `row` is the table's row for those that have one. `access` says how an op accesses memory
    through pointers, `loop` how a loop carries values; None for others. `cost` is that of an element: "free", "cheap"
    (an instruction or so) or "slow". Every name in `TRAITS` is True or False.
    """

    __slots__ = (
        *TRAITS,
        "access",
        "attrs",
        "check",
        "cost",
        "defaults",
        "doc",
        "effect",
        "effects",
        "elementwise",
        "eval",
        "fold",
        "infer",
        "loop",
        "name",
        "row",
        "terminator",
    )

    def __init__(self, name, *, infer, doc="", attrs=(), defaults=None, effects="", terminator=False, elementwise=False,
                 row=None, check=None, fold=None, eval=None, effect=None, traits=(), access=None, loop=None, cost=None):
        self.name, self.doc, self.attrs, self.effects = name, doc, tuple(attrs), effects
        self.defaults = defaults or {}
        self.terminator, self.elementwise, self.row = terminator, elementwise, row
        self.infer, self.check, self.fold, self.eval, self.effect = infer, check, fold, eval, effect
        self.access, self.loop = access, loop
        held = {*traits, *["elementwise"] * elementwise, *["access"] * (access is not None)}
        held.update(*(_IMPLIED.get(trait, ()) for trait in held))
        self.cost = cost or (row.cost if row else "free" if "view" in held else "cheap" if elementwise else "slow")
        for trait in TRAITS:
            setattr(self, trait, trait in held)
        if unknown := {*traits} - {*TRAITS}:
            raise ValueError(f"op {name!r}: no trait is called {', '.join(sorted(unknown))}")
        if name in KINDS:
            raise ValueError(f"op {name!r} is declared twice")
        KINDS[name] = self

    def __call__(self, b, *operands, regions=(), loc=None, **attrs):
        """Emit this op through builder `b`; returns its value, a tuple of values, or None."""
        for key in attrs:
            if key not in self.attrs:
                raise TypeError(f"op {self.name} has no attribute {key!r}")
        for key, value in self.defaults.items():
            attrs.setdefault(key, value)
        return b.emit(self, operands, attrs, regions, loc)

    def effects_of(self, op):
        """What this op does to memory: "", "read" or "write" (its regions not counted)."""
        return self.effect(op) if self.effect else self.effects

    @property
    def writes(self):
        """True if ops of this kind write global memory through a pointer."""
        return self.access is not None and self.effects == "write"

    def __repr__(self):
        return f"ops.{self.name}"

    def __reduce__(self):
        return _kind, (self.name,)


def _kind(name):
    from .. import ops  # noqa: F401  (fills KINDS)
    return KINDS[name]


def op(name, *, attrs=(), effects="", terminator=False, elementwise=False, traits=(), access=None, loop=None,
       cost=None, **defaults):
    """Class decorator: the class body's functions become the op's rules. Keyword extras are attribute defaults."""
    def declare(body):
        rules = vars(body)
        return OpKind(name, infer=rules["infer"], doc=(body.__doc__ or "").strip(), attrs=(*attrs, *defaults),
                      defaults=defaults, effects=effects, terminator=terminator, elementwise=elementwise,
                      check=rules.get("check"), fold=rules.get("fold"), eval=rules.get("eval"),
                      effect=rules.get("effect"), traits=traits, access=access, loop=loop, cost=cost)
    return declare


# Attributes any op may carry at the GPU stage: where its tile lives, how wide its memory accesses are, how many
# neighbours are equal, that its operands are not negative; where its shared memory is, how it is cut to fit there, what
# is there already, and whom it waits for before it writes there; at which barriers around an atomic update threads
# meet; which argument its addresses lie close behind; where its sums begin in tensor memory, and whether they stay
# there; that warps should hold whole rows of a dot. They never change what an op means: no type rule sees them.
PLACEMENT = ("layout", "vector", "alike", "unsigned", "shared", "cut", "together", "segments", "filled", "sync",
             "meets", "buffer", "column", "held", "by_rows")  # fmt: skip


def types_of(kind, operand_types, attrs, regions=()):
    """Result types of an op as a tuple, from its `infer` rule."""
    if attrs and not attrs.keys().isdisjoint(PLACEMENT):
        attrs = {k: v for k, v in attrs.items() if k not in PLACEMENT}
    types = kind.infer(*operand_types, regions=regions, **attrs) if regions else kind.infer(*operand_types, **attrs)
    if types is None:
        return ()
    return types if type(types) is tuple else (types,)
