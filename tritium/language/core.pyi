# Written by docs/make_stubs.py from the objects themselves: change those, and run it again.

import builtins
import enum
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar, overload

_block_type: TypeAlias = block_type
_dtype: TypeAlias = dtype


__all__: list[str]

# Of one parameter: a tensor, or a number that becomes one.
Operand: TypeAlias = tensor | float

Pair: TypeAlias = builtins.tuple[tensor, tensor]
Four: TypeAlias = builtins.tuple[tensor, tensor, tensor, tensor]
Tiles = TypeVar("Tiles", bound=tensor | builtins.tuple[tensor, ...])


def anything(cls: builtins.type) -> builtins.type[Any]:
    """The class of an annotation that a parameter of any kind may have, and which can be called."""


class bools(tensor, Any):
    """What comparisons give: a tensor that Python's own `min` and `max` take for a bool."""


class block_pointer:
    """Points at the tile of `block_shape` that starts at `offsets` of a strided tensor. Made by `tl.make_block_ptr`."""
    def __init__(self, base: Any, shape: Any, strides: Any, offsets: Any, block_shape: Any, order: Any) -> None: ...
    @property
    def type(self) -> pointer_type:
        """A pointer to the type of the tile."""
    @property
    def dtype(self) -> pointer_type:
        """The same pointer type; `.element_ty.element_ty` is that of one element."""
    def parts(self) -> Any:
        """The run-time values inside."""
    def remade(self, parts: Any) -> Any:
        """Another block pointer of the same tile with other run-time values."""
    def advance(self, offsets: Sequence[Operand]) -> block_pointer:
        """The block pointer moved by `offsets`, one for each axis.

            a = tl.advance(a, (0, BLOCK_K))
        """
    def load(self, mask: Operand | None = None, other: Operand | None = None, boundary_check: Sequence[int] = (),
             padding_option: str = "", cache_modifier: str = "", eviction_policy: str = "",
             volatile: bool = False) -> tensor:
        """Read memory. Where `mask` is false nothing is read and the value is `other` (0 if not given).

            x = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0)

        A block pointer is read as a whole tile: `tl.load(block_ptr, boundary_check=(0, 1), padding_option="zero")`.
        """
    def store(self, value: Operand, mask: Operand | None = None, boundary_check: Sequence[int] = (),
              cache_modifier: str = "", eviction_policy: str = "") -> None:
        """Write `value`, cast to the pointee's dtype, where `mask` is true.

            tl.store(out_ptr + offsets, x + y, mask=offsets < n)
        """


def is_builtin(fn: Any) -> Any:
    """Whether `fn` is a builtin of the language, ours or a user's."""


def user_builtin(fn: Any) -> Any:
    """Decorator of a user's own builtin, written as `def f(x, ..., _semantic=None)`.

    It runs while a kernel is compiled, gets tensors and constexprs, and passes `_semantic` on to what it calls. A
    parameter called `_generator` gets an object whose `call_JitFunction(fn, args, kwargs)` calls a jit function.
    """


def _warn(b: Any, message: Any, category: builtins.type[Warning] = ...) -> Any:
    """Warn about the line of the kernel that builder `b` is at; of a function of the language, about its call."""


class tensor_descriptor:
    """A tensor in memory seen tile by tile; every access is checked against its bounds.

        desc = tl.make_tensor_descriptor(x_ptr, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
        tile = desc.load([row, column])
    """
    base: tensor
    shape: tuple
    strides: tuple
    block_shape: tuple
    padding: str
    rounding: str
    def __init__(self, base: tensor, shape: Any, strides: Any, block_shape: Any, padding: str = "zero",
                 rounding: str = "") -> None: ...
    @property
    def dtype(self) -> _dtype:
        """The type of one element."""
    @property
    def block_type(self) -> _block_type:
        """The type of the tile that is moved."""
    @property
    def type(self) -> tensor_descriptor_type:
        """A `tensor_descriptor_type`."""
    def parts(self) -> Any:
        """The run-time values inside, and the constants on which loads depend."""
    def remade(self, parts: Any) -> Any:
        """Another descriptor of the same tile with other run-time values."""
    def load(self, offsets: Sequence[Operand]) -> tensor:
        """The tile at `offsets`; outside of the tensor it is 0, or NaN if the descriptor says so.

            tile = tl.load_tensor_descriptor(desc, [row, column])        # or desc.load([row, column])
        """
    def store(self, offsets: Sequence[Operand], value: Operand) -> None:
        """Write a tile at `offsets`; what lies outside of the tensor is dropped.

            tl.store_tensor_descriptor(desc, [row, column], tile)        # or desc.store([row, column], tile)
        """
    def gather(self, x_offsets: Operand, y_offset: Operand) -> tensor:
        """Rows `x_offsets` of the tensor, columns from `y_offset` on: one row of the result for each.

            tile = desc.gather(row_numbers, column)
        """
    def scatter(self, value: Operand, x_offsets: Operand, y_offset: Operand) -> None:
        """Write each row of `value` to row `x_offsets[i]` of the tensor, from column `y_offset` on.

            desc.scatter(tile, row_numbers, column)
        """
    def atomic_add(self, offsets: Sequence[Operand], value: Operand) -> None:
        """Combine a tile into memory with an atomic `add` of each element; gives nothing back.

            desc.atomic_add([row, column], tile)
        """
    def atomic_min(self, offsets: Sequence[Operand], value: Operand) -> None:
        """Combine a tile into memory with an atomic `min` of each element; gives nothing back.

            desc.atomic_min([row, column], tile)
        """
    def atomic_max(self, offsets: Sequence[Operand], value: Operand) -> None:
        """Combine a tile into memory with an atomic `max` of each element; gives nothing back.

            desc.atomic_max([row, column], tile)
        """
    def atomic_and(self, offsets: Sequence[Operand], value: Operand) -> None:
        """Combine a tile into memory with an atomic `and` of each element; gives nothing back.

            desc.atomic_and([row, column], tile)
        """
    def atomic_or(self, offsets: Sequence[Operand], value: Operand) -> None:
        """Combine a tile into memory with an atomic `or` of each element; gives nothing back.

            desc.atomic_or([row, column], tile)
        """
    def atomic_xor(self, offsets: Sequence[Operand], value: Operand) -> None:
        """Combine a tile into memory with an atomic `xor` of each element; gives nothing back.

            desc.atomic_xor([row, column], tile)
        """


class PropagateNan(enum.Enum):
    """What `minimum`, `maximum` and `clamp` do with NaN: NONE prefers the other operand, ALL gives NaN."""
    NONE = 0
    ALL = 65535


class condition:
    """The test of a `while` loop, with a scheduling hint.

        while tl.condition(n > 0, disable_licm=True): ...
    """
    def __init__(self, arg1: Any, disable_licm: Any = False) -> None: ...
    def __bool__(self) -> Any: ...


class range:
    """A loop's values, as Python's range gives them, with scheduling hints that never change a result.

        for k in tl.range(0, K, BLOCK_K, num_stages=3): ...
    """
    def __init__(self, arg1: Any, arg2: Any = None, step: Any = None, num_stages: Any = None,
                 loop_unroll_factor: Any = None, disallow_acc_multi_buffer: Any = False, flatten: Any = False,
                 warp_specialize: Any = False, disable_licm: Any = False) -> None: ...
    def __iter__(self) -> Any: ...


class static_range:
    """A loop that is unrolled while the kernel is compiled: its index is a compile-time constant.

    >>> list(static_range(0, 6, 2))
    [0, 2, 4]
    """
    def __init__(self, arg1: Any, arg2: Any = None, step: Any = None) -> None: ...
    def __iter__(self) -> Any: ...
    def __len__(self) -> Any: ...


def must_use_result(fn: Any, message: str | bool = True) -> Any:
    """Make dropping the result of `fn` an error; `@must_use_result("why")` adds a sentence to it.

    >>> must_use_result("it is costly")(device(cdiv.fn))._must_use_result
    'it is costly'
    """


class Aggregate:
    """Base of every aggregate: a fixed set of fields, which make up the value."""
    @property
    def type(self) -> Any:
        """Its class and the types of its fields."""
    def parts(self) -> Any:
        """The values of the fields."""
    def remade(self, parts: Any) -> Any:
        """Another instance with these values."""


