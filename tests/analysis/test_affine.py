"""Affine forms: what a form says of each element is what the interpreter computes."""

from collections import Counter

import numpy as np
from hypothesis import assume, given

from tests.analysis.index_modules import evaluated, modules, overflows
from tritium import ops
from tritium.analysis.affine import Affine, Form, Loose, is_uniform, strides_behind
from tritium.analysis.arithmetic import is_index
from tritium.analysis.polynomial import ITERATION, Poly, Scalars
from tritium.ir import types as T
from tritium.ir.core import Op
from tritium.ir.text import parse_module


def number(poly, values):
    """A polynomial of values, as a number."""
    return sum(times * int(np.prod([int(values[x]) for x in product], dtype=object))
               for product, times in poly.terms.items())


def elements(form, shape, values):
    """The elements of a tile, by its form; a pointer's are counted in elements from it."""
    out = np.full(shape, number(form.base, values), object)
    for stride, index in zip(form.strides, np.indices(shape)):
        out = out + number(stride, values) * index.astype(object)
    for scale, value, path in form.loose:
        x = values[value]
        for op in reversed(path):
            x = op.kind.eval(op, x)
        out = out + number(scale, values) * np.asarray(x).astype(object)
    return out


@given(modules())
def test_forms_are_true(case):
    module, args, pid = case
    values = evaluated(module, args, pid)
    assume(not overflows(values))
    scalars = Scalars()
    for x, value in values.items():
        if not is_index(x.type):
            continue
        form, value = scalars.of(x), value.astype(object)
        if T.is_ptr(x.type):
            value = (value - int(values[form.pointer])) // T.element(x.type).pointee.bytes
        elif T.element(x.type) is T.u64:
            continue
        assert np.all(elements(form, T.shape(x.type), values) == value), f"{form} of {x!r}\n{module}\n{value}"


@given(modules())
def test_forms_with_equal_terms_differ_by_their_bases(case):
    """What dependence analysis rests on."""
    module, args, pid = case
    values = evaluated(module, args, pid)
    assume(not overflows(values))
    numbers = Affine()
    known = {}
    for x, value in values.items():
        if type(T.element(x.type)) is T.Scalar and is_index(x.type):
            form = numbers.of(x)
            key = T.shape(x.type), form.strides, frozenset(Counter(form.loose).items())
            other, base = known.setdefault(key, (value.astype(object), form.base))
            assert np.all(value.astype(object) - other == form.base - base), (x, form)


TILES = """kernel @f(%p: ptr<f32>, %s: i32, %u: u32) {
  %pid = program_id {axis=0} : i32
  %i = arange {start=4, end=12} : tile<8xi32>
  %s8 = splat %s {shape=(8,)} : tile<8xi32>
  %is = mul %i, %s8 : tile<8xi32>
  %ps = splat %p {shape=(8,)} : tile<8xptr<f32>>
  %a = addptr %ps, %is : tile<8xptr<f32>>
  %r = rem %i, %s8 : tile<8xi32>
  %rr = expand_dims %r {axis=1} : tile<8x1xi32>
  %rs = add %rr, %rr : tile<8x1xi32>
  %j = reshape %i {shape=(2, 4)} : tile<2x4xi32>
  %u8 = splat %u {shape=(8,)} : tile<8xu32>
  %uu = add %u8, %u8 : tile<8xu32>
}"""


def forms(*names):
    module = parse_module(TILES)
    found = dict(zip("pid i s8 is ps a r rr rs j u8 uu".split(), module.body.ops))
    scalars = Scalars()
    return [scalars.of(found[name]) for name in names], module


def test_pointers_and_strides():
    (address, both), module = forms("a", "j")
    p, s, _ = module.args
    assert address == Form(p, Poly.of(s) * 4, (Poly.of(s),))
    assert both == Form(None, Poly.of(4), (Poly.of(4), Poly.of(1)))


def test_a_remainder_is_loose_behind_its_views():
    (sum_,), module = forms("rs")
    rem, view = (next(op for op in module.body.ops if op.kind is kind) for kind in (ops.rem, ops.expand_dims))
    assert sum_.loose == (Loose(Poly.of(2), rem, (view,)),)
    assert strides_behind(sum_.loose[0].path, (1,)) == (1, 0)


def test_sums_of_short_unsigned_integers_may_wrap():
    (uniform, wrapping), _ = forms("u8", "uu")
    assert is_uniform(uniform) and type(wrapping.loose[0].value) is Op


def test_an_induction_variable_is_a_polynomial_of_the_iteration():
    module = parse_module("""kernel @f(%n: i32, %s: i32) {
      %0 = constant {value=2, type=i32} : i32
      %1 = for %0, %n, %s, %0 : i32 {
      ^(%i: i32, %x: i32):
        %2 = add %i, %x : i32
        %3 = add %x, %0 : i32
        yield %3
      }
    }""")
    loop = module.body.ops[1]
    found = Scalars(loop)(loop.regions[0].ops[0])
    s, iteration = Poly.of(module.args[1]), Poly.of(ITERATION)
    assert found == Poly.of(4) + s * iteration + iteration * 2
