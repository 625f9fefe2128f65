"""What a launch hands to native code: the job that its threads share, what each notes before its arena, and what the
launcher is told of a kernel."""

from __future__ import annotations

from ...llvm.structs import Struct

BIT = 1 << 62  # set in what a launcher is told of a kernel's scratch memory if its programs run at once

CHECKS = Struct(
    "checks",
    preconditions="ptr",  # of the kernel (`launcher.preconditions`)
    other="ptr",  # the entry of its fallback variant, once it is loaded
    other_arena="i64",  # scratch memory of that
)

JOB = Struct(
    "job",
    entry="ptr",
    slots="ptr",  # the arguments
    grid="ptr",
    total="i64",  # programs
    chunk="i64",  # programs that a thread takes at a time
    arena="i64",  # bytes each thread needs
    message="ptr",  # of the first failed assertion
    program="i64",  # where it failed
    thread="ptr",  # Python's, of the caller
    stop="i64",  # 1 if programs are to stop
    together="i64",  # not 0 if all programs run at once
    raised="i64",  # 1 if a signal handler has raised
    stage="i64",  # 1 if the pool is taken, 2 if it is open
    floats="i64",  # the caller's floating-point state
    due="i64",  # when to look for signals again
)

# It ends where the arena begins.
HEADER = Struct(
    "header",
    size="i64",  # of the arena
    job="ptr",
    program="i64",  # that runs
    record="ptr",  # of the kernel that runs (faults.py)
    frame="ptr",  # to leave the program to (interrupt.py)
    free="i64",
    caller="i64",  # 1 if this is the thread that launched the job
    number="i64",  # the one program of a thread of a cooperative launch
)


def before_arena(field: str) -> int:
    """Where a field of the header is, in bytes from the arena.

    >>> before_arena("size"), before_arena("number")
    (-64, -8)
    """
    return HEADER.offset(field) - HEADER.size
