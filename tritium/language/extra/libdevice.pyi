# Written by docs/make_stubs.py from the objects themselves: change those, and run it again.

from ..core import Operand, tensor

__all__: list[str]


def floor(arg0: Operand) -> tensor:
    """The function floor of the device library: (float32) -> float32; (float64) -> float64.

        y = libdevice.floor(arg0)
    """


def rsqrt(arg0: Operand) -> tensor:
    """The function rsqrt of the device library: (float32) -> float32; (float64) -> float64.

        y = libdevice.rsqrt(arg0)
    """


def ceil(arg0: Operand) -> tensor:
    """The function ceil of the device library: (float32) -> float32; (float64) -> float64.

        y = libdevice.ceil(arg0)
    """


def trunc(arg0: Operand) -> tensor:
    """The function trunc of the device library: (float32) -> float32; (float64) -> float64.

        y = libdevice.trunc(arg0)
    """


def exp2(arg0: Operand) -> tensor:
    """The function exp2 of the device library: (float32) -> float32; (float64) -> float64.

        y = libdevice.exp2(arg0)
    """


def rcp_rn(arg0: Operand) -> tensor:
    """The function rcp_rn of the device library: (float32) -> float32; (float64) -> float64.

        y = libdevice.rcp_rn(arg0)
    """


def rcp_rz(arg0: Operand) -> tensor:
    """The function rcp_rz of the device library: (float32) -> float32; (float64) -> float64.

        y = libdevice.rcp_rz(arg0)
    """


def rcp_rd(arg0: Operand) -> tensor:
    """The function rcp_rd of the device library: (float32) -> float32; (float64) -> float64.

        y = libdevice.rcp_rd(arg0)
    """


def rcp_ru(arg0: Operand) -> tensor:
    """The function rcp_ru of the device library: (float32) -> float32; (float64) -> float64.

        y = libdevice.rcp_ru(arg0)
    """


def sqrt_rn(arg0: Operand) -> tensor:
    """The function sqrt_rn of the device library: (float32) -> float32; (float64) -> float64.

        y = libdevice.sqrt_rn(arg0)
    """


def sqrt_rz(arg0: Operand) -> tensor:
    """The function sqrt_rz of the device library: (float32) -> float32; (float64) -> float64.

        y = libdevice.sqrt_rz(arg0)
    """


def sqrt_rd(arg0: Operand) -> tensor:
    """The function sqrt_rd of the device library: (float32) -> float32; (float64) -> float64.

        y = libdevice.sqrt_rd(arg0)
    """


def sqrt_ru(arg0: Operand) -> tensor:
    """The function sqrt_ru of the device library: (float32) -> float32; (float64) -> float64.

        y = libdevice.sqrt_ru(arg0)
    """


def sqrt(arg0: Operand) -> tensor:
    """The function sqrt of the device library: (float32) -> float32; (float64) -> float64.

        y = libdevice.sqrt(arg0)
    """


def rint(arg0: Operand) -> tensor:
    """The function rint of the device library: (float32) -> float32; (float64) -> float64.

        y = libdevice.rint(arg0)
    """


def nearbyint(arg0: Operand) -> tensor:
    """The function nearbyint of the device library: (float32) -> float32; (float64) -> float64.

        y = libdevice.nearbyint(arg0)
    """


def sin(arg0: Operand) -> tensor:
    """The function sin of the device library: (float32) -> float32; (float64) -> float64.

        y = libdevice.sin(arg0)
    """


def cos(arg0: Operand) -> tensor:
    """The function cos of the device library: (float32) -> float32; (float64) -> float64.

        y = libdevice.cos(arg0)
    """


def sinpi(arg0: Operand) -> tensor:
    """The function sinpi of the device library: (float32) -> float32; (float64) -> float64.

        y = libdevice.sinpi(arg0)
    """


def cospi(arg0: Operand) -> tensor:
    """The function cospi of the device library: (float32) -> float32; (float64) -> float64.

        y = libdevice.cospi(arg0)
    """


def tan(arg0: Operand) -> tensor:
    """The function tan of the device library: (float32) -> float32; (float64) -> float64.

        y = libdevice.tan(arg0)
    """


def log2(arg0: Operand) -> tensor:
    """The function log2 of the device library: (float32) -> float32; (float64) -> float64.

        y = libdevice.log2(arg0)
    """


def exp(arg0: Operand) -> tensor:
    """The function exp of the device library: (float32) -> float32; (float64) -> float64.

        y = libdevice.exp(arg0)
    """


def exp10(arg0: Operand) -> tensor:
    """The function exp10 of the device library: (float32) -> float32; (float64) -> float64.

        y = libdevice.exp10(arg0)
    """


def cosh(arg0: Operand) -> tensor:
    """The function cosh of the device library: (float32) -> float32; (float64) -> float64.

        y = libdevice.cosh(arg0)
    """


