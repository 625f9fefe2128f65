"""One switch for a whole environment: `TRITIUM_AS_TRITON=1 python train.py`, `tritium enable`, `disable`, `status`.

The switch is a `.pth` file in a site directory, which Python runs when it starts. With the switch on it puts the folder
`stand_in` in front of `sys.path`: `import triton` finds a module there, `importlib.metadata` a distribution. Nothing of
tritium is imported before that. With the switch off it reads one environment variable.
"""

from __future__ import annotations

import os
import site
import sys
from collections.abc import Iterator
from pathlib import Path

from tritium.tools.command import UsageError, guarded

VARIABLE = "TRITIUM_AS_TRITON"
OFF = ("", "0", "n", "no", "off", "false")
STAND_IN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "stand_in")
# A wheel brings the first; `enable` writes the second, `enable --on-demand` the first where it is missing.
ON_DEMAND, ENABLED = "tritium_as_triton.pth", "tritium_enabled.pth"
WRITTEN = "# Written by `tritium enable`; `tritium disable` removes it.\n"
# How a file that comes with tritium finds it: the finders are asked, nothing is imported.
_FIND = ('found = next(filter(None, (f.find_spec("tritium", None) for f in sys.meta_path)), None)\n'
         'p = os.path.join(found.submodule_search_locations[0], "tools", "stand_in") if found else ""\n')


def pth_line(default: str, folder: str | None = None) -> str:
    """The line of a `.pth` file that puts `folder` on the path, or the one of the tritium that Python would import.

    What runs with the switch on is a string in it, so that a start with the switch off does not even compile it.

    >>> pth_line("1", "/lib/stand_in").startswith('import os; os.environ.get("TRITIUM_AS_TRITON", "1")')
    True
    """
    code = "import sys\n" + (_FIND if folder is None else f"p = {folder!r}\n") + (
        "if p not in sys.path and os.path.isdir(p): sys.path.insert(0, p)")
    return f'import os; os.environ.get("{VARIABLE}", "{default}").lower() in {OFF!r} or exec({code!r})\n'


def site_folders() -> list[Path]:
    """The directories of this interpreter in which Python looks for `.pth` files.

    >>> all(isinstance(folder, Path) for folder in site_folders())
    True
    """
    own = [site.getusersitepackages()] if site.ENABLE_USER_SITE else []
    return [Path(folder) for folder in [*site.getsitepackages(), *own]]


def _files(name: str) -> Iterator[Path]:
    return (path for folder in site_folders() if (path := folder / name).is_file())


def is_on() -> bool:
    """Whether the variable, or else a file of `tritium enable`, says that `import triton` gives tritium.

    >>> is_on() in (True, False)
    True
    """
    said = os.environ.get(VARIABLE)
    return said.lower() not in OFF if said is not None else any(_files(ENABLED))


def hidden_triton() -> str | None:
    """Version and place of a Triton that is installed besides, None where there is none.

    >>> hidden_triton() is None or "Triton" in hidden_triton()
    True
    """
    from importlib.machinery import PathFinder
    from importlib.metadata import distributions

    path = [folder for folder in sys.path if folder != STAND_IN]
    for finder in sys.meta_path:
        if type(finder).__module__ == "tritium.alias":
            continue
        found = finder.find_spec("triton", path if finder is PathFinder else None)
        if found is not None and found.origin is not None and not found.origin.startswith(STAND_IN):
            version = next((known.version for known in distributions(name="triton", path=path)), "of unknown version")
            return f"Triton {version} in {os.path.dirname(found.origin)}"
    return None


def tell_what_is_hidden() -> None:
    """Say on stderr, once in a program, that tritium answers in the place of an installed Triton.

    >>> tell_what_is_hidden()
    """
    said = os.environ.get(VARIABLE, "").lower()
    if not is_on() or said == "quiet" or _is_worker():
        return
    if hidden := hidden_triton():
        print(f"tritium: `import triton` gives tritium here, not {hidden}. {VARIABLE}=0 gives that one, "
              f"{VARIABLE}=quiet leaves this message out.", file=sys.stderr)


def _is_worker() -> bool:
    """Whether a program started this process to work for it; a fresh one has no parent to ask while it starts."""
    process = sys.modules.get("multiprocessing.process")
    command = " ".join(sys.orig_argv[1:4])
    return process is not None and process.parent_process() is not None or (
        "multiprocessing" in command or "compile_worker" in command)


# ---------------------------------------------------------------------------------------------------------------------
# Commands


def enable(arguments: list[str]) -> int:
    """`tritium enable`: make `import triton` give tritium in every program of this environment.

    >>> enable(["--help"])
    usage: python -m tritium enable ...
    0
    """
    return _command("enable", arguments, _enable, {
        "--user": "write to your user site instead of this environment's own site directory",
        "--on-demand": f"only where {VARIABLE}=1 is set: what an installed wheel does by itself, for a checkout",
    })


def disable(arguments: list[str]) -> int:
    """`tritium disable`: remove what `enable` wrote, in this environment and in your user site.

    >>> disable(["--help"])
    usage: python -m tritium disable ...
    0
    """
    return _command("disable", arguments, _disable, {})