def _aggregate(cls: Any) -> Any:
    """Make a class a composite value: its annotations are its fields, which `__init__` sets.

    An instance can be an argument of a jit function, be carried through loops and be returned.

        @tl.core._aggregate
        class Running:
            maximum: tl.tensor
            total: tl.tensor

            def __init__(self, maximum, total):
                self.maximum = maximum
                self.total = total

            @triton.jit
            def add(self, x):
                top = tl.maximum(self.maximum, x)
                return Running(top, self.total * tl.exp(self.maximum - top) + tl.exp(x - top))
    """


def aggregate(cls: Any) -> Any:
    """Make a class a composite value: its annotations are its fields, in this order the constructor's parameters.

    Instances never change: `tl.aggregate_replace` makes others. Fields may have defaults, and a class may inherit from
    other aggregates. Operators are `@triton.jit` methods such as `__add__`.

    >>> from tritium.language import core as tl
    >>> @aggregate
    ... class Window:
    ...     start: tl.constexpr
    ...     size: tl.constexpr = 16
    >>> Window(3).size, Window(3, size=7).start
    (constexpr[16], constexpr[3])
    """


class aggregate_type:
    """The type of an aggregate."""
    def __init__(self, cls: Any, types: Any) -> None: ...
    def is_tuple(self) -> Any:
        """False."""


@anything
class constexpr:
    """A value known at compile time; as an annotation, a parameter that must be.

    >>> BLOCK = constexpr(128)
    >>> BLOCK // 2, BLOCK.bit_length()
    (constexpr[64], 8)
    """
    def __init__(self, value: Any) -> None: ...
    @property
    def type(self) -> Any:
        """A `constexpr_type` that holds the value."""
    def __bool__(self) -> Any: ...
    def __index__(self) -> Any: ...
    def __int__(self) -> Any: ...
    def __float__(self) -> Any: ...
    def __len__(self) -> Any: ...
    def __iter__(self) -> Any: ...
    def __contains__(self, item: Operand) -> Any: ...
    def __getitem__(self, index: Any) -> Any: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
    def __add__(self, other: Operand) -> Any: ...
    def __radd__(self, other: Operand) -> Any: ...
    def __sub__(self, other: Operand) -> Any: ...
    def __rsub__(self, other: Operand) -> Any: ...
    def __mul__(self, other: Operand) -> Any: ...
    def __rmul__(self, other: Operand) -> Any: ...
    def __truediv__(self, other: Operand) -> Any: ...
    def __rtruediv__(self, other: Operand) -> Any: ...
    def __floordiv__(self, other: Operand) -> Any: ...
    def __rfloordiv__(self, other: Operand) -> Any: ...
    def __mod__(self, other: Operand) -> Any: ...
    def __rmod__(self, other: Operand) -> Any: ...
    def __pow__(self, other: Operand) -> Any: ...
    def __rpow__(self, other: Operand) -> Any: ...
    def __lshift__(self, other: Operand) -> Any: ...
    def __rlshift__(self, other: Operand) -> Any: ...
    def __rshift__(self, other: Operand) -> Any: ...
    def __rrshift__(self, other: Operand) -> Any: ...
    def __and__(self, other: Operand) -> Any: ...
    def __rand__(self, other: Operand) -> Any: ...
    def __or__(self, other: Operand) -> Any: ...
    def __ror__(self, other: Operand) -> Any: ...
    def __xor__(self, other: Operand) -> Any: ...
    def __rxor__(self, other: Operand) -> Any: ...
    def __neg__(self) -> Any: ...
    def __pos__(self) -> Any: ...
    def __invert__(self) -> Any: ...


def _unwrap_if_constexpr(value: Any) -> Any:
    """The bare object of a constexpr, also inside tuples and lists.

    >>> unwrap(constexpr(3)), unwrap([constexpr(1), 2])
    (3, [1, 2])
    """


TRITON_MAX_TENSOR_NUMEL: int


class bfloat16(tensor, metaclass=dtype):
    """The dtype bfloat16; as an annotation, a scalar of it."""


class block_type(dtype):
    """A tile of `shape`: every axis a power of two, at most 2**20 elements.

    >>> block_type(float32, [16, 32]).numel
    512
    """
    element_ty: dtype
    shape: builtins.tuple[int, ...]
    numel: int
    nbytes: int
    def __new__(cls, element_ty: dtype, shape: Iterable[int]) -> block_type: ...
    def __init__(self, element_ty: dtype, shape: Iterable[int]) -> None: ...
    @property
    def ir(self) -> Any:
        """The IR's tile type."""
    def is_block(self) -> bool:
        """True."""
    @property
    def scalar(self) -> dtype:
        """The type of one element."""
    def get_block_shapes(self) -> builtins.tuple[int, ...]:
        """The shape."""
    def with_element_ty(self, element_ty: dtype) -> dtype:
        """The same shape of another element."""
    def mangle(self) -> str:
        """A short name for use inside symbols."""


@anything
class const:
    """Annotation of a pointer parameter that the kernel only reads: `src: tl.const`."""


class constexpr_type:
    """The type of a compile-time value: the value itself.

    >>> constexpr_type(3) == constexpr_type(3), constexpr_type(3)
    (True, constexpr_type[3])
    """
    value: Any
    def __init__(self, value: Any) -> None: ...
    def is_tuple(self) -> bool:
        """False."""
    def mangle(self) -> str:
        """A short name for use inside symbols."""


class dtype(builtins.type):
    """The type of a number. `tl.dtype("fp32") is tl.float32`.

    >>> dtype("fp16").primitive_bitwidth, dtype("int8").is_int_signed(), str(dtype("bf16"))
    (16, True, 'bf16')
    """
    name: str
    ir: Any
    primitive_bitwidth: int
    itemsize: int
    int_bitwidth: int
    int_signedness: SIGNEDNESS
    fp_mantissa_width: int
    exponent_bias: int
    SINT_TYPES: ClassVar[list[str]]
    UINT_TYPES: ClassVar[list[str]]
    STANDARD_FP_TYPES: ClassVar[list[str]]
    FP_TYPES: ClassVar[list[str]]
    OTHER_TYPES: ClassVar[list[str]]
    class SIGNEDNESS(enum.Enum):
        SIGNED = 0
        UNSIGNED = 1
    class KIND(enum.Enum):
        BOOLEAN = 0
        INTEGRAL = 1
        FLOATING = 2
    def __new__(cls, name: str) -> dtype: ...
    def __init__(self, name: str) -> None: ...
    def is_fp8(self) -> bool:
        """True for the five 8-bit float types."""
    def is_floating(self) -> bool:
        """True for every float type."""
    def is_standard_floating(self) -> bool:
        """True for fp16, bf16, fp32 and fp64."""
    def is_int_signed(self) -> bool:
        """True for int8 to int64."""
    def is_int_unsigned(self) -> bool:
        """True for int1 and uint8 to uint64."""
    def is_int(self) -> bool:
        """True for integers and bool."""
    def is_bool(self) -> bool:
        """True for int1."""
    def is_void(self) -> bool:
        """True for the type of what has no value."""
    def is_block(self) -> bool:
        """True for types of tiles."""
    def is_ptr(self) -> bool:
        """True for pointers (not for tiles of pointers)."""
    def is_const(self) -> bool:
        """True for pointers that may not be stored through."""
    def is_tuple(self) -> bool:
        """True for types of tuples."""
    @staticmethod
    def is_dtype(name: str) -> bool:
        """Whether a string names a dtype.

        >>> dtype.is_dtype("fp32"), dtype.is_dtype("float")
        (True, False)
        """
    def kind(self) -> KIND:
        """BOOLEAN, INTEGRAL or FLOATING: the order of promotion."""
    def get_int_max_value(self) -> int:
        """The largest value of an integer type."""
    def get_int_min_value(self) -> int:
        """The smallest value of an integer type."""
    @property
    def scalar(self) -> dtype:
        """The type of one element: itself."""
    def with_element_ty(self, element_ty: dtype) -> dtype:
        """The type with its element exchanged."""
    def codegen_name(self) -> str:
        """The name as an attribute of `tl`: float32 for fp32."""
    def mangle(self) -> str:
        """A short name for use inside symbols."""
    @property
    def cache_key_part(self) -> str:
        """What stands for the type in cache keys."""
    @property
    def signature(self) -> str:
        """The string that names the type in a kernel's signature: `i32`, `*fp16`."""
    def is_int1(self) -> bool:
        """True for int1."""
    def is_int8(self) -> bool:
        """True for int8."""
    def is_int16(self) -> bool:
        """True for int16."""
    def is_int32(self) -> bool:
        """True for int32."""
    def is_int64(self) -> bool:
        """True for int64."""
    def is_uint8(self) -> bool:
        """True for uint8."""
    def is_uint16(self) -> bool:
        """True for uint16."""
    def is_uint32(self) -> bool:
        """True for uint32."""
    def is_uint64(self) -> bool:
        """True for uint64."""
    def is_fp8e5(self) -> bool:
        """True for fp8e5."""
    def is_fp8e5b16(self) -> bool:
        """True for fp8e5b16."""
    def is_fp8e4nv(self) -> bool:
        """True for fp8e4nv."""
    def is_fp8e4b8(self) -> bool:
        """True for fp8e4b8."""
    def is_fp8e4b15(self) -> bool:
        """True for fp8e4b15."""
    def is_fp16(self) -> bool:
        """True for fp16."""
    def is_bf16(self) -> bool:
        """True for bf16."""
    def is_fp32(self) -> bool:
        """True for fp32."""
    def is_fp64(self) -> bool:
        """True for fp64."""


