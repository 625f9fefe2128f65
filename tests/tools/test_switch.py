"""The switch of an environment: a variable, `tritium enable` and `disable`, and what programs see of them."""

import importlib.util
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

import tritium
from tritium.tools import switch

CHECKOUT = Path(tritium.__path__[0]).parent
NEEDED = [Path(importlib.util.find_spec(name).origin).parent for name in ("numpy", "ml_dtypes", "llvmlite")]
ASK = ("import importlib.metadata as m, importlib.util as u; found = u.find_spec('triton')\n"
       "print(found is not None, m.version('triton') if found else None)\n"
       "import triton, triton.language as tl; print(triton.__name__, tl.__name__)")
ANSWER = f"True {tritium.__version__}\ntritium tritium.language\n"


class Environment:
    """A virtual environment with nothing in it but ways to tritium and to what it needs."""

    def __init__(self, folder, **options):
        self.folder = folder
        venv.create(folder, symlinks=True, with_pip=False, **options)
        self.python = folder / "bin" / "python"
        self.site = next((folder / "lib").glob("python*/site-packages"))
        (self.site / "needed.pth").write_text(str(CHECKOUT))
        for package in NEEDED:  # not their whole folder: another Triton may be there
            for folder in (package, package.with_name(f"{package.name}.libs")):
                if folder.exists():
                    (self.site / folder.name).symlink_to(folder)

    def run(self, *arguments, **variables):
        inherited = {name: value for name, value in os.environ.items()
                     if name not in (switch.VARIABLE, "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")}
        return subprocess.run([self.python, *arguments], capture_output=True, text=True, cwd=self.folder, timeout=120,
                              env={**inherited, **variables})

    def tritium(self, *arguments, **variables):
        done = self.run("-m", "tritium", *arguments, **variables)
        return done.returncode, done.stdout + done.stderr

    def files(self):
        return sorted(path.name for path in self.site.glob("*.pth"))

    def install_triton(self):
        """A package that passes for another Triton."""
        (self.site / "triton" / "language").mkdir(parents=True)
        (self.site / "triton" / "__init__.py").write_text("")
        (self.site / "triton" / "language" / "__init__.py").write_text("")
        about = self.site / "triton-9.9.dist-info"
        about.mkdir()
        (about / "METADATA").write_text("Metadata-Version: 2.1\nName: triton\nVersion: 9.9\n")


@pytest.fixture
def environment(tmp_path):
    return Environment(tmp_path / "environment")


@pytest.fixture
def shipped(environment):
    """An environment with the file that a wheel brings."""
    (environment.site / switch.ON_DEMAND).write_text((CHECKOUT / "tritium" / "tools" / switch.ON_DEMAND).read_text())
    return environment


def test_the_file_of_a_wheel_is_the_one_described():
    assert (CHECKOUT / "tritium" / "tools" / switch.ON_DEMAND).read_text().split("\n", 1)[1] == switch.pth_line("0")


def test_the_metadata_has_the_version_of_the_language():
    folder = Path(switch.STAND_IN) / f"triton-{tritium.__version__}.dist-info"
    assert f"Version: {tritium.__version__}\n" in (folder / "METADATA").read_text()


def test_the_variable(shipped):
    for value in ("1", "yes", "quiet"):
        done = shipped.run("-c", ASK, TRITIUM_AS_TRITON=value)
        assert done.stdout == ANSWER, (value, done.stderr)
    for variables in ({}, *({switch.VARIABLE: value} for value in ("0", "", "off", "False"))):
        assert "No module named 'triton'" in shipped.run("-c", ASK, **variables).stderr, variables


def test_off_imports_nothing(shipped):
    listed = "import sys; print(sorted(sys.modules), sys.path)"
    with_file = shipped.run("-c", listed).stdout
    (shipped.site / switch.ON_DEMAND).unlink()
    assert shipped.run("-c", listed).stdout == with_file


