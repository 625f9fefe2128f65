"""The device library: its names and overloads, that each has a row, and the functions composed here."""

import math

import numpy as np
import pytest
from builders import element, evaluate

import tritium.language as tl
from tritium.ir import types as T
from tritium.ir.opdef import KINDS
from tritium.language.extra import libdevice, library
from tritium.language.extra.composed import COMPOSED

INF, NAN = math.inf, math.nan


def i32(*values):
    return np.array(values, np.int32)


def f32(*values):
    return np.array(values, np.float32)


def f64(*values):
    return np.array(values, np.float64)


def test_names():
    assert len(libdevice.__all__) == 198 and len(library.CUDA) == 197
    assert len(library.HIP) == 59 and "fast_tanhf" not in library.CUDA
    assert tl.extra.cuda.libdevice.asin is libdevice.asin and not hasattr(tl.extra.cuda.libdevice, "fast_tanhf")
    assert tl.extra.hip.libdevice.tanh is libdevice.tanh and not hasattr(tl.extra.hip.libdevice, "sinpi")


@pytest.mark.parametrize("name", libdevice.__all__)
def test_every_overload_can_be_called(b, name):
    """Each has a row, or a composition, that gives the type the table says."""
    assert name in COMPOSED or library.ROWS.get(name, name) in KINDS, f"no row for {name}"
    for kinds, result in library.OVERLOADS[name].items():
        out = getattr(libdevice, name).fn(b, *[b.tile(kind, 8) for kind in kinds])
        assert (element(out), out.shape) == (result.name, (8,))


def test_arguments_broadcast_and_keep_their_types(b):
    assert libdevice.atan2.fn(b, b.tile("f32", 4, 1), b.tile("f32", 8)).shape == (4, 8)
    assert element(libdevice.pow.fn(b, b.tile("f32", 8), 2)) == "f32"
    assert element(libdevice.pow.fn(b, b.tile("f64", 8), arg1=b.tile("i32", 8))) == "f64"
    with pytest.raises(KeyError, match="no overload for"):
        libdevice.pow.fn(b, b.tile("f32", 8), b.tile("f64", 8))


def test_functions_can_be_called_by_symbol(b):
    from tritium.language.builtins.assembly import extern_elementwise
    for symbol, kind in (("__nv_expf", tl.float32), ("__nv_exp", tl.float64), ("__ocml_exp_f32", tl.float32)):
        out = extern_elementwise.fn(b, "libdevice", "", [b.tile(kind.ir, 8)], {(kind,): (symbol, kind)}, True)
        assert out.dtype is kind and out.handle.kind.name == "exp"
    out = extern_elementwise.fn(b, "", "", [b.tile("i32", 8)], {(tl.int32,): ("__nv_popc", tl.int32)}, True)
    assert out.handle.kind.name == "popc"