class float8e4b8(tensor, metaclass=dtype):
    """The dtype float8e4b8; as an annotation, a scalar of it."""


class float8e4b15(tensor, metaclass=dtype):
    """The dtype float8e4b15; as an annotation, a scalar of it."""


class float8e4nv(tensor, metaclass=dtype):
    """The dtype float8e4nv; as an annotation, a scalar of it."""


class float8e5(tensor, metaclass=dtype):
    """The dtype float8e5; as an annotation, a scalar of it."""


class float8e5b16(tensor, metaclass=dtype):
    """The dtype float8e5b16; as an annotation, a scalar of it."""


class float16(tensor, metaclass=dtype):
    """The dtype float16; as an annotation, a scalar of it."""


class float32(tensor, metaclass=dtype):
    """The dtype float32; as an annotation, a scalar of it."""


class float64(tensor, metaclass=dtype):
    """The dtype float64; as an annotation, a scalar of it."""


class int1(tensor, metaclass=dtype):
    """The dtype int1; as an annotation, a scalar of it."""


class int8(tensor, metaclass=dtype):
    """The dtype int8; as an annotation, a scalar of it."""


class int16(tensor, metaclass=dtype):
    """The dtype int16; as an annotation, a scalar of it."""


class int32(tensor, metaclass=dtype):
    """The dtype int32; as an annotation, a scalar of it."""


class int64(tensor, metaclass=dtype):
    """The dtype int64; as an annotation, a scalar of it."""


pi32_t: pointer_type


class pointer_type(dtype):
    """Address of elements of `element_ty`; `const` forbids stores through it.

    >>> pointer_type(float32).element_ty, str(pointer_type(int8, const=True))
    (triton.language.float32, 'const_pointer<int8>')
    """
    element_ty: dtype
    address_space: int
    const: bool
    def __new__(cls, element_ty: dtype, address_space: int | str = 1, const: bool = False) -> pointer_type: ...
    def __init__(self, element_ty: dtype, address_space: int | str = 1, const: bool = False) -> None: ...
    @property
    def ir(self) -> Any:
        """The IR's pointer type (pointers to tiles exist in the language only)."""
    def is_ptr(self) -> bool:
        """True."""
    def is_const(self) -> bool:
        """True when nothing may be stored through it."""
    @property
    def signature(self) -> str:
        """`*fp32`, or `*kfp32` for a pointer to constants."""
    def with_element_ty(self, element_ty: dtype) -> dtype:
        """A pointer to another type."""
    def mangle(self) -> str:
        """A short name for use inside symbols."""


def str_to_ty(name: str, c: Any = None) -> Any:
    """The type a signature string stands for; `c` is the value of a "constexpr".

    >>> str_to_ty("*i8", None), str_to_ty("constexpr", 3)
    (pointer<int8>, constexpr_type[3])
    """


class tensor_descriptor_type:
    """The type of a tensor descriptor: the tile it moves, and the types of its shape and strides.

    >>> tensor_descriptor_type(block_type(float16, [64, 32])).signature
    'tensordesc<fp16[64, 32]>'
    """
    block_type: _block_type
    shape_type: tuple_type
    strides_type: tuple_type
    def __init__(self, block_type: _block_type, shape_type: tuple_type | None = None,
                 strides_type: tuple_type | None = None) -> None: ...
    @property
    def signature(self) -> str:
        """How a kernel's signature names it."""
    def is_tuple(self) -> bool:
        """False."""


class tuple_type:
    """Types of a tuple's elements, with field names when it came from a named tuple.

    >>> tuple_type([int32, float32], ["n", "x"])
    tuple_type(n: int32, x: fp32)
    """
    types: list
    fields: list[str] | None
    def __init__(self, types: Iterable, fields: Sequence[str] | None = None) -> None: ...
    def is_tuple(self) -> bool:
        """True."""
    @property
    def name(self) -> str: ...
    def __iter__(self) -> Iterator: ...
    def __len__(self) -> int: ...
    def __getitem__(self, index: Any) -> Any: ...


class uint8(tensor, metaclass=dtype):
    """The dtype uint8; as an annotation, a scalar of it."""


class uint16(tensor, metaclass=dtype):
    """The dtype uint16; as an annotation, a scalar of it."""


class uint32(tensor, metaclass=dtype):
    """The dtype uint32; as an annotation, a scalar of it."""


class uint64(tensor, metaclass=dtype):
    """The dtype uint64; as an annotation, a scalar of it."""


class void(tensor, metaclass=dtype):
    """The dtype void; as an annotation, a scalar of it."""


def get_int_dtype(bitwidth: int, signed: bool) -> dtype:
    """The integer type of a width; one bit is a bool.

    >>> get_int_dtype(16, signed=False), get_int_dtype(64, True)
    (triton.language.uint16, triton.language.int64)
    """


class slice:
    """`start:stop:step` inside an index.

    >>> slice(None, None, None)
    slice(None, None, None)
    """
    def __init__(self, start: Any = None, stop: Any = None, step: Any = None) -> None: ...


