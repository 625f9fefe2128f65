"""Several threads compile and launch first, in a process that has done nothing yet."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tritium import backends, locks
from tritium.backends.cpu.fuse import index
from tritium.backends.cpu.fuse.index import lanes_of
from tritium.ir import types as T
from tritium.language.types import dtypes
from tritium.runtime.launch import Launcher, disarm_all

THREADS = 8
LONG = os.environ.get("TRITIUM_TEST_LONG") == "1"
ROOT = Path(__file__).resolve().parents[2]

# Eight threads, a kernel each, changing over as often as they can: on the CPU, for a GPU that need not be there, on
# both in turn, or with configurations that are compiled side by side.
COLD = '''
import sys, threading, traceback
import numpy as np
import tritium as triton
import tritium.language as tl
from tritium.backends.compiler import GPUTarget

SLOW = {slow!r}
if SLOW:  # the targets of LLVM are set up in two calls: rest between them
    import time
    from llvmlite import binding
    then = binding.initialize_all_asmprinters
    binding.initialize_all_asmprinters = lambda: (time.sleep(0.5), then())


@triton.jit
def add(x, out, n, K: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, i < n) + K, i < n)


tuned = triton.autotune([triton.Config({{"BLOCK": b}}) for b in (16, 32, 64, 128)], key=["n"],
                        do_bench=lambda run, quantiles: (run(), 1.0)[1])(add)


def cpu(k):
    x, out = np.arange(256, dtype=np.float32), np.zeros(256, np.float32)
    add[(2,)](x, out, 256, K=k % 4, BLOCK=128)
    assert (out == x + k % 4).all(), out


def cuda(k):
    signature = {{"x": "*fp32", "out": "*fp32", "n": "i32", "K": "constexpr", "BLOCK": "constexpr"}}
    source = triton.compiler.ASTSource(add, signature, {{"K": k % 4, "BLOCK": 128}})
    assert ".entry add" in triton.compile(source, target=GPUTarget("cuda", 90, 32)).asm["ptx"]


def tune(k):
    x, out = np.arange(256, dtype=np.float32), np.zeros(256, np.float32)
    tuned[lambda meta: (256 // meta["BLOCK"],)](x, out, 256, K=1)
    assert (out == x + 1).all(), out


def both(k):
    (cuda if k % 2 else cpu)(k)


def work(k):
    start.wait()
    try:
        {mode}(k)
    except BaseException:
        failures.append(traceback.format_exc())


failures, start = [], threading.Barrier({threads})
workers = [threading.Thread(target=work, args=(k,)) for k in range({threads})]
sys.setswitchinterval(1e-6)
for worker in workers:
    worker.start()
for worker in workers:
    worker.join()
sys.exit("".join(failures) or 0)
'''


def run_cold(tmp_path, mode, slow=False):
    script = tmp_path / "cold.py"
    script.write_text(COLD.format(mode=mode, slow=slow, threads=THREADS))
    env = {**os.environ, "PYTHONPATH": str(ROOT), "TRITIUM_CACHE_DIR": str(tmp_path / "cache")}
    env.pop("TRITIUM_BACKEND", None)
    done = subprocess.run([sys.executable, "-X", "faulthandler", str(script)], env=env, capture_output=True, text=True,
                          timeout=300, check=False)
    assert done.returncode == 0, f"{mode}: {done.returncode}\n{done.stderr[-4000:]}"


@pytest.mark.parametrize("mode", ["cpu", "cuda", "both", "tune"])
def test_a_process_that_has_compiled_nothing(tmp_path, mode):
    run_cold(tmp_path, mode)
    run_cold(tmp_path, mode)  # and one that finds all in the cache


def test_targets_are_set_up_before_anybody_uses_them(tmp_path):
    run_cold(tmp_path, "cuda", slow=True)


@pytest.mark.slow
@pytest.mark.skipif(not LONG, reason="takes minutes: set TRITIUM_TEST_LONG=1")
@pytest.mark.parametrize("mode", ["cpu", "cuda", "both", "tune"])
def test_many_processes(tmp_path, mode):
    for k in range(16):
        folder = tmp_path / str(k)
        folder.mkdir()
        run_cold(folder, mode)
        run_cold(folder, mode)


# -- in one process ----------------------------------------------------------------------------------------------------


def at_once(work, threads=THREADS):
    """The results of `work(i)` on threads that start together and change over as often as they can."""
    start, found, errors = threading.Barrier(threads), [None] * threads, []

    def enter(i):
        start.wait()
        try:
            found[i] = work(i)
        except BaseException as error:
            errors.append(error)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        workers = [threading.Thread(target=enter, args=(i,)) for i in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    finally:
        sys.setswitchinterval(before)
    for error in errors:
        raise error
    return found


def test_once_is_once():
    made = []

    @locks.once
    def make(n):
        time.sleep(0.05)
        made.append(n)
        return object()

    found = at_once(lambda i: make(i % 2))
    assert len(set(map(id, found))) == 2 and sorted(made) == [0, 1]
    assert make.cache_info().currsize == 2
    make.cache_clear()
    assert make(0) is not found[0]


def test_what_raises_is_tried_again():
    tries = []

    @locks.once
    def make():
        tries.append(1)
        if len(tries) == 1:
            raise ValueError("not yet")
        return "made"

    with pytest.raises(ValueError, match="not yet"):
        make()
    assert make() == "made" and len(tries) == 2


def test_a_property_is_computed_once():
    class Slow:
        count = 0

        @locks.once_property
        def value(self):
            time.sleep(0.05)
            self.count += 1
            return object()

    slow = Slow()
    assert len(set(map(id, at_once(lambda i: slow.value)))) == 1 and slow.count == 1


INTERNED = {
    "ptr": lambda element: T.Ptr(element),
    "tile": lambda element: T.Tile((2, 3), element),
    "block_type": lambda element: dtypes.block_type(dtypes.float32, (1, 1 << 19, 1, 2)),
    "pointer_type": lambda element: dtypes.pointer_type(dtypes.float32, address_space=100_049),
    "lanes": lambda element: lanes_of((100_057, 3)),
}


@pytest.mark.parametrize("kind", INTERNED)
def test_there_is_one_object_of_each_type(kind, monkeypatch):
    """They are compared by identity, and nobody may see one before it is complete."""
    def slowly(function):
        return lambda *args: (time.sleep(0.05), function(*args))[1]

    class Element(T.Scalar):
        __repr__ = slowly(T.Scalar.__repr__)

    element = Element("trial", 32, "int")
    monkeypatch.setattr(dtypes.dtype, "__str__", slowly(dtypes.dtype.__str__))
    monkeypatch.setattr(index.Lanes, "__init__", slowly(index.Lanes.__init__))

    def make(i):
        found = INTERNED[kind](element)
        return found, repr(found)

    found = at_once(make)
    assert len({id(one) for one, _ in found}) == 1 and len({text for _, text in found}) == 1


def test_a_backend_that_is_being_imported_is_waited_for(tmp_path, monkeypatch):
    (tmp_path / "slow_backend.py").write_text("import time\ntime.sleep(0.3)\nBACKEND = 'complete'\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(backends.FOLDERS, "slow", "slow_backend")
    monkeypatch.delitem(sys.modules, "slow_backend", raising=False)
    assert at_once(lambda i: backends.get("slow")) == ["complete"] * THREADS


def test_kernels_are_made_while_all_are_disarmed():
    import inspect

    signature, kept = inspect.signature(lambda x: None), []

    def work(i):
        for _ in range(60):
            if i % 2:
                kept.append(Launcher("k", signature, print))
            else:
                disarm_all()

    at_once(work)
    assert len(kept) == THREADS // 2 * 60


def test_a_setting_that_changes_during_a_launch_counts_for_the_next():
    """A launch that began before the change does not arm the fast way with what it found."""
    import inspect

    record, seen = object(), []

    def slow(sizes, values, options, form):
        if len(seen) == 1:
            other = threading.Thread(target=disarm_all)
            other.start()
            other.join()
        launcher.arm_for("like this", lambda: (lambda records: lambda grid: records, record))
        seen.append(launcher.records[1:])

    launcher = Launcher("k", inspect.signature(lambda x: None), slow)
    for _ in range(3):
        launcher.call((1,), 0)
    assert seen == [[record], [], [record]]


def test_one_chain_of_hooks():
    from tritium import knobs

    slow = lambda: (time.sleep(0.05), knobs.HookChain())[1]
    group = knobs.Group("trial", (knobs.Knob("hook", None, knobs.HOOKS, slow, cached=True),))
    assert len(set(map(id, at_once(lambda i: group.hook)))) == 1
