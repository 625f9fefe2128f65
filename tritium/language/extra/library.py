"""The device library: tables of its functions, and what calls them. `libdevice` offers the functions themselves.

SIGNATURES gives every function its overloads. An overload is a row of the op table, by the function's own name unless
ROWS names another, or a composition of simple ops (COMPOSED). Arguments must have exactly the dtypes of an overload;
Python numbers count as int32 or float32.
"""

from __future__ import annotations

import builtins
import inspect
import textwrap

from tritium.errors import fail
from tritium.ir import types as T
from tritium.locks import once_property

from ..builtins.assembly import dispatch
from ..builtins.calling import Builtin
from ..builtins.casting import convert
from ..builtins.deferred import row
from ..types.dtypes import from_ir
from ..types.values import tensor
from .composed import COMPOSED

# Overloads, and the functions that have just these. A star marks the functions that AMD's library has too.
SIGNATURES = {
    "f32 -> f32; f64 -> f64": """
        floor* rsqrt* ceil* trunc* exp2* rcp_rn rcp_rz rcp_rd rcp_ru sqrt_rn sqrt_rz sqrt_rd sqrt_ru sqrt* rint*
        nearbyint* sin* cos* sinpi cospi tan* log2* exp* exp10 cosh* sinh* tanh* atan* asin* acos* log* log10* log1p*
        acosh* asinh* atanh* expm1* cbrt rcbrt j0* j1* y0* y1* cyl_bessel_i0* cyl_bessel_i1* erf* erfinv* erfc* erfcx*
        erfcinv normcdfinv normcdf lgamma* tgamma round* logb""",
    "f32 f32 -> f32; f64 f64 -> f64": """
        div_rn div_rz div_rd div_ru add_rn add_rz add_rd add_ru mul_rn mul_rz mul_rd mul_ru sub_rn sub_rz sub_rd sub_ru
        copysign* nextafter* atan2* hypot* rhypot fmod* remainder fdim""",
    "f32 -> f32": """
        saturatef fast_sinf fast_cosf fast_log2f fast_logf fast_expf* fast_tanf fast_exp10f fast_log10f rsqrt_rn""",
    "f64 -> i32": """
        double2int_rn double2int_rz double2int_rd double2int_ru double2uint_rn double2uint_rz double2uint_rd
        double2uint_ru double2loint double2hiint""",
    "f32 -> i32": """
        float2int_rn float2int_rz float2int_rd float2int_ru float2uint_rn float2uint_rz float2uint_rd float2uint_ru
        float_as_int float_as_uint""",
    "f64 -> i64": """
        double2ll_rn double2ll_rz double2ll_rd double2ll_ru double2ull_rn double2ull_rz double2ull_rd double2ull_ru
        double_as_longlong""",
    "f32 -> i64": """
        float2ll_rn float2ll_rz float2ll_rd float2ll_ru float2ull_rn float2ull_rz float2ull_rd float2ull_ru""",
    "f32 f32 f32 -> f32; f64 f64 f64 -> f64": "fma_rn fma_rz fma_rd fma_ru norm3d rnorm3d fma*",
    "i32 -> f32": "int2float_rn int2float_rz int2float_rd int2float_ru int_as_float",
    "u32 -> f32": "uint2float_rn uint2float_rz uint2float_rd uint2float_ru uint_as_float",
    "i64 -> f64": "ll2double_rn ll2double_rz ll2double_rd ll2double_ru longlong_as_double",
    "f64 -> f32": "double2float_rn double2float_rz double2float_rd double2float_ru",
    "i64 -> f32": "ll2float_rn ll2float_rz ll2float_rd ll2float_ru",
    "u64 -> f32": "ull2float_rn ull2float_rz ull2float_rd ull2float_ru",
    "u64 -> f64": "ull2double_rn ull2double_rz ull2double_rd ull2double_ru",
    "i32 -> i32; i64 -> i32": "clz* popc* ffs",
    "i32 i32 -> i32; u32 u32 -> u32": "mul24 hadd rhadd",
    "f32 f32 -> f32": "fast_dividef* fast_powf",
    "f32 -> i64; f64 -> i64": "llrint* llround",
    "f32 -> i1; f64 -> i1": "isnan* isinf*",
    "f32 -> i32; f64 -> i32": "signbit* ilogb*",
    "f32 f32 f32 f32 -> f32; f64 f64 f64 f64 -> f64": "norm4d rnorm4d",
    "i32 f32 -> f32; i32 f64 -> f64": "yn jn",
    "f32 i32 -> f32; f64 i32 -> f64": "ldexp* scalbn",
    "i32 i32 i32 -> i32": "byte_perm",
    "i32 i32 -> i32; i64 i64 -> i64; u32 u32 -> u32; u64 u64 -> u64": "mulhi",
    "i32 -> i32; i64 -> i64": "brev",
    "i32 i32 u32 -> i32; u32 u32 u32 -> u32": "sad",
    "f32 -> f32; f64 -> f64; i32 -> i32; i64 -> i64": "abs*",
    "f64 -> f64": "rcp64h",
    "i32 -> f64": "int2double_rn",
    "u32 -> f64": "uint2double_rn",
    "i32 i32 -> f64": "hiloint2double",
    "f32 -> i1": "finitef*",
    "f32 f32 -> f32; f32 i32 -> f32; f64 f64 -> f64; f64 i32 -> f64": "pow*",
    "f64 -> i1": "isfinited*",
}
HIP_ONLY = {"f32 -> f32": "fast_tanhf"}

