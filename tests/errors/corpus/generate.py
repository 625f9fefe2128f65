"""Malformed programs, made from templates and mutations: kernels, launches, decorators, texts of stages, command lines.

Every case is a function of its name alone, so that a failure can be made again:
`python -m tests.errors.corpus --show call 17`.
"""

from __future__ import annotations

import ast
import copy
import functools
import random
from typing import NamedTuple


class Case(NamedTuple):
    """One malformed input. `how` says what to do with `text`: run it, compile it as a stage, or call a command."""

    name: str
    how: str  # "program", "ttir", "llir" or "command"
    text: str  # of a command, its arguments, one a line


HEAD = """\
import math
import numpy as np
import tritium as triton
import tritium.language as tl

"""

# What a kernel can do wrong with: names of every kind of value, and constants.
ATOMS = """
x i f n m s t k p g None True 0 1 -1 3 2.5 1e400 10**30 -0.0 () (1,2) [i,f] [] "text" "" tl tl.float32 tl.int8
tl.constexpr B S i[None,:] f[:,None] x+i i<n f*2 -f ~i lambda§a:a helper helper(i) nothing(i) math np math.pi
math.exp np.exp np.float32 x.dtype f.shape f.T f.to(tl.float16) i.to(tl.int64) tl.zeros((4,4),tl.float32)
tl.arange(0,3) tl.arange(0,n) tl.program_id(5) undefined x[0] i[0] t[0] t[9] f"{n}" f"{B}" {} {1} ... not§f f§and§i
i§if§n§else§f *t len(i) len(t) int(n) float(f) max(f) max(i,n) print(f) isinstance(f,tl.tensor) getattr(f,"x")
i.missing tl.missing x.shape[0] range(4) (i:=3) [q§for§q§in§t]
""".split()
# `§` stands for a blank.
ATOMS = [atom.replace("§", " ") for atom in ATOMS]

KERNEL = HEAD + """
@triton.jit
def helper(a):
    return a * 2

@triton.jit
def nothing(a):
    b = a + 1

S = 16
@triton.jit
def kernel(x, n, B: tl.constexpr):
    i = tl.arange(0, B)
    p = x + i
    f = tl.load(p, mask=i < n, other=0.0)
    m = i < n
    g = tl.program_id(0)
    s = "word"
    t = (i, f, 3)
    k = n + 1
{body}
    tl.store(p, f, mask=m)
"""
LAUNCH = """
compiled(kernel, np.ones(16, np.float32), 7, 16)
"""

CONTEXTS = [
    "y = {e}", "tl.store(p, {e})", "f = f + ({e})", "f = ({e}) < f", "tl.store({e}, f)", "f = tl.load({e})",
    "tl.store(p, f, mask={e})", "if {e}:\n    f = f + 1", "while {e}:\n    break",
    "for q in range({e}):\n    f = f + q", "for q in tl.static_range({e}):\n    f = f + q", "for q in {e}:\n    pass",
    "f = tl.where({e}, f, 0)", "f = f if {e} else i", "f = tl.sum({e}, 0)", "f[{e}] = 1", "({e}).y = 1",
    "y: tl.constexpr = {e}", "f += {e}", "f = helper({e})", "return {e}", "assert {e}", "del {e}",
    "tl.static_assert({e})", "print({e})", "f = [q for q in {e}]", "a, b = {e}", "f = tl.reshape(f, {e})",
    "f = f.to({e})", "f = f[{e}]", "with {e}:\n    pass", "raise {e}", "f = tl.full({e}, 0, tl.float32)",
    "f = (lambda a: a + 1)({e})", "f = tl.reduce(f, 0, {e})", "f = tl.arange(0, {e})", "global f", "import os",
    "def inner():\n    pass", "class C:\n    pass", "try:\n    pass\nexcept Exception:\n    pass", "yield {e}",
    "await {e}", "nonlocal f", "f = x if n > 3 else f", "if n > 3:\n    f = i", "for q in range(n):\n    f = i",
    "if n > 3:\n    return\nelse:\n    f = 1", "f = tl.dot({e}, {e})", "match n:\n    case 1:\n        pass",
    "while n > 0:\n    f = i\n    n -= 1", "break", "continue",
]  # fmt: skip


