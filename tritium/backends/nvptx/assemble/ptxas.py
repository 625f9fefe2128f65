"""PTX to machine code: with `ptxas` where there is one, else by the driver when the kernel is loaded."""

from __future__ import annotations

import hashlib
import os
import re
import struct
from collections.abc import Iterator, Sequence
from typing import Any

from .... import cache, knobs
from ....errors import OutOfResources, PTXASError
from ....locks import once
from ...llvm import elf
from ...occupancy import Machine
from .traits import Traits


@once
def ptxas() -> str | None:
    """Path of the assembler, or None: TRITON_PTXAS_PATH, the PATH, or a CUDA toolkit package beside us."""
    found = knobs.nvidia.ptxas or _on_path("ptxas")
    if found:
        return str(getattr(found, "path", found))
    for module, inside in (("nvidia.cuda_nvcc", "bin/ptxas"), ("triton.backends.nvidia", "bin/ptxas")):
        path = _inside(module, inside)
        if path:
            return path
    return None


def _on_path(name: str) -> str | None:
    """As `shutil.which`, whose imports take longer than the search."""
    places = (os.path.join(folder, name) for folder in os.get_exec_path())
    return next((place for place in places if os.path.isfile(place) and os.access(place, os.X_OK)), None)


def hand_over(settings: dict[str, Any]) -> str | None:
    """Tell another process where the assembler is; without one it ends at PTX, which the driver of this one takes."""
    path = ptxas()
    if path is None:
        return "ptx"
    settings["nvidia"]["ptxas"] = knobs.Tool(path)
    return None


def _inside(package: str, path: str) -> str | None:
    from importlib.util import find_spec

    try:
        spec = find_spec(package)
    except (ImportError, ValueError):
        return None
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        candidate = os.path.join(folder, path)
        if os.access(candidate, os.X_OK):
            return candidate
    return None


@once
def version(path: str) -> str:
    """Version text of an assembler, part of the cache key; asking a program takes 20 ms, so the answer is kept."""
    if not os.access(path, os.X_OK):
        raise PTXASError(f"{path} is no assembler that can be run: no such program\nhint: see TRITON_PTXAS_PATH")
    found = os.stat(path)
    known = f"{path} {found.st_size} {found.st_mtime_ns} sealed"
    manager = cache.get_cache_manager(hashlib.sha256(known.encode()).hexdigest())
    kept = cache.read(manager, "version.txt")
    if kept is not None:
        return kept.decode()
    import subprocess  # a process that has the answer does without

    try:
        said = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError) as error:
        raise PTXASError(f"{path} is no assembler that can be run: {error}\nhint: see TRITON_PTXAS_PATH") from None
    cache.write(manager, "version.txt", said.splitlines()[-1].encode())
    return said.splitlines()[-1]