LARGE = 2**31 - 1
CASES = [
    (libdevice.float_as_int, [f32(1.0, -0.0)], [0x3F800000, -(2**31)]),
    (libdevice.int_as_float, [i32(0x3F800000, 0)], [1.0, 0.0]),
    (libdevice.double2loint, [f64(1.0, float.fromhex("0x1.00000deadbeefp0"))], [0, -0x21524111]),
    (libdevice.double2hiint, [f64(1.0, -2.0)], [0x3FF00000, -0x40000000]),
    (libdevice.hiloint2double, [i32(0x3FF00000, -0x40000000), i32(0, 0)], [1.0, -2.0]),
    (libdevice.ffs, [i32(0, 1, 8, -(2**31))], [0, 1, 4, 32]),
    (libdevice.ffs, [np.array([0, 1 << 40], np.int64)], [0, 41]),
    (libdevice.clz, [np.array([0, 1, 1 << 40, -1], np.int64)], [64, 63, 23, 0]),
    (libdevice.popc, [i32(0, 7, -1, 256)], [0, 3, 32, 1]),
    (libdevice.byte_perm, [i32(0x33221100, 0x33221100), i32(0x77665544, 0x77665544), i32(0x7531, 0x0246)],
     [0x77553311, 0x00224466]),
    (libdevice.mul24, [i32(0x00FFFFFF, 3), i32(5, -4)], [-5, -12]),
    (libdevice.hadd, [i32(LARGE, -7), i32(LARGE, 2)], [LARGE, -3]),
    (libdevice.rhadd, [i32(LARGE, -7), i32(LARGE - 1, 2)], [LARGE, -2]),
    (libdevice.sad, [i32(-5, 9), i32(5, 2), np.array([1, 1], np.uint32)], [11, 8]),
    (libdevice.mulhi, [i32(1 << 30, -1), i32(8, 5)], [2, -1]),
    (libdevice.float2int_rn, [f32(2.5, -2.5, 3.5, 0.4)], [2, -2, 4, 0]),
    (libdevice.float2int_rz, [f32(2.9, -2.9)], [2, -2]),
    (libdevice.float2int_rd, [f32(2.9, -2.1)], [2, -3]),
    (libdevice.float2int_ru, [f32(2.1, -2.9)], [3, -2]),
    (libdevice.float2uint_rn, [f32(3e9, 1.5)], [3_000_000_000 - 2**32, 2]),
    (libdevice.double2ll_rd, [f64(-0.5, 1e15)], [-1, 10**15]),
    (libdevice.ll2float_rn, [np.array([2**24 + 1, -3], np.int64)], [2.0**24, -3.0]),
    (libdevice.double2float_rz, [f64(1 + 2**-24 + 2**-30, -1 - 2**-23 * 0.75)], [1.0, -1.0]),
    (libdevice.llrint, [f32(2.5, -3.5)], [2, -4]),
    (libdevice.llround, [f32(2.5, -3.5)], [3, -4]),
    (libdevice.isnan, [f32(NAN, INF, 0)], [True, False, False]),
    (libdevice.isinf, [f32(NAN, -INF, 0)], [False, True, False]),
    (libdevice.finitef, [f32(NAN, -INF, 3e38)], [False, False, True]),
    (libdevice.signbit, [f32(-0.0, 0.0, -INF, 1)], [1, 0, 1, 0]),
    (libdevice.abs, [i32(-3, 4)], [3, 4]), (libdevice.abs, [f32(-3, -0.0)], [3, 0]),
    (libdevice.saturatef, [f32(-1, 0.5, 2, NAN)], [0, 0.5, 1, 0]),
    (libdevice.fdim, [f32(5, 2, NAN, INF), f32(3, 7, 1, INF)], [2, 0, NAN, 0]),
    (libdevice.fmod, [f32(-7, 7), f32(3, 3)], [-1, 1]),
    (libdevice.fast_dividef, [f32(7, 1), f32(2, 4)], [3.5, 0.25]),
    (libdevice.rcp64h, [f64(2, 4)], [0.5, 0.25]),
    (libdevice.nearbyint, [f32(2.5, 3.5)], [2, 4]),
]


@pytest.mark.parametrize("function, args, expected", CASES, ids=[f"{k}-{c[0].name}" for k, c in enumerate(CASES)])
def test_values(function, args, expected):
    size = 1 << (len(expected) - 1).bit_length()
    padded = [np.concatenate([x, np.repeat(x[:1], size - len(x))]) for x in args]
    np.testing.assert_array_equal(evaluate(function, *padded)[:len(expected)], expected)


def test_exponents():
    x = f32(1, 0.75, 1024, -3, 0, INF, NAN, 2**-140)
    expected = [0, -1, 10, 1, -(2**31), 2**31 - 1, -(2**31), -140]
    assert evaluate(libdevice.ilogb, x).tolist() == expected
    assert evaluate(libdevice.ilogb, x.astype(np.float64)).tolist() == expected


def test_integer_powers_keep_the_sign():
    x, n = f32(-2, -2, -1, -0.0), i32(3, 4, 2**24 + 1, -1)
    assert evaluate(libdevice.pow, x, n).tolist() == [-8, 16, -1, -INF]


def test_powers_of_two_scale_exactly():
    x, n = f32(1.5, 1.5, 1, -1), i32(3, -140, 127, -149)
    expected = [12.0, float(np.float32(math.ldexp(1.5, -140))), 2.0**127, -(2.0**-149)]
    assert evaluate(libdevice.ldexp, x, n).tolist() == expected
    assert evaluate(libdevice.scalbn, x, n).tolist() == expected


def test_bessel_functions_take_their_order_first():
    got = evaluate(libdevice.jn, i32(0, 1, 2, 3), f32(1, 1, 1, 1))
    np.testing.assert_allclose(got, [0.7651976866, 0.4400505857, 0.1149034849, 0.0195633540], rtol=2e-6)
    got = evaluate(libdevice.yn, i32(0, 1), f64(1, 1))
    np.testing.assert_allclose(got, [0.08825696421567698, -0.7812128213002887], rtol=1e-12)


def test_the_device_library_is_a_builtin():
    assert tl.core.is_builtin(libdevice.sin) and list(libdevice.pow.signature.parameters) == ["arg0", "arg1"]
    assert "(float32) -> float32; (float64) -> float64" in libdevice.tan.__doc__
    assert T.f32 in {kinds[0] for kinds in library.OVERLOADS["tan"]}