def _kernel(body: str) -> str:
    indented = "\n".join("    " + line for line in body.split("\n"))
    return KERNEL.replace("{body}", indented) + LAUNCH


def in_context(rng: random.Random) -> str:
    """A wrong value in one of the places where a kernel has values."""
    return _kernel(rng.choice(CONTEXTS).replace("{e}", rng.choice(ATOMS)))


def in_call(rng: random.Random) -> str:
    """A function of the language, or a method, called with values of any kind."""
    import tritium.language as tl
    from tritium.language.builtins.members import METHODS

    names = sorted(name for name in dir(tl) if callable(getattr(tl, name)) and not name.startswith("_"))
    args = [rng.choice(ATOMS) for _ in range(rng.choice((0, 1, 1, 2, 2, 2, 3, 3, 4, 6)))]
    if rng.random() < 0.2:
        keyword = rng.choice(("axis", "mask", "other", "dtype", "keep_dims", "wrong", "sem"))
        args.append(f"{keyword}={rng.choice(ATOMS)}")
    owner = f"tl.{rng.choice(names)}" if rng.random() < 0.8 else f"f.{rng.choice(sorted(METHODS))}"
    return _kernel(f"y = {owner}({', '.join(a for a in args if ':=' not in a)})")


WHOLE = HEAD + """
@triton.jit
def combine(a, b):
    return a + b

@triton.jit
def scaled(a, factor, ON: tl.constexpr):
    if ON:
        return a * factor
    return a

@triton.jit
def kernel(x, n, B: tl.constexpr):
    pid = tl.program_id(0)
    offsets = pid * B + tl.arange(0, B)
    mask = offsets < n
    total = tl.zeros((B,), tl.float32)
    best = -float("inf")
    for k in range(0, n, B):
        a = tl.load(x + k + offsets, mask=mask, other=0.0)
        total += scaled(a, 2.0, True)
        best = tl.maximum(best, tl.max(a, axis=0))
        if k > 8:
            total = tl.where(a > 0, total, -total)
    rows = tl.arange(0, 16)[:, None]
    tile = tl.reshape(total, (4, 4))
    square = tl.dot(rows * 1.0 + tl.zeros((16, 16), tl.float32), tl.full((16, 16), 1.0, tl.float32))
    count = 0
    while count < 3:
        count += 1
    result = tl.reduce(total, 0, combine) + tl.sum(tl.sum(tile, 1), 0) + tl.sum(tl.sum(square, 0), 0) + best
    tl.store(x + offsets, total + result + count, mask=mask)
"""


class _Mutation(ast.NodeTransformer):
    """Changes the node number `at`: another expression in its place, or a statement left out."""

    def __init__(self, at: int, rng: random.Random):
        self.left, self.rng = at, rng

    def generic_visit(self, node):
        if isinstance(node, ast.expr | ast.stmt) and not isinstance(node, ast.FunctionDef):
            self.left -= 1
            if self.left == 0:
                return self.changed(node)
        return super().generic_visit(node)

    def changed(self, node):
        rng = self.rng
        if isinstance(node, ast.stmt):
            return rng.choice([None, [node, copy.deepcopy(node)], ast.Return(ast.Name("x", ast.Load())), ast.Pass()])
        if isinstance(node, ast.BinOp) and rng.random() < 0.5:
            node.op = rng.choice([ast.MatMult(), ast.Pow(), ast.LShift(), ast.FloorDiv(), ast.BitXor(), ast.Mod()])
            return node
        if isinstance(node, ast.Call) and node.args and rng.random() < 0.5:
            rng.choice([node.args.pop, node.args.reverse, lambda: node.args.append(node.args[0])])()
            return node
        if isinstance(getattr(node, "ctx", None), ast.Store):
            return ast.Name(rng.choice(["n", "B", "x", "tl", "new"]), ast.Store())
        call = ast.parse(f"call({rng.choice(ATOMS)})", mode="eval").body
        return call.args[0]


