"""An operator of any host function: what it writes is found in the kernels, its shapes by running it on none."""

import os
import shutil
import sys

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import tritium.torch as tt
from tests import processes
from tests.torch import kernels

SCHEMAS = {
    "scaled": "(Tensor x, float factor) -> Tensor",
    "scale_": "(Tensor(a0!) x, float factor) -> ()",
    "scale_into": "(Tensor(a0!) out, Tensor x, float factor=2.) -> ()",
    "count_into": "(Tensor x, Tensor(a1!) count) -> ()",
    "through_descriptors": "(Tensor x, Tensor(a1!) out) -> ()",
    "tuned": "(Tensor x) -> Tensor",
    "in_place_by_torch": "(Tensor(a0!) x, Tensor y) -> Tensor",
    "of_matrices": "(Tensor x, Tensor weight) -> Tensor",
    "several": "(Tensor[] xs, float factor) -> Tensor[]",
    "optional": "(Tensor x, Tensor? bias=None) -> Tensor",
}


@pytest.fixture(scope="module")
def made():
    return {name: tt.operator(f"tritium_tests::{name}", getattr(kernels, name)) for name in SCHEMAS}


@pytest.mark.parametrize("name", SCHEMAS)
def test_what_is_written_is_in_the_schema(made, name):
    assert str(made[name]._opoverload._schema) == f"tritium_tests::{name}{SCHEMAS[name]}"


ARGUMENTS = {
    "scaled": lambda d: (torch.randn(300, device=d), 1.5),
    "scale_": lambda d: (torch.randn(300, device=d), 1.5),
    "scale_into": lambda d: (torch.empty(3, 100, device=d), torch.randn(3, 100, device=d)),
    "count_into": lambda d: (torch.randn(300, device=d), torch.zeros(1, dtype=torch.int32, device=d)),
    "through_descriptors": lambda d: (torch.randn(16, 32, device=d), torch.zeros(16, 32, device=d)),
    "tuned": lambda d: (torch.randn(300, device=d),),
    "in_place_by_torch": lambda d: (torch.randn(30, device=d), torch.randn(30, device=d)),
    "of_matrices": lambda d: (torch.randn(5, 6, device=d), torch.randn(6, device=d)),
    "several": lambda d: ([torch.randn(5, device=d), torch.randn(2, 3, device=d)], 1.5),
    "optional": lambda d: (torch.randn(7, device=d), torch.randn(7, device=d)),
}


def copies(args):
    return torch.utils._pytree.tree_map_only(torch.Tensor, torch.clone, args)


@pytest.mark.parametrize("name", SCHEMAS)
def test_it_does_what_the_function_does_and_opcheck_is_content(made, device, name):
    args = ARGUMENTS[name](device)
    ours, theirs = copies(args), copies(args)
    assert_same(made[name](*ours), getattr(kernels, name)(*theirs))
    assert_same(ours, theirs)
    torch.library.opcheck(made[name], args, test_utils=("test_schema", "test_faketensor", "test_aot_dispatch_dynamic"))


def assert_same(x, y):
    x, y = (torch.utils._pytree.tree_leaves(part) for part in (x, y))
    assert len(x) == len(y) and all(torch.equal(a, b) if torch.is_tensor(a) else a == b for a, b in zip(x, y))


@pytest.mark.parametrize("name", ["scale_", "scale_into", "tuned"])
def test_in_a_compiled_graph_without_breaks(made, device, name):
    args = ARGUMENTS[name](device)
    ours, theirs = copies(args), copies(args)

    def function(*args):
        args = [x * 1 if torch.is_tensor(x) and k else x for k, x in enumerate(args)]
        out = made[name](*args)
        return args[0] + 1 if out is None else out + 1

    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    assert_same(compiled(*ours), function(*theirs))
    assert_same(ours, theirs)


def test_in_an_exported_program(made, device):
    class Model(torch.nn.Module):
        def forward(self, x):
            y = made["scaled"](x + 1, 2.0)
            made["scale_"](y, 3.0)
            return y - 1

    batch = torch.export.Dim("batch", min=2, max=64)
    x = torch.randn(4, 8, device=device)
    program = torch.export.export(Model(), (x,), dynamic_shapes={"x": {0: batch}})
    called = {str(node.target) for node in program.graph.nodes}
    assert any("tritium_tests.scaled" in target for target in called)
    for rows in (4, 9):
        x = torch.randn(rows, 8, device=device)
        assert torch.equal(program.module()(x), (x + 1) * 2 * 3 - 1)


def test_a_write_that_was_not_declared_is_refused_before_it_happens():
    made = tt.operator("tritium_tests::maybe", kernels.maybe_in_place)
    x = torch.ones(8)
    assert torch.equal(made(x), 3 * x)
    with pytest.raises(ValueError, match=r"writes its argument x .*declared to write nothing\nhint: .*\('x',\)"):
        made(x, True)
    assert torch.equal(x, torch.ones(8))


def test_an_argument_that_is_returned_is_refused():
    with pytest.raises(ValueError, match=r"returns memory of its argument x.*\nhint: return None"):
        tt.operator("tritium_tests::returned", kernels.returns_its_argument)


def test_a_function_that_reads_memory_says_what_is_missing():
    with pytest.raises(ValueError, match=r"(?s)cannot be found out: counted fails .*hint: give example="):
        tt.operator("tritium_tests::counted", kernels.counted)

    def shapes(x):
        return x.new_empty(torch.library.get_ctx().new_dynamic_size())

    made = tt.operator("tritium_tests::counted", kernels.counted, mutates=(), fake=shapes)
    assert torch.equal(made(torch.tensor([1.0, -1.0, 2.0])), torch.tensor([2.0, 4.0]))