def sinh(arg0: Operand) -> tensor:
    """The function sinh of the device library: (float32) -> float32; (float64) -> float64.

        y = libdevice.sinh(arg0)
    """


def tanh(arg0: Operand) -> tensor:
    """The function tanh of the device library: (float32) -> float32; (float64) -> float64.

        y = libdevice.tanh(arg0)
    """


def atan(arg0: Operand) -> tensor:
    """The function atan of the device library: (float32) -> float32; (float64) -> float64.

        y = libdevice.atan(arg0)
    """


def asin(arg0: Operand) -> tensor:
    """The function asin of the device library: (float32) -> float32; (float64) -> float64.

        y = libdevice.asin(arg0)
    """


def acos(arg0: Operand) -> tensor:
    """The function acos of the device library: (float32) -> float32; (float64) -> float64.

        y = libdevice.acos(arg0)
    """


def log(arg0: Operand) -> tensor:
    """The function log of the device library: (float32) -> float32; (float64) -> float64.

        y = libdevice.log(arg0)
    """


def log10(arg0: Operand) -> tensor:
    """The function log10 of the device library: (float32) -> float32; (float64) -> float64.

        y = libdevice.log10(arg0)
    """


def log1p(arg0: Operand) -> tensor:
    """The function log1p of the device library: (float32) -> float32; (float64) -> float64.

        y = libdevice.log1p(arg0)
    """


def acosh(arg0: Operand) -> tensor:
    """The function acosh of the device library: (float32) -> float32; (float64) -> float64.

        y = libdevice.acosh(arg0)
    """


def asinh(arg0: Operand) -> tensor:
    """The function asinh of the device library: (float32) -> float32; (float64) -> float64.

        y = libdevice.asinh(arg0)
    """


def atanh(arg0: Operand) -> tensor:
    """The function atanh of the device library: (float32) -> float32; (float64) -> float64.

        y = libdevice.atanh(arg0)
    """


def expm1(arg0: Operand) -> tensor:
    """The function expm1 of the device library: (float32) -> float32; (float64) -> float64.

        y = libdevice.expm1(arg0)
    """


def cbrt(arg0: Operand) -> tensor:
    """The function cbrt of the device library: (float32) -> float32; (float64) -> float64.

        y = libdevice.cbrt(arg0)
    """


def rcbrt(arg0: Operand) -> tensor:
    """The function rcbrt of the device library: (float32) -> float32; (float64) -> float64.

        y = libdevice.rcbrt(arg0)
    """


def j0(arg0: Operand) -> tensor:
    """The function j0 of the device library: (float32) -> float32; (float64) -> float64.

        y = libdevice.j0(arg0)
    """


def j1(arg0: Operand) -> tensor:
    """The function j1 of the device library: (float32) -> float32; (float64) -> float64.

        y = libdevice.j1(arg0)
    """


def y0(arg0: Operand) -> tensor:
    """The function y0 of the device library: (float32) -> float32; (float64) -> float64.

        y = libdevice.y0(arg0)
    """


def y1(arg0: Operand) -> tensor:
    """The function y1 of the device library: (float32) -> float32; (float64) -> float64.

        y = libdevice.y1(arg0)
    """


def cyl_bessel_i0(arg0: Operand) -> tensor:
    """The function cyl_bessel_i0 of the device library: (float32) -> float32; (float64) -> float64.

        y = libdevice.cyl_bessel_i0(arg0)
    """


def cyl_bessel_i1(arg0: Operand) -> tensor:
    """The function cyl_bessel_i1 of the device library: (float32) -> float32; (float64) -> float64.

        y = libdevice.cyl_bessel_i1(arg0)
    """


def erf(arg0: Operand) -> tensor:
    """The function erf of the device library: (float32) -> float32; (float64) -> float64.

        y = libdevice.erf(arg0)
    """


def erfinv(arg0: Operand) -> tensor:
    """The function erfinv of the device library: (float32) -> float32; (float64) -> float64.

        y = libdevice.erfinv(arg0)
    """


def erfc(arg0: Operand) -> tensor:
    """The function erfc of the device library: (float32) -> float32; (float64) -> float64.

        y = libdevice.erfc(arg0)
    """


def erfcx(arg0: Operand) -> tensor:
    """The function erfcx of the device library: (float32) -> float32; (float64) -> float64.

        y = libdevice.erfcx(arg0)
    """


def erfcinv(arg0: Operand) -> tensor:
    """The function erfcinv of the device library: (float32) -> float32; (float64) -> float64.

        y = libdevice.erfcinv(arg0)
    """


def normcdfinv(arg0: Operand) -> tensor:
    """The function normcdfinv of the device library: (float32) -> float32; (float64) -> float64.

        y = libdevice.normcdfinv(arg0)
    """


def normcdf(arg0: Operand) -> tensor:
    """The function normcdf of the device library: (float32) -> float32; (float64) -> float64.

        y = libdevice.normcdf(arg0)
    """


