"""Every name of the language with its parameters, as the language reference prints them."""

import inspect

import pytest

import tritium.language as tl
from tests.test_examples import shown
from tritium.language.builtins.calling import Builtin
from tritium.language.source.function import Source

SIGNATURES = """
abs(x)
add(x, y, sanitize_overflow=True)
advance(base, offsets)
aggregate_replace(obj, **changes)
arange(start, end)
argmax(input, axis, tie_break_left=True, keep_dims=False)
argmin(input, axis, tie_break_left=True, keep_dims=False)
associative_scan(input, axis, combine_fn, reverse=False)
assume(cond)
atomic_add(pointer, val, mask=None, sem=None, scope=None)
atomic_and(pointer, val, mask=None, sem=None, scope=None)
atomic_cas(pointer, cmp, val, sem=None, scope=None)
atomic_load(pointer, mask=None, sem=None, scope=None)
atomic_max(pointer, val, mask=None, sem=None, scope=None)
atomic_min(pointer, val, mask=None, sem=None, scope=None)
atomic_or(pointer, val, mask=None, sem=None, scope=None)
atomic_poll(pointer, expected_value, sem=None, scope=None, timeout_ns=None)
atomic_store(pointer, val, mask=None, sem=None, scope=None)
atomic_xchg(pointer, val, mask=None, sem=None, scope=None)
atomic_xor(pointer, val, mask=None, sem=None, scope=None)
bitonic_merge(x, dim=None, descending=0)
broadcast(input, other)
broadcast_to(input, *shape)
cast(input, dtype, fp_downcast_rounding=None, bitcast=False)
cat(input, other, can_reorder=False, dim=0)
cdiv(x, div)
ceil(x)
clamp(x, min, max, propagate_nan=PropagateNan.NONE)
condition(arg1, disable_licm=False)
cos(x)
cumprod(input, axis=0, reverse=False, dtype=None)
cumsum(input, axis=0, reverse=False, dtype=None)
debug_barrier()
device_assert(cond, msg="", mask=None)
device_print(prefix, *args, hex=False)
div_rn(x, y)
dot(input, other, acc=None, input_precision=None, allow_tf32=None, max_num_imprecise_acc=None, out_dtype=None)
dot_scaled(lhs, lhs_scale, lhs_format, rhs, rhs_scale, rhs_format, acc=None, fast_math=False, lhs_k_pack=True, \
rhs_k_pack=True, out_dtype=float32)
erf(x)
exp(x)
exp2(x)
expand_dims(input, axis)
expect_zero(x, mask)
fdiv(x, y, ieee_rounding=False, approx=False)
flip(x, dim=None)
floor(x)
fma(x, y, z)
full(shape, value, dtype)
gather(src, index, axis)
histogram(input, num_bins, mask=None)
inline_asm_elementwise(asm, constraints, args, dtype, is_pure, pack)
interleave(a, b)
join(a, b)
load(pointer, mask=None, other=None, boundary_check=(), padding_option="", cache_modifier="", eviction_policy="", \
volatile=False)
load_tensor_descriptor(desc, offsets)
log(x)
log2(x)
make_block_ptr(base, shape, strides, offsets, block_shape, order)
make_tensor_descriptor(base, shape, strides, block_shape, padding_option="zero")
map_elementwise(scalar_fn, *args, pack=1)
max(input, axis=None, return_indices=False, return_indices_tie_break_left=True, keep_dims=False)
max_constancy(input, values)
max_contiguous(input, values)
maximum(x, y, propagate_nan=PropagateNan.NONE)
min(input, axis=None, return_indices=False, return_indices_tie_break_left=True, keep_dims=False)
minimum(x, y, propagate_nan=PropagateNan.NONE)
mul(x, y, sanitize_overflow=True)
multiple_of(input, values)
num_programs(axis)
pair_uniform_to_normal(u1, u2)
permute(input, *dims)
philox(seed, c0, c1, c2, c3, n_rounds=10)
philox_impl(c0, c1, c2, c3, k0, k1, n_rounds=10)
program_id(axis)
rand(seed, offset, n_rounds=10)
rand4x(seed, offsets, n_rounds=10)
randint(seed, offset, n_rounds=10)
randint4x(seed, offset, n_rounds=10)
randn(seed, offset, n_rounds=10)
randn4x(seed, offset, n_rounds=10)
range(arg1, arg2=None, step=None, num_stages=None, loop_unroll_factor=None, disallow_acc_multi_buffer=False, \
flatten=False, warp_specialize=False, disable_licm=False)
ravel(x, can_reorder=False)
reduce(input, axis, combine_fn, keep_dims=False)
reduce_or(input, axis, keep_dims=False)
reshape(input, *shape, can_reorder=False)
rsqrt(x)
sigmoid(x)
sin(x)
slice(start, stop, step)
softmax(x, dim=None, keep_dims=None, ieee_rounding=False)
sort(x, dim=None, descending=0)
split(a)
sqrt(x)
sqrt_rn(x)
static_assert(cond, msg="")
static_print(*values, sep=" ", end="\\n", file=None, flush=False)
static_range(arg1, arg2=None, step=None)
store(pointer, value, mask=None, boundary_check=(), cache_modifier="", eviction_policy="")
store_tensor_descriptor(desc, offsets, value)
sub(x, y, sanitize_overflow=True)
sum(input, axis=None, keep_dims=False, dtype=None)
squeeze(x, dim)
swizzle2d(i, j, size_i, size_j, size_g)
to_tensor(x)
topk(x, k, dim=None, descending=True)
trans(input, *dims)
uint_to_uniform_float(x)
unsqueeze(x, dim)
umulhi(x, y)
view(input, *shape)
where(condition, x, y)
xor_sum(input, axis=None, keep_dims=False)
zeros(shape, dtype)
zeros_like(input)
pointer_type(element_ty, address_space=1, const=False)
block_type(element_ty, shape)
tuple_type(types, fields=None)
constexpr_type(value)
constexpr(value)
dtype(name)
tuple(args, type=None)
"""
NAMES = [line.partition("(")[0] for line in SIGNATURES.strip().split("\n")]
OTHERS = """
    int1 int8 int16 int32 int64 uint8 uint16 uint32 uint64 float8e4b15 float8e4nv float8e4b8 float8e5
    float8e5b16 float16 bfloat16 float32 float64 void pi32_t PropagateNan TRITON_MAX_TENSOR_NUMEL const tensor
    tensor_descriptor tensor_descriptor_type core math random standard extra target_info str_to_ty
""".split()
LIBRARY = """
    argmax argmin bitonic_merge cdiv cumprod cumsum flip interleave max min ravel reduce_or sigmoid softmax sort
    squeeze sum swizzle2d topk unsqueeze atomic_poll
    xor_sum zeros zeros_like pair_uniform_to_normal philox philox_impl rand rand4x randint
    randint4x randn randn4x uint_to_uniform_float
""".split()


