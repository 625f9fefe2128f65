"""Which parameters a kernel's accesses go through, and which of them it may store to."""

import pytest

import tritium as triton
import tritium.language as tl
from tritium.analysis.accesses import accesses, stored
from tritium.ir.text import parse_module

HEAD = "kernel @k(%x: ptr<f32>, %y: ptr<f32>, %z: ptr<f32>, %c: i1, %n: i32, %v: f32)"

BODIES = {
    "nothing": ("", {}),
    "plain": ("%0 = load %x : f32  store %y, %0", {0: ["load"], 1: ["store"]}),
    "both": ("%0 = load %x : f32  store %x, %0", {0: ["load", "store"]}),
    "atomics": ("%0 = atomic %y, %v {how=\"add\"} : f32  %1 = atomic_cas %z, %v, %v : f32",
                {1: ["atomic"], 2: ["atomic_cas"]}),
    "arithmetic": ("""%0 = addptr %z, %n : ptr<f32>  %1 = splat %0 {shape=(8,)} : tile<8xptr<f32>>
        %2 = arange {start=0, end=8} : tile<8xi32>  %3 = addptr %1, %2 : tile<8xptr<f32>>
        %4 = splat %v {shape=(8,)} : tile<8xf32>  store %3, %4""", {2: ["store"]}),
    "another type": ("%0 = cast %y {to=ptr<i32>} : ptr<i32>  store %0, %n", {1: ["store"]}),
    "select": ("%0 = select %c, %x, %y : ptr<f32>  store %0, %v", {0: ["store"], 1: ["store"]}),
    "select, then one of them": ("%0 = select %c, %x, %y : ptr<f32>  %1 = load %0 : f32  store %y, %1",
                                 {0: ["load"], 1: ["load", "store"]}),
    "if": ("%0 = if %c : ptr<f32> { yield %x } { yield %z }  store %0, %v", {0: ["store"], 2: ["store"]}),
    "for": ("""%0:2 = for %n, %n, %n, %x, %y : ptr<f32>, ptr<f32> { ^(%i: i32, %p: ptr<f32>, %q: ptr<f32>):
        %2 = load %p : f32  store %q, %2  %3 = addptr %p, %i : ptr<f32>  yield %3, %q }""",
            {0: ["load"], 1: ["store"]}),
    "for that swaps": ("""%0:2 = for %n, %n, %n, %x, %y : ptr<f32>, ptr<f32> { ^(%i: i32, %p: ptr<f32>, %q: ptr<f32>):
        store %q, %v  yield %q, %p }""", {0: ["store"], 1: ["store"]}),
    "after a loop": ("""%0 = for %n, %n, %n, %x : ptr<f32> { ^(%i: i32, %p: ptr<f32>): yield %z }
        store %0, %v""", {0: ["store"], 2: ["store"]}),
    "while": ("""%0 = while %y : ptr<f32> { ^(%p: ptr<f32>): yield %c } { ^(%q: ptr<f32>): store %q, %v
        %1 = addptr %q, %n : ptr<f32>  yield %1 }""", {1: ["store"]}),
    "loops in loops": ("""%0 = for %n, %n, %n, %x : ptr<f32> { ^(%i: i32, %p: ptr<f32>):
        %1 = for %n, %n, %n, %p : ptr<f32> { ^(%j: i32, %q: ptr<f32>):
        store %q, %v  %2 = addptr %q, %j : ptr<f32>  yield %2 }  yield %1 }""", {0: ["store"]}),
    "made of an integer": ("%0 = cast %n {to=i64} : i64  %1 = cast %0 {to=ptr<f32>} : ptr<f32>  store %1, %v", {}),
}


@pytest.mark.parametrize("name", BODIES)
def test_accesses_of(name):
    body, expected = BODIES[name]
    found = accesses(parse_module(f"{HEAD} {{ {body} }}"))
    assert {k: [op.kind.name for op in ops] for k, ops in found.items()} == expected


def test_calls_are_seen_through():
    module = parse_module("""
kernel @k(%x: ptr<f32>, %y: ptr<f32>, %z: ptr<f32>) {
  %0 = call %x, %y {callee="copy", returns=(ptr<f32>,)} : ptr<f32>
  %1 = load %z : f32
  store %0, %1
}
function @copy(%from: ptr<f32>, %to: ptr<f32>) { %0 = load %from : f32  call %to, %0 {callee="put"}  yield %to }
function @put(%p: ptr<f32>, %v: f32) { store %p, %v  yield }
""")
    found = {k: [op.kind.name for op in ops] for k, ops in accesses(module).items()}
    assert found == {0: ["load"], 1: ["store", "store"], 2: ["load"]}


def test_a_pointer_read_from_memory_is_nobodys():
    module = parse_module("kernel @k(%x: ptr<i64>, %v: f32) { %0 = load %x : i64  %1 = cast %0 {to=ptr<f32>} : ptr<f32>"
                          "  store %1, %v }")
    assert stored(module) == []


@triton.jit
def put(pointers, value):
    tl.store(pointers[1], value)


@triton.jit
def mixed(N: tl.constexpr, x, pair, y, desc, n):
    put(pair, tl.load(x))
    tl.atomic_add(y, n)
    desc.store([0, 0], tl.full((16, 16), 0.0, tl.float32))


@triton.jit
def through_blocks(x, y, n, N: tl.constexpr):
    p = tl.make_block_ptr(x, (n,), (1,), (0,), (N,), (0,))
    q = tl.make_block_ptr(y, (n,), (1,), (0,), (N,), (0,))
    for _ in range(2):
        tl.store(q, tl.load(p, boundary_check=(0,)), boundary_check=(0,))
        p, q = tl.advance(p, (N,)), tl.advance(q, (N,))


@pytest.fixture(params=["cpu", "cuda"])
def target(request):
    from tritium.backends.compiler import GPUTarget

    return GPUTarget("cpu", "host", 1) if request.param == "cpu" else GPUTarget("cuda", 90, 32)


def test_metadata_counts_parameters_of_the_function(target, tmp_path, monkeypatch):
    signature = {"N": "constexpr", "x": "*fp32", "pair": ("*fp32", "*fp32"), "y": "*i32",
                 "desc": "tensordesc<fp32[16, 16]>", "n": "i32"}
    source = triton.compiler.ASTSource(mixed, signature, {"N": 4})
    monkeypatch.setattr(triton.knobs.cache, "dir", str(tmp_path))
    for _ in range(2):  # compiled, and from the cache
        assert triton.compile(source, target).metadata.stores == (2, 3, 4)


def test_block_pointers_in_loops(target):
    source = triton.compiler.ASTSource(through_blocks, {"x": "*fp32", "y": "*fp32", "n": "i32"}, {"N": 16})
    assert triton.compile(source, target).metadata.stores == (1,)


def test_a_late_stage_tells_too(target, tmp_path):
    source = triton.compiler.ASTSource(through_blocks, {"x": "*fp32", "y": "*fp32", "n": "i32"}, {"N": 16})
    kernel = triton.compile(source, target)
    for stage in ("ttir", "llir"):
        path = tmp_path / f"k.{stage}"
        path.write_text(kernel.asm[stage])
        assert triton.compile(str(path), target).metadata.stores == (1,)
