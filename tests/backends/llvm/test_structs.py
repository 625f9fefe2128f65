"""Structs that Python and LLVM text share."""

import doctest
import re
from pathlib import Path

import llvmlite.binding as llvm
import pytest

import tritium
from tritium.backends.cpu.runtime import cooperative, faults, job, pool
from tritium.backends.cpu.runtime import launcher as cpu_launcher
from tritium.backends.launcher import guards, launcher, preconditions, record
from tritium.backends.llvm import structs
from tritium.backends.llvm.structs import Struct
from tritium.backends.llvm.target import cpu_target
from tritium.backends.nvptx.runtime import implicit_args
from tritium.backends.nvptx.runtime import launcher as cuda_launcher

MODULES = (cooperative, cpu_launcher, cuda_launcher, faults, guards, implicit_args, job, launcher, pool, preconditions)
STRUCTS = {f"{module.__name__}.{name}": struct for module in MODULES for name, struct in vars(module).items()
           if isinstance(struct, Struct)}


@pytest.mark.parametrize("module", [structs, *MODULES], ids=lambda module: module.__name__)
def test_docstring_examples(module):
    assert doctest.testmod(module).failed == 0


@pytest.mark.parametrize("struct", STRUCTS.values(), ids=STRUCTS)
def test_llvm_places_fields_where_ctypes_does(struct):
    cpu_target()  # has LLVM begun
    machine = llvm.Target.from_default_triple().create_target_machine()
    module = llvm.parse_assembly(f"{struct.definition}\n@x = global %{struct.name} zeroinitializer")
    found, data = module.get_global_variable("x").global_value_type, machine.target_data
    assert data.get_abi_size(found) == struct.size
    for place, field in enumerate(struct.fields):
        assert data.get_element_offset(found, place) == struct.offset(field)


def test_there_is_one_declaration_of_each():
    """No field of a struct is found by its number, and no class repeats one."""
    folders = ("launcher", "gpu_runtime", "cpu/runtime", "nvptx/runtime", "amdgcn/runtime")
    backends = Path(tritium.__file__).parent / "backends"
    texts = {path: path.read_text() for folder in folders for path in (backends / folder).glob("*.py")}
    again = re.compile(r"getelementptr %\w+, ptr \S+, i64 -?\d+, i32 \d|%\w+ = type \{|ctypes\.Structure")
    assert len(texts) > 20
    assert {path.name: again.findall(text) for path, text in texts.items() if again.search(text)} == {}


def test_a_record_is_what_its_structs_say():
    made = record.record(1, 2, 3, [record.constant(-0.0), record.integer("INT32", True)], on_stream=4, quiet=True,
                         fixed=[(1, b"\xff" * 8)], checks=1 << 63, keywords=("n",))  # fmt: skip
    head = guards.RECORD.ctype.from_buffer_copy(made)
    assert (head.run, head.entry, head.extra, head.rows, head.arguments, head.positional) == (1, 2, 3, 3, 2, 1)
    assert (head.checks, head.on_stream, head.quiet) == (1 << 63, 4, 1)
    rows = (guards.ROW.ctype * 3).from_buffer_copy(made, guards.RECORD.size)
    assert [row.code for row in rows] == [guards.CODES[name] for name in ("BITS", "INT32", "FIXED")]
    assert [(row.flags, row.slot, row.argument) for row in rows] == [(0, 0, 0), (1, 0, 1), (0, 1, 0)]
    assert rows[0].a == 1 << 63 and rows[2].a == (1 << 64) - 1
    assert len(made) == guards.RECORD.size + 3 * guards.ROW.size
