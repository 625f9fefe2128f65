"""The CPU runtime: pool, failures and printing, and its cache."""

import ctypes
import doctest
import os
import re
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from tests.backends.cpu.kernels import KERNEL
from tests.backends.launcher.guards_in_python import pack
from tritium.backends.cpu.library import debug, dot, dot_neon, partial, sort
from tritium.backends.cpu.runtime import called, core, image, launcher, pool
from tritium.backends.cpu.runtime.image import Runtime
from tritium.backends.launcher import calls, guards, parts, record
from tritium.backends.launcher import launcher as native_launcher
from tritium.backends.llvm.target import compile_text, cpu_target
from tritium.backends.llvm.writer import Writer


def kernel(body, *, name="k"):
    """Compile and link a kernel whose loop over programs does `body(w, args, program, grid, arena)`."""
    w = Writer()
    with w.function("void", name, KERNEL) as (args, begin, end, grid, arena):
        with w.loop(begin, end) as loop:
            body(w, args, loop.index, grid, arena)
        w.ret()
    library = Runtime.get().load(compile_text(w.text(), cpu_target()))
    return library, library.address(name)


def slot(w, args, i, type="ptr"):
    return w.load(type, w.gep("i64", args, w.const("i64", i)))


def count_program(w, args, program, grid, arena):
    """out[program] += 1, after args[1] iterations of writing to the arena."""
    out, iterations = slot(w, args, 0), slot(w, args, 1, "i64")
    with w.loop(0, iterations) as loop:
        w.effect(f"store volatile i64 {loop.index}, ptr {arena}")
    place = w.gep("i64", out, program)
    w.store(w.binary("add", w.load("i64", place), w.const("i64", 1)), place)


@pytest.fixture(scope="module")
def counter():
    return kernel(count_program)


def count(rt, counter, grid, iterations=1, arena=64):
    out = np.zeros(max(int(np.prod(grid)), 1), np.int64)
    rt.launch_raw(counter[1], arena, *grid, pack(["NDARRAY", "INT64"], [out.ctypes.data, iterations]))
    return out


MODULES = [calls, debug, dot, dot_neon, guards, launcher, native_launcher, partial, parts, pool, record, image, sort]


@pytest.mark.parametrize("module", MODULES, ids=lambda m: m.__name__)
def test_docstring_examples(module):
    assert doctest.testmod(module).failed == 0


# -- pool --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("grid", [(1, 1, 1), (2, 1, 1), (7, 3, 5), (1000, 1, 1), (33, 1, 31)])
@pytest.mark.parametrize("iterations", [1, 3000])
def test_every_program_runs_once(rt, counter, threads, grid, iterations):
    rt.set_num_threads(threads)
    assert (count(rt, counter, grid, iterations) == 1).all()


def threads_of(rt):
    """A function that launches programs which note their threads, with two to choose from: how many there were."""

    def note_thread(w, args, program, grid, arena):
        count_program(w, args, program, grid, arena)
        w.store(w.call("i64", "pthread_self"), w.gep("i64", slot(w, args, 2), program))

    library, entry = kernel(note_thread)
    rt.set_num_threads(2)

    def threads(iterations, programs=64):
        assert library
        out, who = np.zeros(programs, np.int64), np.zeros(programs, np.int64)
        slots = pack(["NDARRAY", "INT64", "NDARRAY"], [out.ctypes.data, iterations, who.ctypes.data])
        rt.launch_raw(entry, 64, programs, 1, 1, slots)
        assert (out == 1).all()
        return len(set(who))

    return threads


def test_short_launches_are_tried_alone_now_and_then(rt):
    """Beside others a program may take longer than alone, so that sharing seems worth it ever after."""
    threads = threads_of(rt)
    next(filter(lambda _: threads(15_000, programs=2) == 2, range(200)), None)  # a busy machine may have no second one
    assert any(threads(15_000, programs=2) == 1 for _ in range(64))


def test_a_launch_that_is_longer_than_those_before_is_shared(rt):
    """One thread ran a kernel's launches, as they were short. A long one with as many programs is not left to it."""
    threads = threads_of(rt)

    def shared():
        for _ in range(100):  # now both ways have been tried
            threads(600)
        return threads(200_000) == 2

    assert any(shared() for _ in range(5))  # a busy machine may have no second thread


@pytest.fixture(scope="module")
def chunk_size():
    """The pool's function, where eight microseconds are 8000 ticks: (programs, threads, ticks of one) -> programs of a
    chunk."""
    target = cpu_target()
    source = pool.pool(target)
    body = source[source.index("define internal i64 @chunk_size"):]
    body = body[:body.index("\n}\n") + 3].replace("define internal", "define")
    declared = [line for line in source.splitlines() if re.match(r"declare i64 @llvm\.(u|fp)", line)]
    text = "\n".join(["@share_after = internal global i64 8000", *declared, body])
    library = Runtime.get().load(compile_text(text, target))
    number = ctypes.c_int64
    yield ctypes.CFUNCTYPE(number, number, number, ctypes.c_double)(library.address("chunk_size"))
    assert library


