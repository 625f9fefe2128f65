"""What can be compiled: a specialised kernel (`ASTSource`), or a file of any stage (`IRSource`)."""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tritium import backends
from tritium.backends.compiler import NAMES, GPUTarget, Options
from tritium.compiler.names import SYMBOL, safe_name
from tritium.errors import fail
from tritium.language.source.fingerprints import fingerprint
from tritium.language.types import signature as signatures
from tritium.language.types.annotations import check_listed
from tritium.locks import once_property

if TYPE_CHECKING:  # kernels that come from a cache or a bundle need no tile IR
    from tritium.ir.core import Module

# Extensions whose text is tile IR; the other stages belong to a backend.
IR_STAGES = ("source", "ttir", "ttgir")


def parse_stage(ext: str, text: str) -> Module:
    """The module a text of tile IR is; GPUs have ops of their own, which a process may not have met yet.

    >>> parse_stage("ttgir", "kernel @k() {\\n  async_commit\\n}\\n").name
    'k'
    """
    from tritium.ir.text import parse_module

    if ext == "ttgir":
        importlib.import_module("tritium.backends.gpu.ops")
    return parse_module(text)


def sha256(*parts: str) -> str:
    """The hash of several texts.

    >>> sha256("a", "b") != sha256("ab")
    True
    """
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _path(key, names: list[str]) -> tuple[int, ...]:
    """The index path of a parameter given by name, number or path."""
    if isinstance(key, str) and key in names:
        return (names.index(key),)
    path: tuple = (key,) if isinstance(key, int | str) else tuple(key)
    if path[0] not in range(len(names)):
        raise fail(ValueError, f"there is no parameter {path[0]!r}: the kernel has {', '.join(names)}")
    return path


class ASTSource:
    """A kernel with the types and constants of its parameters.

    `signature` maps parameter names to type strings ("constexpr" for constants); `constexprs` maps names, or index
    paths such as `(2,)` and `(1, 0)`, to values; `attrs` maps index paths to lists like `[["tt.divisibility", 16]]`.

    >>> from tritium.language.source.function import cdiv
    >>> ASTSource(cdiv, {"x": "i32", "y": "constexpr"}, {"y": 4}).constants
    {(1,): 4}
    """

    ext = "ttir"

    def __init__(self, fn, signature: Mapping[str, Any], constexprs: Mapping | None = None,
                 attrs: Mapping | None = None):
        if wrong := [name for name in signature if not isinstance(name, str)]:
            raise fail(TypeError, f"Signature keys must be string, not {wrong[0]!r}: use the names of parameters")
        if wrong := [name for name, type_ in signature.items() if not isinstance(type_, str | tuple)]:
            raise fail(TypeError, f"the type of {wrong[0]} must be text, such as '*fp32' or 'i32', not "
                       f"{signature[wrong[0]]!r}")
        if not hasattr(fn, "arg_names"):
            raise fail(TypeError, f"a kernel is a function decorated with @triton.jit, not {fn!r}")
        check_listed(fn)
        names = fn.arg_names
        self.fn = fn
        self.constants = {_path(key, names): value for key, value in (constexprs or {}).items()}
        self.attrs = {_path(key, names): value for key, value in (attrs or {}).items() if value}
        types = {**signature, **{names[path[0]]: "constexpr" for path in self.constants if len(path) == 1}}
        if missing := [name for name in names if name not in types]:
            raise fail(ValueError, f"the signature of {fn.__name__} lacks {', '.join(missing)}: "
                       "give each parameter a type, or a value in constexprs")
        self.signature = {name: types[name] for name in names}
        self.name = safe_name(fn.repr(self) if hasattr(fn, "repr") else fn.__name__, fn.__name__, SYMBOL)

    @property
    def constant_names(self) -> dict:
        """Constants by parameter name, those inside tuples by index path: what the frontend takes."""
        return {self.fn.arg_names[path[0]] if len(path) == 1 else path: v for path, v in self.constants.items()}

    def hash(self) -> str:
        """A hash of the function and its specialisation."""
        types = sorted((name, str(type_)) for name, type_ in self.signature.items())
        constants = fingerprint(sorted(self.constants.items(), key=lambda item: item[0]))
        return sha256(self.fn.cache_key, self.name, str(types), constants, str(sorted(self.attrs.items())))

    def make_ir(self, target: GPUTarget, options: Options, codegen_fns=None, module_map=None, context=None):
        """The module before any pass; for a framework that has a `context`, as it sees modules."""
        from tritium import frontend
        from tritium.ir.core import Module

        if self.fn.fn is None:
            raise fail(ValueError, f"{self.fn.__name__} came from another process without its function, and cannot be "
                       "compiled here", hint="define it at the top level of a module, where pickle finds it by name")
        lowered = frontend.lower(self.fn, self.signature, self.constant_names, self.attrs, options, target)
        module = Module(self.name, lowered.body, lowered.attrs, lowered.functions)
        return module if context is None else context.view(module)

    def parse_options(self) -> dict[str, Any]:
        """Options the source itself sets: those of a kernel that torch will start from C++."""
        from tritium.compiler import inductor  # a launch brings its options along

        return inductor.options(self)

    def metadata(self) -> dict[str, Any]:
        """What is known of the result before compiling: nothing."""
        return {}