def lgamma(arg0: Operand) -> tensor:
    """The function lgamma of the device library: (float32) -> float32; (float64) -> float64.

        y = libdevice.lgamma(arg0)
    """


def tgamma(arg0: Operand) -> tensor:
    """The function tgamma of the device library: (float32) -> float32; (float64) -> float64.

        y = libdevice.tgamma(arg0)
    """


def round(arg0: Operand) -> tensor:
    """The function round of the device library: (float32) -> float32; (float64) -> float64.

        y = libdevice.round(arg0)
    """


def logb(arg0: Operand) -> tensor:
    """The function logb of the device library: (float32) -> float32; (float64) -> float64.

        y = libdevice.logb(arg0)
    """


def div_rn(arg0: Operand, arg1: Operand) -> tensor:
    """The function div_rn of the device library: (float32, float32) -> float32; (float64, float64) -> float64.

        y = libdevice.div_rn(arg0, arg1)
    """


def div_rz(arg0: Operand, arg1: Operand) -> tensor:
    """The function div_rz of the device library: (float32, float32) -> float32; (float64, float64) -> float64.

        y = libdevice.div_rz(arg0, arg1)
    """


def div_rd(arg0: Operand, arg1: Operand) -> tensor:
    """The function div_rd of the device library: (float32, float32) -> float32; (float64, float64) -> float64.

        y = libdevice.div_rd(arg0, arg1)
    """


def div_ru(arg0: Operand, arg1: Operand) -> tensor:
    """The function div_ru of the device library: (float32, float32) -> float32; (float64, float64) -> float64.

        y = libdevice.div_ru(arg0, arg1)
    """


def add_rn(arg0: Operand, arg1: Operand) -> tensor:
    """The function add_rn of the device library: (float32, float32) -> float32; (float64, float64) -> float64.

        y = libdevice.add_rn(arg0, arg1)
    """


def add_rz(arg0: Operand, arg1: Operand) -> tensor:
    """The function add_rz of the device library: (float32, float32) -> float32; (float64, float64) -> float64.

        y = libdevice.add_rz(arg0, arg1)
    """


def add_rd(arg0: Operand, arg1: Operand) -> tensor:
    """The function add_rd of the device library: (float32, float32) -> float32; (float64, float64) -> float64.

        y = libdevice.add_rd(arg0, arg1)
    """


def add_ru(arg0: Operand, arg1: Operand) -> tensor:
    """The function add_ru of the device library: (float32, float32) -> float32; (float64, float64) -> float64.

        y = libdevice.add_ru(arg0, arg1)
    """


def mul_rn(arg0: Operand, arg1: Operand) -> tensor:
    """The function mul_rn of the device library: (float32, float32) -> float32; (float64, float64) -> float64.

        y = libdevice.mul_rn(arg0, arg1)
    """


def mul_rz(arg0: Operand, arg1: Operand) -> tensor:
    """The function mul_rz of the device library: (float32, float32) -> float32; (float64, float64) -> float64.

        y = libdevice.mul_rz(arg0, arg1)
    """


def mul_rd(arg0: Operand, arg1: Operand) -> tensor:
    """The function mul_rd of the device library: (float32, float32) -> float32; (float64, float64) -> float64.

        y = libdevice.mul_rd(arg0, arg1)
    """


def mul_ru(arg0: Operand, arg1: Operand) -> tensor:
    """The function mul_ru of the device library: (float32, float32) -> float32; (float64, float64) -> float64.

        y = libdevice.mul_ru(arg0, arg1)
    """


def sub_rn(arg0: Operand, arg1: Operand) -> tensor:
    """The function sub_rn of the device library: (float32, float32) -> float32; (float64, float64) -> float64.

        y = libdevice.sub_rn(arg0, arg1)
    """


def sub_rz(arg0: Operand, arg1: Operand) -> tensor:
    """The function sub_rz of the device library: (float32, float32) -> float32; (float64, float64) -> float64.

        y = libdevice.sub_rz(arg0, arg1)
    """


def sub_rd(arg0: Operand, arg1: Operand) -> tensor:
    """The function sub_rd of the device library: (float32, float32) -> float32; (float64, float64) -> float64.

        y = libdevice.sub_rd(arg0, arg1)
    """


def sub_ru(arg0: Operand, arg1: Operand) -> tensor:
    """The function sub_ru of the device library: (float32, float32) -> float32; (float64, float64) -> float64.

        y = libdevice.sub_ru(arg0, arg1)
    """


def copysign(arg0: Operand, arg1: Operand) -> tensor:
    """The function copysign of the device library: (float32, float32) -> float32; (float64, float64) -> float64.

        y = libdevice.copysign(arg0, arg1)
    """


def nextafter(arg0: Operand, arg1: Operand) -> tensor:
    """The function nextafter of the device library: (float32, float32) -> float32; (float64, float64) -> float64.

        y = libdevice.nextafter(arg0, arg1)
    """


