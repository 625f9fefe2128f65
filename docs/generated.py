"""Pages that a program writes: write one, or say whether it is up to date."""

from __future__ import annotations

from pathlib import Path


def write_or_check(page: Path, text: str, arguments: list[str]) -> int:
    """Write the page; with `--check` compare it instead. The exit status."""
    name = f"docs/{page.name}"
    if "--check" in arguments:
        same = page.exists() and page.read_text() == text
        print(f"{name} is up to date" if same else f"{name} is out of date: run `make docs`")
        return 0 if same else 1
    page.write_text(text)
    print(f"written: {name}")
    return 0