class tensor:
    """A run-time value: a number, a pointer, or a tile of them. It never changes.

    Operators and methods work on it inside kernels:

        x = tl.load(x_ptr + offsets, mask)
        y = (x * 2).to(tl.float16).sum(axis=0)
    """
    def __init__(self, handle: Any, type: Any = None) -> None: ...
    @property
    def type(self) -> _dtype:
        """Its type: a dtype or pointer type, or a `block_type` of one."""
    @property
    def dtype(self) -> _dtype:
        """The type of one element."""
    @property
    def shape(self) -> builtins.tuple[int, ...]:
        """The sizes of its axes; empty for a scalar."""
    @property
    def numel(self) -> int:
        """How many elements it has."""
    @property
    def T(self) -> tensor:
        """The transpose of a matrix."""
    def __bool__(self) -> bool: ...
    def __index__(self) -> int: ...
    def __int__(self) -> int: ...
    def __float__(self) -> float: ...
    def __getitem__(self, index: Any) -> tensor: ...
    def __neg__(self) -> tensor: ...
    def __invert__(self) -> tensor: ...
    def __add__(self, other: Operand) -> tensor: ...
    def __radd__(self, other: Operand) -> tensor: ...
    def __sub__(self, other: Operand) -> tensor: ...
    def __rsub__(self, other: Operand) -> tensor: ...
    def __mul__(self, other: Operand) -> tensor: ...
    def __rmul__(self, other: Operand) -> tensor: ...
    def __truediv__(self, other: Operand) -> tensor: ...
    def __rtruediv__(self, other: Operand) -> tensor: ...
    def __floordiv__(self, other: Operand) -> tensor: ...
    def __rfloordiv__(self, other: Operand) -> tensor: ...
    def __mod__(self, other: Operand) -> tensor: ...
    def __rmod__(self, other: Operand) -> tensor: ...
    def __and__(self, other: Operand) -> tensor: ...
    def __rand__(self, other: Operand) -> tensor: ...
    def __or__(self, other: Operand) -> tensor: ...
    def __ror__(self, other: Operand) -> tensor: ...
    def __xor__(self, other: Operand) -> tensor: ...
    def __rxor__(self, other: Operand) -> tensor: ...
    def __lshift__(self, other: Operand) -> tensor: ...
    def __rlshift__(self, other: Operand) -> tensor: ...
    def __rshift__(self, other: Operand) -> tensor: ...
    def __rrshift__(self, other: Operand) -> tensor: ...
    def __eq__(self, other: Any) -> bools: ...
    def __ne__(self, other: Any) -> bools: ...
    def __lt__(self, other: Any) -> bools: ...
    def __le__(self, other: Any) -> bools: ...
    def __gt__(self, other: Any) -> bools: ...
    def __ge__(self, other: Any) -> bools: ...
    def cast(self, dtype: _dtype, fp_downcast_rounding: str | None = None, bitcast: bool = False) -> tensor:
        """Convert to another dtype. Narrowing floats round to nearest even, or towards zero with `"rtz"`.

        With `bitcast` the bits stay and are read as a dtype of the same width.

            y = tl.cast(x, tl.float16)
            bits = tl.cast(x, tl.int32, bitcast=True)    # also written x.to(tl.int32, bitcast=True)
        """
    def broadcast_to(self, *shape: int | Sequence[int]) -> tensor:
        """Repeat the axes of size 1 until the shape fits; a scalar fits every shape.

            bias = bias[None, :].broadcast_to(BLOCK_M, BLOCK_N)
        """
    def trans(self, *dims: int | Sequence[int]) -> tensor:
        """Swap the last two axes, or reorder all of them as `permute` does.

            scores = tl.dot(q, tl.trans(k))
        """
    def permute(self, *dims: int | Sequence[int]) -> tensor:
        """Reorder the axes: axis k of the result is axis `dims[k]` of the input.

            heads_first = tl.permute(x, (1, 0, 2))
        """
    def split(self) -> Pair:
        """The two halves of a last axis of size 2.

            real, imaginary = tl.split(complex_pairs)
        """
    def view(self, *shape: int | Sequence[int]) -> tensor:
        """Deprecated: `reshape` that may reorder elements.

            y = tl.view(x, (4, 8))        # rather write tl.reshape(x, (4, 8))
        """
    def reshape(self, *shape: int | Sequence[int], can_reorder: bool = False) -> tensor:
        """The same elements, in row-major order, in another shape; `can_reorder` gives that order up.

            pairs = tl.reshape(x, (BLOCK // 2, 2))
        """
    def expand_dims(self, axis: int | Sequence[int]) -> tensor:
        """Insert axes of size 1 at the places `axis` names in the result.

            column = tl.expand_dims(x, 1)        # the same as x[:, None]
        """
    def item(self) -> tensor:
        """The one element of a tensor, as a scalar.

            if tl.max(x, axis=0, keep_dims=True).item() > 0: ...
        """
    def store(self, value: Operand, mask: Operand | None = None, boundary_check: Sequence[int] = (),
              cache_modifier: str = "", eviction_policy: str = "") -> None:
        """Write `value`, cast to the pointee's dtype, where `mask` is true.

            tl.store(out_ptr + offsets, x + y, mask=offsets < n)
        """
    def advance(self, offsets: Sequence[Operand]) -> block_pointer:
        """The block pointer moved by `offsets`, one for each axis.

            a = tl.advance(a, (0, BLOCK_K))
        """
    def atomic_cas(self, cmp: Operand, val: Operand, sem: str | None = None, scope: str | None = None) -> tensor:
        """Store `val` where memory equals `cmp`, in one indivisible step; gives the old value back.

            while tl.atomic_cas(lock_ptr, 0, 1) == 1:        # take a lock
                pass
        """
    def atomic_xchg(self, val: Operand, mask: Operand | None = None, sem: str | None = None,
                    scope: str | None = None) -> tensor:
        """Exchange memory and `val` in one indivisible step; gives the old value back.

            tl.atomic_xchg(lock_ptr, 0)  # release a lock
        """
    def atomic_add(self, val: Operand, mask: Operand | None = None, sem: str | None = None,
                   scope: str | None = None) -> tensor:
        """Add to memory in one indivisible step; gives the old value back.

            ticket = tl.atomic_add(counter_ptr, 1)
        """
    def atomic_load(self, mask: Operand | None = None, sem: str | None = None, scope: str | None = None) -> tensor:
        """Read elements that other programs write, each at once; by default, what they wrote before is seen afterwards.

        `sem` is "acquire" or "relaxed". Where `mask` is false nothing is read and the value is unspecified.

            while tl.atomic_load(flag_ptr) == 0:
                pass
        """
    def atomic_store(self, val: Operand, mask: Operand | None = None, sem: str | None = None,
                     scope: str | None = None) -> None:
        """Write elements that other programs read: each at once, and by default after all that was written before.

        `sem` is "release" or "relaxed". The value is cast and broadcast as in `tl.store`.

            tl.store(result_ptr, x)
            tl.atomic_store(flag_ptr, 1)
        """
    def atomic_max(self, val: Operand, mask: Operand | None = None, sem: str | None = None,
                   scope: str | None = None) -> tensor:
        """Keep the larger of memory and `val` in one indivisible step; gives the old value back.

            tl.atomic_max(best_ptr, score)
        """
    def atomic_min(self, val: Operand, mask: Operand | None = None, sem: str | None = None,
                   scope: str | None = None) -> tensor:
        """Keep the smaller of memory and `val` in one indivisible step; gives the old value back.

            tl.atomic_min(first_ptr, index)
        """
    def atomic_and(self, val: Operand, mask: Operand | None = None, sem: str | None = None,
                   scope: str | None = None) -> tensor:
        """`&` into memory in one indivisible step; gives the old value back.

            tl.atomic_and(flags_ptr, ~1)
        """
    def atomic_or(self, val: Operand, mask: Operand | None = None, sem: str | None = None,
                  scope: str | None = None) -> tensor:
        """`|` into memory in one indivisible step; gives the old value back.

            tl.atomic_or(flags_ptr, 1)
        """
    def atomic_xor(self, val: Operand, mask: Operand | None = None, sem: str | None = None,
                   scope: str | None = None) -> tensor:
        """`^` into memory in one indivisible step; gives the old value back.

            tl.atomic_xor(parity_ptr, bit)
        """
    def exp(self) -> tensor:
        """e to the power x (float32, float64).

            p = tl.exp(x - tl.max(x, axis=0))
        """
    def exp2(self) -> tensor:
        """2 to the power x (float32, float64).

            p = tl.exp2(x * 1.4426950408889634)
        """
    def log(self) -> tensor:
        """Natural logarithm (float32, float64).

            entropy = -tl.sum(p * tl.log(p), axis=0)
        """
    def log2(self) -> tensor:
        """Logarithm to base 2 (float32, float64).

            bits = tl.log2(x)
        """
    def cos(self) -> tensor:
        """Cosine of x radians (float32, float64).

            y = tl.cos(angle)
        """
    def sin(self) -> tensor:
        """Sine of x radians (float32, float64).

            y = tl.sin(angle)
        """
    def sqrt(self) -> tensor:
        """Square root, fast (float32, float64).

            norm = tl.sqrt(tl.sum(x * x, axis=0))
        """
    def sqrt_rn(self) -> tensor:
        """Square root, correctly rounded (float32).

            norm = tl.sqrt_rn(tl.sum(x * x, axis=0))
        """
    def rsqrt(self) -> tensor:
        """Reciprocal of the square root (float32, float64).

            y = x * tl.rsqrt(variance + 1e-5)
        """
    def abs(self) -> tensor:
        """Absolute value of any number; the smallest integer stays itself.

            largest = tl.max(tl.abs(x), axis=0)
        """
    def erf(self) -> tensor:
        """Error function (float32, float64).

            gelu = 0.5 * x * (1 + tl.erf(x * 0.7071067811865476))
        """
    def floor(self) -> tensor:
        """Largest whole number not above x (float32, float64).

            cell = tl.floor(x).to(tl.int32)
        """
    def ceil(self) -> tensor:
        """Smallest whole number not below x (float32, float64).

            blocks = tl.ceil(x / 16.0)
        """
    def reduce(self, axis: int | None, combine_fn: Callable[..., Any], keep_dims: bool = False) -> tensor:
        """Combine the elements along an axis (all of them when `axis` is None) with a jit function of two values.

            @triton.jit
            def multiply(x, y):
                return x * y

            product = tl.reduce(x, 0, multiply)

        A tuple of tiles is reduced together: `combine_fn` takes two sets of values and returns one.
        """
    def associative_scan(self, axis: int, combine_fn: Callable[..., Any], reverse: bool = False) -> tensor:
        """Running combination along an axis: element i of the result combines elements 0 to i (or i to the last).

            prefix_maximum = tl.associative_scan(x, 0, larger)
        """
    def gather(self, index: Any, axis: int) -> tensor:
        """Elements of `src` picked by `index` along an axis: `out[i, j] = src[index[i, j], j]` for axis 0.

            shuffled = tl.gather(x, permutation, axis=0)
        """
    def histogram(self, num_bins: int, mask: Operand | None = None) -> tensor:
        """How often each of 0 ... num_bins - 1 occurs in a 1-d tile of integers, as int32.

            counts = tl.histogram(digits, 16, mask=offsets < n)
        """
    def logical_and(self, other: Operand) -> tensor:
        """`input and other` of bools, element by element.

            inside = (rows < M)[:, None].logical_and((columns < N)[None, :])
        """
    def logical_or(self, other: Operand) -> tensor:
        """`input or other` of bools, element by element.

            outside = (rows >= M)[:, None].logical_or((columns >= N)[None, :])
        """
    def cdiv(self, div: Operand) -> tensor:
        """How many blocks of size `div` cover `x`.

            blocks = tl.cdiv(n_elements, BLOCK)
        """
    def sigmoid(self) -> tensor:
        """1 / (1 + exp(-x)).

            silu = x * tl.sigmoid(x)
        """
    def softmax(self, dim: int | None = None, keep_dims: bool | None = None, ieee_rounding: bool = False) -> tensor:
        """exp(x) divided by its sum along an axis (the first if none is named); the shape stays.

            p = tl.softmax(scores, dim=1)
        """
    def ravel(self, can_reorder: bool = False) -> tensor:
        """All elements along one axis.

            flat = tl.ravel(tile)
        """
    @overload
    def max(self, axis: int | None = None, return_indices: Literal[False] = False,
            return_indices_tie_break_left: bool = True, keep_dims: bool = False) -> tensor:
        """The largest element along an axis, or of all; NaNs are passed over. Optionally with its position.

            largest = tl.max(x, axis=0)
            value, position = tl.max(x, axis=0, return_indices=True)
        """
    @overload
    def max(self, axis: int | None = None, *, return_indices: Literal[True], return_indices_tie_break_left: bool = True,
            keep_dims: bool = False) -> Pair:
        """The largest element along an axis, or of all; NaNs are passed over. Optionally with its position.

            largest = tl.max(x, axis=0)
            value, position = tl.max(x, axis=0, return_indices=True)
        """
    @overload
    def max(self, axis: int | None, return_indices: Literal[True], return_indices_tie_break_left: bool = True,
            keep_dims: bool = False) -> Pair:
        """The largest element along an axis, or of all; NaNs are passed over. Optionally with its position.

            largest = tl.max(x, axis=0)
            value, position = tl.max(x, axis=0, return_indices=True)
        """
    def argmax(self, axis: int, tie_break_left: bool = True, keep_dims: bool = False) -> tensor:
        """The position of the largest element along an axis, as int32; the first of equals unless told otherwise.

            winner = tl.argmax(scores, axis=0)
        """
    @overload
    def min(self, axis: int | None = None, return_indices: Literal[False] = False,
            return_indices_tie_break_left: bool = True, keep_dims: bool = False) -> tensor:
        """The smallest element along an axis, or of all; NaNs are passed over. Optionally with its position.

            smallest = tl.min(x, axis=0)
        """
    @overload
    def min(self, axis: int | None = None, *, return_indices: Literal[True], return_indices_tie_break_left: bool = True,
            keep_dims: bool = False) -> Pair:
        """The smallest element along an axis, or of all; NaNs are passed over. Optionally with its position.

            smallest = tl.min(x, axis=0)
        """
    @overload
    def min(self, axis: int | None, return_indices: Literal[True], return_indices_tie_break_left: bool = True,
            keep_dims: bool = False) -> Pair:
        """The smallest element along an axis, or of all; NaNs are passed over. Optionally with its position.

            smallest = tl.min(x, axis=0)
        """
    def argmin(self, axis: int, tie_break_left: bool = True, keep_dims: bool = False) -> tensor:
        """The position of the smallest element along an axis, as int32; the first of equals unless told otherwise.

            nearest = tl.argmin(distances, axis=0)
        """
    def sum(self, axis: int | None = None, keep_dims: bool = False, dtype: _dtype | None = None) -> tensor:
        """The sum along an axis, or of everything. Integers below 32 bits are summed in 32.

            total = tl.sum(x, axis=0)
        """
    def xor_sum(self, axis: int | None = None, keep_dims: bool = False) -> tensor:
        """The exclusive or of integers along an axis, or of all.

            parity = tl.xor_sum(bits, axis=0)
        """
    def reduce_or(self, axis: int, keep_dims: bool = False) -> tensor:
        """The bitwise or of integers along an axis; of bools, whether any is true.

            any_above = tl.reduce_or(x > limit, axis=0)
        """
    def cumsum(self, axis: int = 0, reverse: bool = False, dtype: _dtype | None = None) -> tensor:
        """Running sum along an axis, from the start or, reversed, from the end.

            offsets = tl.cumsum(lengths, axis=0) - lengths
        """
    def cumprod(self, axis: int = 0, reverse: bool = False, dtype: _dtype | None = None) -> tensor:
        """Running product along an axis, from the start or, reversed, from the end.

            survival = tl.cumprod(1 - hazard, axis=0)
        """
    def flip(self, dim: int | None = None) -> tensor:
        """The elements along an axis, the last by default, in reverse order.

            backwards = tl.flip(x, 0)
        """
    def sort(self, dim: int | None = None, descending: int = 0) -> tensor:
        """The elements of the last axis in order.

            in_order = tl.sort(x)
            largest_first = tl.sort(x, descending=True)
        """
    def atomic_poll(self, expected_value: Operand, sem: str | None = None, scope: str | None = None,
                    timeout_ns: Operand | None = None) -> tensor:
        """Wait until memory holds a value; whether it did within `timeout_ns` nanoseconds, without one always.

        `sem` is "acquire" or "relaxed". All elements of a block of pointers share the time.

            tl.atomic_poll(flag_ptr, 1)
            ready = tl.atomic_poll(flag_ptr, 1, timeout_ns=1000)
        """
    def to(self, dtype: _dtype, fp_downcast_rounding: str | None = None, bitcast: bool = False) -> tensor:
        """Convert to another dtype. Narrowing floats round to nearest even, or towards zero with `"rtz"`.

        With `bitcast` the bits stay and are read as a dtype of the same width.

            y = tl.cast(x, tl.float16)
            bits = tl.cast(x, tl.int32, bitcast=True)    # also written x.to(tl.int32, bitcast=True)
        """


