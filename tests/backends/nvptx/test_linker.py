"""Machine code by the driver's linker, and what is left to the assembler; the driver only takes notes."""

import os
import platform
import re
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest

from tests.backends.nvptx import fake_driver
from tests.backends.nvptx.kernels import X, Y, Z, add
from tritium.backends.nvptx import compile as stages
from tritium.backends.nvptx.assemble import driver_link, ptxas, warm_up
from tritium.backends.nvptx.assemble.traits import Traits
from tritium.backends.nvptx.runtime import cuda, launch
from tritium.errors import OutOfResources, PTXASError

PLAIN, EXCHANGES = Traits(128), Traits(128, exchanges=True)


class Linker:
    """The part of the driver that makes machine code: it gives what it was told back."""

    def __init__(self, fake, code=0):
        self.fake, self.code, self.added, self.gone = fake, code, [], 0
        word = fake_driver.word

        def create(count, options, values, out):
            logs = (fake_driver.P * count).from_address(values)
            names = (fake_driver.I * count).from_address(options)
            self.wanted = {name: value for name, value in zip(names, logs) if name > 6}  # no logs
            said = b"ptxas info : Used 40 registers, 8 bytes spill stores, 16 bytes spill loads\0"
            fake_driver.ctypes.memmove(logs[0], said, len(said))
            fake_driver.ctypes.memmove(logs[2], b"line 3: no such thing\0", 22)
            word(out).value = 77
            return 0

        def add(state, kind, data, size, name, count, options, values):
            self.added.append((state, kind, fake_driver.ctypes.string_at(data, size)))
            return code

        def complete(state, out, size):
            self.binary = b"\x7fELF" + self.added[-1][2]
            word(out).value = fake_driver.ctypes.cast(self.binary, fake_driver.P).value
            word(size, fake_driver.S).value = len(self.binary)
            return 0

        def destroy(state):
            self.gone += state == 77
            return 0

        I, P, S, U = fake_driver.I, fake_driver.P, fake_driver.S, fake_driver.U
        for name, types, fn in (("cuLinkCreate_v2", (U, P, P, P), create), ("cuLinkComplete", (P, P, P), complete),
                                ("cuLinkAddData_v2", (P, I, P, S, P, U, P, P), add), ("cuLinkDestroy", (P,), destroy)):
            setattr(fake, name, fake_driver.ctypes.CFUNCTYPE(I, *types)(fn))


def test_the_driver_makes_the_machine_code_of_its_own_gpu(fake):
    linker = Linker(fake)
    kernel = add[(1,)](X, Y, Z, 64, BLOCK=16)
    (_, kind, text), = linker.added
    assert kind == 1 and kernel.asm["ptx"].startswith(text[:-1].decode()) and linker.gone == 1
    assert kernel.asm["cubin"] == linker.binary
    assert linker.wanted == {12: 1, 13: 1}  # what it made, and the lines it comes from
    assert (kernel.metadata.n_regs, kernel.metadata.n_spills) == (40, 4)


def test_too_few_registers_for_another_block_keep_the_first_code(monkeypatch):
    """Some instructions need more than the compiler was asked to do with: the driver then makes nothing at all."""
    asked = []

    def assembled(text, options, traits):
        asked.append((text, traits.registers))
        if ".maxnreg" in text:
            raise OutOfResources(82, 80, "registers")
        return b"first", {"n_regs": 85, "n_spills": 0}

    monkeypatch.setattr(stages, "_assembled", assembled)
    traits = Traits(256, products=True, async_copies=True)
    metadata = {"shared": 73728, "name": "k", "traits": traits}
    text = ".entry k()\n.reqntid 256\n{ ret; }"
    assert stages.cubin(text, None, SimpleNamespace(arch="90a", sanitized=False), metadata) == b"first"
    assert asked == [(text, None), (".entry k()\n.reqntid 256\n.maxnreg 80\n{ ret; }", 80)]
    assert metadata["n_regs"] == 85


def test_what_the_driver_cannot_make_goes_to_the_assembler(fake):
    linker = Linker(fake)
    cuda.use(0)
    assert driver_link.makes(PLAIN, 90)
    assert not driver_link.makes(EXCHANGES, 90)
    product = EXCHANGES._replace(products=True, sums=(128,))
    assert driver_link.makes(product.asking(168), 90) and not driver_link.makes(product.asking(160), 90)
    assert not driver_link.makes(product.asking(168)._replace(sums=(64, 64)), 90)
    assert not driver_link.makes(PLAIN._replace(calls=True), 90)
    assert not driver_link.makes(PLAIN, 80)
    add[(1,)](X, Y, Z, 64, BLOCK=64, ptx_options="-O2")
    fake.current = 0  # no context
    assert not driver_link.makes(PLAIN, 90) and not linker.added


def test_a_text_of_somebody_else_s_is_not_changed(fake, monkeypatch):
    """What it needs is not known: `ptxas` makes of it what it says, and nothing else is tried."""
    Linker(fake)
    cuda.use(0)
    asked = []
    monkeypatch.setattr(ptxas, "ptxas", lambda: "ptxas")
    monkeypatch.setattr(ptxas, "assemble", lambda text, *_: (asked.append(text) or b"code", {"n_regs": 9,
                                                                                             "n_spills": 900}))
    options = SimpleNamespace(arch="90a", ptx_options=None, sanitized=False)
    assert stages.cubin("a text", None, options, {"name": "k"}) == b"code" and asked == ["a text"]


