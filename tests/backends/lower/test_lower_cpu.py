"""What LLVM text kernels become on CPUs: `tests/backends/lower/cpu/*.tir`.

# target: aarch64                 or x86-64-v3, x86-64-v4; a file may name several
# has: load <16 x float>          a line of the text contains this (a regular expression)
# not: <16 x i32>                 no line does
# count 2: store <16 x float>     so many lines do
"""

import re
from pathlib import Path

import pytest

from tritium import passes
from tritium.backends.cpu.compile import prepare
from tritium.backends.cpu.lower.function import lower
from tritium.backends.llvm.target import assembly, cpu_target
from tritium.ir.text import parse_module
from tritium.ir.verify import verify

FILES = sorted((Path(__file__).parent / "cpu").glob("*.tir"))


def cases():
    for path in FILES:
        for target in re.findall(r"# target: (.*)", path.read_text()):
            yield pytest.param(path, target, id=f"{path.stem}-{target}")


@pytest.mark.parametrize("path, target", list(cases()))
def test_text(path, target):
    source, cpu = path.read_text(), cpu_target(target)
    module = verify(parse_module(source))
    module = module.replace(attrs={**module.attrs, "launch_checks": True})
    text = lower(prepare(passes.run(module, passes.CLEANUP), cpu), cpu).text
    found = 0
    for word, times, pattern in re.findall(r"# (has|not|count) ?(\d*): (.*)", source):
        count = sum(bool(re.search(pattern, line)) for line in text.splitlines())
        wanted = {"has": count > 0, "not": count == 0, "count": times and count == int(times)}[word]
        assert wanted, f"{word} {times}: {pattern} ({count} lines)\n{text}"
        found += 1
    assert found, f"{path} expects nothing"
    assert assembly(text, cpu, passes=(), opt=0)  # LLVM takes it for this machine


def test_there_are_files():
    assert len(FILES) > 8