class tuple(builtins.tuple[Any, ...]):
    """Several values as one: what tuple and list displays in a kernel make. Indices are compile-time constants.

    >>> t = tuple([1, 2, 3])
    >>> t[-1], t[0:2], t + (4,), len(t)
    (3, (1, 2), (1, 2, 3, 4), 3)
    """
    def __new__(cls, args: Iterable = (), type: tuple_type | None = None) -> Any: ...
    @property
    def values(self) -> list:
        """The elements as a list."""
    @property
    def type(self) -> tuple_type:
        """The types of the elements, with field names if it has any."""
    def __getitem__(self, index: Any) -> Any: ...
    def __add__(self, other: Operand) -> tuple: ...
    def __mul__(self, times: Operand) -> tuple: ...
    def __rmul__(self, times: Operand) -> tuple: ...


def builtin(fn: Any) -> Any:
    """Decorator of a user's own builtin, written as `def f(x, ..., _semantic=None)`.

    It runs while a kernel is compiled, gets tensors and constexprs, and passes `_semantic` on to what it calls. A
    parameter called `_generator` gets an object whose `call_JitFunction(fn, args, kwargs)` calls a jit function.
    """


def extern(fn: Any) -> Any:
    """Decorator of a user's own builtin, written as `def f(x, ..., _semantic=None)`.

    It runs while a kernel is compiled, gets tensors and constexprs, and passes `_semantic` on to what it calls. A
    parameter called `_generator` gets an object whose `call_JitFunction(fn, args, kwargs)` calls a jit function.
    """


