"""The CPU runtime: pool, launcher, dot, sort, partial accesses, printing, and its cache."""

import ctypes
import doctest
import itertools
import os
import re
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from tritium.backends.cpu import debug, dot, dot_amx, launcher, partial, pool, runtime, sort
from tritium.backends.cpu.runtime import PARTS, Runtime
from tritium.backends.llvm.target import assembly, compile_text, cpu_target
from tritium.backends.llvm.writer import Writer, value
from tritium.backends.native import calls, guards, parts, record
from tritium.backends.native import launcher as native_launcher
from tritium.backends.native.record import (
    BOOL,
    FLOAT32,
    FLOAT64,
    SKIP,
    constant,
    gpu_tensor,
    integer,
    ndarray,
    pack,
    tensor,
)

RNG = np.random.default_rng(7)
KERNEL = ["ptr args", "i64 begin", "i64 end", "ptr grid", "ptr arena"]


@pytest.fixture
def rt():
    """The runtime; a test may change the number of threads."""
    it = Runtime.get()
    before = it.num_threads
    yield it
    it.set_num_threads(before)


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
    """out[program] += 1, after args[1] rounds of writing to the arena."""
    out, rounds = slot(w, args, 0), slot(w, args, 1, "i64")
    with w.loop(0, rounds) as loop:
        w.effect(f"store volatile i64 {loop.index}, ptr {arena}")
    place = w.gep("i64", out, program)
    w.store(w.binary("add", w.load("i64", place), w.const("i64", 1)), place)


@pytest.fixture(scope="module")
def counter():
    return kernel(count_program)


def count(rt, counter, grid, rounds=1, arena=64):
    out = np.zeros(max(int(np.prod(grid)), 1), np.int64)
    rt.launch_raw(counter[1], arena, *grid, pack(["NDARRAY", "INT64"], [out.ctypes.data, rounds]))
    return out


MODULES = [calls, debug, dot, guards, launcher, native_launcher, partial, parts, pool, record, runtime, sort]


@pytest.mark.parametrize("module", MODULES, ids=lambda m: m.__name__)
def test_docstring_examples(module):
    assert doctest.testmod(module).failed == 0


# -- pool --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("grid", [(1, 1, 1), (2, 1, 1), (7, 3, 5), (1000, 1, 1), (33, 1, 31)])
@pytest.mark.parametrize("rounds", [1, 3000])
def test_every_program_runs_once(rt, counter, threads, grid, rounds):
    rt.set_num_threads(threads)
    assert (count(rt, counter, grid, rounds) == 1).all()


def test_long_launches_are_shared_and_short_ones_are_not(rt):
    """Each program notes its thread; a pool with two threads needs both for a long launch only.

    A kernel is taken to be as long as it was last time: then not even two programs run one after the other, and one
    launch later it is known to be short.
    """

    def note_thread(w, args, program, grid, arena):
        count_program(w, args, program, grid, arena)
        w.store(w.call("i64", "pthread_self"), w.gep("i64", slot(w, args, 2), program))

    _library, entry = kernel(note_thread)
    rt.set_num_threads(2)

    def threads(rounds, programs=64):
        out, who = np.zeros(programs, np.int64), np.zeros(programs, np.int64)
        slots = pack(["NDARRAY", "INT64", "NDARRAY"], [out.ctypes.data, rounds, who.ctypes.data])
        rt.launch_raw(entry, 64, programs, 1, 1, slots)
        assert (out == 1).all()
        return len(set(who))

    assert any(threads(200_000) == 2 for _ in range(5))
    assert any(threads(10_000_000, programs=2) == 2 for _ in range(10))
    threads(1)
    time.sleep(0.01)
    assert all(threads(1) == 1 for _ in range(5))


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
    code = "from tritium.backends.cpu.runtime import Runtime; print(Runtime.get().num_threads)"
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


# -- launcher ----------------------------------------------------------------------------------------------------------


class Tensor:
    """The least a tensor must be."""

    def __init__(self, address, dtype="f32", is_cpu=True, device=-1):
        self.address, self.dtype, self.is_cpu, self.device = address, dtype, is_cpu, device

    def get_device(self):
        return self.device

    def data_ptr(self):
        if self.address is None:
            raise KeyError("no storage")
        return self.address