def atan2(arg0: Operand, arg1: Operand) -> tensor:
    """The function atan2 of the device library: (float32, float32) -> float32; (float64, float64) -> float64.

        y = libdevice.atan2(arg0, arg1)
    """


def hypot(arg0: Operand, arg1: Operand) -> tensor:
    """The function hypot of the device library: (float32, float32) -> float32; (float64, float64) -> float64.

        y = libdevice.hypot(arg0, arg1)
    """


def rhypot(arg0: Operand, arg1: Operand) -> tensor:
    """The function rhypot of the device library: (float32, float32) -> float32; (float64, float64) -> float64.

        y = libdevice.rhypot(arg0, arg1)
    """


def fmod(arg0: Operand, arg1: Operand) -> tensor:
    """The function fmod of the device library: (float32, float32) -> float32; (float64, float64) -> float64.

        y = libdevice.fmod(arg0, arg1)
    """


def remainder(arg0: Operand, arg1: Operand) -> tensor:
    """The function remainder of the device library: (float32, float32) -> float32; (float64, float64) -> float64.

        y = libdevice.remainder(arg0, arg1)
    """


def fdim(arg0: Operand, arg1: Operand) -> tensor:
    """The function fdim of the device library: (float32, float32) -> float32; (float64, float64) -> float64.

        y = libdevice.fdim(arg0, arg1)
    """


def saturatef(arg0: Operand) -> tensor:
    """The function saturatef of the device library: (float32) -> float32.

        y = libdevice.saturatef(arg0)
    """


def fast_sinf(arg0: Operand) -> tensor:
    """The function fast_sinf of the device library: (float32) -> float32.

        y = libdevice.fast_sinf(arg0)
    """


def fast_cosf(arg0: Operand) -> tensor:
    """The function fast_cosf of the device library: (float32) -> float32.

        y = libdevice.fast_cosf(arg0)
    """


def fast_log2f(arg0: Operand) -> tensor:
    """The function fast_log2f of the device library: (float32) -> float32.

        y = libdevice.fast_log2f(arg0)
    """


def fast_logf(arg0: Operand) -> tensor:
    """The function fast_logf of the device library: (float32) -> float32.

        y = libdevice.fast_logf(arg0)
    """


def fast_expf(arg0: Operand) -> tensor:
    """The function fast_expf of the device library: (float32) -> float32.

        y = libdevice.fast_expf(arg0)
    """


def fast_tanf(arg0: Operand) -> tensor:
    """The function fast_tanf of the device library: (float32) -> float32.

        y = libdevice.fast_tanf(arg0)
    """


def fast_exp10f(arg0: Operand) -> tensor:
    """The function fast_exp10f of the device library: (float32) -> float32.

        y = libdevice.fast_exp10f(arg0)
    """


def fast_log10f(arg0: Operand) -> tensor:
    """The function fast_log10f of the device library: (float32) -> float32.

        y = libdevice.fast_log10f(arg0)
    """


def rsqrt_rn(arg0: Operand) -> tensor:
    """The function rsqrt_rn of the device library: (float32) -> float32.

        y = libdevice.rsqrt_rn(arg0)
    """


def double2int_rn(arg0: Operand) -> tensor:
    """The function double2int_rn of the device library: (float64) -> int32.

        y = libdevice.double2int_rn(arg0)
    """


def double2int_rz(arg0: Operand) -> tensor:
    """The function double2int_rz of the device library: (float64) -> int32.

        y = libdevice.double2int_rz(arg0)
    """


def double2int_rd(arg0: Operand) -> tensor:
    """The function double2int_rd of the device library: (float64) -> int32.

        y = libdevice.double2int_rd(arg0)
    """


def double2int_ru(arg0: Operand) -> tensor:
    """The function double2int_ru of the device library: (float64) -> int32.

        y = libdevice.double2int_ru(arg0)
    """


def double2uint_rn(arg0: Operand) -> tensor:
    """The function double2uint_rn of the device library: (float64) -> int32.

        y = libdevice.double2uint_rn(arg0)
    """


def double2uint_rz(arg0: Operand) -> tensor:
    """The function double2uint_rz of the device library: (float64) -> int32.

        y = libdevice.double2uint_rz(arg0)
    """


def double2uint_rd(arg0: Operand) -> tensor:
    """The function double2uint_rd of the device library: (float64) -> int32.

        y = libdevice.double2uint_rd(arg0)
    """


def double2uint_ru(arg0: Operand) -> tensor:
    """The function double2uint_ru of the device library: (float64) -> int32.

        y = libdevice.double2uint_ru(arg0)
    """


def double2loint(arg0: Operand) -> tensor:
    """The function double2loint of the device library: (float64) -> int32.

        y = libdevice.double2loint(arg0)
    """


def double2hiint(arg0: Operand) -> tensor:
    """The function double2hiint of the device library: (float64) -> int32.

        y = libdevice.double2hiint(arg0)
    """