CONSTEXPR_0: constexpr


def extern_elementwise(lib_name: str, lib_path: str, args: Sequence[Operand], arg_type_symbol_dict: Any,
                       is_pure: bool) -> tensor:
    """Call a function of a device library by symbol, chosen by the dtypes of the arguments.

    The symbols of CUDA's and ROCm's math libraries are known on every target.

        y = tl.core.extern_elementwise("", "", [x], {(tl.float32,): ("__nv_asinf", tl.float32)}, is_pure=True)
    """


def inline_asm_elementwise(asm: str, constraints: str, args: Sequence[Operand], dtype: dtype | Sequence[dtype],
                           is_pure: bool, pack: int) -> Any:
    """Run LLVM inline assembly on every `pack` elements; `dtype` is one dtype, or a sequence for several results.

    Elements of less than 32 bits share 32-bit registers. Which elements are taken together is not specified. PTX that
    only computes on registers runs on every target.

        doubled = tl.inline_asm_elementwise("add.s32 $0, $1, $1;", "=r,r", [x], dtype=tl.int32, is_pure=True, pack=1)
    """


def advance(base: block_pointer, offsets: Sequence[Operand]) -> block_pointer:
    """The block pointer moved by `offsets`, one for each axis.

        a = tl.advance(a, (0, BLOCK_K))
    """


def make_block_ptr(base: Operand, shape: Sequence[Operand], strides: Sequence[Operand], offsets: Sequence[Operand],
                   block_shape: Sequence[int], order: Sequence[int]) -> block_pointer:
    """A pointer to the tile of `block_shape` at `offsets` of a tensor in memory.

    `shape` and `strides` describe the tensor, in elements; `order` lists the axes from the fastest in memory.

        a = tl.make_block_ptr(a_ptr, (M, K), (K, 1), (pid * BM, 0), (BM, BK), order=(1, 0))
        for _ in range(0, K, BK):
            acc += tl.sum(tl.load(a, boundary_check=(0, 1)), axis=1)
            a = tl.advance(a, (0, BK))
    """


def cast(input: Operand, dtype: dtype, fp_downcast_rounding: str | None = None, bitcast: bool = False) -> tensor:
    """Convert to another dtype. Narrowing floats round to nearest even, or towards zero with `"rtz"`.

    With `bitcast` the bits stay and are read as a dtype of the same width.

        y = tl.cast(x, tl.float16)
        bits = tl.cast(x, tl.int32, bitcast=True)    # also written x.to(tl.int32, bitcast=True)
    """


def device_assert(cond: Any, msg: str = "", mask: Operand | None = None) -> None:
    """Stop the kernel when the condition fails for an element whose `mask` holds. Checked with `debug=True` only.

        tl.device_assert(index < n, "index out of range", mask=mask)
    """


def device_print(prefix: str, *args: Any, hex: bool = False) -> None:
    """Print a line for every element of the arguments while the kernel runs; `print` is the same.

    With `hex` integers are printed as `0x0000001f`, floats by their bits; from 3.9 on floats as `0x1.8p+0`.

        tl.device_print("x", x)
        print("pid", tl.program_id(0))
    """


def expect_zero(x: Operand, mask: Operand) -> tensor:
    """x itself, which must be 0 where `mask` holds: checked with `debug=True` only.

        x = tl.expect_zero(tl.load(ptrs, mask=inside, other=0.0), ~inside)
    """


def static_assert(cond: Any, msg: str = "") -> None:
    """Stop the compilation when a compile-time condition is false.

        tl.static_assert(BLOCK % 16 == 0, "BLOCK must be a multiple of 16")
    """


def static_print(*values: Any, sep: str = " ", end: str = "\n", file: Any = None, flush: bool = False) -> None:
    """Python's `print`, while the kernel is compiled; a tensor shows its type.

        tl.static_print("block size", BLOCK)
    """


def load_tensor_descriptor(desc: tensor_descriptor, offsets: Sequence[Operand]) -> tensor:
    """The tile at `offsets`; outside of the tensor it is 0, or NaN if the descriptor says so.

        tile = tl.load_tensor_descriptor(desc, [row, column])        # or desc.load([row, column])
    """


def make_tensor_descriptor(base: Operand, shape: Sequence[Operand], strides: Sequence[Operand],
                           block_shape: Sequence[int], padding_option: str = "zero") -> tensor_descriptor:
    """Describe a tensor in memory, of which tiles of `block_shape` are loaded and stored.

    The last stride is the constant 1 and the tile's last axis spans at least 16 bytes. On a GPU the base must be
    16-byte aligned and the other strides multiples of 16 bytes.

        desc = tl.make_tensor_descriptor(x_ptr, [M, N], [N, 1], [BLOCK_M, BLOCK_N])
        desc.store([0, 0], desc.load([0, 0]) * 2)
    """


def store_tensor_descriptor(desc: tensor_descriptor, offsets: Sequence[Operand], value: Operand) -> None:
    """Write a tile at `offsets`; what lies outside of the tensor is dropped.

        tl.store_tensor_descriptor(desc, [row, column], tile)        # or desc.store([row, column], tile)
    """


def abs(x: Operand) -> tensor:
    """Absolute value of any number; the smallest integer stays itself.

        largest = tl.max(tl.abs(x), axis=0)
    """


def add(x: Operand, y: Operand, sanitize_overflow: bool = True) -> tensor:
    """x + y; `sanitize_overflow=False` leaves out the check that `debug` adds to integers.

        counter = tl.add(hash, 1, sanitize_overflow=False)
    """


def ceil(x: Operand) -> tensor:
    """Smallest whole number not below x (float32, float64).

        blocks = tl.ceil(x / 16.0)
    """


def clamp(x: Operand, min: Operand, max: Operand, propagate_nan: PropagateNan = PropagateNan.NONE) -> tensor:
    """x kept between `min` and `max`.

        relu6 = tl.clamp(x, 0.0, 6.0)
    """


def cos(x: Operand) -> tensor:
    """Cosine of x radians (float32, float64).

        y = tl.cos(angle)
    """


def div_rn(x: Operand, y: Operand) -> tensor:
    """Division, correctly rounded (float32).

        y = tl.div_rn(numerator, denominator)
    """


def erf(x: Operand) -> tensor:
    """Error function (float32, float64).

        gelu = 0.5 * x * (1 + tl.erf(x * 0.7071067811865476))
    """


def exp(x: Operand) -> tensor:
    """e to the power x (float32, float64).

        p = tl.exp(x - tl.max(x, axis=0))
    """


def exp2(x: Operand) -> tensor:
    """2 to the power x (float32, float64).

        p = tl.exp2(x * 1.4426950408889634)
    """


def fdiv(x: Operand, y: Operand, ieee_rounding: bool = False, approx: bool = False) -> tensor:
    """Division of floats of one dtype, which the result keeps (16-bit floats too).

    `ieee_rounding` rounds float32 correctly. `approx` lets float32 be off by 2 ulp where that is faster, as it allows
    y from 2**-126 to 2**126 only. From 3.9 on operands are promoted as `/` promotes them: 16-bit floats give float32.

        y = tl.fdiv(numerator, denominator)
    """