def parameters(function):
    """(name, default, kind) of each parameter; a constexpr default counts as its value."""
    found = (function.signature if isinstance(function, (Builtin, Source)) else inspect.signature(function)).parameters
    return [(p.name, p.default.value if isinstance(p.default, tl.constexpr) else p.default, p.kind)
            for p in found.values()]


@pytest.mark.parametrize("line", SIGNATURES.strip().split("\n"), ids=NAMES)
def test_parameters(line):
    name = line.partition("(")[0]
    scope = {"PropagateNan": tl.PropagateNan, "float32": tl.float32}
    exec(f"def {line}: pass", scope)
    expected = [(p.name, p.default, p.kind) for p in inspect.signature(scope[name]).parameters.values()]
    got = parameters(getattr(tl, name))
    if name in ("tuple", "slice"):  # these may be called with less
        got = [(n, inspect.Parameter.empty if e is inspect.Parameter.empty else d, k)
               for (n, d, k), (_, e, _) in zip(got, expected, strict=True)]
    assert got == expected


@pytest.mark.parametrize("name", OTHERS)
def test_other_names_exist(name):
    assert hasattr(tl, name)


def test_builtins_show_how_they_are_called():
    assert "_semantic" in inspect.signature(tl.core.view).parameters
    assert "_semantic" not in tl.core.view.signature.parameters


def test_nothing_is_exported_by_accident():
    modules = {"core", "extra", "math", "random", "standard", "target_info"}
    assert set(tl.__all__) == (set(NAMES) | set(OTHERS)) - modules
    assert not hasattr(tl, "item")


def test_what_is_written_in_the_language():
    assert {name for name in NAMES if isinstance(getattr(tl, name), Source)} == set(LIBRARY)