def float2int_rn(arg0: Operand) -> tensor:
    """The function float2int_rn of the device library: (float32) -> int32.

        y = libdevice.float2int_rn(arg0)
    """


def float2int_rz(arg0: Operand) -> tensor:
    """The function float2int_rz of the device library: (float32) -> int32.

        y = libdevice.float2int_rz(arg0)
    """


def float2int_rd(arg0: Operand) -> tensor:
    """The function float2int_rd of the device library: (float32) -> int32.

        y = libdevice.float2int_rd(arg0)
    """


def float2int_ru(arg0: Operand) -> tensor:
    """The function float2int_ru of the device library: (float32) -> int32.

        y = libdevice.float2int_ru(arg0)
    """


def float2uint_rn(arg0: Operand) -> tensor:
    """The function float2uint_rn of the device library: (float32) -> int32.

        y = libdevice.float2uint_rn(arg0)
    """


def float2uint_rz(arg0: Operand) -> tensor:
    """The function float2uint_rz of the device library: (float32) -> int32.

        y = libdevice.float2uint_rz(arg0)
    """


def float2uint_rd(arg0: Operand) -> tensor:
    """The function float2uint_rd of the device library: (float32) -> int32.

        y = libdevice.float2uint_rd(arg0)
    """


def float2uint_ru(arg0: Operand) -> tensor:
    """The function float2uint_ru of the device library: (float32) -> int32.

        y = libdevice.float2uint_ru(arg0)
    """


def float_as_int(arg0: Operand) -> tensor:
    """The function float_as_int of the device library: (float32) -> int32.

        y = libdevice.float_as_int(arg0)
    """


def float_as_uint(arg0: Operand) -> tensor:
    """The function float_as_uint of the device library: (float32) -> int32.

        y = libdevice.float_as_uint(arg0)
    """


def double2ll_rn(arg0: Operand) -> tensor:
    """The function double2ll_rn of the device library: (float64) -> int64.

        y = libdevice.double2ll_rn(arg0)
    """


def double2ll_rz(arg0: Operand) -> tensor:
    """The function double2ll_rz of the device library: (float64) -> int64.

        y = libdevice.double2ll_rz(arg0)
    """


def double2ll_rd(arg0: Operand) -> tensor:
    """The function double2ll_rd of the device library: (float64) -> int64.

        y = libdevice.double2ll_rd(arg0)
    """


def double2ll_ru(arg0: Operand) -> tensor:
    """The function double2ll_ru of the device library: (float64) -> int64.

        y = libdevice.double2ll_ru(arg0)
    """


def double2ull_rn(arg0: Operand) -> tensor:
    """The function double2ull_rn of the device library: (float64) -> int64.

        y = libdevice.double2ull_rn(arg0)
    """


def double2ull_rz(arg0: Operand) -> tensor:
    """The function double2ull_rz of the device library: (float64) -> int64.

        y = libdevice.double2ull_rz(arg0)
    """


def double2ull_rd(arg0: Operand) -> tensor:
    """The function double2ull_rd of the device library: (float64) -> int64.

        y = libdevice.double2ull_rd(arg0)
    """


def double2ull_ru(arg0: Operand) -> tensor:
    """The function double2ull_ru of the device library: (float64) -> int64.

        y = libdevice.double2ull_ru(arg0)
    """


def double_as_longlong(arg0: Operand) -> tensor:
    """The function double_as_longlong of the device library: (float64) -> int64.

        y = libdevice.double_as_longlong(arg0)
    """


def float2ll_rn(arg0: Operand) -> tensor:
    """The function float2ll_rn of the device library: (float32) -> int64.

        y = libdevice.float2ll_rn(arg0)
    """


def float2ll_rz(arg0: Operand) -> tensor:
    """The function float2ll_rz of the device library: (float32) -> int64.

        y = libdevice.float2ll_rz(arg0)
    """


def float2ll_rd(arg0: Operand) -> tensor:
    """The function float2ll_rd of the device library: (float32) -> int64.

        y = libdevice.float2ll_rd(arg0)
    """


def float2ll_ru(arg0: Operand) -> tensor:
    """The function float2ll_ru of the device library: (float32) -> int64.

        y = libdevice.float2ll_ru(arg0)
    """


def float2ull_rn(arg0: Operand) -> tensor:
    """The function float2ull_rn of the device library: (float32) -> int64.

        y = libdevice.float2ull_rn(arg0)
    """


def float2ull_rz(arg0: Operand) -> tensor:
    """The function float2ull_rz of the device library: (float32) -> int64.

        y = libdevice.float2ull_rz(arg0)
    """


def float2ull_rd(arg0: Operand) -> tensor:
    """The function float2ull_rd of the device library: (float32) -> int64.

        y = libdevice.float2ull_rd(arg0)
    """


def float2ull_ru(arg0: Operand) -> tensor:
    """The function float2ull_ru of the device library: (float32) -> int64.

        y = libdevice.float2ull_ru(arg0)
    """