def status(arguments: list[str]) -> int:
    """`tritium status`: what `import triton` gives here, and why.

    >>> status(["--help"])
    usage: python -m tritium status ...
    0
    """
    return _command("status", arguments, _status, {})


def _command(name: str, arguments: list[str], body, options: dict[str, str]) -> int:
    if "-h" in arguments or "--help" in arguments:
        about = {"enable": enable, "disable": disable, "status": status}[name].__doc__
        shown = "".join(f"\n  {option:<13} {text}" for option, text in options.items())
        print(f"usage: python -m tritium {name}{''.join(f' [{option}]' for option in options)}\n\n"
              f"{(about or '').split(chr(10))[0]}{chr(10) if shown else ''}{shown}")
        return 0
    wrong = [argument for argument in arguments if argument not in options]
    if wrong:
        print(f"tritium {name}: unknown argument {wrong[0]}; python -m tritium {name} --help lists them",
              file=sys.stderr)
        return 2
    return guarded(name, lambda: body(set(arguments)))


def _enable(options: set[str]) -> None:
    name, default = (ON_DEMAND, "0") if "--on-demand" in options else (ENABLED, "1")
    path = _folder("--user" in options) / name
    text = WRITTEN + pth_line(default, STAND_IN)
    if path.is_file():
        found = path.read_text()
        if found != text and found.startswith(WRITTEN):
            raise UsageError(f"{path} switches to another tritium already; run `tritium disable` first")
        print(f"The switch is there already: {path}")
        return
    _write(path, text)
    if name == ON_DEMAND:
        print(f"{VARIABLE}=1 now makes `import triton` give tritium in {sys.prefix}.\nWritten: {path}")
    else:
        print(f"`import triton` now gives tritium in every program of {sys.prefix}.\nWritten: {path}\n"
              f"{VARIABLE}=0 switches it off for one program, `tritium disable` for all.")
    if os.environ.get(VARIABLE, "1").lower() in OFF and name == ENABLED:
        print(f"{VARIABLE}={os.environ[VARIABLE]} is set here, which switches it off.")
    if hidden := hidden_triton():
        print(f"{hidden} stays installed, and is not imported while the switch is on.")


def _folder(user: bool) -> Path:
    """The site directory to write to; an error with the way out where there is none."""
    import sysconfig

    outside = sys.prefix == sys.base_prefix
    own = Path(site.getusersitepackages())
    if user or outside and own in Path(STAND_IN).parents:
        if not site.ENABLE_USER_SITE:
            raise UsageError(f"{sys.executable} does not look at a user site; leave --user out to write to the "
                             "environment itself")
        return own
    managed = Path(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED")
    if outside and managed.is_file():
        raise UsageError(f"{sys.executable} belongs to the operating system ({managed}); make an environment of your "
                         "own with `python3 -m venv .venv` and enable tritium there, or write to your user site with "
                         "--user")
    return Path(sysconfig.get_path("purelib"))


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(f".{os.getpid()}.part")
        temporary.write_text(text)
        temporary.replace(path)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}; run this as the owner of {path.parent}, in an "
                         "environment of your own (`python3 -m venv .venv`), or with --user") from None


def _disable(options: set[str]) -> None:
    written = [path for name in (ENABLED, ON_DEMAND) for path in _files(name) if path.read_text().startswith(WRITTEN)]
    for path in written:
        if path.read_text().count("\n") != 2:
            raise UsageError(f"{path} has been changed since `tritium enable` wrote it; remove it by hand")
        try:
            path.unlink()
        except OSError as error:
            raise UsageError(f"cannot remove {path}: {error.strerror}; run this as its owner") from None
        print(f"Removed: {path}")
    if not written:
        print("Nothing to remove: `tritium enable` has written nothing here.")
    if os.environ.get(VARIABLE, "").lower() not in OFF:
        print(f"{VARIABLE}={os.environ[VARIABLE]} is set here, which still switches it on.")


def _status(options: set[str]) -> None:
    enabled, on_demand = next(_files(ENABLED), None), next(_files(ON_DEMAND), None)
    said = os.environ.get(VARIABLE)
    if said is not None and (enabled or on_demand):
        why = f"{'on' if is_on() else 'off'}: {VARIABLE}={said}"
    elif said is not None and is_on():
        why = f"off: {VARIABLE}={said} is set, but nothing reads it here; `tritium enable --on-demand` changes that"
    else:
        why = f"on: {enabled}" if enabled else "off"
    rows = [("import triton", _answer()), ("switch", why), ("variable", f"read by {on_demand or enabled or 'nothing'}"),
            ("installed", hidden_triton() or "no Triton besides tritium")]
    for name, value in rows:
        print(f"{name:<14} {value}")


def _answer() -> str:
    """What a fresh interpreter of this environment finds under the name `triton`."""
    import subprocess

    code = ("import importlib.util as u, importlib.metadata as m; s = u.find_spec('triton')\n"
            "print(s.origin if s else '', m.version('triton') if s else '', sep='\\n')")
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True)
    origin, version, *_ = [*done.stdout.split("\n"), "", ""]
    if origin.startswith(STAND_IN):
        return f"tritium, as Triton {version}, in {os.path.dirname(os.path.dirname(STAND_IN))}"
    return f"Triton {version or 'of unknown version'} in {os.path.dirname(origin)}" if origin else "nothing"