@pytest.fixture(scope="module")
def copy_slots():
    """A kernel that copies its first 8 slots to @seen."""
    seen = np.zeros(8, np.uint64)
    w = Writer()
    with w.function("void", "k", KERNEL) as (args, *_):
        to = value("ptr", f"inttoptr (i64 {seen.ctypes.data} to ptr)")
        w.store(w.load("<8 x i64>", args, align=8), to, align=8)
        w.ret()
    library = Runtime.get().load(compile_text(w.text(), cpu_target()))
    return library, library.address("k"), seen


@pytest.fixture(params=["native", "python"])
def launch(request, rt):
    """launch(record, gx, gy, gz, *args): NotImplemented where the record does not apply."""

    def natively(r, *grid_and_args):
        return rt.binder([lambda *args: NotImplemented, r])(grid_and_args[:3])(*grid_and_args[3:])

    def in_python(r, gx, gy, gz, *args):
        slots = record.check(r, args)
        if slots is None or min(gx, gy, gz) < 0:
            return NotImplemented
        return rt.launch_raw_slowly(r.entry, r.extra, gx, gy, gz, slots)

    return natively if request.param == "native" else in_python


def f32(x):
    return int(np.float32(x).view(np.uint32))


def f64(x):
    return int(np.float64(x).view(np.uint64))


ARRAY = np.zeros(4, np.float32)
OTHER_ARRAY = np.zeros(4, np.float64)
BUFFER = np.zeros(64, np.uint8)
EVEN = BUFFER[-BUFFER.ctypes.data % 16 :][:16].view(np.float32)
ODD = BUFFER[-BUFFER.ctypes.data % 16 + 4 :][:16].view(np.float32)
INF = float("inf")
T1 = (1, 2)

ACCEPTED = [
    (SKIP, object(), None), (constant(None), None, None), (constant(64), 64, None), (constant(10**30), 10**30, None),
    (constant("ieee"), "".join(["ie", "ee"]), None), (constant(-0.0), -0.0, None), (constant(1.5), 1.5, None),
    (constant(float("nan")), float("nan"), None), (constant(True), True, None), (constant(T1), T1, None),
    (integer("INT32"), 7, 7), (integer("INT32"), -(2**31), 2**64 - 2**31), (integer("INT32"), 2**31 - 1, 2**31 - 1),
    (integer("INT64"), 2**31, 2**31), (integer("INT64"), -(2**63), 2**63), (integer("INT64"), 2**63 - 1, 2**63 - 1),
    (integer("UINT64"), 2**63, 2**63), (integer("UINT64"), 2**64 - 1, 2**64 - 1), (integer("ANY64"), 5, 5),
    (integer("ANY64"), 2**40, 2**40), (integer("INT32", True), 32, 32), (integer("INT32", True), 0, 0),
    (integer("INT32", True), -16, 2**64 - 16), (integer("INT32", False), 33, 33),
    (integer("INT32", False, not_one=True), 3, 3), (integer("INT32", not_one=False), 1, 1),
    (BOOL, True, 1), (BOOL, False, 0), (FLOAT32, 1.5, f32(1.5)), (FLOAT32, 0.1, f32(0.1)), (FLOAT32, -INF, f32(-INF)),
    (FLOAT32, 1e300, f32(INF)), (FLOAT64, 0.1, f64(0.1)),
    (tensor(Tensor(0)), Tensor(4096), 4096), (tensor(Tensor(0), True), Tensor(4096), 4096),
    (tensor(Tensor(0), False), Tensor(4100), 4100), (tensor(Tensor(0), on_cpu=False), Tensor(8, is_cpu=False), 8),
    (gpu_tensor(Tensor(0), 0), Tensor(64, device=0), 64), (gpu_tensor(Tensor(0), 3, True), Tensor(64, device=3), 64),
    (tensor(Tensor(0)), Tensor(0), 0), (tensor(Tensor(0)), Tensor(2**63 + 16), 2**63 + 16),
    (ndarray(ARRAY), ARRAY, ARRAY.ctypes.data), (ndarray(ARRAY, True), EVEN, EVEN.ctypes.data),
    (ndarray(ARRAY, False), ODD, ODD.ctypes.data),
]  # fmt: skip

