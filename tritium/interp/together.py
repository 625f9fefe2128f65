"""Programs that wait for each other, in the interpreter: `launch_cooperative_grid=True`.

Each program has a thread of its own, and one of them runs at a time. It hands on to the next after every atomic and
every volatile load: a loop that waits for others has one in each iteration. So programs run in the same order in every
launch.
"""

from __future__ import annotations

import contextvars
import threading

from .. import ops
from .machine import Machine

__all__ = ["Member", "run_together"]


class Left(BaseException):
    """Raised in a program that is not to go on, for another has failed."""


class Turns:
    """Whose turn it is."""

    def __init__(self, count: int):
        self.living = list(range(count))
        self.turn = [threading.Semaphore(0) for _ in self.living]
        self.over = threading.Event()
        self.raised: BaseException | None = None

    def begin(self, k: int) -> None:
        """Wait for the turn of program `k`."""
        self.turn[k].acquire()
        if self.raised is not None:
            raise Left

    def hand_on(self, k: int) -> None:
        """Let the next program run, and wait until it is the turn of `k` again."""
        if len(self.living) > 1:
            self.turn[self._after(k)].release()
            self.begin(k)

    def end(self, k: int) -> None:
        """Program `k` is done."""
        following = self._after(k)
        self.living.remove(k)
        if self.living:
            self.turn[following].release()
        else:
            self.over.set()

    def _after(self, k: int) -> int:
        return self.living[(self.living.index(k) + 1) % len(self.living)]


class Member(Machine):
    """A machine that runs one program among others."""

    def take(self, turns: Turns, k: int) -> None:
        """This machine runs program `k`."""
        self.turns, self.k = turns, k

    def execute(self, op, inputs):
        """As a machine does; then it is another's turn if this op may have been waiting for others."""
        made = super().execute(op, inputs)
        if op.kind.atomic or op.kind is ops.load and op.attrs.get("volatile"):
            self.turns.hand_on(self.k)
        return made


def run_together(members: list[Member], run) -> None:
    """Call `run(member)` for all members, each in a thread; raises what the first of them raises.

    >>> order = []
    >>> def twice(member):
    ...     order.append(member.k)
    ...     member.turns.hand_on(member.k)
    ...     order.append(member.k)
    >>> run_together([Member(), Member()], twice)
    >>> order
    [0, 1, 0, 1]
    """
    if not members:
        return
    turns = Turns(len(members))

    def work(k, member):
        member.take(turns, k)
        try:
            turns.begin(k)
            run(member)
        except Left:
            pass
        except BaseException as raised:
            turns.raised = turns.raised or raised
        turns.end(k)

    threads = [threading.Thread(target=contextvars.copy_context().run, args=(work, k, member), daemon=True)
               for k, member in enumerate(members)]
    for thread in threads:
        thread.start()
    turns.turn[0].release()
    try:
        turns.over.wait()
    except BaseException as raised:  # Ctrl-C
        turns.raised = turns.raised or raised
        turns.over.wait()
    for thread in threads:
        thread.join()
    if turns.raised is not None:
        raise turns.raised