@pytest.mark.parametrize("said", ["8 bytes spill stores, 16 bytes spill loads", "wgmma instructions are serialized"])
def test_warps_that_need_each_other_s_registers_get_them(said):
    assert driver_link.lacks_registers(EXCHANGES, said)
    assert not driver_link.lacks_registers(PLAIN, said)
    ignored = "Performance Loss: 'setmaxnreg' ignored. Used 90 registers"
    assert not driver_link.lacks_registers(EXCHANGES, ignored)
    assert driver_link.lacks_registers(EXCHANGES, "")  # what the driver remembers it says nothing of
    assert ptxas.usage("") == {}


SMALL, LARGE = Traits(256), Traits(512)


@pytest.mark.parametrize(("traits", "fits", "asked", "length"), [
    (LARGE, 2, [2], 1), (LARGE, 1, [2, None], 1), (SMALL, 8, [None], 1), (Traits(1024), 2, [None], 1),
    (LARGE._replace(products=True), 4, [None], 1), (LARGE, 4, [None], 10**5), (LARGE.asking(64), 4, [None], 1)])
def test_large_programs_get_the_registers_that_two_of_them_have(monkeypatch, traits, fits, asked, length):
    """As long as nothing is spilled; small ones get those they like."""
    said = []

    def note(ptx):
        found = re.search(r"\.reqntid \d+\n\.minnctapersm (\d+)\n", ptx)
        said.append(int(found[1]) if found else None)
        return said[-1], "log"

    monkeypatch.setattr(driver_link, "link", note)
    monkeypatch.setattr(driver_link, "spills", lambda count: count is not None and count > fits)
    text = f".entry k()\n.reqntid {traits.threads}\n{{ ret; }}{' ' * length}"
    assert driver_link.link_to_fit(text, traits, 2048) == (asked[-1], "log") and said == asked


def many_values(most):
    """A text whose thread holds 59 words at once, and has `most` registers."""
    loads = "\n".join(f"ld.global.b32 %r{k}, [%rd1+{4 * k}];" for k in range(1, 60))
    stores = "\n".join(f"st.global.b32 [%rd1+{4 * k}], %r{60 - k};" for k in range(1, 60))
    return f""".version 8.4\n.target sm_90a\n.address_size 64
        .visible .entry k(.param .u64 p)\n.reqntid 32\n.maxnreg {most}\n{{
        .reg .b32 %r<60>; .reg .b64 %rd<2>; ld.param.b64 %rd1, [p];
        {loads}\nbar.sync 0;\n{stores}\nret; }}"""


@pytest.mark.skipif(ptxas.ptxas() is None, reason="ptxas is not installed")
@pytest.mark.parametrize("most", [24, 255])
def test_registers_are_seen_in_machine_code(most):
    binary, used = ptxas.assemble(many_values(most), "sm_90a")
    assert ptxas.spills(binary) == (used["n_spills"] > 0) == (most == 24)
    assert ptxas.usage_in(binary)["n_regs"] == used["n_regs"]


@pytest.mark.skipif(ptxas.ptxas() is None, reason="ptxas is not installed")
def test_registers_of_a_text_that_the_driver_remembers_are_known(monkeypatch):
    """It says nothing then; the machine code does."""
    binary, used = ptxas.assemble(many_values(255), "sm_90a")
    monkeypatch.setattr(driver_link, "makes", lambda *_: True)
    monkeypatch.setattr(driver_link, "link_to_fit", lambda *_: (binary, ""))
    options = SimpleNamespace(arch="90a", ptx_options=None, sanitized=False)
    assert stages._assembled("text", options, PLAIN) == (binary, used)


def test_launcher_and_linker_are_brought_in_ahead(fake, monkeypatch):
    linker = Linker(fake)
    before = set(threading.enumerate())
    monkeypatch.setattr(warm_up, "_start", fake_driver.START_AHEAD)
    warm_up.start()  # no context yet
    assert set(threading.enumerate()) == before and not linker.added
    cuda.use(0)
    for _ in range(2):
        warm_up.start()
    for thread in set(threading.enumerate()) - before:
        thread.join()
    assert len(linker.added) == linker.gone == 1 and launch.Runtime.get.__func__.cache_info().currsize == 1


def test_what_the_driver_refuses_is_told(fake):
    linker = Linker(fake, code=218)
    with pytest.raises(PTXASError, match="no such thing"):
        add[(1,)](X, Y, Z, 64, BLOCK=8)  # no other test has it in the cache
    assert linker.gone == 1


PAGES_MET_ANEW = """
import ctypes, resource
from tritium.backends.nvptx.assemble import warm_up

libc = ctypes.CDLL(None)
libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, (ctypes.c_void_p,)
faults = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def work():
    '''8 MB in small blocks, filled and freed: how many pages the system had to bring.'''
    before, blocks = faults(), [libc.malloc(65536) for _ in range(128)]
    for block in blocks:
        ctypes.memset(block, 1, 65536)
    for block in reversed(blocks):
        libc.free(block)
    return faults() - before


work()
without = work()
warm_up.keep_freed_memory()
work()
print(without, work())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries decide otherwise what to keep")
def test_what_a_compilation_frees_stays_at_hand_for_the_next():
    env = {**os.environ, "PYTHONMALLOC": "default"}  # or what Python frees teaches the C library as well
    done = subprocess.run([sys.executable, "-c", PAGES_MET_ANEW], capture_output=True, text=True, check=True, env=env)
    without, kept = map(int, done.stdout.split())
    assert without > 100 > 10 > kept
