"""Tuning spread over the processes of a `torch.distributed` job.

    torch.distributed.init_process_group("nccl")
    tritium.torch.tuning.share()        # in every process

From then on each process measures a share of the configurations of a kernel that is tuned, and all use the same result.
See `tritium.runtime.distributed_tuning`, and docs/distributed.md.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import torch.distributed as dist

from tritium.refusals import refusal
from tritium.runtime.distributed_tuning import TuningGroup, join

__all__ = ["share", "shared"]


def share(store: Any = None, processes: int | None = None, patience: timedelta = timedelta(minutes=10)) -> Any:
    """Tune together with the other processes of the job from now on; returns the group before.

    They meet in `store`, a `torch.distributed.Store`: the job's own, unless another is given with the number of
    `processes`. Where a process has begun to measure and does not finish, others wait for `patience` and then measure
    its share themselves.

    >>> before = share(dist.HashStore(), processes=1)
    >>> join(before) is not None
    True
    """
    if store is None:
        if not (dist.is_available() and dist.is_initialized()):
            raise refusal(RuntimeError, "there is no torch.distributed job to tune in",
                          "call torch.distributed.init_process_group first, or give a store and how many processes")
        store, processes = dist.distributed_c10d._get_default_store(), dist.get_world_size()
    elif processes is None:
        raise refusal(ValueError, "a store of your own needs the number of processes that meet in it",
                      "share(store, processes=...)")
    return join(TuningGroup(store, processes, patience))


@contextlib.contextmanager
def shared(store: Any = None, processes: int | None = None,
           patience: timedelta = timedelta(minutes=10)) -> Iterator[None]:
    """As `share`, inside of a `with`.

    >>> with shared(dist.HashStore(), processes=1):
    ...     pass
    """
    before = share(store, processes, patience)
    try:
        yield
    finally:
        join(before)
