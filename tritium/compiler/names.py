"""A kernel's name as a file and as a symbol: `safe_name`."""

from __future__ import annotations

import hashlib
import re

SYMBOL, FILE = 1000, 200  # how long a name may be
# What generated code calls or defines itself, and what some systems do not take for the name of a file.
_TAKEN = r"str\d+|smem|vprintf|__assertfail|__nv_\w*|(?i:con|prn|aux|nul|com\d|lpt\d)"
_BEGIN = ("str", "smem", "vprintf", "__", "con", "prn", "aux", "nul", "com", "lpt")  # what such a name begins with


def safe_name(name: object, otherwise: str = "kernel", longest: int = FILE) -> str:
    """A name that can be a file and a symbol of any target: an ordinary one as it is, another with a hash of it.

    `otherwise` takes the place of no name at all.

    >>> safe_name("add_kernel"), safe_name("../../etc"), safe_name("", otherwise="add")
    ('add_kernel', 'etc_74ccf3c5b4c19a81', 'add')
    """
    text = "" if name is None else str(name)
    if not text:
        return safe_name(otherwise, longest=longest)
    if len(text) <= longest and _is_free(text):
        return text
    digest = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]
    plain = re.sub(r"[^A-Za-z0-9]+", "_", text, flags=re.ASCII)[:longest - 20].strip("_")
    return f"{plain}_{digest}" if plain[:1].isalpha() else f"k{plain}_{digest}"


def _is_free(text: str) -> bool:
    """Whether it is an identifier of C, so one of PTX, of LLVM and of the tile IR as well and the name of a file, that
    nobody else uses."""
    if not (text.isascii() and text.isidentifier()):
        return False
    return not (text.lower().startswith(_BEGIN) and re.fullmatch(_TAKEN, text, re.ASCII))