# Functions that are another row of the table. The fast ones are what a target's plain f32 functions are.
ROWS = {
    "nearbyint": "rint", "fma_rn": "fma", "fmod": "rem", "fast_sinf": "sin", "fast_cosf": "cos", "fast_log2f": "log2",
    "fast_logf": "log", "fast_expf": "exp", "fast_tanf": "tan", "fast_exp10f": "exp10", "fast_log10f": "log10",
    "fast_dividef": "div", "fast_powf": "pow", "fast_tanhf": "tanh",
}  # fmt: skip


def _overloads(text):
    """{argument kinds: result kind} of a signature's text."""
    found = {}
    for overload in text.split(";"):
        arguments, result = overload.split("->")
        found[builtins.tuple(T.SCALARS[name] for name in arguments.split())] = T.SCALARS[result.strip()]
    return found


OVERLOADS: dict = {}
CUDA: list = []
HIP: list = []
for _table, _vendors in ((SIGNATURES, (CUDA,)), (HIP_ONLY, (HIP,))):
    for _text, _names in _table.items():
        for _name in _names.split():
            OVERLOADS[_name.rstrip("*")] = _overloads(_text)
            for _vendor in (*_vendors, *((HIP,) if _name.endswith("*") else ())):
                _vendor.append(_name.rstrip("*"))


def row_of(name):
    """The op kind behind a function that is a row of the table."""
    return row(ROWS.get(name, name))


def call(b, name, xs, result):
    """One of the functions on tensors of one shape and of the dtypes of an overload."""
    compose = COMPOSED.get(name)
    if compose is not None:
        return convert(b, compose(b, *xs, result), result)
    return convert(b, tensor(row_of(name)(b, *[x.handle for x in xs])), result)


class LibraryFunction(Builtin):
    """A function of the device library: its parameters are called arg0, arg1 ..."""

    def __init__(self, name):
        self.name = self.__name__ = self.__qualname__ = name
        self.__module__ = f"{__package__}.libdevice"
        self.overloads = OVERLOADS[name]

    @once_property
    def signature(self):
        """arg0, arg1 ... as many as the longest overload has."""
        count = max(map(len, self.overloads))
        return inspect.Signature([inspect.Parameter(f"arg{k}", inspect.Parameter.POSITIONAL_OR_KEYWORD)
                                  for k in range(count)])

    @property
    def __doc__(self):
        shown = "; ".join(f"({', '.join(map(_dtype, kinds))}) -> {_dtype(result)}"
                          for kinds, result in self.overloads.items())
        names = ", ".join(self.signature.parameters)
        text = textwrap.fill(f"The function {self.name} of the device library: {shown}.", 110)
        return f"{text}\n\n    y = libdevice.{self.name}({names})\n"

    def fn(self, b, *args, **kwargs):
        """Call it through builder `b`."""
        args = self.signature.bind(*args, **kwargs).args
        result, xs = dispatch(b, args, self.overloads, f"libdevice.{self.name}")
        return call(b, self.name, xs, result)


def _dtype(kind):
    return from_ir(kind).codegen_name()


FUNCTIONS = {_name: LibraryFunction(_name) for _name in OVERLOADS}

_PREFIXES = ("__nv_", "__ocml_")
_SUFFIXES = ("_f32", "_f64", "f", "")


def call_symbol(b, symbol, xs, result):
    """Call a function by its symbol in CUDA's or ROCm's library (`__nv_sinf`, `__ocml_sin_f32`)."""
    kinds = builtins.tuple(T.element(x.handle.type) for x in xs)
    for prefix in _PREFIXES:
        for suffix in _SUFFIXES:
            if symbol.startswith(prefix) and symbol.endswith(suffix):
                name = _known_name(symbol[len(prefix):len(symbol) - len(suffix)], kinds)
                if name is not None:
                    return convert(b, call(b, name, xs, OVERLOADS[name][kinds]), result)
    raise fail(ValueError, f"the external function {symbol!r} is not known for "
               f"({', '.join(str(from_ir(t)) for t in kinds)})",
               hint="the functions of CUDA's and ROCm's math libraries are; write others as jit functions")


def _known_name(name, kinds):
    """The function of this base name that takes these kinds; directed rounding carries the type's letter: fadd_rn."""
    for candidate in (name, name.lstrip("fd"), f"{name}f"):
        if kinds in OVERLOADS.get(candidate, ()):
            return candidate
    return None
