"""What a stage in a vendor's language cannot say of its kernel, in a comment at its end.

The text of LLVM or PTX tells neither how much shared memory a kernel needs nor how it is launched. `kernel.asm["ptx"]`
ends with a line that does, so the text alone can be compiled again, and launched.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from tritium.backends import text_form
from tritium.backends.compiler import NAMES, Options
from tritium.language.types.signature import flatten

# Found out anew, or decided by the machine the text is compiled for next.
_KNOWN = frozenset((
    "allowed_dot_input_precisions", "arch", "backend_name", "default_dot_input_precision",
    "deprecated_fp8_dot_operand_dtypes", "hash", "max_num_imprecise_acc_default", "n_regs", "n_spills", "name",
    "supported_fp8_dtypes", "target", "triton_version", "warp_size",
))  # fmt: skip
_NOTE = re.compile(r"^(?:;|//) tritium: (\{.*\})$", re.MULTILINE)


def noted(ext: str, text: str, signature: Mapping[str, Any], metadata: Mapping[str, Any]) -> str:
    """The text of a stage with its note; text of a stage that can tell for itself stays as it is.

    >>> noted("ptx", ".version 8.3\\n", {"x": "*fp32", "N": "constexpr"}, {"shared": 64, "num_warps": 8, "num_ctas": 1})
    '.version 8.3\\n// tritium: {"signature": {"x": "*fp32"}, "shared": 64, "num_warps": 8}\\n'
    """
    form = text_form(ext)
    if form is None or _NOTE.search(text):
        return text
    said = {name: value for name, value in metadata.items() if name not in _KNOWN and not _is_usual(name, value)}
    told = json.dumps({"signature": _run_time(signature), **said}, default=str)
    return f"{text.rstrip()}\n{form.comment} tritium: {told}\n"


def read(text: Any) -> dict[str, Any]:
    """What the note in a text says; nothing where there is none.

    >>> read("// tritium: {\\"shared\\": 64}"), read("ret;")
    ({'shared': 64}, {})
    """
    found = _NOTE.search(text) if isinstance(text, str) else None
    return json.loads(found[1]) if found else {}


_USUAL = {name: getattr(Options(), name) for name in NAMES} | {"global_scratch_align": 1, "profile_scratch_align": 1}


def _is_usual(name: str, value: Any) -> bool:
    """Whether a kernel without a note has it too; names in capitals are variables of the environment."""
    return value == _USUAL.get(name) or (name not in NAMES and not value) or name.isupper()


def _run_time(signature: Mapping[str, Any]) -> dict[str, str]:
    """The arguments a kernel takes when it runs, as the stages before have them."""
    out = {}
    for name, type_ in signature.items():
        slots = flatten(type_)
        out |= {name: slots[0]} if len(slots) == 1 else {f"{name}.{k}": slot for k, slot in enumerate(slots)}
    return out