def test_an_example_and_what_it_costs():
    def three_axes(x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        assert at.dtype == torch.int64 and x.is_floating_point()
        _, _, n = x.shape
        return kernels.scaled(x[..., :n], 2.0)

    with pytest.raises(ValueError, match="hint: give example"):
        tt.operator("tritium_tests::three", three_axes)
    huge = lambda: (torch.empty(1 << 14, 1 << 14, 1 << 14), torch.empty(4, dtype=torch.int64))  # takes no memory
    made = tt.operator("tritium_tests::three", three_axes, example=huge)
    assert "!" not in str(made._opoverload._schema)
    with pytest.raises(AssertionError):
        tt.operator("tritium_tests::wrong", three_axes, example=lambda: (torch.empty(1, 1, 1), torch.empty(1)))


def test_names_and_annotations():
    with pytest.raises(ValueError, match=r"namespace: 'scaled'\nhint: write \"mylib::scaled\""):
        tt.operator("scaled", kernels.scaled)

    def bare(x):
        return kernels.scaled(x, 2.0)

    with pytest.raises(ValueError, match=r"(?s)needs annotations.*hint: annotate each parameter of bare"):
        tt.operator("tritium_tests::bare", bare)
    made = tt.operator("tritium_tests::bare", bare, schema="(Tensor x) -> Tensor")
    assert torch.equal(made(torch.ones(3)), torch.full((3,), 2.0))
    with pytest.raises(ValueError, match="does not say so"):
        tt.operator("tritium_tests::quiet", kernels.scale_, schema="(Tensor x, float factor) -> ()")


def test_autograd_can_be_added():
    made = tt.operator("tritium_tests::with_gradient", kernels.scaled)
    made.register_autograd(lambda ctx, d: (made(d.contiguous(), ctx.factor), None),
                           setup_context=lambda ctx, inputs, output: setattr(ctx, "factor", inputs[1]))
    x = torch.randn(5, requires_grad=True)
    made(x, 3.0).sum().backward()
    assert torch.equal(x.grad, torch.full((5,), 3.0))
    torch.library.opcheck(made, (x, 3.0))


@pytest.mark.parametrize("read, warned", [(lambda x: x.sum().item(), False), (lambda x: x.numpy().sum(), True)],
                         ids=["data", "numpy"])
def test_a_call_that_cannot_be_rehearsed(read, warned, recwarn):
    """A value read from memory is a known limit; any other reason is told, once for each kind of arguments."""
    def total(x: torch.Tensor) -> float:
        return float(read(x))

    made = tt.operator(f"tritium_tests::total_{warned}", total, mutates=(), fake=lambda x: 0.0)
    assert made(torch.ones(3)) == 3.0 and made(torch.ones(5)) == 5.0
    told = [str(x.message) for x in recwarn]
    assert len(told) == warned and all(x.startswith("what tritium_tests::total_True writes was not") for x in told)


def test_a_call_that_fails_is_not_warned_about(recwarn):
    def refuses(x: torch.Tensor) -> float:
        raise KeyError("its own")

    with pytest.raises(KeyError, match="its own"):
        tt.operator("tritium_tests::refuses", refuses, mutates=(), fake=lambda x: 0.0)(torch.ones(3))
    assert not recwarn


def test_a_rehearsal_neither_launches_nor_tunes():
    kernels.tuned_kernel.cache.clear()
    with FakeTensorMode():
        out = tt.rehearsal.quiet(kernels.tuned)(torch.empty(5000))
    assert out.shape == (5000,) and not kernels.tuned_kernel.cache


def test_interpreted_kernels():
    """TRITON_INTERPRET=1 makes kernels of another class; they are read and left out all the same."""
    code = ("import torch, tritium.torch as tt\nfrom tests.torch import kernels\n"
            "made = tt.operator('tritium_tests::scale_', kernels.scale_)\nx = torch.ones(3)\nmade(x, 2.0)\n"
            "print(made._opoverload._schema, x.tolist())\ntorch.library.opcheck(made, (x, 2.0))")
    done = processes.run(["-c", code], env={**os.environ, "TRITON_INTERPRET": "1",
                                            "PYTHONPATH": os.pathsep.join(sys.path)})  # fmt: skip
    expected = "tritium_tests::scale_(Tensor(a0!) x, float factor) -> () [2.0, 2.0, 2.0]"
    assert done.stdout.strip() == expected, done.stderr


@pytest.mark.skipif(not os.environ.get("TRITIUM_TEST_LONG"), reason="takes a minute: TRITIUM_TEST_LONG=1 runs it")
@pytest.mark.skipif(shutil.which("g++") is None, reason="AOTInductor needs a C++ compiler")
def test_ahead_of_time(made, tmp_path):
    """AOTInductor: the package calls the operators through torch's registry, in a process that has made them."""
    class Model(torch.nn.Module):
        def forward(self, x):
            y = torch.ops.tritium.softmax(x * 2)
            made["scale_"](y, 3.0)
            return y + made["tuned"](x)

    x = torch.randn(4, 8)
    expected = Model()(x)
    with torch.no_grad():
        program = torch.export.export(Model(), (x,))
        path = torch._inductor.aoti_compile_and_package(program, package_path=str(tmp_path / "model.pt2"))
        got = torch._inductor.aoti_load_package(path)(x)
    torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-6)
