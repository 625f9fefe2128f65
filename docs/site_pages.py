"""What the site has beside docs/: files of the root, an API reference, a gallery, notebooks. `make site` builds it.

mkdocs.yml names this file as a hook of MkDocs. Pages are written for GitHub; links that lead out of docs/ are rewritten
for the site: to the page that shows the file, or to plain text for sources.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import os
import posixpath
import re
import sys
import textwrap
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "docs")]

import make_gallery  # noqa: E402
import make_notebooks  # noqa: E402

# Page of the site -> file of the repository.
ROOT_PAGES = {
    "index.md": "README.md",
    "contributing.md": "CONTRIBUTING.md",
    "changelog.md": "CHANGELOG.md",
    "security-policy.md": "SECURITY.md",
    "code-of-conduct.md": "CODE_OF_CONDUCT.md",
    "license.md": "LICENSE",
}

# Page of the site -> (module, how programs write it, a sentence).
API_PAGES = {
    "api/tritium.md": ("tritium", "triton", "`import tritium as triton`."),
    "api/language.md": ("tritium.language", "tl", "`import tritium.language as tl`: what kernels are written in."),
    "api/testing.md": ("tritium.testing", "triton.testing", "Measuring and comparing."),
    "api/kernels.md": ("tritium.kernels", "tritium.kernels", "The collection of kernels: host functions."),
    "api/torch.md": ("tritium.torch", "tritium.torch", "Kernels as operators of PyTorch: "
                     "[how to](../operators.md)."),
}

DECISIONS = "decisions/index.md"
GALLERY = "gallery.md"
FIRST = "tutorials/01-vector-add.md"  # where a link to the folder leads


def generated() -> set[str]:
    """The pages that are no files in docs/."""
    return {*ROOT_PAGES, *API_PAGES, DECISIONS, GALLERY}


# ---------------------------------------------------------------------------------------------------------------------
# Links

CODE = re.compile(r"(^```.*?^```[^\n]*$|^~~~.*?^~~~[^\n]*$|`+[^`\n]+`+)", re.S | re.M)
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\0\d+\0)*)\]\(([^()\s]+)\)")


def rewritten(text: str, source: str, page: str) -> str:
    """The Markdown of a file with its relative links as they are on a page of the site.

    >>> rewritten("[map](docs/map.md#top), [rules](CONTRIBUTING.md), [a](tritium/kernels)", "README.md", "index.md")
    '[map](map.md#top), [rules](contributing.md), a'
    >>> rewritten("`x[i](../README.md)` [start](../README.md)", "docs/map.md", "map.md")
    '`x[i](../README.md)` [start](index.md)'
    """
    held: list[str] = []

    def hold(match: re.Match[str]) -> str:
        held.append(match[0])
        return f"\0{len(held) - 1}\0"

    def link(match: re.Match[str]) -> str:
        mark, title, target = match.groups()
        if re.match(r"[a-z]+:|#", target):
            return match[0]
        path, anchor, name = target.partition("#")
        there = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        on_site = _page_of(there)
        if on_site is None:
            return match[0] if not (ROOT / there).exists() else title
        return f"{mark}[{title}]({posixpath.relpath(on_site, posixpath.dirname(page) or '.')}{anchor}{name})"

    text = LINK.sub(link, CODE.sub(hold, text))
    return re.sub(r"\0(\d+)\0", lambda match: held[int(match[1])], text)


def _page_of(path: str) -> str | None:
    """The page or file of the site that shows a file of the repository."""
    known = {file: page for page, file in ROOT_PAGES.items()} | {"docs/decisions": DECISIONS, "docs/tutorials": FIRST}
    if path in known:
        return known[path]
    return path.removeprefix("docs/") if path.startswith("docs/") and (ROOT / path).is_file() else None


# ---------------------------------------------------------------------------------------------------------------------
# The API reference


def public(module: str) -> dict[str, Any]:
    """The functions, classes and constants of a module that have a docstring.

    >>> "load" in public("tritium.language")
    True
    """
    if module == "tritium.kernels":
        from tritium.kernels import registry

        wrappers = [kernel.wrapper for kernel in registry.kernels().values() if kernel.wrapper.__name__.isidentifier()]
        return {f"{w.__module__.removeprefix('tritium.kernels.')}.{w.__name__}": w for w in wrappers}
    found = importlib.import_module(module)
    names = getattr(found, "__all__", None) or [name for name in dir(found) if not name.startswith("_")]
    values = {name: getattr(found, name) for name in names if not name.startswith("_")}
    return {name: value for name, value in values.items() if not inspect.ismodule(value)}


def signature(value: Any) -> str:
    """The parameters of a callable, without those that only Triton's compiler fills.

    >>> import tritium.language as tl
    >>> signature(tl.program_id)
    '(axis)'
    """
    if isinstance(value, type) and not callable(getattr(value, "__init__", None)) or not callable(value):
        return ""
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    kept = [p for p in found.parameters.values() if not p.name.startswith("_")]
    try:
        text = str(found.replace(parameters=kept))
    except ValueError:
        return "(...)"
    return re.sub(r"'([\w |\[\], .]+)'(?=[,)= ]|$)", r"\1", re.sub(r" at 0x[0-9a-f]+", "", text))


def is_code(paragraph: str) -> bool:
    """Whether a paragraph of a docstring is lines of Python; `inspect.getdoc` may have taken their indentation.

    >>> is_code("largest = tl.max(tl.abs(x), axis=0)"), is_code("Absolute value of any number.")
    (True, False)
    """
    try:
        ast.parse(textwrap.dedent(paragraph))
    except SyntaxError:
        return paragraph.startswith("    ")
    return any(sign in paragraph for sign in "(=")


def docstring(value: Any) -> str:
    """The docstring as Markdown: examples are blocks of Python."""
    parts = []
    for paragraph in re.split(r"\n[ \t]*\n", (inspect.getdoc(value) or "").strip()):
        if paragraph.lstrip().startswith(">>>"):
            parts.append(f"```pycon\n{inspect.cleandoc(paragraph)}\n```")
        elif is_code(paragraph):
            parts.append(f"```python\n{textwrap.dedent(paragraph)}\n```")
        else:
            parts.append(paragraph.replace("<", "&lt;") if "`" not in paragraph else paragraph)
    return "\n\n".join(parts)


def api_page(module: str, prefix: str, sentence: str) -> str:
    """The reference of one module."""
    parts = [f"# {module}\n\n{sentence}"]
    constants = []
    for name, value in sorted(public(module).items(), key=lambda item: item[0].lower()):
        if not callable(value) or type(value).__name__ == "dtype":
            constants.append(name)
            continue
        head = f"## {name}\n\n```python\n{prefix}.{name}{signature(value)}\n```"
        parts.append(f"{head}\n\n{docstring(value)}")
    if constants:
        parts.append("## Constants and types\n\n" + ", ".join(f"`{prefix}.{name}`" for name in constants))
    return "\n\n".join(parts) + "\n"


def decisions() -> str:
    """The list of decisions."""
    rows = []
    for path in sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md")):
        rows.append(f"- [{path.read_text().partition(chr(10))[0].lstrip('# ')}]({path.name})")
    return "# Decisions\n\nWhy things are as they are.\n\n" + "\n".join(rows) + "\n"


# ---------------------------------------------------------------------------------------------------------------------
# Hooks of MkDocs


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are no files in docs/."""
    from mkdocs.structure.files import File  # pyright: ignore[reportMissingImports]

    made = {page: rewritten((ROOT / file).read_text(), file, page) for page, file in ROOT_PAGES.items()}
    made["license.md"] = "# Licence\n\n```text\n" + (ROOT / "LICENSE").read_text() + "```\n"
    made |= {page: api_page(*row) for page, row in API_PAGES.items()}
    made[DECISIONS] = decisions()
    made |= make_gallery.made()
    for page, text in made.items():
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Rewrite the links of a page of docs/."""
    name = page.file.src_uri
    return markdown if name in generated() else rewritten(markdown, f"docs/{name}", name)


def on_post_build(config: Any) -> None:
    """Write the tutorials as notebooks beside the pages."""
    make_notebooks.write(Path(os.path.join(config["site_dir"], "notebooks")))
