"""Imports point one way: a module may use only those that ALLOWED names, which lie in its own layer or below.

Imports are read from the syntax tree, those inside functions too; `if TYPE_CHECKING:` does not count.
"""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1] / "tritium"

# module -> modules it may use, besides itself. A module is a folder or a file directly under tritium/.
BASE = {"errors", "frozen", "knobs", "later", "locks", "named_tuples", "refusals"}
IR = BASE | {"ir"}
OPS = IR | {"ops"}
LANGUAGE = OPS | {"cache", "language"}
BACKENDS = LANGUAGE | {"analysis", "passes", "interp", "frontend", "backends", "tensors", "protocols"}
RUNTIME = BACKENDS | {"compiler", "runtime", "testing"}
EVERYTHING = RUNTIME | {"insight", "kernels", "tools", "alias", "compat", "torch"}
ALLOWED = {
    "errors": {"knobs", "named_tuples"},
    "frozen": set(),
    "knobs": {"named_tuples", "processors"},
    "later": set(),
    "locks": set(),
    "named_tuples": set(),
    "processors": set(),
    "refusals": {"errors"},
    "trusted_files": BASE,
    "cache_limits": BASE | {"trusted_files"},
    "cache_events": BASE | {"trusted_files"},
    "cache_folders": BASE | {"trusted_files", "cache_limits", "cache_events"},
    "cache_remote": BASE | {"cache_events", "cache_folders"},
    "cache": BASE | {"trusted_files", "cache_events", "cache_folders", "cache_remote"},
    "protocols": LANGUAGE,
    "tensors": LANGUAGE | {"protocols"},
    "ir": BASE,
    "ops": IR,
    "analysis": OPS,
    "passes": OPS | {"analysis"},
    "language": OPS | {"cache"},
    "frontend": LANGUAGE,
    "interp": LANGUAGE | {"frontend", "tensors", "protocols"},
    "backends": BACKENDS,
    "compiler": BACKENDS | {"trusted_files"},  # bundles
    "runtime": RUNTIME | {"trusted_files"},  # results of tuning that travel
    "performance_reports": set(),
    "device_rates": RUNTIME,
    "testing": RUNTIME | {"performance_reports", "device_rates"},
    "insight": RUNTIME | {"tools"},
    "kernels": RUNTIME,
    "torch": RUNTIME | {"kernels"},
    "compat": RUNTIME | {"insight", "tools", "alias"},
    "alias": {"__init__"},
    "tools": EVERYTHING | {"trusted_files", "cache_limits"},  # the cache's own command
    "__init__": EVERYTHING,
    "__main__": EVERYTHING,
}

# The same inside of folders: folder -> part -> parts it may use.
GPU_BASE = {"ops", "analysis", "cost_model", "multiprocessor", "target"}
INSIDE = {
    "backends": {
        "occupancy": set(),
        "targets": {"occupancy", "llvm"},
        "compiler": {"targets"},
        "driver": {"compiler"},
        "llvm": set(),
        "launcher": {"llvm", "driver"},
        "cpu": {"llvm", "launcher", "compiler", "driver"},
        "gpu": {"occupancy", "llvm"},
        "gpu_runtime": {"llvm", "launcher", "driver"},
        "nvptx": {"occupancy", "llvm", "launcher", "compiler", "driver", "gpu", "gpu_runtime"},
        "amdgcn": {"occupancy", "llvm", "launcher", "compiler", "driver", "gpu", "gpu_runtime"},
    },
    "backends/gpu": {
        "ops": set(),
        "analysis": {"ops"},
        "tma": GPU_BASE,
        "tensor_memory": GPU_BASE,
        "cost_model": set(),
        "multiprocessor": set(),
        "target": {"cost_model", "multiprocessor"},
        "layout": GPU_BASE,
        "cluster": GPU_BASE,
        "pipeline": GPU_BASE | {"tma", "layout"},
        "rewrite": GPU_BASE | {"layout", "pipeline"},
        "shared_memory": GPU_BASE | {"layout"},
        "lower": GPU_BASE | {"layout", "shared_memory"},
        "passes": GPU_BASE | {"target", "tma", "tensor_memory", "layout", "cluster", "pipeline", "rewrite",
                              "shared_memory"},
    },
    "backends/cpu": {
        "library": set(),
        "runtime": {"library"},
        "fuse": set(),
        "lower": {"fuse", "library", "runtime"},
        "compile": {"fuse", "lower", "library"},
        "assembly": {"compile", "lower", "runtime"},
        "checked": {"library"},
        "driver": {"runtime", "checked"},
        "bundled": {"runtime"},
    },
    "backends/nvptx": {
        "runtime": set(),
        "isa": {"runtime"},
        "assemble": {"runtime"},
        "kernel_traits": {"isa", "assemble"},
        "compile": {"isa", "assemble", "kernel_traits"},
        "driver": {"runtime"},
        "bundled": {"runtime"},
    },
    "backends/gpu_runtime": {
        "library": set(),
        "launcher": set(),
        "launch": {"library", "launcher"},
        "memory": {"library", "launch"},
        "services": {"library", "launch"},
        "driver": {"library", "launch", "memory"},
    },
    "backends/amdgcn": {
        "records": set(),
        "runtime": {"records"},
        "isa": {"runtime", "records"},
        "assemble": set(),
        "buffer_accesses": {"isa"},
        "compile": {"isa", "assemble", "records", "buffer_accesses"},
        "driver": {"runtime", "records"},
    },
    "insight": {
        "facts": {"emulator"},
        "explain": {"facts", "profile"},
        "profile": set(),
        "emulator": {"sanitize"},
        "sanitize": {"emulator"},
    },
}