def test_on_imports_nothing_before_triton_is(shipped):
    listed = "import sys; print([name for name in sys.modules if 'trit' in name])"
    assert shipped.run("-c", listed, TRITIUM_AS_TRITON="1").stdout == "[]\n"


def test_a_program_and_its_processes(shipped):
    (shipped.folder / "program.py").write_text(PROGRAM)
    done = shipped.run("program.py", TRITIUM_AS_TRITON="1", PYTHONPATH="")
    assert done.stdout == "[0.0, 2.0, 4.0]\n" + ANSWER + "['tritium']\n", done.stderr


PROGRAM = f"""
import multiprocessing, subprocess, sys
import numpy as np
import triton
import triton.language as tl

@triton.jit
def double(x, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)

def name(x):
    import triton.runtime
    return triton.__name__

if __name__ == "__main__":
    x = np.arange(3, dtype=np.float32)
    double[(1,)](x, 3, BLOCK=4)
    print(x.tolist(), flush=True)
    subprocess.run([sys.executable, "-c", {ASK!r}], check=True)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(name, [0]))
"""


def test_which_distribution_brings_the_package(shipped):
    ask = ("import importlib.metadata as m\n"
           "print(m.packages_distributions()['triton'], len(list(m.distributions(name='Triton'))))")
    assert shipped.run("-c", ask, TRITIUM_AS_TRITON="1").stdout == "['triton'] 1\n"
    assert shipped.run("-c", "import triton\n" + ask, TRITIUM_AS_TRITON="1").stdout == "['triton'] 1\n"
    assert shipped.run("-c", "import tritium; tritium.install_as_triton()\n" + ask).stdout == "['triton'] 1\n"


def test_enable_and_disable(environment):
    before = environment.files()
    status, said = environment.tritium("enable")
    assert status == 0 and str(environment.site / switch.ENABLED) in said
    assert environment.run("-c", ASK).stdout == ANSWER
    assert environment.run("-c", ASK, TRITIUM_AS_TRITON="0").returncode == 1
    status, said = environment.tritium("status")
    assert status == 0 and f"tritium, as Triton {tritium.__version__}" in said and f"on: {environment.site}" in said
    status, said = environment.tritium("disable")
    assert status == 0 and f"Removed: {environment.site / switch.ENABLED}" in said
    assert environment.files() == before
    assert environment.run("-c", ASK).returncode == 1
    assert environment.tritium("disable") == (0, "Nothing to remove: `tritium enable` has written nothing here.\n")


def test_enabling_a_checkout_that_nothing_else_leads_to(environment):
    (environment.site / "needed.pth").unlink()
    assert environment.tritium("enable", PYTHONPATH=str(CHECKOUT))[0] == 0
    assert environment.run("-c", ASK).stdout == ANSWER


def test_enabling_twice(environment):
    environment.tritium("enable")
    text = (environment.site / switch.ENABLED).read_text()
    status, said = environment.tritium("enable")
    assert status == 0 and "there already" in said and (environment.site / switch.ENABLED).read_text() == text
    (environment.site / switch.ENABLED).write_text(switch.WRITTEN + switch.pth_line("1", "/another/tritium"))
    status, said = environment.tritium("enable")
    assert status == 2 and "`tritium disable` first" in said
    assert environment.tritium("disable")[0] == 0 and environment.tritium("enable")[0] == 0


def test_on_demand_for_a_checkout(environment):
    said = environment.tritium("status", TRITIUM_AS_TRITON="1")[1]
    assert "nothing reads it here" in said and "tritium enable --on-demand" in said
    assert environment.tritium("enable", "--on-demand")[0] == 0
    assert environment.run("-c", ASK).returncode == 1
    assert environment.run("-c", ASK, TRITIUM_AS_TRITON="1").stdout == ANSWER
    assert environment.tritium("disable")[0] == 0
    assert environment.run("-c", ASK, TRITIUM_AS_TRITON="1").returncode == 1