REFUSED = [
    (constant(None), 0), (constant(64), 65), (constant(64), 64.0), (constant(1), True), (constant(True), 1),
    (constant("a"), "b"), (constant(0.0), -0.0), (constant(0.0), 0), (constant(T1), (1.0, 2)),
    (integer("INT32"), 2**31), (integer("INT32"), True), (integer("INT32"), 7.0), (integer("INT32"), None),
    (integer("INT32"), np.int32(7)), (integer("INT64"), 7), (integer("INT64"), 2**63), (integer("UINT64"), 2**63 - 1),
    (integer("UINT64"), 2**64), (integer("UINT64"), -1), (integer("UINT64"), 1.0), (integer("ANY64"), 2**63),
    (integer("INT32", True), 8), (integer("INT32", False), 16), (integer("INT32", not_one=True), 1), (BOOL, 1),
    (BOOL, None), (FLOAT32, 1), (FLOAT64, np.float64(1)), (tensor(Tensor(0)), ARRAY), (tensor(Tensor(0)), None),
    (tensor(Tensor(0)), Tensor(64, "f64")), (tensor(Tensor(0)), Tensor(64, is_cpu=False)),
    (tensor(Tensor(0), True), Tensor(4100)), (tensor(Tensor(0), False), Tensor(4096)), (ndarray(ARRAY), OTHER_ARRAY),
    (gpu_tensor(Tensor(0), 0), Tensor(64)), (gpu_tensor(Tensor(0), 1), Tensor(64, device=0)),
    (gpu_tensor(Tensor(0), 0), Tensor(64, "f64", device=0)), (gpu_tensor(Tensor(0), 0, True), Tensor(4, device=0)),
    (ndarray(ARRAY), Tensor(0)), (ndarray(ARRAY, True), ODD), (ndarray(ARRAY, False), EVEN),
]  # fmt: skip


@pytest.mark.parametrize("guard, argument, expected", ACCEPTED, ids=map(str, range(len(ACCEPTED))))
def test_guards_accept_and_fill_slots(launch, copy_slots, guard, argument, expected):
    library, entry, seen = copy_slots
    seen[:] = 0
    r = Runtime.get().record(entry, 0, [guard, integer("INT32")], library)
    assert launch(r, 1, 1, 1, argument, 99) is None
    assert seen[:2].tolist() == ([expected, 99] if expected is not None else [99, seen[1]])


@pytest.mark.parametrize("guard, argument", REFUSED, ids=map(str, range(len(REFUSED))))
def test_guards_refuse_and_do_nothing(launch, copy_slots, guard, argument):
    library, entry, seen = copy_slots
    seen[:] = 5
    r = Runtime.get().record(entry, 0, [integer("INT32"), guard], library)
    assert launch(r, 1, 1, 1, 3, argument) is NotImplemented
    assert (seen == 5).all()


def test_wrong_number_of_arguments_is_refused(launch, copy_slots):
    library, entry, _ = copy_slots
    r = Runtime.get().record(entry, 0, [integer("INT32")], library)
    assert launch(r, 1, 1, 1) is NotImplemented
    assert launch(r, 1, 1, 1, 2, 3) is NotImplemented


def test_many_arguments(launch, copy_slots):
    library, entry, seen = copy_slots
    n = 200
    r = Runtime.get().record(entry, 0, [integer("INT32")] * n, library)
    assert launch(r, 1, 1, 1, *range(n)) is None
    assert seen.tolist() == list(range(8))


def test_empty_and_impossible_grids(launch, copy_slots):
    library, entry, seen = copy_slots
    seen[:] = 5
    r = Runtime.get().record(entry, 0, [], library)
    for grid in (0, 1, 1), (1, 0, 1), (4, 4, 0):
        assert launch(r, *grid) is None
    assert launch(r, -1, 1, 1) is NotImplemented
    assert (seen == 5).all()


def test_raw_launch_checks_what_it_is_given(rt, copy_slots):
    _, entry, _ = copy_slots
    with pytest.raises(TypeError):
        rt.launch_raw(entry, 0, 1, 1, 1)
    with pytest.raises(TypeError):
        rt.launch_raw(entry, 0, -1, 1, 1, bytes(64))
    with pytest.raises(TypeError):
        rt.launch_raw(entry, 0, 1, 1, 1, "slots")
    with pytest.raises(TypeError):
        rt.launch_raw("entry", 0, 1, 1, 1, bytes(64))