def floor(x: Operand) -> tensor:
    """Largest whole number not above x (float32, float64).

        cell = tl.floor(x).to(tl.int32)
    """


def fma(x: Operand, y: Operand, z: Operand) -> tensor:
    """x * y + z with one rounding.

        acc = tl.fma(a, b, acc)
    """


def log(x: Operand) -> tensor:
    """Natural logarithm (float32, float64).

        entropy = -tl.sum(p * tl.log(p), axis=0)
    """


def log2(x: Operand) -> tensor:
    """Logarithm to base 2 (float32, float64).

        bits = tl.log2(x)
    """


def logical_and(input: Operand, other: Operand) -> tensor:
    """`input and other` of bools, element by element.

        inside = (rows < M)[:, None].logical_and((columns < N)[None, :])
    """


def logical_or(input: Operand, other: Operand) -> tensor:
    """`input or other` of bools, element by element.

        outside = (rows >= M)[:, None].logical_or((columns >= N)[None, :])
    """


def maximum(x: Operand, y: Operand, propagate_nan: PropagateNan = PropagateNan.NONE) -> tensor:
    """The larger of two values; a NaN loses unless `propagate_nan` is ALL.

        relu = tl.maximum(x, 0.0)
    """


def minimum(x: Operand, y: Operand, propagate_nan: PropagateNan = PropagateNan.NONE) -> tensor:
    """The smaller of two values; a NaN loses unless `propagate_nan` is ALL.

        capped = tl.minimum(x, 6.0)
    """


def mul(x: Operand, y: Operand, sanitize_overflow: bool = True) -> tensor:
    """x * y; `sanitize_overflow=False` leaves out the check that `debug` adds to integers.

        hash = tl.mul(hash, 0x9E3779B1, sanitize_overflow=False)
    """


def rsqrt(x: Operand) -> tensor:
    """Reciprocal of the square root (float32, float64).

        y = x * tl.rsqrt(variance + 1e-5)
    """


def sin(x: Operand) -> tensor:
    """Sine of x radians (float32, float64).

        y = tl.sin(angle)
    """


def sqrt(x: Operand) -> tensor:
    """Square root, fast (float32, float64).

        norm = tl.sqrt(tl.sum(x * x, axis=0))
    """


def sqrt_rn(x: Operand) -> tensor:
    """Square root, correctly rounded (float32).

        norm = tl.sqrt_rn(tl.sum(x * x, axis=0))
    """


def sub(x: Operand, y: Operand, sanitize_overflow: bool = True) -> tensor:
    """x - y; `sanitize_overflow=False` leaves out the check that `debug` adds to integers.

        distance = tl.sub(x, y, sanitize_overflow=False)
    """


def umulhi(x: Operand, y: Operand) -> tensor:
    """High half of the unsigned product of 32- or 64-bit integers.

        high = tl.umulhi(x, 0xD2511F53)
    """


def where(condition: Operand, x: Operand, y: Operand) -> tensor:
    """x where the condition holds, y elsewhere; both are always evaluated.

        y = tl.where(x > 0, x, 0.01 * x)
    """


def dot(input: Operand, other: Operand, acc: Operand | None = None, input_precision: str | None = None,
        allow_tf32: bool | None = None, max_num_imprecise_acc: int | None = None,
        out_dtype: dtype | None = None) -> tensor:
    """Matrix product `input @ other + acc` of [.., M, K] and [.., K, N] tiles.

    16- and 8-bit floats are summed in float32, int8 in int32. `input_precision` says how far float32 operands may be
    rounded before they are multiplied: "ieee" not at all, "tf32" to 11 bits; "tf32x3", "bf16x3" and "bf16x6" split them
    and keep about 22, 16 and 24. A target may always be more precise: CPUs and the interpreters multiply all of them
    as float32.

        acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for k in range(0, K, BLOCK_K):
            acc = tl.dot(tl.load(a_ptrs), tl.load(b_ptrs), acc)
    """


def dot_scaled(lhs: Operand, lhs_scale: Operand | None, lhs_format: str, rhs: Operand, rhs_scale: Operand | None,
               rhs_format: str, acc: Operand | None = None, fast_math: bool = False, lhs_k_pack: bool = True,
               rhs_k_pack: bool = True, out_dtype: dtype = float32) -> tensor:
    """Matrix product of operands in microscaling formats: groups of 32 (or 16) elements along K share a scale.

    Formats: "e2m1" (two 4-bit floats in a uint8, the first in the low half), "e4m3", "e5m2", "bf16", "fp16". Scales
    are uint8 exponents (2 ** (s - 127)) of shapes [M, K // 32] and [N, K // 32], or None. Operands are multiplied in
    bf16, or in f32 when one of them is fp16, so that neither loses bits.

        acc = tl.dot_scaled(a, a_scale, "e2m1", b, b_scale, "e4m3", acc)
    """


def atomic_add(pointer: tensor | block_pointer, val: Operand, mask: Operand | None = None, sem: str | None = None,
               scope: str | None = None) -> tensor:
    """Add to memory in one indivisible step; gives the old value back.

        ticket = tl.atomic_add(counter_ptr, 1)
    """


def atomic_and(pointer: tensor | block_pointer, val: Operand, mask: Operand | None = None, sem: str | None = None,
               scope: str | None = None) -> tensor:
    """`&` into memory in one indivisible step; gives the old value back.

        tl.atomic_and(flags_ptr, ~1)
    """


def atomic_cas(pointer: tensor | block_pointer, cmp: Operand, val: Operand, sem: str | None = None,
               scope: str | None = None) -> tensor:
    """Store `val` where memory equals `cmp`, in one indivisible step; gives the old value back.

        while tl.atomic_cas(lock_ptr, 0, 1) == 1:        # take a lock
            pass
    """


def atomic_load(pointer: tensor | block_pointer, mask: Operand | None = None, sem: str | None = None,
                scope: str | None = None) -> tensor:
    """Read elements that other programs write, each at once; by default, what they wrote before is seen afterwards.

    `sem` is "acquire" or "relaxed". Where `mask` is false nothing is read and the value is unspecified.

        while tl.atomic_load(flag_ptr) == 0:
            pass
    """


def atomic_max(pointer: tensor | block_pointer, val: Operand, mask: Operand | None = None, sem: str | None = None,
               scope: str | None = None) -> tensor:
    """Keep the larger of memory and `val` in one indivisible step; gives the old value back.

        tl.atomic_max(best_ptr, score)
    """


def atomic_min(pointer: tensor | block_pointer, val: Operand, mask: Operand | None = None, sem: str | None = None,
               scope: str | None = None) -> tensor:
    """Keep the smaller of memory and `val` in one indivisible step; gives the old value back.

        tl.atomic_min(first_ptr, index)
    """


def atomic_or(pointer: tensor | block_pointer, val: Operand, mask: Operand | None = None, sem: str | None = None,
              scope: str | None = None) -> tensor:
    """`|` into memory in one indivisible step; gives the old value back.

        tl.atomic_or(flags_ptr, 1)
    """


def atomic_store(pointer: tensor | block_pointer, val: Operand, mask: Operand | None = None, sem: str | None = None,
                 scope: str | None = None) -> None:
    """Write elements that other programs read: each at once, and by default after all that was written before.

    `sem` is "release" or "relaxed". The value is cast and broadcast as in `tl.store`.

        tl.store(result_ptr, x)
        tl.atomic_store(flag_ptr, 1)
    """


def atomic_xchg(pointer: tensor | block_pointer, val: Operand, mask: Operand | None = None, sem: str | None = None,
                scope: str | None = None) -> tensor:
    """Exchange memory and `val` in one indivisible step; gives the old value back.

        tl.atomic_xchg(lock_ptr, 0)  # release a lock
    """


def atomic_xor(pointer: tensor | block_pointer, val: Operand, mask: Operand | None = None, sem: str | None = None,
               scope: str | None = None) -> tensor:
    """`^` into memory in one indivisible step; gives the old value back.

        tl.atomic_xor(parity_ptr, bit)
    """