def fma_rn(arg0: Operand, arg1: Operand, arg2: Operand) -> tensor:
    """The function fma_rn of the device library: (float32, float32, float32) -> float32; (float64, float64, float64)
    -> float64.

        y = libdevice.fma_rn(arg0, arg1, arg2)
    """


def fma_rz(arg0: Operand, arg1: Operand, arg2: Operand) -> tensor:
    """The function fma_rz of the device library: (float32, float32, float32) -> float32; (float64, float64, float64)
    -> float64.

        y = libdevice.fma_rz(arg0, arg1, arg2)
    """


def fma_rd(arg0: Operand, arg1: Operand, arg2: Operand) -> tensor:
    """The function fma_rd of the device library: (float32, float32, float32) -> float32; (float64, float64, float64)
    -> float64.

        y = libdevice.fma_rd(arg0, arg1, arg2)
    """


def fma_ru(arg0: Operand, arg1: Operand, arg2: Operand) -> tensor:
    """The function fma_ru of the device library: (float32, float32, float32) -> float32; (float64, float64, float64)
    -> float64.

        y = libdevice.fma_ru(arg0, arg1, arg2)
    """


def norm3d(arg0: Operand, arg1: Operand, arg2: Operand) -> tensor:
    """The function norm3d of the device library: (float32, float32, float32) -> float32; (float64, float64, float64)
    -> float64.

        y = libdevice.norm3d(arg0, arg1, arg2)
    """


def rnorm3d(arg0: Operand, arg1: Operand, arg2: Operand) -> tensor:
    """The function rnorm3d of the device library: (float32, float32, float32) -> float32; (float64, float64,
    float64) -> float64.

        y = libdevice.rnorm3d(arg0, arg1, arg2)
    """


def fma(arg0: Operand, arg1: Operand, arg2: Operand) -> tensor:
    """The function fma of the device library: (float32, float32, float32) -> float32; (float64, float64, float64) ->
    float64.

        y = libdevice.fma(arg0, arg1, arg2)
    """


def int2float_rn(arg0: Operand) -> tensor:
    """The function int2float_rn of the device library: (int32) -> float32.

        y = libdevice.int2float_rn(arg0)
    """


def int2float_rz(arg0: Operand) -> tensor:
    """The function int2float_rz of the device library: (int32) -> float32.

        y = libdevice.int2float_rz(arg0)
    """


def int2float_rd(arg0: Operand) -> tensor:
    """The function int2float_rd of the device library: (int32) -> float32.

        y = libdevice.int2float_rd(arg0)
    """


def int2float_ru(arg0: Operand) -> tensor:
    """The function int2float_ru of the device library: (int32) -> float32.

        y = libdevice.int2float_ru(arg0)
    """


def int_as_float(arg0: Operand) -> tensor:
    """The function int_as_float of the device library: (int32) -> float32.

        y = libdevice.int_as_float(arg0)
    """


def uint2float_rn(arg0: Operand) -> tensor:
    """The function uint2float_rn of the device library: (uint32) -> float32.

        y = libdevice.uint2float_rn(arg0)
    """


def uint2float_rz(arg0: Operand) -> tensor:
    """The function uint2float_rz of the device library: (uint32) -> float32.

        y = libdevice.uint2float_rz(arg0)
    """


def uint2float_rd(arg0: Operand) -> tensor:
    """The function uint2float_rd of the device library: (uint32) -> float32.

        y = libdevice.uint2float_rd(arg0)
    """


def uint2float_ru(arg0: Operand) -> tensor:
    """The function uint2float_ru of the device library: (uint32) -> float32.

        y = libdevice.uint2float_ru(arg0)
    """


def uint_as_float(arg0: Operand) -> tensor:
    """The function uint_as_float of the device library: (uint32) -> float32.

        y = libdevice.uint_as_float(arg0)
    """


def ll2double_rn(arg0: Operand) -> tensor:
    """The function ll2double_rn of the device library: (int64) -> float64.

        y = libdevice.ll2double_rn(arg0)
    """


def ll2double_rz(arg0: Operand) -> tensor:
    """The function ll2double_rz of the device library: (int64) -> float64.

        y = libdevice.ll2double_rz(arg0)
    """


def ll2double_rd(arg0: Operand) -> tensor:
    """The function ll2double_rd of the device library: (int64) -> float64.

        y = libdevice.ll2double_rd(arg0)
    """


def ll2double_ru(arg0: Operand) -> tensor:
    """The function ll2double_ru of the device library: (int64) -> float64.

        y = libdevice.ll2double_ru(arg0)
    """


def longlong_as_double(arg0: Operand) -> tensor:
    """The function longlong_as_double of the device library: (int64) -> float64.

        y = libdevice.longlong_as_double(arg0)
    """


def double2float_rn(arg0: Operand) -> tensor:
    """The function double2float_rn of the device library: (float64) -> float32.

        y = libdevice.double2float_rn(arg0)
    """