def mutated(rng: random.Random) -> str:
    """A sound kernel with one to three nodes changed."""
    tree = ast.parse(WHOLE)
    count = sum(isinstance(node, ast.expr | ast.stmt) for node in ast.walk(tree))
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
        chosen = rng.choice(functions)
        mutation = _Mutation(rng.randrange(1, count // 2), rng)
        body = [made for statement in chosen.body for made in _several(mutation.visit(statement))]
        chosen.body = body or [ast.Pass()]
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n" + LAUNCH


def _several(made) -> list:
    return made if isinstance(made, list) else [] if made is None else [made]


# --- launches -------------------------------------------------------------------------------------------------------
# The kernel touches 16 elements whatever it is given, and every array has as many: no address is invented.
SOUND = HEAD + """
class Odd:
    def __init__(self, **facts):
        self.__dict__.update(facts)

@triton.jit
def kernel(x, n, B: tl.constexpr = 16, *, extra=0):
    tl.store(x + tl.arange(0, 16), tl.arange(0, 16) + n)

x = np.ones(16, np.float32)
"""
BAD_VALUES = """
None True "text" b"bytes" [1,2] (1,2) {} {1} 3.5 -1 2**31 2**63 2**64 2**200 1e400 float("nan") 1j object() Odd()
Odd(dtype=3) Odd(shape=(4,)) Odd(data_ptr=5) Odd(dtype="float32",data_ptr=lambda:"text") np.float32(2) np.int64(3)
np.bool_(True) np.array(["a","b"]) np.array([object()]*16) np.zeros(16,">f4") np.zeros(16,"M8[s]")
np.zeros(16,complex) np.float16 np.zeros((16,2))[:,0] np.zeros(16,[("a","f4")]) np.ma.zeros(16) lambda:0 kernel tl
tl.float32 tl.constexpr(3) type ... range(3) memoryview(b"0"*64) bytearray(64) Ellipsis NotImplemented slice(1)
iter([]) np.zeros(16,np.uint8) np.zeros(16,bool) x[:16]
""".split()
BAD_GRIDS = """
() None 0 -1 (0,) (-1,) (1.5,) ("1",) "1" [1] (1,1,1,1) (2**31,2**31,4) (True,) (None,) ((1,),) 2.0 {} lambda§m:None
lambda§m:m["MISSING"] lambda:(1,) lambda§m:(0,) lambda§m:1/0 lambda§m:(m["B"],0) np.int64(1) (np.int64(1),)
np.array([1]) x slice(1) ...
""".split()
BAD_OPTIONS = """
num_warps=3 num_warps=-1 num_warps="4" num_warps=None num_warps=2**40 num_warps=0 num_stages=-1 num_stages="a"
num_ctas=0 num_ctas=99 maxnreg=-1 maxnreg="x" unknown=1 BLOCK=3 n=4 x=x debug="yes" enable_fp_fusion=3 extern_libs=3
launch_cooperative_grid="x" num_warp=4 grid=(1,) warmup=True stream=3 device=7 arch=3 sanitize_overflow="x"
ir_override="none.ttir" self=1 args=2
""".split()


def launch(rng: random.Random) -> str:
    """A sound kernel with wrong arguments, a wrong grid or wrong options."""
    grid, args = "(1,)", ["x", "3"]
    kind = rng.randrange(4)
    if kind == 0:
        grid = rng.choice(BAD_GRIDS).replace("§", " ")
    elif kind == 1:
        args[rng.randrange(2)] = rng.choice(BAD_VALUES)
    elif kind == 2:
        args += [rng.choice(BAD_OPTIONS)] if rng.random() < 0.7 else ["16", f"extra={rng.choice(BAD_VALUES)}"]
    else:
        args = rng.choice([[], args[:1], [*args, "1", "2"], [*args, "B=16", "B=8"], ["*[1]*9"], ["**{'x': x}"],
                           ["n=3", "x=x"], [*args, f"B={rng.choice(BAD_VALUES)}"],
                           [*args, f"**{{'{rng.choice('xnBq')}': 1}}"]])
    wrong = ", ".join(args)
    run = rng.choice([f"kernel[{grid}]({wrong})", f"kernel.warmup({wrong + ', ' if wrong else ''}grid={grid})",
                      f"kernel.run({wrong + ', ' if wrong else ''}grid={grid}, warmup=False)"])
    return SOUND + run + "\n"


DECORATORS = """
triton.jit(3)
triton.jit(None)
triton.jit(len)
triton.jit(lambda x: x)
triton.jit(type)
triton.jit(triton.jit(plain))
triton.jit(bad=3)
triton.jit(do_not_specialize=3)(plain)
triton.jit(do_not_specialize=["missing"])(plain)[(1,)](x, 3)
triton.jit(repr=3)(plain)[(1,)](x, 3)
triton.jit(repr=lambda spec: 3)(plain)[(1,)](x, 3)
triton.jit(repr=lambda spec: 1 / 0)(plain)[(1,)](x, 3)
triton.jit(debug="x", noinline="y")(plain)[(1,)](x, 3)
triton.jit(launch_metadata=3)(plain)[(1,)](x, 3)
triton.jit(version=object())(plain)[(1,)](x, 3)
triton.autotune([], key=[])(kernel)[(1,)](x, 3)
triton.autotune(None, key=[])(kernel)
triton.autotune([3], key=[])(kernel)[(1,)](x, 3)
triton.autotune([triton.Config({})], key=3)(kernel)
triton.autotune([triton.Config({})], key=["missing"])(kernel)[(1,)](x, 3)
triton.autotune([triton.Config({"MISSING": 3})], key=[])(kernel)[(1,)](x, 3)
triton.autotune([triton.Config({"n": 3})], key=[])(kernel)[(1,)](x, 3)
triton.autotune([triton.Config(3)], key=[])(kernel)[(1,)](x, 3)
triton.autotune([triton.Config({}, num_warps=3)], key=[])(kernel)[(1,)](x, 3)
triton.autotune([triton.Config({}), triton.Config({}, num_warps=3)], key=["n"])(kernel)[(1,)](x, 3)
triton.autotune([triton.Config({})], key=[])(plain)
triton.autotune([triton.Config({}), triton.Config({})], key=[], prune_configs_by=3)(kernel)[(1,)](x, 3)
triton.autotune([triton.Config({})], key=[], prune_configs_by={"early_config_prune": 3})(kernel)[(1,)](x, 3)
triton.autotune([triton.Config({})], key=[], reset_to_zero=["missing"])(kernel)[(1,)](x, 3)
triton.autotune([triton.Config({}), triton.Config({})], key=[], restore_value=["n"])(kernel)[(1,)](x, 3)
triton.autotune([triton.Config({})], key=[], reset_to_zero=3)(kernel)
triton.heuristics(3)(kernel)
triton.heuristics({})(kernel)[(1,)](x, 3)
triton.heuristics({"B": 3})(kernel)[(1,)](x, 3)
triton.heuristics({"MISSING": lambda args: 3})(kernel)[(1,)](x, 3)
triton.heuristics({"B": lambda args: args["MISSING"]})(kernel)[(1,)](x, 3)
triton.heuristics({"B": lambda args: object()})(kernel)[(1,)](x, 3)
triton.heuristics({"n": lambda args: "text"})(kernel)[(1,)](x)
triton.jit(triton.autotune([triton.Config({})], key=[])(kernel))
triton.jit(triton.heuristics({})(kernel))
triton.constexpr_function(3)
triton.constexpr_function(plain)(x, 3)
triton.must_use_result(3)
kernel(x, 3)
kernel[(1,)]
kernel[(1,)][(1,)](x, 3)
kernel.fn(x, 3)
kernel.warmup()
kernel.run(x, 3)
kernel.add_pre_run_hook(3)
kernel.preload("text")
kernel.preload(3)
triton.compile(3)
triton.compile("missing.ttir")
triton.compile(kernel)
triton.compile(triton.compiler.ASTSource(kernel, {}))
triton.compile(triton.compiler.ASTSource(kernel, {"x": "*fp33", "n": "i32"}))
triton.compile(triton.compiler.ASTSource(kernel, {"x": 3, "n": "i32"}))
triton.compile(triton.compiler.ASTSource(kernel, {"x": "*fp32", "n": "i32", "q": "i32"}))
triton.compile(triton.compiler.ASTSource(kernel, {"x": "*fp32", "n": "i32"}, {"B": object()}))
triton.compile(triton.compiler.ASTSource(kernel, {"x": "*fp32", "n": "i32"}, {"q": 3}))
triton.compile(triton.compiler.ASTSource(kernel, {"x": "*fp32", "n": "i32"}, {(9,): 3}))
triton.compile(triton.compiler.ASTSource(kernel, {"x": "*fp32", "n": "i32"}, None, {(0,): 3}))
triton.compile(triton.compiler.ASTSource(kernel, {"x": "*fp32", "n": "i32"}), target=3)
triton.compile(triton.compiler.ASTSource(kernel, {"x": "*fp32", "n": "i32"}), options={"num_warps": "x"})
triton.compile(triton.compiler.ASTSource(kernel, {"x": "*fp32", "n": "i32"}), options=3)
triton.compile(triton.compiler.ASTSource(plain, {"x": "*fp32", "n": "i32"}))
triton.compile(triton.compiler.ASTSource(3, {}))
triton.cdiv("a", 3)
triton.cdiv(3, 0)
triton.next_power_of_2("a")
triton.next_power_of_2(2.5)
triton.Config()
triton.Config({}, num_warp=3)
tl.load(x)
tl.arange(0, 16)
tl.constexpr(3) + "a"
tl.tensor(3, 4)
tl.dtype("fp33")
tl.dtype(3)
tl.pointer_type(3)
tl.block_type(tl.float32, [3])
tl.block_type(3, "a")
""".strip().splitlines()


def decorated(rng: random.Random) -> str:
    """A wrong use of the host's interface."""
    return f"{SOUND}\ndef plain(x, n):\n    tl.store(x, n)\n\n{rng.choice(DECORATORS)}\n"


# --- stages ---------------------------------------------------------------------------------------------------------
JUNK = """
% @ { } ( ) [ ] , : = -> f32 i32 i1 f33 tile< > < ptr yield kernel for if while %0 %1 %x 3 -1 1e400 9999999999999999999
"a" // \t define true false null attributes loc( store load dot x \u00e9 \0 i0 i65536 <4xf32> <0xf32> <-1xf32> <3x5xf32>
""".split()


def mutated_text(rng: random.Random, text: str) -> str:
    """A text of a stage with words exchanged, dropped or doubled."""
    for _ in range(rng.choice((1, 1, 2, 3, 8))):
        lines = text.split("\n")
        at = rng.randrange(len(lines))
        words = lines[at].split(" ")
        k = rng.randrange(len(words))
        how = rng.randrange(6)
        if how == 0:
            words[k] = rng.choice(JUNK)
        elif how == 1:
            words.pop(k)
        elif how == 2:
            words.insert(k, rng.choice(words))
        elif how == 3:
            lines[at:at] = [rng.choice(lines)]
        elif how == 4:
            other = rng.choice(rng.choice(lines).split(" "))
            words[k] = other
        else:
            text = text[:rng.randrange(len(text) + 1)]
            lines = None
        if lines is not None:
            if how != 3:
                lines[at] = " ".join(words)
            text = "\n".join(lines)
        if not text:
            break
    return text


# --- commands -------------------------------------------------------------------------------------------------------
WORDS = """
show compile link demo run version --help -n -s -g -t -o -w -ns --stage --only --device --seconds -m -c -- -
kernels.py none.py bad.py none.ttir kernel plain missing *fp32,i32,16 *fp32 i32 1,1,1 foo,1,1 n,1,1 cpu cuda:90
cuda:91 cuda hip:gfx942 x86-64-v3 :: ttir ptx llir out 3 -1 0 x \u00e9 zzz tpu --maxnreg kernels.ttir . / header.h
""".split()
FORMS = [
    "show kernels.py -n {} -s {}", "show kernels.py -n kernel -s {} -t {}", "show {} -n kernel -s *fp32,i32,16",
    "show {}", "show {} -t {}", "show kernels.py -n kernel -s *fp32,i32,16 --stage {}",
    "show kernels.py -n kernel -s *fp32,i32,16 -w {}", "show kernels.py -n kernel -s *fp32,i32,16 -t {} {} {}",
    "compile kernels.py -n kernel -s *fp32,i32,16 -g {} -t {}", "compile kernels.py -n {} -s {} -g {}",
    "compile {} -n kernel -s {} -g {} -o {}", "link {} -o {}", "link {} {}", "demo --only zz{}",
    "demo --device {} --only zz", "version {}", "{}x {}", "compile kernels.py -n kernel -s {} -g 1,1,1",
    "show kernels.py {} {} {} {}",
]  # fmt: skip


def command(rng: random.Random) -> str:
    """Arguments of `python -m tritium`, one a line; nothing that would run for long."""
    form = rng.choice(FORMS)
    words = [rng.choice(WORDS) for _ in range(form.count("{}"))]
    return "\n".join(form.format(*words).split(" "))


# --- the corpus -----------------------------------------------------------------------------------------------------
KINDS = [("context", in_context, 340), ("call", in_call, 420), ("mutated", mutated, 260), ("launch", launch, 300),
         ("decorated", decorated, 110), ("command", command, 110)]  # fmt: skip
STAGES = {"ttir": 130, "llir": 60}


def names(share: float = 1.0) -> list[str]:
    """The names of the corpus, or of the first part of every kind."""
    counts = {**{kind: count for kind, _, count in KINDS}, **STAGES}
    return [f"{kind} {number}" for kind, count in counts.items() for number in range(max(1, round(count * share)))]


def case(name: str) -> Case:
    """The case of a name."""
    kind, rng = name.split()[0], random.Random(name)
    if kind in STAGES:
        return Case(name, kind, mutated_text(rng, rng.choice(stage_texts()[kind])))
    make = next(make for known, make, _ in KINDS if known == kind)
    return Case(name, "command" if kind == "command" else "program", make(rng))


@functools.cache
def stage_texts() -> dict[str, list[str]]:
    """Sound texts of the stages that are mutated."""
    import tritium
    from tritium.backends.compiler import GPUTarget
    from tritium.compiler import ASTSource
    from tritium.kernels.matmul import plain_kernel
    from tritium.kernels.softmax import softmax_kernel
    from tritium.kernels.vector_add import add_kernel

    found: dict[str, list[str]] = {"ttir": [], "llir": []}
    for fn in (add_kernel, softmax_kernel, plain_kernel):
        constants = {name: 16 if "BLOCK" in name else "ieee" for name in fn.arg_names if name.split("_")[0].isupper()
                     and len(name) > 1}
        kinds = {name: "constexpr" if name in constants else "*fp32" if name.endswith("ptr") else "i32"
                 for name in fn.arg_names}
        kernel = tritium.compile(ASTSource(fn, kinds, constants), GPUTarget("cpu", "x86-64-v3", 1))
        for stage, texts in found.items():
            texts.append(kernel.asm[stage])
    return found
