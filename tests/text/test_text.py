"""Text and back: what is printed is parsed to the same, and what is wrong is said with its line.

    roundtrip.tir   a module as people may write it, and as it is printed
    errors.tir      a module that is refused, and the message
"""

from pathlib import Path

import pytest

from tests import cases
from tritium import ops
from tritium.backends.cpu.fuse import ops as cpu_ops
from tritium.backends.gpu import ops as gpu_ops
from tritium.errors import InternalError
from tritium.ir.core import Loc, walk
from tritium.ir.opdef import OpKind
from tritium.ir.text import ParseError, parse_module, print_module
from tritium.ir.verify import verify

FOLDER = Path(__file__).parent


@pytest.mark.parametrize("case", cases.parameters(FOLDER, "roundtrip.tir"))
def test_roundtrip(case, request):
    printed = print_module(verify(parse_module(case.kernel)))
    assert print_module(parse_module(printed)) == printed
    cases.check(case, printed, request.config.getoption("--update"))


@pytest.mark.parametrize("case", cases.parameters(FOLDER, "errors.tir"))
def test_errors(case, request):
    with pytest.raises((ParseError, InternalError)) as caught:
        verify(parse_module(case.kernel))
    message = f"# {type(caught.value).__name__}: {str(caught.value).splitlines()[0]}\n"
    cases.check(case, message, request.config.getoption("--update"))


def test_every_op_is_printed_and_parsed():
    """A new op needs a line in roundtrip.tir; rows all look alike, so one of each arity will do."""
    modules = [parse_module(case.kernel) for case in cases.read(FOLDER / "roundtrip.tir")]
    seen = {op.kind for module in modules for op in walk(module.body)}
    declared = [*vars(ops).values(), *vars(cpu_ops).values(), *vars(gpu_ops).values()]
    assert {kind for kind in declared if type(kind) is OpKind and kind.row is None} - seen == set()


def test_locations_are_comments():
    module = parse_module("kernel @f(%x: i32) {\n  %0 = add %x, %x : i32\n}")
    module.body.ops[0].loc = Loc("k.py", 7, 4, 7, 9)
    assert print_module(module, locs=True).splitlines()[1] == "  %1 = add %x, %x : i32  # k.py:7"
    assert print_module(parse_module(print_module(module, locs=True))) == print_module(module)


def test_comments_and_white_space_do_not_matter():
    assert print_module(parse_module("# first\nkernel @f(  %x : i32 ){ # a comment\n%y=add %x,%x:i32 }")) == \
        "kernel @f(%x: i32) {\n  %1 = add %x, %x : i32\n}\n"