def test_exceptions_of_data_ptr_come_through(launch, copy_slots):
    library, entry, _ = copy_slots
    r = Runtime.get().record(entry, 0, [tensor(Tensor(0))], library)
    with pytest.raises(KeyError, match="no storage"):
        launch(r, 1, 1, 1, Tensor(None))
    with pytest.raises(TypeError):
        launch(r, 1, 1, 1, Tensor("here"))


def test_records_must_be_bytes(rt):
    with pytest.raises(TypeError):
        rt.binder([None, []])((1,))()


def test_captured_variables_must_be_the_same_objects(launch, copy_slots):
    library, entry, _ = copy_slots
    scope = {"SCALE": 1000}
    r = Runtime.get().record(entry, 0, [], library, captured=[(scope, ("SCALE", scope["SCALE"]))])
    assert launch(r, 1, 1, 1) is None
    scope["SCALE"] = 1001
    assert launch(r, 1, 1, 1) is NotImplemented
    del scope["SCALE"]
    assert launch(r, 1, 1, 1) is NotImplemented


def test_launches_leave_reference_counts_alone(rt, copy_slots):
    library, entry, _ = copy_slots
    x, n, scope = Tensor(4096, dtype=object(), device=2), 10**6, {"a": object()}
    guards = [tensor(x), gpu_tensor(x, 2), ndarray(ARRAY), integer("INT32"), constant(n)]
    variable = ("a", scope["a"])
    r = rt.record(entry, 0, guards, library, captured=[(scope, variable)])
    launch = rt.binder([lambda *args: NotImplemented, r])((1, 1, 1))
    watched = [x, x.dtype, ARRAY, ARRAY.dtype, n, r, Tensor.data_ptr, scope, scope["a"], variable]
    before = [sys.getrefcount(o) for o in watched]
    for _ in range(100):
        assert launch(x, x, ARRAY, n, n) is None
        assert launch(x, x, ARRAY, n, 5) is NotImplemented
    assert [sys.getrefcount(o) for o in watched] == before


def test_slots_may_come_in_any_order(launch, copy_slots):
    library, entry, seen = copy_slots
    r = Runtime.get().record(entry, 0, [integer("INT32"), constant(None), FLOAT32], library, slots=[3, 0, 1],
                      fixed=[(0, calls.pack("fp64", 0.5)), (2, calls.pack("i32", -1))])  # fmt: skip
    assert launch(r, 1, 1, 1, 9, None, 1.5) is None
    assert seen[:4].tolist() == [f64(0.5), f32(1.5), 2**64 - 1, 9]
    with pytest.raises(ValueError, match="do not fill slots"):
        Runtime.get().record(entry, 0, [integer("INT32")], slots=[4])


class Kernel:
    """kernel[grid](x, n, BLOCK=...) as a runtime would build it: what no record fits is noted and given a record."""

    def __init__(self, rt, copy_slots):
        self.library, self.entry, self.seen = copy_slots
        self.seen[:] = 0
        self.asked = []
        self.records = [self.ask]
        self.bind = rt.binder(self.records)

    def __getitem__(self, grid):
        return self.bind(grid)

    def ask(self, grid, *args, **kwargs):
        self.asked.append((grid, args, kwargs))
        guards = [tensor(args[0]), integer("INT32", args[1] % 16 == 0), *map(constant, kwargs.values())]
        self.records.append(Runtime.get().record(
            self.entry, 0, guards, self.library, keywords=tuple(kwargs), result=self, names=("x", "n"),
            defaults={"BLOCK": 32, "eps": 0.5}))  # fmt: skip
        return "asked"


@pytest.fixture
def bound(rt, copy_slots):
    if sys.implementation.name != "cpython":
        pytest.skip("needs native builtins")
    return Kernel(rt, copy_slots)


