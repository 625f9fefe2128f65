"""The launcher of CPU kernels: what guards accept, what slots hold, and calls that find their record."""

import sys

import numpy as np
import pytest

from tests.backends.cpu.kernels import KERNEL
from tests.backends.launcher.guards_in_python import check
from tritium.backends.cpu.runtime.image import Runtime
from tritium.backends.launcher import calls
from tritium.backends.launcher.record import (
    BOOL,
    FLOAT32,
    FLOAT64,
    SKIP,
    constant,
    dtyped,
    gpu_tensor,
    integer,
    kind,
    ndarray,
    pointer,
    tensor,
)
from tritium.backends.llvm.target import compile_text, cpu_target
from tritium.backends.llvm.writer import Writer, value


class Tensor:
    """The least a tensor must be."""

    def __init__(self, address, dtype="f32", is_cpu=True, device=-1):
        self.address, self.dtype, self.is_cpu, self.device = address, dtype, is_cpu, device
        self.elements = 4 if address else 0

    def get_device(self):
        return self.device

    def data_ptr(self):
        if self.address is None:
            raise KeyError("no storage")
        if self.address is KeyboardInterrupt:
            raise KeyboardInterrupt
        return self.address

    def numel(self):
        return self.elements


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
        slots = check(r, args)
        if slots is None or min(gx, gy, gz) < 0:
            return NotImplemented
        return rt.launch_raw_slowly(r.entry, r.extra, gx, gy, gz, slots)

    return natively if request.param == "native" else in_python


def f32(x):
    return int(np.float32(x).view(np.uint32))


def f64(x):
    return int(np.float64(x).view(np.uint64))


class Lost(Tensor):
    @property
    def device(self):
        return next(self.places)

    @device.setter
    def device(self, places):
        self.places = iter(range(9))


NOWHERE = Lost(64)  # each time on another device
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
    (ndarray(ARRAY, False), ODD, ODD.ctypes.data), (kind(1), 2, None), (kind(None), None, None),
    (dtyped(ARRAY), ODD, None), (dtyped(Tensor(0)), Tensor(None), None),
    (pointer(Tensor(0, device=("1",))), Tensor(64, device=tuple("1")), 64), (pointer(Tensor(0)), Tensor(64), 64),
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
    (ndarray(ARRAY), Tensor(0)), (ndarray(ARRAY, True), ODD), (ndarray(ARRAY, False), EVEN), (kind(1), True),
    (kind(1), 1.0), (dtyped(ARRAY), OTHER_ARRAY), (dtyped(ARRAY), 3), (dtyped(Tensor(0)), Tensor(0, "f64")),
    (pointer(Tensor(0, device=(1,))), Tensor(64, device=(2,))), (pointer(Tensor(0), True), Tensor(4)),
    (pointer(Tensor(0)), Tensor(64, "f64")), (pointer(Tensor(0)), ARRAY), (pointer(NOWHERE), NOWHERE),
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


@pytest.mark.parametrize("address", [None, "here", 2**64, 1.5])
def test_a_tensor_that_cannot_be_read_is_left_to_python(launch, copy_slots, address):
    library, entry, seen = copy_slots
    seen[:] = 5
    r = Runtime.get().record(entry, 0, [tensor(Tensor(0))], library)
    assert launch(r, 1, 1, 1, Tensor(address)) is NotImplemented and (seen == 5).all()


def test_an_interrupt_in_data_ptr_comes_through(launch, copy_slots):
    library, entry, _ = copy_slots
    r = Runtime.get().record(entry, 0, [tensor(Tensor(0))], library)
    with pytest.raises(KeyboardInterrupt):
        launch(r, 1, 1, 1, Tensor(KeyboardInterrupt))


def test_a_tensor_without_memory_must_be_empty(launch, copy_slots):
    library, entry, _ = copy_slots
    r = Runtime.get().record(entry, 0, [tensor(Tensor(0))], library)
    full, unknown = Tensor(0), Tensor(0)
    full.elements, unknown.elements = 4, None
    assert launch(r, 1, 1, 1, Tensor(0)) is None
    assert launch(r, 1, 1, 1, full) is NotImplemented and launch(r, 1, 1, 1, unknown) is NotImplemented


@pytest.mark.parametrize("multiple", [None, True])
def test_arrays_that_must_be_writeable(launch, copy_slots, multiple):
    library, entry, _ = copy_slots
    x = np.zeros(16, np.float32)
    read_only = x[:]
    read_only.flags.writeable = False
    for demanded in (False, True):
        r = Runtime.get().record(entry, 0, [ndarray(x, multiple, writeable=demanded)], library)
        assert launch(r, 1, 1, 1, x) is None
        assert launch(r, 1, 1, 1, read_only) is (NotImplemented if demanded else None)
        assert launch(r, 1, 1, 1, np.broadcast_to(x, (2, 16))) is (NotImplemented if demanded else None)


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


def test_objects_that_must_stay_alike(launch, copy_slots):
    library, entry, _ = copy_slots
    state, attributes = {"kwargs": {"BLOCK": 64}, "hook": None}, {"fn": 1}
    r = Runtime.get().record(entry, 0, [integer("INT32")], library, absent=[(attributes, "run")],
                             alike=[(state, {"kwargs": {"BLOCK": 64}, "hook": None}), (BUFFER.tolist(), [0] * 64)])
    assert launch(r, 1, 1, 1, 7) is None
    state["kwargs"]["BLOCK"] = 32
    assert launch(r, 1, 1, 1, 7) is NotImplemented
    state["kwargs"]["BLOCK"] = 64
    attributes["run"] = None
    assert launch(r, 1, 1, 1, 7) is NotImplemented
    del attributes["run"]
    assert launch(r, 1, 1, 1, 7) is None


def test_launches_leave_reference_counts_alone(rt, copy_slots):
    library, entry, _ = copy_slots
    x, n, scope = Tensor(4096, dtype=object(), device=2), 10**6, {"a": object()}
    guards = [tensor(x), gpu_tensor(x, 2), pointer(x), ndarray(ARRAY), integer("INT32"), constant(n)]
    variable = ("a", scope["a"])
    r = rt.record(entry, 0, guards, library, captured=[(scope, variable)])
    launch = rt.binder([lambda *args: NotImplemented, r])((1, 1, 1))
    watched = [x, x.dtype, x.device, ARRAY, ARRAY.dtype, n, r, Tensor.data_ptr, scope, scope["a"], variable]
    before = [sys.getrefcount(o) for o in watched]
    for _ in range(100):
        assert launch(x, x, x, ARRAY, n, n) is None
        assert launch(x, x, x, ARRAY, n, 5) is NotImplemented
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
    metas[0].clear()  # a grid's dict is its own
    assert bound[lambda meta: metas.append(meta) or (1,)](x, 7, BLOCK=64) is bound
    assert metas[1] == {"x": x, "n": 7, "BLOCK": 64, "eps": 0.5}
    assert bound.records[1].kept[3:5] == (("x", "n", None), {"x": None, "n": None, "BLOCK": 64, "eps": 0.5})
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
    assert bound[(1,)](Tensor(None), 5) == "asked"  # Python asks again, and says whose error it is
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
