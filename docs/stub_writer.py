"""The text of a .pyi file, made from objects: names, parameters, defaults, annotations and docstrings are theirs.

`Stub` writes one module. Functions of the language say little about the types of their parameters, and need not: the
names of parameters mean the same everywhere, and PARAMETERS says what.
"""

from __future__ import annotations

import ast
import builtins
import enum
import inspect
import json
import sys
import textwrap
import types

from tritium.language.builtins.calling import Builtin
from tritium.language.extra.library import LibraryFunction
from tritium.language.source.function import Source
from tritium.language.types.dtypes import dtype

WIDTH = 120
NOTE = "# Written by docs/make_stubs.py from the objects themselves: change those, and run it again.\n\n"

# The type of a parameter by its name, of one function or of all, unless it is annotated or has a telling default.
# Others are tensors or numbers.
PARAMETERS = {
    "int": "axis dim k num_bins start end pack descending max_num_imprecise_acc",
    "str": "asm constraints lhs_format rhs_format prefix msg sem scope input_precision lib_name lib_path "
           "fp_downcast_rounding",
    "bool": "is_pure allow_tf32 tie_break_left keep_dims",
    "dtype": "dtype out_dtype dst_ty",
    "Sequence[int]": "shape block_shape order boundary_check",
    "Sequence[Operand]": "offsets strides args make_block_ptr.shape make_tensor_descriptor.shape",
    "Operand": "rand4x.offsets",
    "Operand | None": "dot_scaled.lhs_scale dot_scaled.rhs_scale",
    "int | Sequence[int]": "values *shape *dims expand_dims.axis",
    "Callable[..., Any]": "combine_fn scalar_fn",
    "tensor | block_pointer": "pointer",
    "tensor_descriptor": "desc",
    "Any": "cond file index *values *args arg_type_symbol_dict",
}
KNOWN = {name: kind for kind, names in PARAMETERS.items() for name in names.split()}

HIDDEN = {"_semantic", "_generator"}  # parameters that only the compiler fills
ANNOTATIONS = {"constexpr", "const"}  # classes that say of a parameter: it may be anything
SHADOWED = {"tuple", "type", "range", "slice"}  # builtins that modules and classes of the language hide
COMPARISONS = {f"__{name}__" for name in ("eq", "ne", "lt", "le", "gt", "ge")}
SHOWN = COMPARISONS | {f"__{name}__" for name in """
    init new bool index int float len iter contains getitem call neg invert pos
    add sub mul truediv floordiv mod pow and or xor lshift rshift
    radd rsub rmul rtruediv rfloordiv rmod rpow rand ror rxor rlshift rrshift""".split()}

# What a stub may need from elsewhere.
IMPORTS = {
    "collections.abc": {"Callable", "Iterable", "Iterator", "Mapping", "Sequence"},
    "contextlib": {"AbstractContextManager"},
    "typing": {"Any", "ClassVar", "Literal", "NamedTuple", "TypeAlias", "TypeVar", "overload"},
}


# ---------------------------------------------------------------------------------------------------------------------
# Text


def rename(annotation: str, new: dict[str, str]) -> str:
    """The annotation with plain names exchanged.

    >>> rename("tuple[dtype, ...] | None", {"tuple": "builtins.tuple"})
    'builtins.tuple[dtype, ...] | None'
    """
    tree = ast.parse(annotation, mode="eval")
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            node.id = new.get(node.id, node.id)
    return ast.unparse(tree)


def used_names(text: str) -> set[str]:
    """Every plain name that a piece of code looks up."""
    names = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name))
    return {node.id for node in names if isinstance(node.ctx, ast.Load)}


def signature_of(obj) -> inspect.Signature:
    """The parameters of a function as its users see them."""
    return obj.signature if isinstance(obj, (Builtin, Source)) else inspect.signature(obj)


def docstring(obj: object, indent: str) -> str:
    """The docstring of an object as code, or nothing."""
    text = getattr(obj, "__doc__", None)
    if not text:
        return ""
    margin = text.rpartition("\n")[2]  # what stands before the closing quotes is the indentation of the whole
    lines = [line.removeprefix(margin) if not margin.strip() else line for line in text.rstrip().split("\n")]
    body = textwrap.indent("\n".join(lines).replace("\\", "\\\\"), indent).lstrip()
    return f'{indent}"""{body}"""\n' if "\n" not in body else f'{indent}"""{body}\n{indent}"""\n'


