"""The classes, key phrases and causes that other people's tests rely on."""

import pickle

import pytest

from tritium import errors, knobs
from tritium.errors import CompilationError, CompileTimeAssertionFailure, UnsupportedLanguageConstruct
from tritium.frontend import lower
from tritium.ir.types import parse_type

from . import test_golden  # noqa: F401  (fills CASES)
from .cases import CASES

PHRASES = {
    "undefined_name": (CompilationError, "NameError('ofsets is not defined')"),
    "plain_global": (CompilationError, "Cannot access global variable"),
    "plain_function": (CompilationError, "Unsupported function referenced"),
    "try_statement": (UnsupportedLanguageConstruct, "unsupported AST node type: Try"),
    "dict_display": (UnsupportedLanguageConstruct, "unsupported AST node type: Dict"),
    "import_statement": (UnsupportedLanguageConstruct, "unsupported AST node type: Import"),
    "chained_comparison": (UnsupportedLanguageConstruct, "unsupported AST node type: In"),
    "tuple_element_assignment": (CompilationError, "__setitem__ is not supported"),
    "attribute_assignment": (CompilationError, "Attribute assignment is not supported"),
    "tensor_in_if": (UnsupportedLanguageConstruct, "Boolean value of Tensor with more than one value is ambiguous"),
    "float_constant_in_if": (UnsupportedLanguageConstruct, "`if` conditionals can only accept values of type"),
    "type_change_in_loop": (CompilationError, "Loop-carried variable total has initial type"),
    "constant_rebound_in_loop": (CompilationError, "Loop carried variable stride changed type"),
    "type_change_in_branch": (CompilationError, "initial value for "),
    "branches_disagree": (CompilationError, "Mismatched type for x between then block"),
    "return_types_differ": (CompilationError, "Inconsistent return types"),
    "ternary_of_two_types": (CompilationError, "Ternary expression with dynamic condition has inconsistent types"),
    "constexpr_defined_twice": (CompilationError, "is already defined. constexpr cannot be reassigned"),
    "f_string_of_a_tensor": (UnsupportedLanguageConstruct, "Cannot evaluate f-string containing non-constexpr"),
    "static_assertion": (CompileTimeAssertionFailure, "BLOCK must be a multiple of 16"),
    "static_assertion_at_run_time": (CompilationError, "could not be determined at compile-time"),
    "unused_result": (CompilationError, "The result of costly is not being used."),
    "block_to_noinline": (UnsupportedLanguageConstruct, "is marked noinline, but was called with non-scalar argument"),
    "shape_not_a_power_of_two": (CompilationError, "must be a power of 2"),
    "tensor_too_large": (CompilationError, "exceeds triton maximum tensor numel"),
    "arange_not_a_power_of_two": (CompilationError, "arange's range must be a power of 2"),
    "block_size_without_constexpr": (CompilationError, "arange's arguments must be of type tl.constexpr"),
    "arange_backwards": (CompilationError, "must be greater than the start argument"),
    "shape_mismatch": (CompilationError, "Cannot make_shape_compatible: incompatible dimensions"),
    "broadcast_to_other_rank": (CompilationError, "Cannot broadcast, rank mismatch"),
    "number_out_of_range": (CompilationError, "is out of range for type"),
    "negative_with_unsigned": (CompilationError, "unsigned tensor and a negative scalar"),
    "mixed_signedness_division": (CompilationError, "because they have different signedness"),
    "bits_of_a_float": (CompilationError, "invalid operands of type"),
    "fp8_with_int": (CompilationError, "unexpected type"),
    "adding_pointers": (CompilationError, "cannot add pointers together"),
    "math_on_f16": (CompilationError, "Expected dtype ['fp32', 'fp64'] but got fp16"),
    "other_without_mask": (CompilationError, "`other` cannot be provided without `mask`"),
    "load_of_a_number": (CompilationError, "Unsupported ptr type"),
    "block_mask_of_a_scalar_pointer": (CompilationError, "Mask argument cannot be block type"),
    "block_through_a_scalar_pointer": (CompilationError, "Value argument cannot be block type"),
    "value_larger_than_its_pointers": (CompilationError, "Expected pointer argument to have shape"),
    "mask_of_integers": (CompilationError, "Mask must have boolean scalar type"),
    "store_to_const_pointer": (CompilationError, "Cannot store to a constant pointer"),
    "unknown_cache_modifier": (CompilationError, "Cache modifier .xx not supported"),
    "unknown_memory_order": (CompilationError, "Memory semantic strong not supported"),
    "dot_of_two_dtypes": (CompilationError, "Both operands must be same dtype"),
    "slice_of_a_tensor": (CompilationError, "unsupported tensor index"),
    "host_function": (CompilationError, "Did you forget to add @triton.jit"),
    "integer_too_large": (CompilationError, "Nonrepresentable integer"),
    "for_over_a_tuple": (CompilationError, "Only `range` and `static_range`"),
    "string_in_a_variable": (CompilationError, "cannot convert fast of type"),
}  # fmt: skip


def _raised(name):
    case = CASES[name]
    with pytest.raises(CompilationError) as raised:
        lower(case.kernel, case.signature, case.constants)
    return raised.value


@pytest.mark.parametrize("name", PHRASES)
def test_class_and_phrase(name):
    kind, phrase = PHRASES[name]
    error = _raised(name)
    assert type(error) is kind
    assert phrase in str(error)


def test_an_error_in_a_builtin_keeps_its_cause():
    error = _raised("arange_not_a_power_of_two")
    assert type(error.__cause__) is ValueError
    assert "power of 2" in str(error.__cause__)
    assert "at 2:14:" in str(error)


def test_a_part_is_underlined_but_the_whole_call_is_named():
    assert "at 2:4:" in str(_raised("store_to_const_pointer"))


@pytest.mark.parametrize("name", ["shape_mismatch", "undefined_name", "static_assertion", "not_of_an_int"])
def test_other_errors_have_no_cause(name):
    assert _raised(name).__cause__ is None


def test_an_error_in_a_callee_is_wrapped_once_for_each_call():
    outer = _raised("error_in_a_callee")
    middle = outer.__cause__
    inner = middle.__cause__
    assert [type(e) for e in (outer, middle, inner)] == [CompilationError] * 3
    assert type(inner.__cause__) is ValueError
    assert "at 2:15:" in str(inner) and "at 2:8:" not in str(inner)
    assert "at 2:8:" in str(outer) and "called from here" in str(outer)
    assert outer.node.func.id == "calls_add_blocks"


def test_errors_survive_pickling():
    error = _raised("shape_mismatch")
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error) and type(again) is type(error)


def test_front_end_debugging_shows_the_exception_itself():
    case = CASES["shape_mismatch"]
    with knobs.compilation.scope():
        knobs.compilation.front_end_debugging = True
        with pytest.raises(ValueError, match="incompatible dimensions"):
            lower(case.kernel, case.signature, case.constants)


def test_globals_are_allowed_on_demand():
    case = CASES["plain_global"]
    with knobs.compilation.scope():
        knobs.compilation.allow_non_constexpr_globals = True
        assert "3.0" in str(lower(case.kernel, case.signature, case.constants))


def test_a_defect_of_ours_is_an_internal_error():
    case = CASES["static_assertion"]
    with pytest.raises(errors.InternalError, match="line") as raised:
        lower(case.kernel, case.signature, {"BLOCK": Broken()})
    assert isinstance(raised.value.__cause__, AttributeError)


class Broken:
    """A constant whose remainder fails inside of the compiler."""

    def __mod__(self, other):
        return parse_type(3)