def double2float_rz(arg0: Operand) -> tensor:
    """The function double2float_rz of the device library: (float64) -> float32.

        y = libdevice.double2float_rz(arg0)
    """


def double2float_rd(arg0: Operand) -> tensor:
    """The function double2float_rd of the device library: (float64) -> float32.

        y = libdevice.double2float_rd(arg0)
    """


def double2float_ru(arg0: Operand) -> tensor:
    """The function double2float_ru of the device library: (float64) -> float32.

        y = libdevice.double2float_ru(arg0)
    """


def ll2float_rn(arg0: Operand) -> tensor:
    """The function ll2float_rn of the device library: (int64) -> float32.

        y = libdevice.ll2float_rn(arg0)
    """


def ll2float_rz(arg0: Operand) -> tensor:
    """The function ll2float_rz of the device library: (int64) -> float32.

        y = libdevice.ll2float_rz(arg0)
    """


def ll2float_rd(arg0: Operand) -> tensor:
    """The function ll2float_rd of the device library: (int64) -> float32.

        y = libdevice.ll2float_rd(arg0)
    """


def ll2float_ru(arg0: Operand) -> tensor:
    """The function ll2float_ru of the device library: (int64) -> float32.

        y = libdevice.ll2float_ru(arg0)
    """


def ull2float_rn(arg0: Operand) -> tensor:
    """The function ull2float_rn of the device library: (uint64) -> float32.

        y = libdevice.ull2float_rn(arg0)
    """


def ull2float_rz(arg0: Operand) -> tensor:
    """The function ull2float_rz of the device library: (uint64) -> float32.

        y = libdevice.ull2float_rz(arg0)
    """


def ull2float_rd(arg0: Operand) -> tensor:
    """The function ull2float_rd of the device library: (uint64) -> float32.

        y = libdevice.ull2float_rd(arg0)
    """


def ull2float_ru(arg0: Operand) -> tensor:
    """The function ull2float_ru of the device library: (uint64) -> float32.

        y = libdevice.ull2float_ru(arg0)
    """


def ull2double_rn(arg0: Operand) -> tensor:
    """The function ull2double_rn of the device library: (uint64) -> float64.

        y = libdevice.ull2double_rn(arg0)
    """


def ull2double_rz(arg0: Operand) -> tensor:
    """The function ull2double_rz of the device library: (uint64) -> float64.

        y = libdevice.ull2double_rz(arg0)
    """


def ull2double_rd(arg0: Operand) -> tensor:
    """The function ull2double_rd of the device library: (uint64) -> float64.

        y = libdevice.ull2double_rd(arg0)
    """


def ull2double_ru(arg0: Operand) -> tensor:
    """The function ull2double_ru of the device library: (uint64) -> float64.

        y = libdevice.ull2double_ru(arg0)
    """


def clz(arg0: Operand) -> tensor:
    """The function clz of the device library: (int32) -> int32; (int64) -> int32.

        y = libdevice.clz(arg0)
    """


def popc(arg0: Operand) -> tensor:
    """The function popc of the device library: (int32) -> int32; (int64) -> int32.

        y = libdevice.popc(arg0)
    """


def ffs(arg0: Operand) -> tensor:
    """The function ffs of the device library: (int32) -> int32; (int64) -> int32.

        y = libdevice.ffs(arg0)
    """


def mul24(arg0: Operand, arg1: Operand) -> tensor:
    """The function mul24 of the device library: (int32, int32) -> int32; (uint32, uint32) -> uint32.

        y = libdevice.mul24(arg0, arg1)
    """


def hadd(arg0: Operand, arg1: Operand) -> tensor:
    """The function hadd of the device library: (int32, int32) -> int32; (uint32, uint32) -> uint32.

        y = libdevice.hadd(arg0, arg1)
    """


def rhadd(arg0: Operand, arg1: Operand) -> tensor:
    """The function rhadd of the device library: (int32, int32) -> int32; (uint32, uint32) -> uint32.

        y = libdevice.rhadd(arg0, arg1)
    """


def fast_dividef(arg0: Operand, arg1: Operand) -> tensor:
    """The function fast_dividef of the device library: (float32, float32) -> float32.

        y = libdevice.fast_dividef(arg0, arg1)
    """


def fast_powf(arg0: Operand, arg1: Operand) -> tensor:
    """The function fast_powf of the device library: (float32, float32) -> float32.

        y = libdevice.fast_powf(arg0, arg1)
    """


def llrint(arg0: Operand) -> tensor:
    """The function llrint of the device library: (float32) -> int64; (float64) -> int64.

        y = libdevice.llrint(arg0)
    """


def llround(arg0: Operand) -> tensor:
    """The function llround of the device library: (float32) -> int64; (float64) -> int64.

        y = libdevice.llround(arg0)
    """


def isnan(arg0: Operand) -> tensor:
    """The function isnan of the device library: (float32) -> int1; (float64) -> int1.

        y = libdevice.isnan(arg0)
    """