def definition(name: str, parameters: list[str], result: str, doc: str, indent: str, decorator: str = "") -> str:
    """A function, its parameters wrapped to the width of a page."""
    text = f"{indent}def {name}("
    space, end = " " * len(text), f") -> {result}:" + " ..." * (not doc)
    for k, part in enumerate(parameters):
        part += end if k + 1 == len(parameters) else ", "
        if len(text.rpartition("\n")[2]) + len(part.rstrip()) > WIDTH:
            text = text.rstrip() + "\n" + space
        text += part
    text += "" if parameters else end
    return (f"{indent}{decorator}\n" if decorator else "") + f"{text}\n{doc}"


def import_lines(names: set[str], module: str, public: bool = False) -> str:
    """`from module import ...`; public names are handed on, in the form that says so to checkers."""
    ordered = sorted(names, key=_import_order)
    if public:
        return f"from {module} import (\n" + "".join(f"    {name} as {name},\n" for name in ordered) + ")\n"
    line = f"from {module} import {', '.join(ordered)}\n"
    return line if len(line) <= WIDTH else f"from {module} import (\n" + "".join(f"    {n},\n" for n in ordered) + ")\n"


def _import_order(name: str) -> tuple:
    """As the linter wants it: constants, classes, others; numbers inside of names by value."""
    kind = 0 if name.isupper() and len(name) > 1 else 1 if name[0].isupper() else 2
    parts: list = [""]
    for letter in name:
        if letter.isdigit() == parts[-1].isdigit():
            parts[-1] += letter
        else:
            parts.append(letter)
    return kind, [f"{int(part):09}" if part.isdigit() else part for part in parts]


# ---------------------------------------------------------------------------------------------------------------------
# One module


