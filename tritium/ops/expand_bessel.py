"""Bessel functions over simple rows, in f64; f32 by way of it.

Below 8 polynomials in x^2, divided by the zeros so that they keep their digits there; beyond 8 Hankel's form, amplitude
and phase as polynomials in (8/x)^2. Any order is a recurrence, element by element.
"""

from __future__ import annotations

from ..ir import types as T
from .expand_exp import EXP, FORMATS, INF, NAN, clamp, log, reduce_exp, scale
from .expand_trig import cos, sin
from .expression import element_by_element, expands, fma, in_f64, maximum, poly, repeat, sqrt, where

# J0 = (x^2 - a^2) (x^2 - b^2) P(u), J1 = x (x^2 - a^2) (x^2 - b^2) P(u), u = x^2/32 - 1, for x <= 8
J0_ZEROS = ((2.404825557695773, -1.176691651530894e-16), (5.520078110286311, 8.088597146146722e-17))
J1_ZEROS = ((3.8317059702075125, -1.5269184090088067e-16), (7.015586669815619, -9.414165653410389e-17))
J0_SMALL = (
    0.0011434937743762545, -0.002119794289479691, 0.0015636431645931668, -0.0006415390646406382,
    0.00016977200713999037, -3.1573425402007434e-05, 4.366932324465524e-06, -4.6771280297002155e-07,
    3.99883942065625e-08, -2.794861488362192e-09, 1.627634765229862e-10, -8.02470925419587e-12, 3.404628012445395e-13,
    -1.2088642423770402e-14)
J1_SMALL = (
    0.00019498936985895625, -0.0002697522746716368, 0.00015860016799369866, -5.4080032390855674e-05,
    1.2242173653016848e-05, -1.9890935159090506e-06, 2.4425222606607694e-07, -2.3521922564317988e-08,
    1.8268547996091942e-09, -1.1696929338539307e-10, 6.284684787107467e-12, -2.8757917117134364e-13,
    1.1381841090132247e-14, -3.828562441976433e-16)
# Y0 = 2/pi log(x) J0 + P(u), Y1 = 2/pi (log(x) J1 - 1/x) + x P(u)
Y0_SMALL = (
    -0.382250654459425, -0.8284358903604587, 1.6470964788745466, 0.14412632369302442, -1.0775477338215995,
    0.6721770783431723, -0.21895747096171628, 0.04636704768134709, -0.00702574105727097, 0.0008061586060550765,
    -7.279541882453985e-05, 5.321318633712332e-06, -3.218507844610143e-07, 1.6391065292538504e-08,
    -7.130461454444424e-10, 2.6818207652828307e-11, -8.840115011359463e-13, 2.5583589212427835e-14)
Y1_SMALL = (
    0.07075985882118005, -0.24337743079193114, 0.023367571720993584, 0.23507209206669755, -0.19639839859930425,
    0.07854786922242545, -0.019628756833099423, 0.0034224907399180455, -0.00044381734351149876, 4.467433012914444e-05,
    -3.60099987435778e-06, 2.3804929913602276e-07, -1.3153322551172204e-08, 6.169742619509519e-10,
    -2.488750987370904e-11, 8.728806645300313e-13, -2.6951397500599196e-14, 7.3398726454999195e-16)
# amplitude of the cosine, and x times that of the sine, for x >= 8: polynomials in (8/x)^2 to 2^-55
P0 = (
    1.0, -0.001098632812496437, 2.7380883471089738e-05, -2.183914734401354e-06, 3.6198723662349926e-07,
    -1.0210717559626359e-07, 4.26890199621763e-08, -2.246078598255208e-08, 1.2043678565234124e-08,
    -5.31910680954204e-09, 1.5677912419351807e-09, -2.205685368907614e-10)
Q0 = (
    -0.12499999999999986, 0.0011444091796443971, -5.544628725313554e-05, 6.590711965156285e-06,
    -1.4527070646560474e-06, 5.103285357176907e-07, -2.5224715309586803e-07, 1.4879056797958946e-07,
    -8.538013256699854e-08, 3.9138521908019346e-08, -1.1772673650476894e-08, 1.6752747959020054e-09)
P1 = (
    1.0, 0.0018310546874962192, -3.520399308430863e-05, 2.5809907313305807e-06, -4.1025614426660495e-07,
    1.1287145903822729e-07, -4.6443703599973855e-08, 2.4198156072113592e-08, -1.2903599057409816e-08,
    5.681664844870003e-09, -1.671794848584041e-09, 2.3495862717451836e-10)
Q1 = (
    0.37499999999999983, -0.00160217285151686, 6.776768478488978e-05, -7.60467199381331e-06, 1.6236428231098134e-06,
    -5.590503568783835e-07, 2.727408760116804e-07, -1.5959446361781461e-07, 9.116562376424084e-08,
    -4.168593888048042e-08, 1.2520841765647579e-08, -1.7801625419343971e-09)