def load(pointer: tensor | block_pointer, mask: Operand | None = None, other: Operand | None = None,
         boundary_check: Sequence[int] = (), padding_option: str = "", cache_modifier: str = "",
         eviction_policy: str = "", volatile: bool = False) -> tensor:
    """Read memory. Where `mask` is false nothing is read and the value is `other` (0 if not given).

        x = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0)

    A block pointer is read as a whole tile: `tl.load(block_ptr, boundary_check=(0, 1), padding_option="zero")`.
    """


def store(pointer: tensor | block_pointer, value: Operand, mask: Operand | None = None,
          boundary_check: Sequence[int] = (), cache_modifier: str = "", eviction_policy: str = "") -> None:
    """Write `value`, cast to the pointee's dtype, where `mask` is true.

        tl.store(out_ptr + offsets, x + y, mask=offsets < n)
    """


def assume(cond: Any) -> None:
    """Promise that a condition holds; the compiler may use it, the interpreter checks it.

        tl.assume(stride > 0)
        tl.assume(stride % 16 == 0)     # as tl.multiple_of(stride, 16): accesses may be wider
    """


def debug_barrier() -> None:
    """Let all threads of the program meet, and see each other's memory writes.

        tl.store(scratch + lane, x)
        tl.debug_barrier()
        y = tl.load(scratch + (N - 1) - lane)
    """


def max_constancy(input: Operand, values: int | Sequence[int]) -> tensor:
    """Promise that groups of `values` neighbours are equal; gives the input back.

        mask = tl.max_constancy(mask, 8)
    """


def max_contiguous(input: Operand, values: int | Sequence[int]) -> tensor:
    """Promise that groups of `values` neighbours count up by 1; gives the input back.

        offsets = tl.max_contiguous(offsets, BLOCK)
    """


def multiple_of(input: Operand, values: int | Sequence[int]) -> tensor:
    """Promise that every value is divisible by `values` (one number for each axis); gives the input back.

        offsets = tl.multiple_of(offsets, 16)
    """


def num_programs(axis: int) -> tensor:
    """How many programs run along an axis (0, 1 or 2) of the launch grid, as an int32 scalar.

        for row in tl.range(tl.program_id(0), n_rows, tl.num_programs(0)): ...
    """


def program_id(axis: int) -> tensor:
    """This program's index along an axis (0, 1 or 2) of the launch grid, as an int32 scalar.

        start = tl.program_id(axis=0) * BLOCK
    """


def associative_scan(input: Tiles, axis: int, combine_fn: Callable[..., Any], reverse: bool = False) -> Tiles:
    """Running combination along an axis: element i of the result combines elements 0 to i (or i to the last).

        prefix_maximum = tl.associative_scan(x, 0, larger)
    """


def first_of_last_axis(x: Operand, k: int, descending: int) -> tensor:
    """The first k elements of the last axis in order: what `tl.topk` calls."""


def histogram(input: Operand, num_bins: int, mask: Operand | None = None) -> tensor:
    """How often each of 0 ... num_bins - 1 occurs in a 1-d tile of integers, as int32.

        counts = tl.histogram(digits, 16, mask=offsets < n)
    """


def map_elementwise(scalar_fn: Callable[..., Any], *args: Any, pack: int = 1) -> Any:
    """Call a jit function of scalars, control flow and all, on every element (or every `pack` neighbours).

        @triton.jit
        def collatz(n):
            steps = 0
            while n != 1:
                n = tl.where(n % 2 == 0, n // 2, 3 * n + 1)
                steps += 1
            return steps

        steps = tl.map_elementwise(collatz, x)
    """


def reduce(input: Tiles, axis: int | None, combine_fn: Callable[..., Any], keep_dims: bool = False) -> Tiles:
    """Combine the elements along an axis (all of them when `axis` is None) with a jit function of two values.

        @triton.jit
        def multiply(x, y):
            return x * y

        product = tl.reduce(x, 0, multiply)

    A tuple of tiles is reduced together: `combine_fn` takes two sets of values and returns one.
    """


def sort_last_axis(x: Operand, descending: int) -> tensor:
    """The elements of the last axis in order: what `tl.sort` calls."""


def arange(start: int, end: int) -> tensor:
    """The int32 numbers start, start + 1 ... end - 1; their count is a power of two.

        offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    """


def broadcast(input: Operand, other: Operand) -> Pair:
    """Both operands in their common shape, as a pair.

        x, y = tl.broadcast(rows[:, None], columns[None, :])
    """


def broadcast_to(input: Operand, *shape: int | Sequence[int]) -> tensor:
    """Repeat the axes of size 1 until the shape fits; a scalar fits every shape.

        bias = bias[None, :].broadcast_to(BLOCK_M, BLOCK_N)
    """


def cat(input: Operand, other: Operand, can_reorder: bool = False, dim: int = 0) -> tensor:
    """Two tensors of one shape in one, the second after the first along axis `dim`.

    With `can_reorder` the order of the elements is not specified; both must be 1-d then.

        both = tl.cat(x, y)
        wide = tl.cat(left, right, dim=1)
    """


def expand_dims(input: Operand, axis: int | Sequence[int]) -> tensor:
    """Insert axes of size 1 at the places `axis` names in the result.

        column = tl.expand_dims(x, 1)        # the same as x[:, None]
    """


def full(shape: Sequence[int], value: Operand, dtype: dtype) -> tensor:
    """A tile of `shape` filled with one value; `shape=()` gives a scalar.

    Sizes are powers of two. Rows may be padded, as in (32, 33): such a tile is for reading and writing its elements.

        acc = tl.full((BLOCK_M, BLOCK_N), 0.0, tl.float32)
    """


def gather(src: Operand, index: Any, axis: int) -> tensor:
    """Elements of `src` picked by `index` along an axis: `out[i, j] = src[index[i, j], j]` for axis 0.

        shuffled = tl.gather(x, permutation, axis=0)
    """


def item(input: Operand) -> tensor:
    """The one element of a tensor, as a scalar.

        if tl.max(x, axis=0, keep_dims=True).item() > 0: ...
    """


def join(a: Operand, b: Operand) -> tensor:
    """Two tensors side by side along a new last axis of size 2.

        complex_pairs = tl.join(real, imaginary)
    """


def permute(input: Operand, *dims: int | Sequence[int]) -> tensor:
    """Reorder the axes: axis k of the result is axis `dims[k]` of the input.

        heads_first = tl.permute(x, (1, 0, 2))
    """


def reshape(input: Operand, *shape: int | Sequence[int], can_reorder: bool = False) -> tensor:
    """The same elements, in row-major order, in another shape; `can_reorder` gives that order up.

        pairs = tl.reshape(x, (BLOCK // 2, 2))
    """


def split(a: Operand) -> Pair:
    """The two halves of a last axis of size 2.

        real, imaginary = tl.split(complex_pairs)
    """


def trans(input: Operand, *dims: int | Sequence[int]) -> tensor:
    """Swap the last two axes, or reorder all of them as `permute` does.

        scores = tl.dot(q, tl.trans(k))
    """


def view(input: Operand, *shape: int | Sequence[int]) -> tensor:
    """Deprecated: `reshape` that may reorder elements.

        y = tl.view(x, (4, 8))        # rather write tl.reshape(x, (4, 8))
    """


def aggregate_replace(obj: Operand, **changes: Operand) -> tensor:
    """A copy of an aggregate with other values in some of its fields.

        tile = tl.aggregate_replace(tile, ptr=tile.ptr + 16)
    """


def to_tensor(x: Operand) -> tensor:
    """A Python number as a scalar tensor; a tensor stays what it is.

        limit = tl.to_tensor(3)
    """


def _promote_bfloat16_to_float32(t: Operand) -> Any:
    """bf16 as float32, others as they are: what libraries' own `minimum` and scans call."""


def nanoseconds() -> tensor:
    """The time on the device, from an arbitrary start; the same in all threads of a program."""


def warn(message: str) -> tensor:
    """Warn about the user's line that called the standard library."""


def dialect_rules() -> tensor:
    """What the release of Triton that the caller is written for decides: what the standard library asks."""