def test_bound_calls_find_their_record(bound):
    x = Tensor(4096)
    assert bound[(1,)](x, 5, BLOCK=64) == "asked"
    assert bound[(1,)](x, 7, BLOCK=64) is bound and bound.seen[:2].tolist() == [4096, 7]
    assert bound[(2, 1)](x, 16, BLOCK=64) == "asked"  # divisible by 16
    assert bound[(2, 1)](x, 32, BLOCK=64) is bound
    assert bound[(2, 1)](x, 33, BLOCK=64) is bound
    assert bound[(2, 1)](x, 33) == "asked"  # other keywords
    assert bound[(2, 1)](x, 33) is bound
    assert bound[(2, 1)](x, 33, block=64) == "asked"
    assert bound[(1,)](x, 33, **{"".join(["BLO", "CK"]): 64}) is bound  # equal names, not the same tuple
    assert [args[1] for _, args, _ in bound.asked] == [5, 16, 33, 33]
    assert bound.asked[0] == ((1,), (x, 5), {"BLOCK": 64})


def test_bound_grids(bound):
    x, metas = Tensor(4096), []
    bound[(1,)](x, 5, BLOCK=64)
    assert bound[lambda meta: metas.append(meta) or (1, 2, 3)](x, 5, BLOCK=64) is bound
    assert metas == [{"x": x, "n": 5, "BLOCK": 64, "eps": 0.5}]
    assert bound[lambda meta: [1, 1]](x, 5, BLOCK=64) is bound and bound[1](x, 5, BLOCK=64) is bound
    assert bound[[1]](x, 5, BLOCK=64) is bound and bound[lambda meta: 1](x, 5, BLOCK=64) is bound
    assert bound[lambda meta: [1.5]](x, 5, BLOCK=64) == "asked"  # Python is given what the function returned
    assert bound[(1, 1, 1, 1)](x, 5, BLOCK=64) == "asked"
    assert bound[(-1,)](x, 5, BLOCK=64) == "asked"
    assert bound[(1.5,)](x, 5, BLOCK=64) == "asked"
    assert bound[()](x, 5, BLOCK=64) == "asked"
    assert [grid for grid, _, _ in bound.asked] == [(1,), [1.5], (1, 1, 1, 1), (-1,), (1.5,), ()]
    bound.seen[:] = 5
    assert bound[(0, 4)](x, 5, BLOCK=64) is bound and (bound.seen == 5).all()