def test_disable_leaves_what_others_wrote(shipped):
    shipped.tritium("enable")
    (shipped.site / switch.ENABLED).write_text(switch.WRITTEN + "import os\nimport sys\n")
    status, said = shipped.tritium("disable")
    assert status == 2 and "by hand" in said and switch.ENABLED in shipped.files()
    (shipped.site / switch.ENABLED).unlink()
    assert shipped.tritium("disable")[0] == 0 and switch.ON_DEMAND in shipped.files()


def test_the_alias_wins_and_says_so(shipped):
    shipped.install_triton()
    assert shipped.run("-c", "import triton, importlib.metadata as m; print(triton.__name__, m.version('triton'))"
                       ).stdout == "triton 9.9\n"
    done = shipped.run("-c", ASK, TRITIUM_AS_TRITON="1")
    assert done.stdout == ANSWER
    assert f"not Triton 9.9 in {shipped.site / 'triton'}" in done.stderr and done.stderr.count("\n") == 1
    assert shipped.run("-c", ASK, TRITIUM_AS_TRITON="quiet").stderr == ""
    assert f"Triton 9.9 in {shipped.site / 'triton'} stays installed" in shipped.tritium("enable")[1]
    assert "not Triton 9.9" in shipped.run("-c", ASK).stderr
    assert "Triton 9.9" in shipped.tritium("status")[1]


def test_a_program_and_its_processes_say_it_once(shipped):
    shipped.install_triton()
    (shipped.folder / "program.py").write_text(PROGRAM.replace("subprocess.run", "(lambda *args, **more: None)"))
    done = shipped.run("program.py", TRITIUM_AS_TRITON="1")
    assert "['tritium']" in done.stdout and done.stderr.count("not Triton 9.9") == 1, done.stderr


def test_an_uninstalled_tritium_leaves_python_working(shipped):
    shipped.tritium("enable")
    (shipped.site / switch.ENABLED).write_text(switch.WRITTEN + switch.pth_line("1", str(shipped.folder / "gone")))
    (shipped.site / "needed.pth").unlink()
    for variables in ({}, {switch.VARIABLE: "1"}):
        done = shipped.run("-c", "print(1)", **variables)
        assert (done.stdout, done.stderr) == ("1\n", "")


def test_the_user_site(tmp_path):
    environment = Environment(tmp_path / "environment", system_site_packages=True)
    base = {"PYTHONUSERBASE": str(tmp_path / "user")}
    status, said = environment.tritium("enable", "--user", **base)
    assert status == 0 and f"Written: {tmp_path / 'user'}" in said
    assert environment.run("-c", ASK, **base).stdout == ANSWER
    assert environment.run("-c", ASK, PYTHONNOUSERSITE="1", **base).returncode == 1
    assert environment.tritium("disable", **base)[0] == 0
    assert environment.run("-c", ASK, **base).returncode == 1


def test_no_user_site(environment):
    status, said = environment.tritium("enable", "--user")
    assert status == 2 and "leave --user out" in said


def test_a_python_of_the_operating_system(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(sys, "prefix", sys.base_prefix)
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path))
    (tmp_path / "EXTERNALLY-MANAGED").write_text("[externally-managed]\n")
    assert switch.enable([]) == 2
    said = capsys.readouterr().err
    assert "belongs to the operating system" in said and "python3 -m venv" in said and "--user" in said
    assert not list(tmp_path.glob("*.pth"))


def test_no_permission(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(switch, "_folder", lambda user: tmp_path)
    monkeypatch.setattr(Path, "write_text", lambda *_: (_ for _ in ()).throw(PermissionError(13, "Permission denied")))
    assert switch.enable([]) == 2
    said = capsys.readouterr().err
    assert f"cannot write {tmp_path / switch.ENABLED}: Permission denied" in said and "--user" in said


@pytest.mark.parametrize("command", ["enable", "disable", "status"])
def test_help_and_mistakes(command, capsys):
    function = getattr(switch, command)
    assert function(["--help"]) == 0 and f"usage: python -m tritium {command}" in capsys.readouterr().out
    assert function(["--now"]) == 2 and "unknown argument --now" in capsys.readouterr().err
