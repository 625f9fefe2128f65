"""Code objects: what the linker writes, what the metadata say, and that LLVM's own assembler and linker agree."""

import struct
import subprocess

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.backends.amdgcn.compiled import TARGETS, compiled, machine_code, object_of, text_of, zig
from tests.backends.gpu.modules import module_of
from tritium.backends.amdgcn.assemble import msgpack
from tritium.backends.amdgcn.assemble.link import link
from tritium.backends.amdgcn.assemble.resources import kernels_of
from tritium.backends.amdgcn.compile import assembled
from tritium.backends.amdgcn.isa.target import AmdTarget
from tritium.backends.llvm import elf
from tritium.backends.llvm.target import compile_text
from tritium.errors import InternalError


@triton.jit(noinline=True)
def scaled(x):
    return x * 3 + tl.num_programs(1)


@triton.jit
def talking(x, n, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i, mask=i < n)
    tl.device_print("v", v, n)
    tl.store(x + i, tl.cumsum(v, 0) + scaled(n), mask=i < n)


def talking_module():
    return module_of(talking, [np.zeros(300, np.int32), 300, 512])[0]


@pytest.fixture(scope="module", params=["gfx90a", "gfx1100"])
def made(request):
    """(architecture, code object, metadata, LLVM text)."""
    stages, metadata = compiled(talking_module(), request.param)
    return request.param, stages["hsaco"], metadata, stages["llir"]


def segments(data):
    """(kind, rights, offset, address, size in the file, size in memory) of the program headers."""
    start, count = struct.unpack_from("<Q", data, 32)[0], struct.unpack_from("<H", data, 56)[0]
    rows = [elf.SEGMENT.unpack_from(data, start + k * elf.SEGMENT.size) for k in range(count)]
    return [(kind, rights, offset, at, size, memory) for kind, rights, offset, at, _, size, memory, _ in rows]


def test_it_is_a_shared_object_of_the_architecture(made):
    arch, data, _, text = made
    file, before = elf.read(data), elf.read(compile_text(text, AmdTarget.of(arch)))
    assert (file.kind, before.kind) == (elf.DYN, elf.REL)
    assert (file.ident, file.machine, file.flags) == (before.ident, before.machine, before.flags)
    assert file.ident[7:9] == bytes((64, 3))  # AMD's HSA, code objects of version 5