def assemble(ptx: str, arch: str, options: Sequence[str] = ()) -> tuple[bytes, dict[str, int]]:
    """(cubin, {"n_regs", "n_spills"}) of a PTX text.

    Raises PTXASError with what the assembler said, or OutOfResources if there are not enough registers.
    """
    import subprocess
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory(prefix="tritium-") as folder:
        source, binary = Path(folder) / "k.ptx", Path(folder) / "k.cubin"
        source.write_text(ptx)
        lines = ["-lineinfo"] if has_lines(ptx) else []
        command = [ptxas(), "-v", f"--gpu-name={arch}", *lines, *options, str(source), "-o", str(binary)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise failure(f"ptxas failed with code {done.returncode}:\n{done.stderr.strip()}")
        if knobs.nvidia.dump_ptxas_log:
            print(done.stderr, end="")
        return binary.read_bytes(), usage(done.stderr)


def has_lines(ptx: str) -> bool:
    """Whether a PTX text says which lines of the source it comes from.

    >>> has_lines(".loc 1 7 0")
    True
    """
    return ".loc" in ptx


# Of the registers in use: with fewer, the assembler would have to spill. The second is where one block is alone.
_CLOSE, _CLOSE_ALONE = 0.85, 0.8
_FEW, _FAR = 512, 0.6  # threads on an SM that hide little of each other's latency; of the registers in use, for more
_MORE, _FEWER = 1280, 0.75  # the same of more threads, in kernels without products
_ATTEMPTS = 2  # to assemble a kernel with fewer registers
_LITTLE = 4  # words that a thread may spill for one more block, where few threads find room
_MANY, _LARGE = 256, 1_000_000  # words spilled; characters of a text that takes too long to be assembled twice


def directed(ptx: str, threads: int, directive: str) -> str:
    """The text of a kernel of `threads` threads, with a further directive.

    >>> directed(".entry k()\\n.reqntid 256\\n{", 256, ".maxnreg 80")
    '.entry k()\\n.reqntid 256\\n.maxnreg 80\\n{'
    """
    end = ptx.index("\n", ptx.index(f"\n.reqntid {threads}") + 1)
    return f"{ptx[:end]}\n{directive}{ptx[end:]}"


def rolled(ptx: str) -> str:
    """The text with its loops left as they are. The assembler unrolls those of constant length that are short.

    >>> print(rolled("$L__BB0_1:\\n\\t@%p1 bra \\t$L__BB0_1;\\n\\tbra.uni \\t$L__BB0_2;\\n$L__BB0_2:").expandtabs(2))
    $L__BB0_1:
      .pragma "nounroll";
      @%p1 bra  $L__BB0_1;
      bra.uni   $L__BB0_2;
    $L__BB0_2:
    """
    jumps = lambda label: re.search(rf"\bbra(?:\.uni)? \t{re.escape(label[1])};", ptx[label.end():])
    return _LABEL.sub(lambda label: label[0] + '\n\t.pragma "nounroll";' * bool(jumps(label)), ptx)


_LABEL = re.compile(r"^(\$L__BB\w+):.*$", re.MULTILINE)


def all_registers(has: Machine, traits: Traits, used: dict[str, int], size: int) -> int | None:
    """The registers to allow each thread if the assembler spilled much and left registers unused: all it can have.
    None where there is nothing to gain.

    The assembler does so with kernels it finds too large, unless it is told. `has` is what an SM has; `size` counts the
    characters of the text: a large one is not assembled twice.

    >>> from tritium.backends.occupancy import MACHINES
    >>> all_registers(MACHINES["cuda"][90], Traits(threads=256), {"n_regs": 32, "n_spills": 900}, 8000)
    255
    """
    if traits.registers is not None or used.get("n_spills", 0) < _MANY or size > _LARGE:
        return None
    most = has.registers_of(traits.threads // has.warp_size)
    return most if used["n_regs"] <= most // 2 else None


def spills(cubin: bytes) -> bool:
    """Whether threads of a kernel keep something in memory of their own, read off its machine code (ELF).

    >>> spills(b"no machine code")
    False
    """
    return usage_in(cubin).get("n_spills", 0) > 0


def usage_in(cubin: bytes) -> dict[str, int]:
    """As `usage`, read off machine code (ELF): what the largest of its functions takes; nothing of other bytes.

    >>> usage_in(b"no machine code")
    {}
    """
    info = elf.read(cubin).named(".nv.info") if cubin.startswith(b"\x7fELF") else None
    if info is None:
        return {}
    most = {_REGISTER_COUNT: 0, _FRAME_SIZE: 0}
    for attribute, value in _attributes(info.data):
        if attribute in most:
            most[attribute] = max(value, most[attribute])
    return {"n_regs": most[_REGISTER_COUNT], "n_spills": most[_FRAME_SIZE] // 4}


_FRAME_SIZE, _REGISTER_COUNT = 0x11, 0x2F  # attributes: (function, bytes on its stack), (function, registers)
_SIZED = 4  # the form of attributes that say how long they are


def _attributes(info: bytes) -> Iterator[tuple[int, int]]:
    """(attribute, its second word) in what is said of the functions of a binary."""
    at = 0
    while at < len(info):
        form, attribute, size = struct.unpack_from("<2BH", info, at)
        at += 4
        if form == _SIZED:
            if size >= 8:
                yield attribute, struct.unpack_from("<2I", info, at)[1]
            at += size


def room_for_more(has: Machine, traits: Traits, used: dict[str, int], shared: int) -> list[int]:
    """The registers to allow threads so that more blocks find room on an SM, with so much shared memory each; what to
    try first comes first. `has` is what the SM has. Nothing where shared memory leaves no such room, or the assembler
    used many more registers than that.

    It is for kernels that wait for copies, for those of which few threads find room, and for those without products:
    while one block waits, another computes. A loop that loads a word or two in an iteration waits for it each time:
    only other threads hide that, as many as there can be. The driver's compiler uses more registers than it needs.

    >>> from tritium.backends.occupancy import MACHINES
    >>> hopper, waits = MACHINES["cuda"][90], Traits(256, products=True, async_copies=True)
    >>> room_for_more(hopper, waits, {"n_regs": 85, "n_spills": 0}, 73728)
    [80]
    >>> room_for_more(hopper, Traits(160, products=True, async_copies=True), {"n_regs": 190, "n_spills": 0}, 81984)
    [168]
    >>> room_for_more(hopper, Traits(128), {"n_regs": 186, "n_spills": 0}, 256)
    [168]
    >>> room_for_more(hopper, Traits(128), {"n_regs": 104, "n_spills": 0}, 16896)
    [80, 96]
    >>> room_for_more(hopper, Traits(256), {"n_regs": 60, "n_spills": 0}, 256)
    [48]
    >>> room_for_more(hopper, Traits(128, loads_little=True), {"n_regs": 38, "n_spills": 0}, 0)
    [32]
    """
    if traits.registers is not None or "n_regs" not in used:
        return []
    warps = traits.threads // has.warp_size
    blocks = has.warps_of(used["n_regs"]) // warps + 1
    waits, few = traits.products and traits.async_copies, (blocks - 1) * traits.threads <= _FEW
    if not waits and (used.get("n_spills", 0) or traits.products and not few):
        return []
    last, close = (has.threads if traits.loads_little else _MORE) // traits.threads, _FEWER
    if few:
        last, close = blocks if traits.products else max(blocks, last), _FAR
    if waits:
        last, close = blocks, _CLOSE_ALONE if blocks == 2 else _CLOSE
    least = lambda count: (close if count == blocks else _FEWER) * used["n_regs"]
    fitting = [count for count in range(last, blocks - 1, -1)
               if shared <= has.shared_of(count) and count * warps <= has.warps]  # fmt: skip
    allowed = ((has.registers_of(count * warps), least(count)) for count in fitting)
    return list(dict.fromkeys(most for most, enough in allowed if most >= enough))[:_ATTEMPTS]


def spills_allowed(has: Machine, traits: Traits, used: dict[str, int]) -> int:
    """The words that a thread may spill for one more block, where it gets fewer registers than are in use: a few where
    few threads find room, in kernels that wait for copies and in those without products.

    >>> from tritium.backends.occupancy import MACHINES
    >>> hopper, waits = MACHINES["cuda"][90], Traits(128, products=True, async_copies=True)
    >>> [spills_allowed(hopper, waits, {"n_regs": count}) for count in (184, 60)]
    [4, 0]
    >>> [spills_allowed(hopper, traits, {"n_regs": 163}) for traits in (Traits(256), Traits(256, products=True))]
    [4, 0]
    """
    blocks = has.warps_of(used["n_regs"]) * has.warp_size // traits.threads
    return _LITTLE if blocks * traits.threads <= _FEW and (traits.async_copies or not traits.products) else 0


def failure(said: str) -> Any:
    """The error for what an assembler said; for an instruction that finds too few registers, how many it wants.

    >>> failure("(C7602) Insufficient registers (24) to compile ... with register target of 58 or higher.").required
    58
    """
    found = re.search(r"Insufficient registers \((\d+)\).*register target of (\d+) or higher", said)
    return OutOfResources(int(found[2]), int(found[1]), "registers") if found else PTXASError(said)


def usage(log: str) -> dict[str, int]:
    """Registers and spilled words out of `ptxas -v`; nothing if it does not say, as a driver that remembers a text.

    >>> usage("Used 32 registers, ... 8 bytes spill stores, 16 bytes spill loads")
    {'n_regs': 32, 'n_spills': 4}
    """
    registers = re.search(r"Used (\d+) registers", log)
    if registers is None:
        return {}
    spilled = re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", log)
    return {
        "n_regs": int(registers[1]),
        "n_spills": max(int(spilled[1]), int(spilled[2])) // 4 if spilled else 0,
    }