class Stub:
    """The stub of one module. `home` is what it imports the types of the language from: `.core`, or nothing."""

    def __init__(self, module: types.ModuleType, home: str = ""):
        self.module, self.home = module, home
        self.parts: list[str] = []

    def text(self, prelude: str = "", handed_on: str = "") -> str:
        """The whole stub: the names it hands on, the prelude, and what was added."""
        body = "\n\n".join(part.rstrip("\n") + "\n" for part in (prelude, *self.parts) if part)
        used = used_names(body)
        hidden = {name[1:] for name in used if name.startswith("_") and hasattr(self.module, name[1:])
                  and isinstance(getattr(self.module, name[1:]), type)}  # fmt: skip
        hidden -= {name[1:] for name in self.defined(body)}
        aliases = "".join(f"_{name}: TypeAlias = {name}\n" for name in sorted(hidden))
        if aliases:
            body, used = f"{aliases}\n\n{body}", used | {"TypeAlias"} | hidden
        lines = [f"import {name}\n" for name in ("builtins", "enum") if name in used]
        lines += [import_lines(names & used, source) for source, names in IMPORTS.items() if names & used]
        missing = used - self.defined(body) - set(dir(builtins)) - {n for names in IMPORTS.values() for n in names}
        missing -= {"enum", "builtins"} | self.defined(handed_on)
        local = import_lines(missing, self.home) if missing else ""
        head = "".join(lines) + ("\n" if lines and (local or handed_on) else "") + handed_on + local
        return NOTE + head + ("\n" if head and body else "") + body

    @staticmethod
    def defined(text: str) -> set[str]:
        """The names that a stub defines or imports."""
        found = {node.name for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ClassDef)}
        for node in ast.parse(text).body:
            if isinstance(node, ast.FunctionDef):
                found.add(node.name)
            elif isinstance(node, ast.AnnAssign | ast.Assign):
                found |= {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
            elif isinstance(node, ast.ImportFrom):
                found |= {alias.asname or alias.name for alias in node.names}
        return found

    def add(self, name: str, obj: object) -> None:
        """Define a name of the module as the object that it is."""
        if isinstance(obj, type):
            self.parts.append(self.cls(name, obj))
        elif isinstance(obj, (Builtin, Source, types.FunctionType)):
            self.parts.append(self.function(name, obj))
        elif type(obj) is dtype:
            self.parts.append(f'class {name}(tensor, metaclass=dtype):\n    """The dtype {name}; as an annotation, a '
                              'scalar of it."""\n')
        else:
            self.parts.append(f"{name}: {type(obj).__name__}\n")

    # -- annotations --------------------------------------------------------------------------------------------------

    def annotation(self, given: object, scope: dict, members: frozenset[str] = frozenset()) -> str:
        """An annotation as the stub can say it: `scope` gave names their meaning, `members` are hidden in a class."""
        text = given if isinstance(given, str) else "None" if given is None else \
            getattr(given, "__forward_arg__", None) or getattr(given, "__name__", str(given))
        text = text.replace("core.", "").replace("dtypes.", "").replace("contextlib.", "")
        if "T." in text:  # types of the IR are not for users
            return "Any"
        new = {name: f"builtins.{name}" for name in SHADOWED if scope.get(name, None) is None}
        new |= {name: f"_{name}" for name in members if isinstance(vars(self.module).get(name), type)}
        return rename(text, new)

    def parameters(self, function: str, signature: inspect.Signature, scope: dict, members: frozenset[str],
                   untyped: str) -> list[str]:
        """The parameters as text; `untyped` is the type of those that nothing is known of."""
        found, starred = [], False
        for parameter in signature.parameters.values():
            if parameter.name in HIDDEN:
                continue
            prefix = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
            if parameter.kind is parameter.KEYWORD_ONLY and not starred:
                found.append("*")
            starred |= prefix == "*" or parameter.kind is parameter.KEYWORD_ONLY
            kind = self.annotation(self.parameter_type(function, parameter, prefix, untyped), scope, members)
            default = parameter.default is not parameter.empty
            found.append(f"{prefix}{parameter.name}: {kind}" + (f" = {self.default(parameter.default)}" * default))
        return found

    @staticmethod
    def parameter_type(function: str, parameter: inspect.Parameter, prefix: str, untyped: str) -> object:
        """What annotates the parameter, or what its name and its default say."""
        value = getattr(parameter.default, "value", parameter.default)  # a constexpr, or an enum's member
        if parameter.annotation is not parameter.empty and parameter.annotation != "constexpr":
            return parameter.annotation
        if untyped == "Any":
            return "Any"
        found = KNOWN.get(f"{function}.{parameter.name}") or KNOWN.get(prefix + parameter.name)
        if found is None and isinstance(parameter.default, enum.Enum):
            found = type(parameter.default).__name__
        if found is None and isinstance(value, (bool, int, str)):
            found = type(value).__name__
        found = found or untyped
        return f"{found} | None" if value is None and found != "Any" else found

    @staticmethod
    def default(value: object) -> str:
        """A default as a reader wants to see it."""
        if isinstance(value, enum.Enum):
            return str(value)
        if type(value) is dtype:
            return value.codegen_name()
        value = getattr(value, "value", value)
        if isinstance(value, str):
            return json.dumps(value)
        return repr(value) if value is None or value == () or isinstance(value, (bool, int)) else "..."

    # -- functions ----------------------------------------------------------------------------------------------------

    def function(self, name: str, obj, indent: str = "", members: frozenset[str] = frozenset()) -> str:
        """A function, of Python or of the language; with `members`, a method of a class that has those."""
        of_language = isinstance(obj, (Builtin, Source))
        bare = obj.fn if of_language and not isinstance(obj, LibraryFunction) else obj
        signature = signature_of(obj)
        scope = getattr(bare, "__globals__", {})
        given = getattr(bare, "__annotations__", {}).get("return", self._usual_result(name, of_language))
        result = self.annotation(given, scope, members)
        if inspect.isgeneratorfunction(getattr(obj, "__wrapped__", None)):
            result = result.replace("Iterator", "AbstractContextManager")
        method = bool(indent)
        if method and result == "Tiles":
            result = "tensor"  # a method reduces one tensor
        first = next(iter(signature.parameters.values()), None)
        bound = method and first is not None and (of_language or first.name in ("self", "cls"))
        rest = signature.replace(parameters=[*signature.parameters.values()][bound:])
        untyped = "Operand" if of_language or name in SHOWN - {"__init__", "__new__", "__call__"} else "Any"
        parameters = self.parameters(name, rest, scope, members, untyped if self.home or method else "Any")
        if bound:
            parameters.insert(0, "cls" if name == "__new__" else "self")
        doc = "" if name.startswith("__") else docstring(obj, indent + "    ")
        if "return_indices" in signature.parameters:
            return self._with_indices(name, parameters, doc, indent)
        return definition(name, parameters, result, doc, indent, "@staticmethod" if method and not bound else "")

    @staticmethod
    def _usual_result(name: str, of_language: bool) -> str:
        if name == "__init__":
            return "None"
        return "tensor" if of_language and not name.startswith("_") else "Any"

    @staticmethod
    def _with_indices(name: str, parameters: list[str], doc: str, indent: str) -> str:
        """A function that gives a pair if `return_indices` asks for it, else a tensor."""
        at = next(k for k, part in enumerate(parameters) if part.startswith("return_indices:"))
        before, after = parameters[:at], parameters[at + 1:]
        no, yes = "return_indices: Literal[False] = False", "return_indices: Literal[True]"
        forms = (([*before, no, *after], "tensor"), ([*before, "*", yes, *after], "Pair"),
                 ([*(part.partition(" = ")[0] for part in before), yes, *after], "Pair"))
        return "".join(definition(name, form, result, doc, indent, "@overload") for form, result in forms)

    # -- classes ------------------------------------------------------------------------------------------------------

    def cls(self, name: str, cls: type, indent: str = "") -> str:
        """A class: its annotated attributes, properties, methods and operators."""
        inner, members = indent + "    ", frozenset({*vars(cls), *inspect.get_annotations(cls)})
        body = docstring(cls, inner)
        if issubclass(cls, enum.Enum):
            body += "".join(f"{inner}{member.name} = {member.value!r}\n" for member in cls)
            return f"{indent}class {name}(enum.Enum):\n{body}"
        annotated, scope = inspect.get_annotations(cls), vars(sys.modules[cls.__module__])
        for attribute, kind in annotated.items():
            if not attribute.startswith("_"):
                defaults = getattr(cls, "_field_defaults", {})  # of a NamedTuple
                default = f" = {self.default(defaults[attribute])}" if attribute in defaults else ""
                body += f"{inner}{attribute}: {self.annotation(kind, scope, members)}{default}\n"
        for attribute, value in vars(cls).items():
            if attribute not in annotated and (attribute in SHOWN or not attribute.startswith("_")):
                body += self.member(attribute, value, cls, inner, members)
        decorator = f"{indent}@anything\n" if name in ANNOTATIONS else ""
        return f"{decorator}{indent}class {name}{self.bases(cls)}:" + (f"\n{body}" if body else " ...\n")

    def bases(self, cls: type) -> str:
        """What a class is derived from. A dtype is a class of values to checkers, so that `n: tl.int64` means one."""
        bases = [f"builtins.{base.__name__}[Any, ...]" if base is tuple else base.__name__
                 for base in cls.__bases__ if base is not object]  # fmt: skip
        bases = ["builtins.type"] if cls is dtype else ["NamedTuple"] if hasattr(cls, "_field_defaults") else bases
        return f"({', '.join(bases)})" if bases else ""

    def member(self, name: str, value, cls: type, indent: str, members: frozenset[str]) -> str:
        """One attribute of a class."""
        if isinstance(value, property):
            result = self.annotation(value.fget.__annotations__.get("return", "Any"), value.fget.__globals__, members)
            return definition(name, ["self"], result, docstring(value.fget, indent + "    "), indent, "@property")
        if isinstance(value, type):
            return self.cls(name, value, indent)
        if name in COMPARISONS:  # those of tensors compare element by element
            return definition(name, ["self", "other: Any"], "bools", "", indent) if cls.__name__ == "tensor" else ""
        if isinstance(value, staticmethod):
            value = value.__func__
        if not isinstance(value, (Builtin, Source, types.FunctionType)):
            return ""
        if {"b", "_cls"} & signature_of(value).parameters.keys():
            return ""  # what the compiler calls with its builder, and a named tuple's own constructor
        text = self.function(name, value, indent, members)
        if name == "__new__" and issubclass(cls, dtype):  # `type`, the base it has in a stub, takes other arguments
            text += text.replace("__new__(cls", "__init__(self").rpartition(" -> ")[0] + " -> None: ...\n"
        return text