METHODS = """
    to cast broadcast_to trans permute split view reshape expand_dims item store advance atomic_cas atomic_xchg
    atomic_add atomic_max atomic_min atomic_and atomic_or atomic_xor exp exp2 log log2 cos sin sqrt sqrt_rn
    rsqrt abs erf floor ceil reduce associative_scan gather histogram cdiv sigmoid softmax ravel max argmax min
    argmin sum xor_sum reduce_or cumsum cumprod flip sort logical_and logical_or
""".split()


@pytest.mark.parametrize("name", METHODS)
def test_methods_of_tensors(b, name):
    method = getattr(b.tile("f32", 4), name)
    assert method.__self__.shape == (4,) and isinstance(method.__func__, (Builtin, Source))


@pytest.mark.parametrize("name", ["load", "topk", "fma", "where", "__pow__", "__matmul__", "__pos__", "__abs__"])
def test_methods_that_tensors_do_not_have(b, name):
    assert not hasattr(b.tile("f32", 4), name)


@pytest.mark.parametrize("path", [
    "core.builtin", "core.extern", "core.extern_elementwise", "core._aggregate", "core.to_tensor",
    "core._unwrap_if_constexpr", "core.get_int_dtype",
    "core.constexpr", "core.tensor", "core.is_builtin", "core.constexpr_type",
    "standard._log2", "standard._is_power_of_two", "standard._argmax_combine", "standard._elementwise_max",
    "standard._sum_combine", "standard._bitonic_merge", "standard._compare_and_swap", "standard.sort_impl",
    "random.N_ROUNDS_DEFAULT", "extra.cuda.globaltimer", "extra.cuda.smid", "extra.cuda.num_threads",
    "extra.cuda.num_warps", "extra.cuda.gdc_wait", "extra.cuda.gdc_launch_dependents",
    "extra.cuda.convert_custom_float8_sm70", "extra.cuda.convert_custom_float8_sm80", "extra.cuda.libdevice.asin",
    "extra.hip.memrealtime", "extra.hip.libdevice.fast_tanhf", "extra.libdevice.tanh", "target_info.current_target",
    "target_info.is_cuda", "target_info.is_hip", "target_info.is_hip_cdna3", "target_info.is_hip_cdna4",
    "target_info.cuda_capability_geq", "semantic.TritonSemantic",
])
def test_names_that_libraries_reach_for(path):
    found = tl
    for part in path.split("."):
        assert hasattr(found, part)
        found = getattr(found, part)


def test_math_holds_these_and_no_others():
    assert tl.math.__all__ == ("abs ceil cos div_rn erf exp exp2 fdiv floor fma log log2 rsqrt sin sqrt sqrt_rn umulhi"
                               .split())
    assert not hasattr(tl.math, "tanh") and all(getattr(tl.math, name) is getattr(tl, name) for name in tl.math.__all__)


DOCUMENTED = [name for name in NAMES if isinstance(getattr(tl, name), (Builtin, Source))]


@pytest.mark.parametrize("name", DOCUMENTED)
def test_every_function_has_a_sentence_and_an_example(name):
    """The example is valid Python that uses the name."""
    doc = getattr(tl, name).__doc__
    sentence = doc.split("\n")[0]
    assert sentence[0].isupper() or sentence[0].isdigit() or sentence.startswith(("`", "e to", "x ", "exp(x)", "start"))
    assert name in shown(doc)


def test_target_info_speaks_of_the_target_compiled_for():
    from builders import Bench, target
    for machine, expected in ((target("cuda", 90), (True, False, False, True)),
                              (target("hip", "gfx942"), (False, True, True, False)),
                              (target("cpu", "x86-64"), (False, False, False, False)), (None, (False,) * 4)):
        b, info = Bench(machine), tl.target_info
        got = (info.is_cuda.fn(b), info.is_hip.fn(b), info.is_hip_cdna3.fn(b), info.cuda_capability_geq.fn(b, 9))
        assert got == expected and info.current_target.fn(b) is machine
    assert not tl.target_info.cuda_capability_geq.fn(Bench(target("cuda", 89)), 9)
    assert tl.target_info.is_hip_cdna4.fn(Bench(target("hip", "gfx950")))


def test_target_info_on_the_host():
    from tritium.runtime import driver
    assert tl.target_info.current_target() == driver.active.get_current_target()
    assert tl.target_info.is_cuda() == (driver.active.get_current_target().backend == "cuda")
