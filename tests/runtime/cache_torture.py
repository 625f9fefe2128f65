"""Processes that share a cache are killed while somebody damages and removes its files.

    python -m tests.runtime.cache_torture DIRECTORY PROCESSES KILLS SEED

The processes launch kernels, each time as if they had just begun, and check the results. One that ends otherwise than
by our hand has failed. Figures are printed as JSON.
"""

import contextlib
import importlib
import json
import os
import random
import select
import shutil
import signal
import sys
import time
import traceback
import warnings
from pathlib import Path

import numpy as np

import tritium as triton
import tritium.language as tl
from tests.runtime.cache_entries import DAMAGES, files
from tritium import cache, cache_limits, knobs


@triton.jit
def scaled(x, y, n, FACTOR: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) * FACTOR, mask=i < n)


VARIANTS = [(factor, block) for factor in (2, 3, 5, 7) for block in (16, 64)]
X = np.arange(100, dtype=np.float32)


def launch(factor, block):
    """One launch of a process that has just begun; its result is right, and so are the texts it can show."""
    scaled.device_caches.clear()
    scaled.hash = None
    cache.fingerprint.cache_clear()
    y = np.zeros_like(X)
    kernel = scaled[(triton.cdiv(X.size, block),)](X, y, X.size, FACTOR=factor, BLOCK=block)
    if not np.array_equal(y, X * factor):
        raise AssertionError(f"wrong result for {factor}, {block}: {y}")
    if factor == 7 and "scaled" not in kernel.asm["ttir"]:
        raise AssertionError("wrong text")


def work(pipe, seed):
    """Launch until killed, telling the parent of each launch."""
    chosen = random.Random(seed)
    while True:
        launch(*chosen.choice(VARIANTS))
        os.write(pipe, b".")


def child(task):
    """A process that does the task and then ends."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            warnings.simplefilter("ignore")
            task()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    return pid


def mutate(chosen, root):
    """Damage a file of an entry, or remove everything; others may be quicker."""
    with contextlib.suppress(OSError, IndexError, ValueError):
        if chosen.random() < 0.05:
            shutil.rmtree(root, ignore_errors=True)
        else:
            DAMAGES[chosen.choice(list(DAMAGES))](chosen.choice([path for path in files(root) if path.parent != root]))


def check_healed():
    """Two rounds over everything: the second finds it all whole."""
    for _ in range(2):
        cache.reset_stats()
        for variant in VARIANTS:
            launch(*variant)
    found = cache.stats()
    if found != (len(VARIANTS), 0, 0, 0, 0, 0):
        raise AssertionError(f"not healed: {found}")


def torture(root, processes, kills, seed):
    """The figures of one round."""
    chosen, reader, writer = random.Random(seed), *os.pipe()
    figures = {"launches": 0, "kills": 0, "mutations": 0, "failures": 0}
    running, due = set(), 0
    while figures["kills"] < kills:
        while len(running) < processes:
            number = chosen.random()
            running.add(child(lambda number=number: work(writer, number)))
        if select.select([reader], [], [], 0.01)[0]:
            figures["launches"] += len(os.read(reader, 65536))
        if chosen.random() < 0.3:
            mutate(chosen, root)
            figures["mutations"] += 1
        for pid in list(running):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                running.remove(pid)
                figures["failures"] += 1
                print(f"a process ended by itself: {status}", file=sys.stderr)
        # A kill for every few launches, however slow the machine is.
        if running and figures["launches"] >= due:
            due = figures["launches"] + chosen.randrange(5)
            time.sleep(chosen.random() * 0.02)
            pid = chosen.choice(sorted(running))
            os.kill(pid, signal.SIGKILL)
            running.remove(pid)
            _, status = os.waitpid(pid, 0)
            figures["failures"] += not os.WIFSIGNALED(status) or os.WTERMSIG(status) != signal.SIGKILL
            figures["kills"] += 1
    for pid in running:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return figures


def main(root, processes, kills, seed):
    knobs.cache.dir = root
    for module in ("backends.cpu.compile", "backends.cpu.driver", "backends.llvm.target", "frontend", "passes"):
        importlib.import_module(f"tritium.{module}")  # once for all processes
    figures = torture(Path(root), int(processes), int(kills), int(seed))
    _, figures["healing"] = os.waitpid(child(check_healed), 0)
    left = [path for path in Path(root).rglob(".tmp.*") if path.is_file()]
    for path in left:
        os.utime(path, (0, 0))
    figures["unfinished"], figures["swept"] = len(left), cache_limits.sweep(root)
    print(json.dumps(figures))


if __name__ == "__main__":
    main(*sys.argv[1:])
