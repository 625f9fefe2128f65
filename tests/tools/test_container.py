"""The recipe of a container, carried out without one: its commands, each stage in a folder of its own.

`pip install` becomes a folder with the packages it names, and Python looks nowhere else: the second stage has no LLVM.
"""

import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RECIPE = ROOT / "examples" / "container"
NEEDED = ("llvmlite", "numpy", "ml_dtypes", "rich", "markdown_it", "mdurl", "pygments")  # also what rich needs

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="bundles for CPUs load on Linux")


class Stage:
    """A stage of an image: a folder that stands for its root, the packages in it, and the environment."""

    def __init__(self, root):
        self.root, self.work, self.environment = root, root, {}
        (root / "site").mkdir(parents=True)

    def install(self, packages, alone):
        """Make packages there, with what they need unless they come alone."""
        for name in {*packages, *(() if alone else NEEDED if "tritium" in packages else NEEDED[1:])}:
            there = ROOT / "tritium" if name == "tritium" else Path(importlib.util.find_spec(name).origin).parent
            for path in (there, there.with_name(f"{name}.libs")):
                if path.exists() and not (self.root / "site" / path.name).exists():
                    (self.root / "site" / path.name).symlink_to(path)

    def started(self, command, **more):
        """A process in this stage; `python` is this one, which knows the stage's packages alone."""
        text = command.replace("/app", str(self.root / "app")).replace("python ", f"{sys.executable} -S ", 1)
        env = {"PATH": os.environ["PATH"], "HOME": str(self.root / "home"), "PYTHONPATH": str(self.root / "site"),
               "PYTHONDONTWRITEBYTECODE": "1", **self.environment}  # fmt: skip
        return subprocess.Popen(["sh", "-c", f"exec {text}" if more else text], cwd=self.work, env=env, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # fmt: skip

    def run(self, command):
        """Carry out one line of RUN."""
        for part in map(str.strip, command.split("&&")):
            if part.startswith("pip install"):
                words = part.split()[2:]
                self.install([word for word in words if not word.startswith("-")], "--no-deps" in words)
            elif not part.startswith("useradd"):  # the test is one user
                process = self.started(part)
                said = process.communicate(timeout=300)[0]
                assert process.returncode == 0, said


def carried_out(recipe, folder):
    """The last stage of a recipe, once all its lines are done, and its CMD."""
    stages, command = {}, []
    for line in recipe.splitlines():
        word, _, rest = line.partition(" ")
        if word == "FROM":
            name = rest.partition(" AS ")[2] or "last"
            stage = stages[name] = Stage(folder / name)
        elif word == "WORKDIR":
            stage.work = stage.root / rest.strip("/")
            stage.work.mkdir()
        elif word == "COPY":
            source = re.match(r"--from=(\w+) ", rest)
            *names, _ = shlex.split(rest.removeprefix(source[0] if source else ""))
            for path in names:
                shutil.copy(stages[source[1]].root / path.strip("/") if source else RECIPE / path, stage.work)
        elif word == "RUN":
            stage.run(rest)
        elif word == "ENV":
            name, _, value = rest.partition("=")
            stage.environment[name] = value.replace("/app", str(stage.work))
        elif word == "CMD":
            command = json.loads(rest)
        else:
            assert word in ("", "#", "USER"), f"the test does not know {word}"
    return stages["last"], shlex.join(command)


def test_the_first_request_compiles_nothing(tmp_path):
    stage, command = carried_out((RECIPE / "Dockerfile").read_text(), tmp_path)
    assert not (stage.root / "site" / "llvmlite").exists() and (stage.root / "site" / "numpy").exists()
    server = stage.started(f"{command} 0", server=True)
    try:
        port = server.stdout.readline().removeprefix("port ").strip()
        assert port.isdigit(), port + server.stdout.read()
        for columns in (700, 1024):  # arguments of two kinds
            with urllib.request.urlopen(f"http://localhost:{port}/{columns}", timeout=60) as answer:
                told = json.loads(answer.read())
            assert abs(told["sum"] - 1) < 1e-5 and told["LLVM"] is False
    finally:
        server.terminate()
        server.communicate(timeout=60)
    kept = [path for path in stage.root.glob("home/**/*") if path.is_file()]
    assert {path.parent.name for path in kept} <= {"cache", "names"}, "the cache has more than the names kernels use"


def test_the_page_shows_the_recipe():
    page = (ROOT / "docs" / "bundles.md").read_text()
    assert f"```dockerfile\n{(RECIPE / 'Dockerfile').read_text()}```" in page