def test_bound_calls_pass_exceptions_on(bound):
    x = Tensor(4096)
    bound[(1,)](x, 5)
    with pytest.raises(ZeroDivisionError):
        bound[lambda meta: 1 // 0](x, 5)
    with pytest.raises(KeyError, match="no storage"):
        bound[(1,)](Tensor(None), 5)
    with pytest.raises(AttributeError):
        bound[(1,)](object(), 5)  # what Python said, from x.dtype


def test_bound_records_may_go_while_they_are_read(bound):
    class Forgetful(Tensor):
        def data_ptr(self):
            del bound.records[1:]
            return 4096

    x = Forgetful(0)
    bound[(1,)](x, 5)
    assert bound[(1,)](x, 5) is bound
    assert bound[(1,)](x, 5) == "asked"


def test_bound_calls_leave_reference_counts_alone(bound):
    x, grid = Tensor(4096, dtype=object()), (1,)
    bound[grid](x, 5, BLOCK=64)
    function = lambda meta: grid
    watched = [x, x.dtype, grid, function, bound, bound.records, bound.records[1]]
    before = [sys.getrefcount(o) for o in watched]
    for _ in range(50):
        bound[grid](x, 5, BLOCK=64)
        bound[function](x, 5, BLOCK=64)
    assert [sys.getrefcount(o) for o in watched] == before


def test_torch_tensors(launch, copy_slots):
    torch = pytest.importorskip("torch")
    library, entry, seen = copy_slots
    x = torch.zeros(64)
    r = Runtime.get().record(entry, 0, [tensor(x, True)], library)
    assert launch(r, 1, 1, 1, x) is None and int(seen[0]) == x.data_ptr()
    assert launch(r, 1, 1, 1, x[1:]) is NotImplemented
    assert launch(r, 1, 1, 1, x.double()) is NotImplemented
    assert launch(r, 1, 1, 1, torch.nn.Parameter(x)) is NotImplemented
    assert launch(r, 1, 1, 1, x.to("meta")) is NotImplemented


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
    rt.launch_raw(entry, 0, 2, 1, 1, b"")
    where = " idx ( 3,  12)" if type else ""
    assert capfd.readouterr().out == "".join(f"pid ({p}, 4, 5){where} x%: {expected}\n" for p in range(2))


# -- dot, sort, partial accesses ---------------------------------------------------------------------------------------

OPERANDS = {"f32": np.float32, "f64": np.float64, "i32": np.int32, "i8": np.int8, "u8": np.uint8}
SIZES = [(1, 1, 1), (2, 2, 2), (4, 16, 4), (16, 16, 16), (64, 64, 32), (3, 5, 7), (5, 33, 9), (8, 20, 17), (1, 64, 64),
         (64, 1, 3), (9, 40, 0), (0, 4, 4), (16, 128, 5), (33, 65, 66), (32, 128, 64), (5, 200, 20), (4, 128, 8),
         (66, 145, 12), (3, 130, 4)]  # fmt: skip


def numbers(shape, dtype):
    if np.dtype(dtype).kind == "f":
        return RNG.standard_normal(shape).astype(dtype)
    limits = np.iinfo(dtype)
    return RNG.integers(max(limits.min, -(2**20)), min(limits.max, 2**20), shape).astype(dtype)


@pytest.mark.parametrize("kind", dot.KINDS)
def test_dot(rt, kind):
    address = rt.symbols[dot.SYMBOLS[kind]]
    fn = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, *[ctypes.c_int64] * 6, ctypes.c_void_p, ctypes.c_bool)(address)
    dtype, panel = OPERANDS[kind], np.empty((66, dot.room(rt.target, 66, 200)), np.float64)
    wide = np.int32 if np.dtype(dtype).kind in "iu" else dtype
    for (m, n, k), gap, fresh, room in itertools.product(SIZES, (0, 3, 70), (False, True), (panel.ctypes.data, None)):
        a, b, c = numbers((m, k + gap), dtype), numbers((k, n + gap), dtype), numbers((m, n + gap), wide)
        want = c.copy()
        want[:, :n] *= not fresh
        with np.errstate(over="ignore"):
            want[:, :n] += a[:, :k].astype(wide) @ b[:, :n].astype(wide)
        fn(a.ctypes.data, b.ctypes.data, c.ctypes.data, m, n, k, k + gap, n + gap, n + gap, room, fresh)
        tolerance = 0 if wide is np.int32 else 1e-4
        assert np.allclose(c, want, rtol=tolerance, atol=tolerance), (m, n, k, gap)


@pytest.mark.skipif(not cpu_target().has_amx, reason="no tile unit here")
def test_dot_of_tiles(rt):
    import ml_dtypes

    fn = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, *[ctypes.c_int64] * 6, ctypes.c_void_p, ctypes.c_bool)(
        rt.symbols[dot_amx.SYMBOL])
    sizes = [(32, 32, 32), (64, 32, 96), (32, 96, 64), (128, 64, 256)]
    for (m, n, k), gap, fresh in itertools.product(sizes, (0, 3), (False, True)):
        a, b = (numbers(s, np.float32).astype(ml_dtypes.bfloat16) for s in ((m, k + gap), (k, n + gap)))
        c, panel = numbers((m, n + gap), np.float32), np.empty((k, 32), np.float32)
        want = c.copy()
        want[:, :n] *= not fresh
        want[:, :n] += a[:, :k].astype(np.float32) @ b[:, :n].astype(np.float32)
        fn(a.ctypes.data, b.ctypes.data, c.ctypes.data, m, n, k, k + gap, n + gap, n + gap, panel.ctypes.data,
           fresh)
        assert np.allclose(c, want, rtol=1e-4, atol=1e-3), (m, n, k, gap)


def test_tiles_are_kept_in_the_unit():
    """The inner loop of a product of bf16 loads four tiles and multiplies them four ways."""
    cpu = cpu_target("sapphirerapids")
    hottest = max(assembly(dot_amx.dot_bf16(cpu), cpu).split("\n.LBB"), key=lambda block: block.count("tdpbf16ps"))
    assert hottest.count("tdpbf16ps") == hottest.count("tileloadd") == 4