def isinf(arg0: Operand) -> tensor:
    """The function isinf of the device library: (float32) -> int1; (float64) -> int1.

        y = libdevice.isinf(arg0)
    """


def signbit(arg0: Operand) -> tensor:
    """The function signbit of the device library: (float32) -> int32; (float64) -> int32.

        y = libdevice.signbit(arg0)
    """


def ilogb(arg0: Operand) -> tensor:
    """The function ilogb of the device library: (float32) -> int32; (float64) -> int32.

        y = libdevice.ilogb(arg0)
    """


def norm4d(arg0: Operand, arg1: Operand, arg2: Operand, arg3: Operand) -> tensor:
    """The function norm4d of the device library: (float32, float32, float32, float32) -> float32; (float64, float64,
    float64, float64) -> float64.

        y = libdevice.norm4d(arg0, arg1, arg2, arg3)
    """


def rnorm4d(arg0: Operand, arg1: Operand, arg2: Operand, arg3: Operand) -> tensor:
    """The function rnorm4d of the device library: (float32, float32, float32, float32) -> float32; (float64,
    float64, float64, float64) -> float64.

        y = libdevice.rnorm4d(arg0, arg1, arg2, arg3)
    """


def yn(arg0: Operand, arg1: Operand) -> tensor:
    """The function yn of the device library: (int32, float32) -> float32; (int32, float64) -> float64.

        y = libdevice.yn(arg0, arg1)
    """


def jn(arg0: Operand, arg1: Operand) -> tensor:
    """The function jn of the device library: (int32, float32) -> float32; (int32, float64) -> float64.

        y = libdevice.jn(arg0, arg1)
    """


def ldexp(arg0: Operand, arg1: Operand) -> tensor:
    """The function ldexp of the device library: (float32, int32) -> float32; (float64, int32) -> float64.

        y = libdevice.ldexp(arg0, arg1)
    """


def scalbn(arg0: Operand, arg1: Operand) -> tensor:
    """The function scalbn of the device library: (float32, int32) -> float32; (float64, int32) -> float64.

        y = libdevice.scalbn(arg0, arg1)
    """


def byte_perm(arg0: Operand, arg1: Operand, arg2: Operand) -> tensor:
    """The function byte_perm of the device library: (int32, int32, int32) -> int32.

        y = libdevice.byte_perm(arg0, arg1, arg2)
    """


def mulhi(arg0: Operand, arg1: Operand) -> tensor:
    """The function mulhi of the device library: (int32, int32) -> int32; (int64, int64) -> int64; (uint32, uint32)
    -> uint32; (uint64, uint64) -> uint64.

        y = libdevice.mulhi(arg0, arg1)
    """


def brev(arg0: Operand) -> tensor:
    """The function brev of the device library: (int32) -> int32; (int64) -> int64.

        y = libdevice.brev(arg0)
    """


def sad(arg0: Operand, arg1: Operand, arg2: Operand) -> tensor:
    """The function sad of the device library: (int32, int32, uint32) -> int32; (uint32, uint32, uint32) -> uint32.

        y = libdevice.sad(arg0, arg1, arg2)
    """


def abs(arg0: Operand) -> tensor:
    """The function abs of the device library: (float32) -> float32; (float64) -> float64; (int32) -> int32; (int64)
    -> int64.

        y = libdevice.abs(arg0)
    """


def rcp64h(arg0: Operand) -> tensor:
    """The function rcp64h of the device library: (float64) -> float64.

        y = libdevice.rcp64h(arg0)
    """


def int2double_rn(arg0: Operand) -> tensor:
    """The function int2double_rn of the device library: (int32) -> float64.

        y = libdevice.int2double_rn(arg0)
    """


def uint2double_rn(arg0: Operand) -> tensor:
    """The function uint2double_rn of the device library: (uint32) -> float64.

        y = libdevice.uint2double_rn(arg0)
    """


def hiloint2double(arg0: Operand, arg1: Operand) -> tensor:
    """The function hiloint2double of the device library: (int32, int32) -> float64.

        y = libdevice.hiloint2double(arg0, arg1)
    """


def finitef(arg0: Operand) -> tensor:
    """The function finitef of the device library: (float32) -> int1.

        y = libdevice.finitef(arg0)
    """


def pow(arg0: Operand, arg1: Operand) -> tensor:
    """The function pow of the device library: (float32, float32) -> float32; (float32, int32) -> float32; (float64,
    float64) -> float64; (float64, int32) -> float64.

        y = libdevice.pow(arg0, arg1)
    """


def isfinited(arg0: Operand) -> tensor:
    """The function isfinited of the device library: (float64) -> int1.

        y = libdevice.isfinited(arg0)
    """


def fast_tanhf(arg0: Operand) -> tensor:
    """The function fast_tanhf of the device library: (float32) -> float32.

        y = libdevice.fast_tanhf(arg0)
    """