# I0 and I1 / x: polynomials in (x/16)^2 to 16, to 2^-54; beyond, e^-x sqrt(x) I in 16/x, to 2^-56
I0_SMALL = (
    1.0, 64.0, 1024.0, 7281.777777777777, 29127.111111111168, 74565.40444444126, 132560.71901244405,
    173140.53095299922, 173140.53097974043, 136802.3945978248, 87553.53426897382, 46309.298387617004,
    20581.946448023944, 7794.23403098207, 2545.331612908749, 723.4747811753247, 181.67043785516103,
    39.287785259719975, 8.614517019154286, 0.9461358492809853, 0.43832244935624914, -0.03320786840837784,
    0.015523521124258663)
I1_SMALL = (
    0.5, 16.0, 170.66666666666666, 910.222222222224, 2912.711111110985, 6213.783703708478, 9468.62278648581,
    10821.283186374118, 9618.918368169163, 6840.119884055236, 3979.705196791092, 1929.558157551068, 791.5993059769378,
    278.4031696185662, 84.76538151956572, 22.737812046014817, 5.179400697437011, 1.2503898404639462,
    0.11095108216130457, 0.08461003818802054, -0.011444818919384347, 0.004020647785044622, -0.00013885557199302026)
I0_LARGE = (
    0.39894228040143276, 0.0031167365656290186, 0.00010957277011538348, 7.1336402327643736e-06, 6.827451149381244e-07,
    8.621764110131191e-08, 1.4315624072007654e-08, 7.976996268472165e-10, 3.6016340675275706e-09,
    -3.3665486759926334e-09, 2.6616279175431457e-09, -1.1427277537129598e-09, 2.3753285862066684e-10)
I1_LARGE = (
    0.3989422804014326, -0.009350209696900907, -0.0001826212833881004, -9.987097539587824e-06, -8.778078474568419e-07,
    -1.0540689550001978e-07, -1.6834851692303358e-08, -1.0834888248791586e-09, -3.861626378402418e-09,
    3.5607272222674964e-09, -2.821976824567131e-09, 1.2100396310412172e-09, -2.518118460873595e-10)
TWO_OVER_PI, PI = 0.6366197723675814, 3.141592653589793


# --- orders 0 and 1 ---------------------------------------------------------------------------------------------------
def near_zeros(a, zeros, coefficients):
    """The polynomial in a^2 times its factors, for a <= 8."""
    u = fma(a * a, 1.0 / 32.0, -1.0)
    y = poly(u, coefficients)
    for high, low in zeros:
        y = y * (((a - high) - low) * (a + high))
    return y


def far(a, p, q):
    """(amplitude, P, Q): Hankel's form for a >= 8."""
    inverse = 1.0 / a
    z = (inverse * 8.0) * (inverse * 8.0)
    return sqrt(inverse * (1.0 / PI)), poly(z, p), poly(z, q) * inverse


def split_at_8(a):
    """(a kept at most 8, a kept at least 8, whether it is above)."""
    return where(a > 8.0, 8.0, a), where(a > 8.0, a, 8.0), a > 8.0


@expands("j0")
@in_f64
def j0(x):
    """First kind, order 0."""
    small, large, above = split_at_8(abs(x))
    size, p, q = far(large, P0, Q0)
    s, c = sin(large), cos(large)
    y = size * fma(p, c + s, -(q * (s - c)))
    return where(abs(x) == INF, 0.0, where(above, y, near_zeros(small, J0_ZEROS, J0_SMALL)))


@expands("j1")
@in_f64
def j1(x):
    """First kind, order 1: odd."""
    small, large, above = split_at_8(abs(x))
    size, p, q = far(large, P1, Q1)
    s, c = sin(large), cos(large)
    y = size * fma(p, s - c, q * (s + c))
    y = where(above, y, small * near_zeros(small, J1_ZEROS, J1_SMALL))
    return where(abs(x) == INF, 0.0, where(x < 0.0, -y, where(x == 0.0, x, y)))


@expands("y0")
@in_f64
def y0(x):
    """Second kind, order 0."""
    small, large, above = split_at_8(x)
    size, p, q = far(large, P0, Q0)
    s, c = sin(large), cos(large)
    y = size * fma(p, s - c, q * (c + s))
    regular = poly(fma(small * small, 1.0 / 32.0, -1.0), Y0_SMALL)
    near = fma(log(small) * TWO_OVER_PI, near_zeros(small, J0_ZEROS, J0_SMALL), regular)
    return y_edges(x, where(above, y, near))


