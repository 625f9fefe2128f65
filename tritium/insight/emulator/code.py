"""LLVM text taken apart: types, operands, and a kernel as one list of segments.

A segment is what a thread executes in one go: a block, or less where threads wait for each other within it. Functions
are written out where they are called, so that a thread's place is a single number.
"""

import functools
import re
from typing import Any

import ml_dtypes
import numpy as np

FLOATS = {"half": np.float16, "bfloat": ml_dtypes.bfloat16, "float": np.float32, "double": np.float64}
RESOURCE = np.dtype([("base", "u8"), ("records", "u8"), ("flags", "u4")])  # of a buffer of AMD GPUs


def split_type(text):
    """(type, rest) of text that begins with a type."""
    if text[0] in "{<":
        depth = 0
        for k, c in enumerate(text):
            depth += (c in "{<") - (c in "}>")
            if depth == 0:
                return text[: k + 1], text[k + 1 :].strip()
    found: Any = re.match(r"ptr addrspace\(\d\)|%?[\w.]+", text)
    return found[0], text[found.end() :].strip()


def split_list(text):
    """The parts between commas that no bracket encloses."""
    parts, depth, start = [], 0, 0
    for k, c in enumerate(text):
        depth += (c in "({[<") - (c in ")}]>")
        if c == "," and depth == 0:
            parts.append(text[start:k].strip())
            start = k + 1
    return [*parts, text[start:].strip()] if text.strip() else []


def alignment(text):
    """What an access promises of its address; None if it says nothing."""
    found = re.search(r", align (\d+)", text)
    return int(found[1]) if found else None


@functools.cache
def numpy_type(t):
    if t in FLOATS:
        return np.dtype(FLOATS[t])
    if t == "ptr addrspace(8)":
        return RESOURCE
    if t.startswith("ptr"):
        return np.dtype(np.uint64)
    bits = int(t[1:])
    return np.dtype(bool) if bits == 1 else np.dtype(f"u{max(8, 1 << (bits - 1).bit_length()) // 8}")


@functools.cache
def vector_of(t):
    """(lanes, element type); lanes is 0 for a scalar."""
    found = re.fullmatch(r"<(\d+) x (.*)>", t)
    return (int(found[1]), found[2]) if found else (0, t)


class Frame:
    """A function where it is called: its values, and the places of its labels."""

    def __init__(self, name, head, outer=None, target=None):
        self.name, self.parameters = name, [(split_type(p)[0], p.split()[-1]) for p in split_list(head)]
        self.values, self.labels = {}, {}
        self.outer, self.target = outer, target  # who called, and for which value
        self.after: Any = None  # where it goes on


class Segment:
    """Lines that threads execute without waiting; `block` is the place of the label they are behind."""

    def __init__(self, frame, block):
        self.frame, self.block, self.callee = frame, block, None
        self.lines, self.places, self.steps = [], [], None  # steps are decoded when first reached


_FUNCTION = r"^define (?:internal|\w+_kernel) [^@\n]+ @([\w.$]+)\((.*?)\) nounwind[^\n]*\{\n(.*?)^\}"
_CALL = re.compile(r"(?:(%[\w.]+) = )?call [^@\"]*@([\w.$]+)\(")
WAITS = re.compile(r"\b(?:(?:barrier\.cta\.sync|barrier\.sync|bar\.sync|barrier\.cluster\.wait)\b|"
                   r"amdgcn\.s\.barrier(?![\w.]))")


def segments_of(text):
    """A kernel's segments; the first is where it begins."""
    functions = {name: (head, body) for name, head, body in re.findall(_FUNCTION, text, re.M | re.S)}
    named: Any = re.search(r"^define \w+_kernel void @([\w.$]+)", text, re.M)
    kernel, segments = named[1], []
    _write_out(functions, kernel, Frame(kernel, functions[kernel][0]), segments)
    return segments


def _write_out(functions, name, frame, segments):
    """Append the segments of a function, with those of the functions it calls in between."""
    for line in functions[name][1].splitlines():
        if line.endswith(":"):
            block = frame.labels[line[:-1]] = len(segments)
            segments.append(Segment(frame, block))
            continue
        line, _, place = line.partition(" !dbg !")  # which line of the source it comes from
        segments[-1].lines.append(line.strip().rstrip(","))
        segments[-1].places.append(int(place or 0))
        call = _CALL.match(line.strip())
        if call and call[2] in functions:
            inner = segments[-1].callee = Frame(call[2], functions[call[2]][0], frame, call[1])
            _write_out(functions, call[2], inner, segments)
            inner.after = len(segments)
        if (call and call[2] in functions) or WAITS.search(line):
            segments.append(Segment(frame, block))
