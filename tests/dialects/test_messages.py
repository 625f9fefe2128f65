"""Errors whose words other releases changed: one text has the phrases of all, and the class is caught as either."""

import pytest

import tritium as triton
import tritium.language as tl
from tritium import knobs
from tritium.errors import CompilationError, UnsupportedLanguageConstruct
from tritium.frontend import lower


@triton.jit
def two_types(n):
    if n > 0:
        return n
    else:
        return n.to(tl.int64)


@triton.jit
def returns(x, n):
    tl.store(x, two_types(n))


@triton.jit
def nests(x, n):
    def inner():
        pass


@triton.jit
def power(x, n):
    tl.store(x, n ** 2)


@triton.jit
def reversed_power(x, n):
    tl.store(x, 2 ** n)


@triton.jit
def plus(x, n):
    tl.store(x, +n)


@triton.jit
def matmul(x, n):
    tl.store(x, n @ n)


@triton.jit
def contains(x, n):
    tl.store(x, n in (1, 2))


@triton.jit
def lacks(x, n):
    tl.store(x, n not in (1, 2))


@triton.jit
def far_offset(x, n):
    d = tl.make_tensor_descriptor(x, [64, 64], [64, 1], [16, 16])
    d.store([0, 0], d.load([n.to(tl.int64), 0]))


@triton.jit
def narrow_sum(x, n):
    a = tl.zeros([16, 16], tl.float16)
    tl.store(x, tl.sum(tl.dot(a, a, a, out_dtype=tl.float32)))


@triton.jit
def few_scales(x, n):
    a, b = tl.zeros([32, 64], tl.float8e4nv), tl.zeros([64, 32], tl.float8e4nv)
    tl.store(x, tl.sum(tl.dot_scaled(a, tl.zeros([16, 2], tl.uint8), "e4m3", b, None, "e4m3")))


@triton.jit
def splits(x, n):
    a, b = tl.split(tl.zeros([4, 16], tl.float32))
    tl.store(x, tl.sum(a + b))


@triton.jit
def small_value(x, n):
    tl.make_tensor_descriptor(x, [64, 64], [64, 1], [16, 16]).store([0, 0], tl.zeros([8, 16], tl.int32))


@triton.jit
def counts_floats(x, n):
    tl.store(x + tl.arange(0, 4), tl.histogram(tl.zeros([8], tl.float32), 4))


@triton.jit
def modifier(x, n):
    tl.store(x, tl.load(x, cache_modifier=".xx"))


@triton.jit
def policy(x, n):
    tl.store(x, n, eviction_policy="foo")


@triton.jit
def field(x, n):
    t = (n, n)
    tl.store(x, t.foo)


@triton.jit
def too_few(x, n):
    tl.store(x, two_types())


@triton.jit
def too_many(x, n):
    tl.store(x, two_types(n, n))


@triton.jit
def starred(x, n):
    a, *b = (n, n)
    tl.store(x, a + b[0])


CASES = [
    (returns, CompilationError, "Inconsistent return types", "Return type mismatch: int32 and int64"),
    (nests, UnsupportedLanguageConstruct, "nested function definition is not supported",
     "nested function definitions are not allowed inside a @triton.jit kernel"),
    (power, UnsupportedLanguageConstruct, "'tensor' object has no attribute '__pow__'",
     "unsupported operand type(s) for **: 'tensor' and 'int'"),
    (reversed_power, UnsupportedLanguageConstruct, "__pow__", "unsupported operand type(s) for **: 'int' and 'tensor'"),
    (plus, UnsupportedLanguageConstruct, "__pos__", "unsupported operand type(s) for +: 'tensor'"),
    (matmul, UnsupportedLanguageConstruct, "__matmul__", "unsupported operand type(s) for @: 'tensor' and 'tensor'"),
    (contains, UnsupportedLanguageConstruct, "unsupported AST node type: In",
     "unsupported operand type(s) for in: 'tensor' and 'tuple'"),
    (lacks, UnsupportedLanguageConstruct, "unsupported AST node type: NotIn", "unsupported operand type(s) for not in"),
    (far_offset, CompilationError, "Block pointers only support 32 bit",
     "Expected a 32-bit integer; add a .to(tl.int32)"),
    (narrow_sum, CompilationError, "expected accumulator dtype fp32, got fp16; pass out_dtype=fp16"),
    (few_scales, CompilationError, "must be a tensor of shape [32, 2]", "must be a tensor of shape [..., 32, 2]"),
    (splits, CompilationError, "expected last dimension to be 2 for split, got 16"),
    (small_value, CompilationError, "expected value shape"),
    (counts_floats, CompilationError, "only supports integer input",
     "only supports 32-bit integer input, but got fp32"),
    (modifier, CompilationError, "Cache modifier .xx not supported", "Unsupported cache modifier 'xx'"),
    (policy, CompilationError, "Eviction policy foo not supported", "Unsupported eviction policy 'foo'"),
    (field, CompilationError, "'tuple' object has no attribute foo"),
    (too_few, CompilationError, "missing a required argument: 'n'"),
    (too_many, CompilationError, "too many positional arguments"),
]  # fmt: skip


def error_of(kernel):
    with pytest.raises(CompilationError) as raised:
        lower(kernel, {"x": "*i32", "n": "i32"})
    return raised.value


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0].__name__)
def test_phrases_of_all_releases(case):
    kernel, kind, *phrases = case
    error = error_of(kernel)
    assert type(error) is kind
    for phrase in phrases:
        assert phrase in str(error)


def test_a_starred_target_says_it_is_not_implemented():
    assert isinstance(error_of(starred).__cause__, NotImplementedError)


@triton.jit
def bits_of_a_float(x, n):
    tl.store(x, n & 1.5)


@triton.jit
def other_shapes(x, n):
    tl.store(x, tl.sum(tl.arange(0, 8) < tl.arange(0, 4)))


@pytest.mark.parametrize("kernel, kind", [(bits_of_a_float, TypeError), (other_shapes, ValueError),
                                          (power, AttributeError)])
def test_operators_keep_their_cause_from_3_9_on(kernel, kind):
    """Before, the error alone was raised, and tests of that time look for no cause."""
    assert error_of(kernel).__cause__ is None
    with knobs.language.scope():
        knobs.language.dialect = "3.9"
        assert isinstance(error_of(kernel).__cause__, kind)