@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize("name, products", [("x86-64-v3", 12), ("x86-64-v4", 16), ("aarch64", 64)])
def test_dot_keeps_its_tile_in_registers(name, products, kind):
    """In a process of its own: what was compiled for another processor before changes LLVM's ways."""
    code = (
        "from tritium.backends.cpu import dot; from tritium.backends.llvm.target import assembly, cpu_target; "
        f"cpu = cpu_target({name!r}); print(assembly(dot.dot(cpu, {kind!r}), cpu))"
    )
    text = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    hottest = max(text.split("\n.LBB"), key=lambda block: block.count("vfmadd") + block.count("fmla"))
    expected = products // 2 if (name, kind) == ("aarch64", "f64") else products  # a register holds half as many ks
    assert hottest.count("vfmadd") + hottest.count("fmla") == expected, hottest
    assert not re.search(r"rsp.*mm|mm.*rsp|\tq\d.*\[sp", hottest), hottest  # vectors to or from the stack


DTYPES = {"i8": "i1", "i16": "i2", "i32": "i4", "i64": "i8", "u8": "u1", "u16": "u2", "u32": "u4", "u64": "u8",
          "f16": "f2", "f32": "f4", "f64": "f8"}  # fmt: skip


@pytest.mark.parametrize("kind", DTYPES)
def test_sort(rt, kind):
    fn = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(rt.symbols[sort.SYMBOLS[kind]])
    dtype = np.dtype(DTYPES[kind])
    for log, descending in itertools.product(range(12), (0, 1)):
        x = np.frombuffer(RNG.bytes(dtype.itemsize << log), dtype).copy()
        x[np.isnan(x)] = -1.0 if dtype.kind == "f" else 0
        want = np.sort(x)[:: -1 if descending else 1].copy()
        fn(x.ctypes.data, 1 << log, descending)
        assert np.array_equal(x, want), (log, descending)


@pytest.mark.parametrize("kind, name", [("bf16", "bfloat16"), ("f8", "float8_e5m2"), ("f8", "float8_e4m3fn")])
def test_sort_small_floats(rt, kind, name):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    fn = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(rt.symbols[sort.SYMBOLS[kind]])
    x = RNG.standard_normal(256).astype(getattr(ml_dtypes, name))
    want = np.sort(x.astype(np.float32))
    fn(x.ctypes.data, 256, 0)
    assert np.array_equal(x.astype(np.float32), want)


@pytest.mark.parametrize("size", partial.SIZES)
def test_partial_accesses(rt, size):
    dtype = f"u{size}"

    def fn(name, *types):
        return ctypes.CFUNCTYPE(None, *types)(rt.symbols[f"tt.{name}.{size}"])

    pointer, number = ctypes.c_void_p, ctypes.c_int64
    for lanes, stride in itertools.product([0, 1, 0x8001, 0b1011, 0xFFFF, 2**64 - 1], [1, 2, -1, 0]):
        chosen = [i for i in range(64) if lanes >> i & 1]
        memory, strip = numbers(256, np.int64).astype(dtype), numbers(64, np.int64).astype(dtype)
        middle, step = memory.ctypes.data + 128 * size, stride * size
        signed = lanes - 2**64 if lanes >> 63 else lanes
        want = strip.copy()
        want[chosen] = [memory[128 + i * stride] for i in chosen]
        fn("load", pointer, pointer, number, number)(strip.ctypes.data, middle, signed, step)
        assert np.array_equal(strip, want)
        strip, want = numbers(64, np.int64).astype(dtype), memory.copy()
        for i in chosen:
            want[128 + i * stride] = strip[i]
        fn("store", pointer, pointer, number, number)(strip.ctypes.data, middle, signed, step)
        assert np.array_equal(memory, want)

        where = RNG.permutation(256)[:64]
        places = (memory.ctypes.data + where * size).astype(np.int64)
        want = strip.copy()
        want[chosen] = memory[where[chosen]]
        fn("gather", pointer, pointer, number)(strip.ctypes.data, places.ctypes.data, signed)
        assert np.array_equal(strip, want)
        strip, want = numbers(64, np.int64).astype(dtype), memory.copy()
        want[where[chosen]] = strip[chosen]
        fn("scatter", pointer, pointer, number)(strip.ctypes.data, places.ctypes.data, signed)
        assert np.array_equal(memory, want)


def _remainder(i, n):
    """As in C: with the sign of `i`; nothing is taken from it where n is 0."""
    return int(np.fmod(i, n)) if n else i