# (file, module): why this one import may point up. All of them happen inside functions.
EXCEPTIONS = {
    ("ir/opdef.py", "ops"): "an unpickled op looks its kind up in the table, which must be full",
    ("ir/text.py", "ops"): "so must a parsed one",
    ("backends/cpu/driver.py", "testing"): "a driver names its benchmarker",
    ("backends/gpu_runtime/driver.py", "testing"): "a driver names its benchmarker",
    ("backends/nvptx/compile.py", "tools"): "the sass stage is what the disassembler prints",
}


def layers():
    """The layers of docs/architecture.md, lowest first: sets of modules."""
    text = (ROOT.parent / "docs" / "architecture.md").read_text()
    table = text[text.index("| layer | modules |"):].split("\n\n")[0].split("\n")[2:]
    return [set(re.findall(r"`(\w+)`", row.split("|")[2])) for row in table]


def test_the_layers_of_the_document_are_those_of_the_code():
    found = layers()
    assert len(found) > 4 and sorted(name for layer in found for name in layer) == sorted(ALLOWED)
    for k, layer in enumerate(found):
        below = set().union(*found[:k + 1])
        for name in layer:
            assert ALLOWED[name] <= below | {"__init__"}, f"{name} may use {ALLOWED[name] - below}, which are above it"


def is_type_checking(node):
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def imports(tree, package):
    """Dotted names imported anywhere in a module, absolute."""
    todo = [tree]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[:len(package) - node.level + 1] if node.level else []
            name = ".".join([*base, *([node.module] if node.module else [])])
            # `from tritium import knobs` names the module in the second half.
            yield from ((f"{name}.{alias.name}", node.lineno) for alias in node.names)
        todo += [child for child in ast.iter_child_nodes(node) if not is_type_checking(child)]


def module_of(name):
    parts = name.split(".")
    if parts[0] != "tritium":
        return None
    return parts[1] if len(parts) > 1 and parts[1] in ALLOWED else "__init__"


def files():
    return sorted(ROOT.rglob("*.py"))


@pytest.mark.parametrize("path", files(), ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_point_down(path):
    relative = path.relative_to(ROOT)
    module = relative.parts[0].removesuffix(".py")
    assert module in ALLOWED, f"{relative}: a new module; say in ALLOWED what it may use"
    package = ["tritium", *relative.parts[:-1]]
    wrong = []
    for name, line in imports(ast.parse(path.read_text()), package):
        used = module_of(name)
        # A kernel or a tool is a user: `import tritium as triton` is how users begin.
        user = module in ("kernels", "tools", "runtime", "testing", "insight") and used == "__init__"
        excused = (relative.as_posix(), used) in EXCEPTIONS
        if used is not None and used != module and used not in ALLOWED[module] and not user and not excused:
            wrong.append(f"{relative}:{line} imports {name}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("folder", INSIDE)
def test_imports_point_down_inside_a_folder(folder):
    package, allowed, wrong = ["tritium", *folder.split("/")], INSIDE[folder], []
    for path in sorted((ROOT / folder).rglob("*.py")):
        relative = path.relative_to(ROOT / folder)
        part = relative.parts[0].removesuffix(".py")
        if part == "__init__":
            continue
        assert part in allowed, f"{relative}: a new part; say in INSIDE what it may use"
        for name, line in imports(ast.parse(path.read_text()), [*package, *relative.parts[:-1]]):
            parts = name.split(".")
            used = parts[len(package)] if parts[:len(package)] == package and len(parts) > len(package) else part
            if used in allowed and used != part and used not in allowed[part]:
                wrong.append(f"{folder}/{relative}:{line} imports {name}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("path, module", EXCEPTIONS)
def test_exceptions_are_needed(path, module):
    tree = ast.parse((ROOT / path).read_text())
    used = {module_of(name) for name, _ in imports(tree, ["tritium", *Path(path).parts[:-1]])}
    assert module in used, "take it off the list"


def test_the_reader_of_imports():
    tree = ast.parse("import tritium.ir.core\nfrom . import x\nfrom ..ops import add\ndef f():\n    import os\n"
                     "if TYPE_CHECKING:\n    import tritium.tools\n")
    names = {name for name, _ in imports(tree, ["tritium", "passes"])}
    assert names == {"tritium.ir.core", "tritium.passes.x", "tritium.ops.add", "os"}
    assert module_of("tritium.ops.add") == "ops" and module_of("numpy") is None and module_of("tritium") == "__init__"


@pytest.mark.parametrize("statement", ["import tritium", "import tritium.language"])
def test_importing_is_light(statement):
    """Neither a framework nor LLVM comes with `import tritium`."""
    import subprocess
    import sys

    heavy = ["torch", "llvmlite", "matplotlib", "rich", "pandas", "cuda"]
    code = f"{statement}\nimport sys\nprint([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT.parent)
    assert done.stdout.strip() == "[]", done.stderr