@expands("y1")
@in_f64
def y1(x):
    """Second kind, order 1."""
    small, large, above = split_at_8(x)
    size, p, q = far(large, P1, Q1)
    s, c = sin(large), cos(large)
    y = size * fma(q, s - c, -(p * (s + c)))
    regular = poly(fma(small * small, 1.0 / 32.0, -1.0), Y1_SMALL)
    j = near_zeros(small, J1_ZEROS, J1_SMALL)
    near = fma(small, fma(log(small) * TWO_OVER_PI, j, regular), -(TWO_OVER_PI / small))
    return y_edges(x, where(above, y, near))


def y_edges(x, y):
    """-inf at 0, NaN below, 0 at infinity."""
    y = where(x == 0.0, -INF, where(x < 0.0, NAN, y))
    return where(x == INF, 0.0, where(x != x, x, y))


@expands("cyl_bessel_i0")
@in_f64
def i0(x):
    """Modified, first kind, order 0."""
    a = abs(x)
    v = where(a > 16.0, 16.0, a) * (1.0 / 16.0)
    return where(a > 16.0, grown(a, I0_LARGE), poly(v * v, I0_SMALL))


@expands("cyl_bessel_i1")
@in_f64
def i1(x):
    """Modified, first kind, order 1: odd."""
    a = abs(x)
    v = where(a > 16.0, 16.0, a) * (1.0 / 16.0)
    y = where(a > 16.0, grown(a, I1_LARGE), a * poly(v * v, I1_SMALL))
    return where(x < 0.0, -y, where(x == 0.0, x, y))


def grown(a, coefficients):
    """e^a / sqrt(a) P(16/a) for a >= 16; the power of two comes last, so that it is finite as long as it can be."""
    f = FORMATS[T.f64]
    kept = clamp(a, 16.0, 720.0)
    i, r = reduce_exp(kept, f)
    y = scale(poly(r, EXP[T.f64]) * poly(16.0 / kept, coefficients) / sqrt(kept), i, f)
    return where(a == INF, INF, where(a != a, a, y))


# --- any order --------------------------------------------------------------------------------------------------------
@expands("jn")
@in_f64
def jn(n, x):
    """First kind: up from orders 0 and 1 while n <= x, else down from far above and scaled (Miller)."""
    return element_by_element(_jn, n, x)


@expands("yn")
@in_f64
def yn(n, x):
    """Second kind: up from orders 0 and 1."""
    return element_by_element(_yn, n, x)


def upwards(order, a, first, second):
    """The function of this order (two or more), from those of order 0 and 1."""
    _, _, y = repeat(lambda k, before, y: k < order,
                     lambda k, before, y: (k + 1, y, fma((k + k).cast(T.f64) / a, y, -before)),
                     order.const(1), first, second)
    return y


def _jn(n, x):
    a, order = abs(x), maximum(n, -n)
    zero, one = j0(a), j1(a)
    stable = order.cast(T.f64) <= a
    up = upwards(where(stable, order, 0), a, zero, one)
    y = where(order == 0, zero, where(order == 1, one, where(stable, up, downwards(where(stable, 0, order), a))))
    odd = (order & 1) == 1
    y = where(odd & ((n < 0) ^ (x < 0.0)), -y, y)
    return where((a == 0.0) & (order != 0), 0.0, where(a == INF, 0.0, where(x != x, x, y)))


def downwards(order, a):
    """J of an order above a: the recurrence down from a start far above, divided by J0 + 2 J2 + 2 J4 ... = 1."""
    room = sqrt(order.cast(T.f64) * 60.0).cast(T.i32) + where(a < 1e6, a, 0.0).cast(T.i32)
    start = (((order + room) >> 1) + 10) << 1
    start = where(order == 0, 0, start)
    tiny, none = a.const(1e-300), a.const(0.0)

    def down(k, above, y, total, wanted):
        """One order down; everything shrinks before it overflows."""
        below = fma((k + k).cast(T.f64) / a, y, -above)
        wanted = where(k - 1 == order, below, wanted)
        even = (k & 1) == 1     # of the order k - 1
        total = total + where(even, where(k == 1, below, below + below), 0.0)
        shrink = where(abs(below) > 1e250, a.const(1e-250), 1.0)
        return k - 1, y * shrink, below * shrink, total * shrink, wanted * shrink

    *_, total, wanted = repeat(lambda k, *rest: k > 0, down, start, none, tiny, none, none)
    return wanted / total


def _yn(n, x):
    order = maximum(n, -n)
    zero, one = y0(x), y1(x)
    y = where(order == 0, zero, where(order == 1, one, upwards(order, x, zero, one)))
    y = where(y == y, y, -INF)      # inf - inf on the way up from the pole
    y = where((n < 0) & ((order & 1) == 1), -y, y)
    return where((x < 0.0) | (x != x), NAN, where(x == INF, 0.0, y))
