"""What is refused, and as what: `CompilationError` compiled and `InterpreterError` eager, its cause the original.

Triton's tests, and those of libraries, look at the class, at the cause's class and at the phrases.
"""

import importlib.util
import warnings

import numpy as np
import pytest

import tritium as triton
from tritium.errors import CompileTimeAssertionFailure
from tritium.interp.eager import launch

STATIC = CompileTimeAssertionFailure

# An expression of `x` (a pointer to int32), `i` (arange(0, 4)), `f` (i as float32), `n` (an int32 scalar) | the class
# of the cause (of the error itself for STATIC; - where Triton gives none) | a phrase of the message.
ROWS = r"""
tl.program_id(3)                                    | ValueError     | must be 0, 1, or 2
tl.arange(0, 3)                                     | ValueError     | arange's range must be a power of 2
tl.arange(4, 4)                                     | ValueError     | must be greater than the start argument
tl.arange(-4, 4)                                    | ValueError     | must fit in int32
tl.arange(0, n)                                     | ValueError     | arange's arguments must be of type tl.constexpr
tl.full((3,), 0, tl.int32)                          | ValueError     | must be a power of 2
tl.full((4,), 1.5, tl.int32)                        | TypeError      |
tl.full((4,), -1, tl.uint8)                         | TypeError      |
tl.zeros((2048, 1024), tl.int8)                     | ValueError     | exceeds triton maximum tensor numel
tl.load(x + i, other=0)                             | ValueError     | `other` cannot be provided without `mask`
tl.load(x, mask=i < 3)                              | ValueError     | Mask argument cannot be block type
tl.load(x, mask=True, other=i)                      | ValueError     | Other argument cannot be block type
tl.load(i)                                          | ValueError     | Unsupported ptr type
tl.load(1)                                          | ValueError     | Unsupported ptr type
tl.load(x + i, mask=i)                              | ValueError     | Mask must have boolean scalar type
tl.load(x + i, cache_modifier=".zz")                | ValueError     | Cache modifier .zz not supported
tl.load(x + i, eviction_policy="later")             | ValueError     | Eviction policy later not supported
tl.load(x + i, boundary_check=(0,))                 | ValueError     | block pointer
tl.store(x, i)                                      | ValueError     | Value argument cannot be block type
tl.store(x, 0, mask=i < 3)                          | ValueError     | Mask argument cannot be block type
tl.store(x + i[None, :], i[:, None] + i)            | ValueError     | Expected pointer argument to have shape
tl.store(x + i, 0, mask=i)                          | ValueError     | Mask must have boolean scalar type
tl.store(x + i, 0, cache_modifier=".ca")            | ValueError     | Cache modifier .ca not supported
tl.atomic_add(x, 1, sem="sometimes")                | ValueError     | Memory semantic sometimes not supported
tl.atomic_add(x.to(tl.pointer_type(tl.int8)), 1)    | ValueError     | does not support
tl.atomic_cas(x + i, i.to(tl.int64), i)             | ValueError     | atomic_cas
tl.reshape(i, (2, 4))                               | ValueError     | cannot change total number of elements
tl.reshape(i, (-1, 2))                              | ValueError     | must be a power of 2
tl.broadcast_to(i, (2, 4))                          | ValueError     | Cannot broadcast, rank mismatch
tl.broadcast_to(i[:, None], (2, 4))                 | ValueError     | Cannot broadcast, the expanded size
tl.expand_dims(i, (0, 0))                           | ValueError     | duplicate axes
tl.expand_dims(i, 5)                                | ValueError     | invalid axis 5
tl.trans(i)                                         | ValueError     | 0- or 1-dimensional
tl.permute(i[:, None], (-1, 0))                     | ValueError     | permutation of 0, 1
tl.join(i, 1)                                       | TypeError      |
tl.split(i)                                         | ValueError     | last axis of size 2
tl.sum(n)                                           | ValueError     |
tl.sum(i, axis=1)                                   | ValueError     | invalid axis 1
tl.reduce(i, 0, None)                               | TypeError      | the combine function of reduce is None
tl.max_contiguous(i, x)                             | TypeError      | must have type `constexpr[int]`
tl.argmax(i, None)                                  | STATIC         |
tl.xor_sum(f)                                       | STATIC         | xor_sum only supported for integers
tl.histogram(f, 4)                                  | ValueError     | integer
tl.gather(i, f, 0)                                  | AssertionError | integer
tl.gather(i, i[:, None], 0)                         | AssertionError | same rank
tl.exp(f.to(tl.float16))                            | ValueError     | Expected dtype ['fp32', 'fp64'] but got fp16
tl.sqrt_rn(f.to(tl.float64))                        | ValueError     | Expected dtype
tl.cast(i, "int32")                                 | TypeError      | tl.dtype
i.to(tl.float32, fp_downcast_rounding="rtz")        | ValueError     | only for truncating fp conversions
f.to(tl.float16, fp_downcast_rounding="up")         | ValueError     |
i.to(tl.int64, bitcast=True)                        | ValueError     | Cannot bitcast data-type of size
x.to(tl.int32)                                      | TypeError      | cannot cast
tl.static_assert(1)                                 | NotImplementedError | could not be determined at compile-time
tl.static_assert(n > 1)                             | NotImplementedError | could not be determined at compile-time
tl.static_assert(False, "twelve")                   | STATIC         | twelve
tl.multiple_of(i, (1, 2))                           | ValueError     | does not match the length of values
tl.device_print(n)                                  | AssertionError | string
tl.rand(1.0, i)                                     | STATIC         |
tl.dot(i[:, None], i[None, :])                      | AssertionError | Unsupported dtype
tl.dot(f[:, None], f[None, :], input_precision="x") | AssertionError | input_precision must be one of
tl.dot(f[:, None], f[:, None])                      | AssertionError | not compatible
tl.dot(f[:, None], f[None, :].to(tl.float64))       | AssertionError | Both operands must be same dtype
tl.make_tensor_descriptor(x, [4], [2], [4])         | ValueError     | last dim must be 1
i[0:2]                                              | ValueError     | unsupported tensor index
i[...]                                              | ValueError     | unsupported tensor index
i[i]                                                | ValueError     | unsupported tensor index
i + tl.arange(0, 8)                                 | -              | incompatible dimensions at index
i.to(tl.uint8) + 300                                | -              | is out of range for type
i.to(tl.uint8) + (-1)                               | -              | unsigned tensor and a negative scalar
i.to(tl.uint32) // i                                | -              | different signedness
f // f                                              | -              | unexpected type
f & f                                               | -              | invalid operands of type
x + x                                               | -              | cannot add pointers together
x + 1.5                                             | -              | invalid operands of type
x * 16                                              | -              | invalid operands of type pointer<int32>
-x                                                  | -              | unary minus
~f                                                  | -              | unary invert
not n                                               | -              | Cannot bitcast
f ** 2                                              | -              |
i == None                                           | -              | None
"""