class IRSource:
    """A file holding one stage of a kernel; compilation goes on from there.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile("w", suffix=".ttir") as file:
    ...     _ = file.write("kernel @nothing() {\\n}\\n"), file.flush()
    ...     IRSource(file.name).name
    'nothing'
    """

    def __init__(self, path, context=None, backend=None):
        if not isinstance(path, str | os.PathLike):
            raise fail(TypeError, f"compile takes an ASTSource or the path of a file, not {path!r}: "
                       "write ASTSource(kernel, signature, constexprs)")
        from pathlib import Path  # it brings in a dozen modules

        self.path = Path(path)
        self.ext = self.path.suffix.removeprefix(".")
        self.fn = None
        self.attrs: dict = {}
        self.constants: dict = {}

    @classmethod
    def of(cls, ext: str, text: str) -> IRSource:
        """What a file with this ending and text would be.

        >>> IRSource.of("ttir", "kernel @nothing() {\\n}\\n").name
        'nothing'
        """
        made = cls(f"<text>.{ext}")
        made.src = text
        return made

    @once_property
    def src(self) -> Any:
        """The content of the file: text, or the bytes of a binary."""
        data = self.path.read_bytes()
        try:
            return data.decode()
        except UnicodeDecodeError:
            return data

    @once_property
    def module(self) -> Module | None:
        """The module a file of tile IR holds."""
        return parse_stage(self.ext, self.src) if self.ext in IR_STAGES else None

    @once_property
    def name(self) -> str:
        """The name of the kernel."""
        if self.module is not None:
            return self.module.name
        form = backends.text_form(self.ext)
        found = re.search(form.name, self.src) if form else None
        return found[1] if found else self.path.stem

    @property
    def signature(self) -> dict[str, str]:
        """Types of the parameters, where the file tells them."""
        if self.module is None:
            return self.note.get("signature", {})
        return {arg.name: signatures.of_ir(arg.type) for arg in self.module.args}

    @once_property
    def note(self) -> dict[str, Any]:
        """What a text that is no module says of its kernel in a comment; see `compiler.note`."""
        from tritium.compiler import note

        return note.read(self.src) if self.module is None else {}

    def hash(self) -> str:
        """A hash of the content."""
        data = self.src if isinstance(self.src, bytes) else self.src.encode()
        return hashlib.sha256(data).hexdigest()

    def make_ir(self, target: GPUTarget, options: Options) -> Module | str | bytes:
        """The stage the file holds."""
        if self.ext == backends.get(target).binary_ext:
            return self.path.read_bytes()
        return self.src if self.module is None else self.module

    def parse_options(self) -> dict[str, Any]:
        """Options written in the module's first line, or in the note of another text."""
        if self.module is None:
            return {name: value for name, value in self.note.items() if name in NAMES}
        return {name: self.module.attrs[name] for name in MODULE_OPTIONS if name in self.module.attrs}

    def metadata(self) -> dict[str, Any]:
        """What the stages before this one found out: by its note, or by the metadata beside it, as in the cache."""
        beside = self.path.with_suffix(".json")
        known = json.loads(beside.read_text()) if beside.exists() else {}
        return {**known, **{name: value for name, value in self.note.items() if name != "signature"}}


# Options passes and lowerings depend on: they travel with the module.
MODULE_OPTIONS = (
    "num_warps", "num_stages", "num_ctas", "enable_fp_fusion", "debug", "sanitize_overflow", "launch_checks",
    "maxnreg",
)  # fmt: skip


def with_options(module: Module, target: GPUTarget, options: Options) -> Module:
    """A module that says for which machine it is compiled, and how.

    >>> from tritium.backends.compiler import BaseBackend
    >>> from tritium.ir.text import parse_module
    >>> target = GPUTarget("cuda", 90, 32)
    >>> made = with_options(parse_module("kernel @f() { }"), target, BaseBackend(target).parse_options({}))
    >>> made.attrs["target"], made.attrs["num_warps"]
    ('cuda:90:32', 4)
    """
    chosen = {**module.attrs, "target": str(target.with_arch(options.arch))}
    chosen |= {name: getattr(options, name) for name in MODULE_OPTIONS}
    return module.replace(attrs={name: value for name, value in chosen.items() if value is not None})