def test_segments_lie_in_pages_of_their_own(made):
    data, loads = made[1], [s for s in segments(made[1]) if s[0] == 1]
    assert [rights for _, rights, *_ in loads] == [4, 5, 6]
    pages = set()
    for _, _, offset, at, size, memory in loads:
        mine = set(range(at // 4096, (at + memory - 1) // 4096 + 1))
        assert offset % 4096 == at % 4096 and offset + size <= len(data) and memory >= size and not mine & pages
        pages |= mine
    for section in elf.read(data).sections:
        if section.flags & elf.ALLOC:
            inside = [s for s in loads if s[3] <= section.address and section.address + section.size <= s[3] + s[5]]
            assert len(inside) == 1 and section.address % max(section.align, 1) == 0


def bytes_at(data, address, size):
    """The bytes that are at an address once the segments are loaded."""
    _, _, offset, at, _, _ = next(s for s in segments(data) if s[0] == 1 and s[3] <= address < s[3] + s[5])
    return data[offset + address - at : offset + address - at + size]


def test_symbols_and_the_kernel_descriptor(made):
    data = made[1]
    symbols = {s.name: s for s in elf.read(data).symbols(elf.DYNSYM)}
    assert set(symbols) == {"", "talking", "talking.kd", "tritium_messages"}
    descriptor = symbols["talking.kd"]
    assert descriptor.size == 64 and symbols["tritium_messages"].size == 8
    (entry,) = struct.unpack_from("<q", bytes_at(data, descriptor.value, 64), 16)
    assert descriptor.value + entry == symbols["talking"].value


def test_symbols_are_found_by_their_hash(made):
    file = elf.read(made[1])
    table = struct.unpack(f"<{len(file.named('.hash').data) // 4}I", file.named(".hash").data)
    buckets, names = table[2 : 2 + table[0]], [s.name for s in file.symbols(elf.DYNSYM)]
    chains = table[2 + table[0] :]

    def find(name):
        h = 0
        for c in name.encode():
            h = (h << 4) + c
            h = (h ^ (h & 0xF0000000) >> 24) & 0x0FFFFFFF
        k = buckets[h % table[0]]
        while k and names[k] != name:
            k = chains[k]
        return k

    assert all(names[find(name)] == name for name in names[1:]) and find("nobody") == 0


def test_addresses_that_code_computes(made):
    """The message buffer's address, and the function that is called, are found from where the code is."""
    arch, data, _, text = made
    before = elf.read(compile_text(text, AmdTarget.of(arch), passes=()))
    file = elf.read(data)
    code = file.named(".text")
    variable = next(s for s in file.symbols(elf.DYNSYM) if s.name == "tritium_messages")
    assert any(info & 0xFFFFFFFF == 10 for table in before.of_kind(elf.RELA)
               for _, info, _ in elf.RELOCATION.iter_unpack(table.data))  # fmt: skip
    words = struct.unpack(f"<{len(code.data) // 4}I", code.data[: len(code.data) // 4 * 4])
    # s_getpc gives the address of the next instruction; an addition follows, whose last word is the distance.
    found = {code.address + 4 * k + w for k, w in enumerate(words)}
    assert any(variable.value + d in found for d in (0, 4, 8, 12, 16))


def test_resources(made):
    arch, data, metadata, text = made
    (kernel,) = kernels_of(data)
    assert kernel[".symbol"] == "talking.kd" and kernel[".wavefront_size"] == AmdTarget.of(arch).warp_size
    said = assembled(text, arch)
    keys = {".vgpr_count": "n_regs", ".sgpr_count": "n_sgprs", ".kernarg_segment_size": "argument_bytes"}
    for name, key in keys.items():
        assert f"{name}:" in said and f"{name}: {metadata[key]}" in " ".join(said.split())
    assert metadata["static_shared"] == metadata["shared"] > 0 == metadata["dynamic_shared"]
    assert metadata["arguments"][:3] == [(0, 8, "global_buffer"), (8, 4, "by_value"), (16, 4, "hidden_block_count_x")]


def test_what_cannot_be_linked():
    text = "declare void @nobody()\ndefine amdgpu_kernel void @k() { call void @nobody() ret void }"
    with pytest.raises(InternalError, match="nobody defines: nobody"):
        link(compile_text(text, AmdTarget.of("gfx90a"), passes=()))
    with pytest.raises(ValueError, match="not a 64-bit"):
        link(b"MZ" * 32)


def test_message_pack():
    assert msgpack.unpack(b"\xd9\x03abc") == "abc" and msgpack.unpack(b"\xff") == -1
    assert msgpack.unpack(b"\xdc\x00\x02\xc0\xc2") == [None, False] and msgpack.unpack(b"\xd1\xff\x00") == -256
    assert msgpack.unpack(b"\xdf\x00\x00\x00\x01\xa1a\xcb" + struct.pack(">d", 0.5)) == {"a": 0.5}
    with pytest.raises(ValueError, match="0xc1"):
        msgpack.unpack(b"\xc1")


@pytest.mark.parametrize("arch", TARGETS)
def test_the_assembler_makes_the_same_code(tmp_path, arch):
    """The assembly is what the machine code says: LLVM's assembler gives the same bytes."""
    stages, _ = compiled(talking_module(), arch)
    back = machine_code(assembled(stages["llir"], arch), arch, tmp_path)
    if back is None:
        pytest.skip(f"there is no assembler for {arch} here: the package ziglang has one, and so has a newer llvm-mc")
    assert text_of(back) == text_of(object_of(stages["llir"], arch))


@pytest.mark.skipif(not zig(), reason="LLVM's linker is not here: the package ziglang has it")
def test_the_linker_agrees_with_llvm(tmp_path):
    text = compiled(talking_module(), "gfx942")[0]["llir"]
    data = compile_text(text, AmdTarget.of("gfx942"))
    (tmp_path / "k.o").write_bytes(data)
    subprocess.run([zig(), "ld.lld", "-shared", tmp_path / "k.o", "-o", tmp_path / "k.hsaco"], check=True)
    theirs, mine = (tmp_path / "k.hsaco").read_bytes(), link(data)
    value = lambda file: {s.name: s.value for s in elf.read(file).symbols(elf.DYNSYM)}
    names = set(value(mine))
    assert names == set(value(theirs))
    assert _but_for_addresses(mine, data) == _but_for_addresses(theirs, data)
    assert elf.read(mine).named(".note").data == elf.read(theirs).named(".note").data


def _but_for_addresses(linked, before):
    """The code, with zeros where the linker writes."""
    code, file = bytearray(elf.read(linked).named(".text").data), elf.read(before)
    for table in file.of_kind(elf.RELA):
        if file.sections[table.info].name == ".text":
            for offset, _, _ in elf.RELOCATION.iter_unpack(table.data):
                code[offset : offset + 4] = bytes(4)
    return code
