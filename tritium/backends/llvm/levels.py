"""CPUs by name: the levels of x86-64 and AArch64, and lists of features that are added to or removed from one.

    >>> wide = parse("x86-64-v4,-fma", lambda: LEVELS["x86-64-v3"])
    >>> wide.has >= {"avx2"}, "avx512f" in wide.has, wide.features.split(",")[-1]
    (True, False, '-fma')
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tritium.named_tuples import NamedTuple


class Level(NamedTuple):
    """A CPU by its LLVM name, and the features that kernels, or LLVM when it compiles them, make use of."""

    name: str
    machine: str  # "x86_64" or "aarch64"
    cpu: str
    features: str
    has: frozenset[str]
    triple: str  # of LLVM


# feature -> the features it requires. SSE2 is not listed, as every x86-64 CPU has it.
_X86 = {
    "sse3": (), "ssse3": ("sse3",), "sse4.1": ("ssse3",), "sse4.2": ("sse4.1",), "popcnt": (), "cx16": (), "sahf": (),
    "avx": ("sse4.2",), "avx2": ("avx",), "fma": ("avx",), "f16c": ("avx",), "vaes": ("avx",), "vpclmulqdq": ("avx",),
    "bmi": (), "bmi2": (), "lzcnt": (), "movbe": (), "gfni": (), "avxvnni": ("avx2",), "avxvnniint8": ("avx2",),
    "avxvnniint16": ("avx2",), "avxifma": ("avx2",), "avxneconvert": ("avx2",), "avx512f": ("avx2", "fma", "f16c"),
    "avx512cd": ("avx512f",), "avx512bw": ("avx512f",), "avx512dq": ("avx512f",), "avx512vl": ("avx512f",),
    "avx512ifma": ("avx512f",), "avx512vnni": ("avx512f",), "avx512vpopcntdq": ("avx512f",),
    "avx512vbmi": ("avx512bw",), "avx512vbmi2": ("avx512bw",), "avx512bitalg": ("avx512bw",),
    "avx512bf16": ("avx512bw",), "avx512fp16": ("avx512bw", "avx512dq", "avx512vl"),
    "avx512vp2intersect": ("avx512f",), "amx-tile": (), "amx-bf16": ("amx-tile",), "amx-int8": ("amx-tile",),
    "amx-fp16": ("amx-tile",), "amx-complex": ("amx-tile",),
}  # fmt: skip
_ARM = {
    "crc": (), "lse": (), "rdm": (), "rcpc": (), "fullfp16": (), "fp16fml": ("fullfp16",), "dotprod": (), "i8mm": (),
    "bf16": (), "sve": ("fullfp16",), "sve2": ("sve",),
}  # fmt: skip
_NEEDS = {"x86_64": _X86, "aarch64": _ARM}
_V4 = ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")
# A name in a feature list -> the features that + adds, and those that - removes.
_GROUPS = {
    "x86_64": {"avx512": (_V4, ("avx512f",)), "amx": (("amx-tile", "amx-bf16", "amx-int8"), ("amx-tile",))},
    "aarch64": {"fp16": (("fullfp16",), ("fullfp16",))},
}


def _with_needs(machine: str, features: Iterable[str]) -> frozenset[str]:
    """The features and all that they require."""
    found, left = set(), list(features)
    while left:
        feature = left.pop()
        if feature not in found:
            found.add(feature)
            left += _NEEDS[machine][feature]
    return frozenset(found)


def _without(machine: str, has: frozenset[str], features: Iterable[str]) -> frozenset[str]:
    """`has` without the features and all that require one of them."""
    return frozenset(f for f in has if _with_needs(machine, (f,)).isdisjoint(features))


def _level(name: str, machine: str, cpu: str, *features: str) -> Level:
    return Level(name, machine, cpu, "", _with_needs(machine, features), f"{machine}-unknown-linux-gnu")


_V2 = ("cx16", "sahf", "popcnt", "sse4.2")
_V3 = (*_V2, "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe")
_SAPPHIRE_RAPIDS = (*_V3, *_V4, "avx512ifma", "avx512vnni", "avx512vpopcntdq", "avx512vbmi", "avx512vbmi2",
                    "avx512bitalg", "avx512bf16", "avx512fp16", "avxvnni", "vaes", "vpclmulqdq", "gfni", "amx-tile",
                    "amx-bf16", "amx-int8")
LEVELS = {level.name: level for level in (
    _level("x86-64", "x86_64", "x86-64"),
    _level("x86-64-v2", "x86_64", "x86-64-v2", *_V2),
    _level("x86-64-v3", "x86_64", "x86-64-v3", *_V3),
    _level("x86-64-v4", "x86_64", "x86-64-v4", *_V3, *_V4),
    _level("sapphirerapids", "x86_64", "sapphirerapids", *_SAPPHIRE_RAPIDS),
    _level("graniterapids", "x86_64", "graniterapids", *_SAPPHIRE_RAPIDS, "amx-fp16"),
    _level("aarch64", "aarch64", "neoverse-n1", "crc", "lse", "rdm", "rcpc", "fullfp16", "dotprod"),
)}  # fmt: skip


def known(machine: str, features: Iterable[str]) -> frozenset[str]:
    """The relevant features of all that a machine has.

    >>> sorted(known("x86_64", ["avx", "3dnow", "fma"]))
    ['avx', 'fma']
    """
    return frozenset(features) & frozenset(_NEEDS.get(machine, ()))


def words(machine: str) -> list[str]:
    """The names that may follow a + or a -.

    >>> words("aarch64")[:3]
    ['fp16', 'crc', 'lse']
    """
    return [*_GROUPS[machine], *_NEEDS[machine]]


def parse(text: str, host: Callable[[], Level]) -> Level:
    """The CPU that a text names: `host` or a level, and features to add (+) or remove (-), from left to right.

    Without a name the features count from the host's. What a feature needs comes with it; what needs a feature goes
    with it. `host` is called where the text speaks of it.

    >>> host = lambda: LEVELS["x86-64-v3"]
    >>> parse("x86-64-v2,+avx2", host).has - LEVELS["x86-64-v2"].has == {"avx", "avx2"}
    True
    >>> parse("-avx", host).has == LEVELS["x86-64-v2"].has | {"bmi", "bmi2", "lzcnt", "movbe"}
    True
    """
    first, *changes = [word.strip() for word in text.split(",")]
    if first[:1] in ("+", "-"):
        first, changes = "host", [first, *changes]
    if first not in LEVELS and first != "host":
        raise ValueError(f"unknown CPU target {first!r}; use one of: host, {', '.join(LEVELS)}, and features after a "
                         "comma, as in 'host,-avx512' or 'x86-64-v2,+avx2'")
    base = host() if first == "host" else LEVELS[first]
    has, groups = base.has, _GROUPS[base.machine]
    for change in changes:
        sign, word = change[:1], change[1:]
        if sign not in ("+", "-") or word not in words(base.machine):
            raise ValueError(f"{change!r} in {text!r} is not a feature with + or - before it; the features of "
                             f"{_NAMES[base.machine]} are: {', '.join(words(base.machine))}")
        adds, removes = groups.get(word, ((word,), (word,)))
        has = has | _with_needs(base.machine, adds) if sign == "+" else _without(base.machine, has, removes)
    toggles = [f"+{f}" for f in sorted(has - base.has)] + [f"-{f}" for f in sorted(base.has - has)]
    features = ",".join(filter(None, (base.features, *toggles)))
    return base._replace(name=text, features=features, has=has)


_NAMES = {"x86_64": "x86-64", "aarch64": "AArch64"}


def lacking(level: Level, host: Level) -> str:
    """The reason why `host` cannot run code for `level`; empty if it can.

    >>> lacking(LEVELS["x86-64-v4"], LEVELS["x86-64-v3"])
    'this CPU lacks avx512bw, avx512cd, avx512dq, avx512f, avx512vl'
    >>> lacking(LEVELS["aarch64"], LEVELS["x86-64-v3"])
    'it is an AArch64 target and this CPU is x86-64'
    """
    if level.machine != host.machine:
        return f"it is an {_NAMES[level.machine]} target and this CPU is {_NAMES[host.machine]}"
    missing = sorted(level.has - host.has)
    return f"this CPU lacks {', '.join(missing)}" if missing else ""


def runnable(host: Level) -> list[str]:
    """The names of the levels that `host` can run.

    >>> runnable(LEVELS["x86-64-v3"])
    ['host', 'x86-64', 'x86-64-v2', 'x86-64-v3']
    """
    return ["host", *(name for name, level in LEVELS.items() if not lacking(level, host))]