@pytest.mark.parametrize(("programs", "threads", "ticks", "chunk"), [
    (64, 16, 600, 4),  # of about two microseconds would be 3, and some threads would run 6
    (64, 16, 5000, 1),
    (64, 16, 100, 4),
    (1024, 16, 600, 4),  # 64 for each thread, in 16 chunks
    (1 << 20, 16, 10, 1024),
    (3, 16, 10, 1),
])  # fmt: skip
def test_chunks_level_out(chunk_size, programs, threads, ticks, chunk):
    assert chunk_size(programs, threads, ticks) == chunk


def test_long_launches_are_shared_and_short_ones_are_not(rt):
    """Each program notes its thread; a pool with two threads needs both for a long launch only.

    A kernel is taken to be as long as it was last time: then not even two programs run one after the other, and one
    launch later it is known to be short.
    """

    threads = threads_of(rt)
    assert any(threads(200_000) == 2 for _ in range(5))
    assert any(threads(10_000_000, programs=2) == 2 for _ in range(10))
    threads(1)
    time.sleep(0.01)
    assert any(threads(1) == 1 for _ in range(10))  # a busy machine may make one look long


def test_python_threads_launch_at_once(rt, counter):
    rt.set_num_threads(3)
    results = []

    def work():
        results.extend((count(rt, counter, (200, 1, 1), 500) == 1).all() for _ in range(30))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(results) == 120 and all(results)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_fork_with_a_live_pool(rt, counter):
    rt.set_num_threads(3)
    assert (count(rt, counter, (100, 1, 1), 20_000) == 1).all()  # long: workers exist now
    for _ in range(5):
        child = os.fork()
        if child == 0:
            good = all((count(rt, counter, (100, 1, 1), 5_000) == 1).all() for _ in range(5))
            os._exit(0 if good else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert (count(rt, counter, (100, 1, 1), 5_000) == 1).all()


def test_number_of_threads(rt):
    rt.set_num_threads(4)
    assert rt.num_threads == 4
    for wrong in (0, -1, 5000):
        with pytest.raises(ValueError, match="between 1 and 1024"):
            rt.set_num_threads(wrong)
    assert rt.num_threads == 4


def test_default_number_of_threads_comes_from_the_environment():
    code = "from tritium.backends.cpu.runtime.image import Runtime; print(Runtime.get().num_threads)"
    out = subprocess.run([sys.executable, "-c", code], env={**os.environ, "TRITIUM_NUM_THREADS": "7"},
                         capture_output=True, text=True, check=True)  # fmt: skip
    assert out.stdout.strip() == "7"


# -- arenas ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [64, 100_000, 3_000_000])
def test_arenas_belong_to_one_program_at_a_time(rt, size):
    """A program fills its arena with its number, and looks whether every word is still there."""
    words = size // 8

    def fill(w, args, program, grid, arena):
        with w.loop(0, words) as loop:
            w.store(program, w.gep("i64", arena, loop.index))
        with w.loop(0, words, carry=[w.const("i64", 0)]) as loop:
            x = w.load("i64", w.gep("i64", arena, loop.index))
            same = w.cast("zext", w.compare("icmp eq", x, program), "i64")
            loop.next = [w.binary("add", loop.carried[0], same)]
        w.store(loop.results[0], w.gep("i64", slot(w, args, 0), program))
        w.store(w.cast("ptrtoint", arena, "i64"), w.gep("i64", slot(w, args, 1), program))

    _library, entry = kernel(fill)
    rt.set_num_threads(3)
    found, where = np.zeros(40, np.int64), np.zeros(40, np.int64)
    slots = pack(["NDARRAY"] * 2, [found.ctypes.data, where.ctypes.data])
    places = set()
    for _ in range(4):
        found[:] = 0
        rt.launch_raw(entry, size, 40, 1, 1, slots)
        assert (found == words).all() and (where % 64 == 0).all()
        places |= set(where)
    spawned = ctypes.c_int64.from_address(rt.symbols["tt.pool.spawned"]).value
    assert len(places) <= spawned + 1  # one per thread, kept from launch to launch


def test_memory_that_cannot_be_had_is_a_memory_error(rt, counter):
    with pytest.raises(MemoryError):
        rt.launch_raw(counter[1], 1 << 60, 4, 1, 1, bytes(16))
    assert (count(rt, counter, (4, 1, 1)) == 1).all()


def test_the_gil_is_free_while_a_kernel_runs(rt, counter):
    rt.set_num_threads(1)
    ticks = []
    thread = threading.Thread(target=lambda: count(rt, counter, (1, 1, 1), 100_000_000))
    thread.start()
    while thread.is_alive():
        ticks.append(time.perf_counter())
        time.sleep(0.001)
    thread.join()
    assert len(ticks) > 5


# -- what kernels say --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def failing():
    def fail(w, args, program, grid, arena):
        count_program(w, args, program, grid, arena)
        with w.when(w.compare("icmp eq", program, slot(w, args, 2, "i64"))):
            w.call("void", "tt.assert_fail", arena, w.string("x must be positive"), program)

    return kernel(fail)


@pytest.mark.parametrize("raw", ["launch_raw", "launch_raw_slowly"])
@pytest.mark.parametrize("threads", [1, 3])
def test_failed_assertions_raise_and_stop_the_launch(rt, failing, raw, threads):
    rt.set_num_threads(threads)
    out = np.zeros(6000, np.int64)

    def go(bad):
        slots = pack(["NDARRAY", "INT64", "INT64"], [out.ctypes.data, 300, bad])
        getattr(rt, raw)(failing[1], 64, 10, 20, 30, slots)

    with pytest.raises(RuntimeError, match=r"x must be positive \[program \(3, 12, 1\)\]"):
        go(3 + 12 * 10 + 1 * 200)
    go(-1)
    assert out.min() >= 1 and out.max() <= 2


@pytest.mark.parametrize("kind, digits, type, x, expected", [
    ("int", 0, "i64", -7, "-7"), ("uint", 0, "i64", -1, str(2**64 - 1)), ("float", 0, "double", 1.5, "1.500000"),
    ("pointer", 0, "ptr", 4096, "0x1000"), ("hex", 8, "i64", 0xBEEF, "0x0000beef"), ("none", 0, None, None, ""),
])  # fmt: skip
def test_printed_lines(rt, capfd, kind, digits, type, x, expected):
    def speak(w, args, program, grid, arena):
        pid = [program, w.const("i64", 4), w.const("i64", 5)]
        shape, index = ((16, 128), [w.const("i64", 3), w.const("i64", 12)]) if type else ((), [])
        debug.print_line(w, " x%: ", kind, pid, shape, index, w.const(type, x) if type else None, digits)

    _library, entry = kernel(speak)
    rt.set_num_threads(1)  # several print in any order
    rt.launch_raw(entry, 0, 2, 1, 1, b"")
    where = " idx ( 3,  12)" if type else ""
    assert capfd.readouterr().out == "".join(f"pid ({p}, 4, 5){where} x%: {expected}\n" for p in range(2))


# -- the parts and their cache -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["x86-64-v3", "x86-64-v4"])
def test_parts_compile_for_x86(name):
    if cpu_target().simd != "neon":
        pytest.skip("the host compiles them anyway")
    for part in (*core.PARTS, *called.PARTS):
        if part in core.PARTS or part.name in ("tt.dot.f64", "tt.dot.i8", "tt.sort.f16"):
            assert compile_text(part.text(cpu_target(name)), cpu_target(name))[:4] == b"\x7fELF"


def test_symbols_know_their_names(rt):
    assert {"tt.dot.f32", "tt.load.4", "tt.assert_fail", "tt.sort.bf16"} <= set(rt.symbols)
    with pytest.raises(KeyError):
        rt.symbols["tt.nothing"]


def test_processes_race_for_an_empty_cache(tmp_path):
    code = """if True:
        import ctypes, time
        from tritium.backends.cpu.runtime.image import Runtime
        start = time.process_time()
        rt = Runtime.get()
        fn = ctypes.CFUNCTYPE(None, ctypes.c_void_p, *[ctypes.c_int64] * 3)(rt.symbols["tt.sort.i32"])
        x = (ctypes.c_int32 * 4)(3, 1, 2, 0)
        fn(x, 4, 4, 0)
        print(list(x))"""
    env = {**os.environ, "TRITIUM_CACHE_DIR": str(tmp_path)}
    run = [sys.executable, "-c", code]
    racers = [subprocess.Popen(run, env=env, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    assert [(p.communicate()[0].strip(), p.returncode) for p in racers] == [("[0, 1, 2, 3]", 0)] * 4
    files = sorted(p.name for p in tmp_path.rglob("*.o"))
    assert files == ["core.o", "faults.o", "tt.sort.i32.o"]
    # and a process that finds them compiles nothing
    check = ("from tritium.backends.cpu.runtime import image; image.compile_text = None; "
             "exec(__import__('os').environ['CODE'])")
    done = subprocess.run([sys.executable, "-c", check], env={**env, "CODE": code}, capture_output=True, text=True,
                          check=True)  # fmt: skip
    assert done.stdout.strip() == "[0, 1, 2, 3]"


@pytest.mark.skipif(not parts.NATIVE, reason="this interpreter takes no builtins: launches go by Python")
def test_what_few_processes_need_is_compiled_when_it_is_needed(tmp_path):
    code = """if True:
        import pathlib, sys
        from tritium.backends.cpu.runtime.image import Runtime
        rt = Runtime.get()
        made = lambda: sorted(p.stem for p in pathlib.Path(sys.argv[1]).rglob("*.o"))
        assert rt.binder([lambda grid, x: x])((1,))(2) == 2 and made() == ["core", "faults"], made()
        assert rt.finder([lambda x: x])(3) == 3 and made() == ["core", "fast_paths", "faults"], made()
        assert rt.forward and made() == ["core", "fast_paths", "faults", "wrappers"], made()"""
    env = {**os.environ, "TRITIUM_CACHE_DIR": str(tmp_path), "TRITIUM_FAULT_HANDLER": "1"}
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], env=env, check=True)