@pytest.mark.parametrize("size", partial.SIZES)
def test_tiles_are_copied_up_to_their_edges(rt, size):
    memory = numbers(200 * 300, np.int64).astype(f"u{size}").reshape(200, 300)
    origin = memory[100:, 100:]
    load = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p, ctypes.c_int64] * 2, *[ctypes.c_int64] * 9)(
        rt.symbols["tt.tile.load"])
    for _ in range(200):
        rows, columns = (int(RNG.choice(sizes)) for sizes in ((1, 4, 16), (1, 4, 16, 33)))
        ends = int(RNG.integers(-2, 20)), int(RNG.integers(-2, 40))
        wraps = [(int(RNG.integers(-20, 20)), int(RNG.choice(by))) for by in ((0, 5, -5, 17), (0, 3, -7, 20, 50))]
        tile = numbers((rows, columns + 3), np.int64).astype(memory.dtype)
        want = tile.copy()
        for i, j in itertools.product(range(rows), range(columns)):
            r, c = (_remainder(first + k, by) for k, (first, by) in zip((i, j), wraps, strict=True))
            want[i, j] = memory[100 + r, 100 + c] if i < ends[0] and j < ends[1] else 0
        load(tile.ctypes.data, columns + 3, origin.ctypes.data, 300, rows, columns, *ends, *wraps[0], *wraps[1], size)
        assert np.array_equal(tile, want)


@pytest.mark.parametrize("size", partial.SIZES)
def test_tiles_are_stored_up_to_their_edges(rt, size):
    tile = numbers((20, 40), np.int64).astype(f"u{size}")
    store = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p, ctypes.c_int64] * 2, *[ctypes.c_int64] * 5)(
        rt.symbols["tt.tile.store"])
    for ends in itertools.product((-1, 0, 5, 16, 30), (-1, 0, 7, 33, 50)):
        memory = numbers((40, 50), np.int64).astype(tile.dtype)
        want = memory.copy()
        rows, columns = (max(0, min(end, n)) for end, n in zip(ends, (16, 33), strict=True))
        want[:rows, :columns] = tile[:rows, :columns]
        store(memory.ctypes.data, 50, tile.ctypes.data, 40, 16, 33, *ends, size)
        assert np.array_equal(memory, want)


# -- the parts and their cache -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["x86-64-v3", "x86-64-v4"])
def test_parts_compile_for_x86(name):
    if cpu_target().simd != "neon":
        pytest.skip("the host compiles them anyway")
    for part in PARTS:
        if part.name in ("core", "tt.dot.f64", "tt.dot.i8", "tt.sort.f16"):
            assert compile_text(part.text(cpu_target(name)), cpu_target(name))[:4] == b"\x7fELF"


def test_symbols_know_their_names(rt):
    assert {"tt.dot.f32", "tt.load.4", "tt.assert_fail", "tt.sort.bf16"} <= set(rt.symbols)
    with pytest.raises(KeyError):
        rt.symbols["tt.nothing"]


def test_processes_race_for_an_empty_cache(tmp_path):
    code = """if True:
        import ctypes, time
        from tritium.backends.cpu.runtime import Runtime
        start = time.process_time()
        rt = Runtime.get()
        fn = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(rt.symbols["tt.sort.i32"])
        x = (ctypes.c_int32 * 4)(3, 1, 2, 0)
        fn(x, 4, 0)
        print(list(x))"""
    env = {**os.environ, "TRITIUM_CACHE_DIR": str(tmp_path)}
    run = [sys.executable, "-c", code]
    racers = [subprocess.Popen(run, env=env, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    assert [(p.communicate()[0].strip(), p.returncode) for p in racers] == [("[0, 1, 2, 3]", 0)] * 4
    files = sorted(p.name for p in tmp_path.rglob("*") if p.is_file())
    assert files == ["core.o", "tt.sort.i32.o"]
    # and a process that finds them compiles nothing
    check = "import tritium.backends.cpu.runtime as r; r.compile_text = None; exec(__import__('os').environ['CODE'])"
    done = subprocess.run([sys.executable, "-c", check], env={**env, "CODE": code}, capture_output=True, text=True,
                          check=True)  # fmt: skip
    assert done.stdout.strip() == "[0, 1, 2, 3]"
