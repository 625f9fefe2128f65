"""`run(arguments)` runs a Python program in a child process in which torch is imported already.

Importing torch takes longer than most programs of the tests. A fork server imports it once, computes nothing, and forks
a child for each program. The child has the streams, folder, environment and arguments that it would have as
`python ARGUMENTS`, and imports tritium itself. Where a fork is not safe, `run` starts Python as it is.
"""

import atexit
import builtins
import contextlib
import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

_lock = threading.Lock()
_starter = None


def run(arguments, *, cwd=None, env=None, timeout=600):
    """A CompletedProcess, with the texts of both streams, of `python ARGUMENTS`: a script, `-m module` or `-c code`."""
    arguments, env = [os.fspath(argument) for argument in arguments], dict(os.environ if env is None else env)
    if sys.platform != "linux":  # frameworks of other systems do not outlive a fork
        return subprocess.run([sys.executable, *arguments], cwd=cwd, env=env, timeout=timeout, capture_output=True,
                              text=True, encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder, _lock:
        out, err = Path(folder, "out"), Path(folder, "err")
        wanted = {"arguments": arguments, "cwd": os.fspath(cwd or Path.cwd()), "env": env, "timeout": timeout,
                  "out": str(out), "err": str(err)}  # fmt: skip
        status = _ask(wanted)
        return subprocess.CompletedProcess([sys.executable, *arguments], status, out.read_text("utf-8"),
                                           err.read_text("utf-8"))  # fmt: skip


def _ask(wanted):
    """The exit status, from the starter of this process."""
    global _starter
    if _starter is None or _starter[0] != os.getpid() or _starter[1].poll() is not None:
        environment = {**os.environ, "PYTHONIOENCODING": "utf-8"}
        environment.pop("PYTHONPATH", None)  # each program has its own
        process = subprocess.Popen([sys.executable, __file__], env=environment, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, text=True)
        _starter = os.getpid(), process
        atexit.register(_end, *_starter)
    _, process = _starter
    process.stdin.write(json.dumps(wanted) + "\n")
    process.stdin.flush()
    answer = process.stdout.readline()
    assert answer, "the starter has ended"
    return int(answer)


def _end(owner, process):
    if owner == os.getpid():  # a child that was forked meanwhile leaves it alone
        process.communicate()


# --- the starter ------------------------------------------------------------------------------------------------------
def _serve():
    """Answer requests; returns one of them, in the child that is to carry it out, and None at the end."""
    with contextlib.suppress(ImportError):
        import torch  # noqa: F401  the children find it imported
    with os.fdopen(os.dup(0)) as requests, os.fdopen(os.dup(1), "w") as answers:
        for line in requests:
            child = os.fork()
            if not child:
                return json.loads(line)
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), file=answers, flush=True)


def _become(wanted):
    """Have what Python would have set up for a program, but `sys.argv`."""
    signal.alarm(wanted["timeout"])
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for stream, name in ((1, wanted["out"]), (2, wanted["err"])):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), stream)
    os.chdir(wanted["cwd"])
    os.environ.clear()
    os.environ.update(wanted["env"])
    sys.path[:1] = [place for place in os.environ.get("PYTHONPATH", "").split(os.pathsep) if place]


def _execute(kind, *rest):
    """As `python KIND REST`, in this process; what the program raises is Python's to report."""
    if kind == "-m":
        sys.argv, sys.path[:0] = list(rest), [os.getcwd()]
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
        return
    names = {"__name__": "__main__", "__builtins__": builtins, "__spec__": None}
    if kind == "-c":
        sys.argv, sys.path[:0] = ["-c", *rest[1:]], [""]
        code = compile(rest[0], "<string>", "exec")
    else:
        path = names["__file__"] = os.path.abspath(kind)
        sys.argv, sys.path[:0] = [kind, *rest], [os.path.dirname(path)]
        code = compile(Path(path).read_bytes(), path, "exec")
    main = sys.modules["__main__"].__dict__
    main.clear()
    main.update(names)
    exec(code, main)


if __name__ == "__main__" and (wanted := _serve()) is not None:
    _become(wanted)
    _execute(*wanted["arguments"])