def rows():
    return [tuple(part.strip() for part in line.rsplit("|", 2)) for line in ROWS.strip().splitlines()]


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    """One kernel for each row."""
    text = "import tritium as triton\nimport tritium.language as tl\n"
    for k, (expression, _, _) in enumerate(rows()):
        text += (f"\n\n@triton.jit\ndef wrong_{k}(x, n):\n    i = tl.arange(0, 4)\n    f = i.to(tl.float32)\n"
                 f"    z = {expression}\n")
    path = tmp_path_factory.mktemp("errors") / "wrong_kernels.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location("wrong_kernels", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("k", range(len(rows())), ids=[row[0] for row in rows()])
def test_refused(kernels, k):
    _, cause, phrase = rows()[k]
    kernel, args = getattr(kernels, f"wrong_{k}"), (np.zeros(16, np.int32), 5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(triton.CompilationError) as compiled:
            kernel[(1,)](*args)
        with pytest.raises(triton.InterpreterError) as eager:
            launch(kernel, (1,), args, {})
    assert phrase in str(compiled.value) and "at 4:" in str(compiled.value)
    assert phrase in str(eager.value)
    if cause == "STATIC":
        assert type(compiled.value) is STATIC
    elif cause != "-":
        assert type(compiled.value.__cause__).__name__ == cause == type(eager.value.__cause__).__name__


@triton.jit
def assigned(x):
    x[0] = 1


def test_memory_is_not_assigned():
    with pytest.raises(triton.CompilationError, match=r"__setitem__ is not supported(.|\n)*tl.store"):
        assigned[(1,)](np.zeros(4, np.int32))
