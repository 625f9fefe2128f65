"""Make a folder with a Python of another architecture, for QEMU's user mode: `make test-arch-root`.

    python tests/arch/root.py FOLDER                          the other architecture's
    python tests/arch/root.py FOLDER --machine aarch64

Packages of the Debian release this machine runs, and wheels, are downloaded from where apt and pip get theirs, and
unpacked there. Nothing is installed on this machine, and no package of the other architecture is run. It needs apt-get
and dpkg-deb, pip, and the network.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

DEBIAN = {"aarch64": "arm64", "x86_64": "amd64"}
PACKAGES = ["python3", "libstdc++6"]
WHEELS = ["llvmlite", "numpy", "ml_dtypes", "rich", "pytest", "pytest-xdist", "hypothesis", "mpmath"]


def unpack_packages(folder: Path, machine: str, packages: list[str]) -> None:
    """Download packages and all they need, with apt's state in the folder, and unpack them."""
    state = folder / "apt"
    for part in ("lists/partial", "archives/partial"):
        (state / part).mkdir(parents=True, exist_ok=True)
    (state / "status").touch()
    options = {
        "Dir::State": state, "Dir::State::lists": state / "lists", "Dir::State::status": state / "status",
        "Dir::Cache": state, "Dir::Cache::archives": state / "archives", "APT::Architecture": DEBIAN[machine],
        "APT::Architectures": DEBIAN[machine], "APT::Install-Recommends": "false", "Debug::NoLocking": "true",
    }  # fmt: skip
    apt = ["apt-get", "-q", *(word for key, value in options.items() for word in ("-o", f"{key}={value}"))]
    if not hasattr(os, "geteuid") or os.geteuid() == 0:
        apt += ["-o", "APT::Sandbox::User=root"]
    subprocess.run([*apt, "update"], check=True)
    subprocess.run([*apt, "install", "-y", "--download-only", *packages], check=True)
    for name in ("bin", "lib", "lib64", "sbin"):  # newer packages hold files under /usr alone
        (folder / "usr" / name).mkdir(parents=True, exist_ok=True)
        if not (folder / name).exists():
            (folder / name).symlink_to(f"usr/{name}")
    for package in sorted((state / "archives").glob("*.deb")):
        # tar keeps the links to folders, where dpkg-deb -x would put folders of its own
        unpacked = subprocess.Popen(["dpkg-deb", "--fsys-tarfile", str(package)], stdout=subprocess.PIPE)
        subprocess.run(["tar", "-x", "--keep-directory-symlink", "--no-same-owner", "-C", str(folder)],
                       stdin=unpacked.stdout, check=True)  # fmt: skip
        if unpacked.wait():
            raise SystemExit(f"dpkg-deb cannot read {package}")
    for path in folder.rglob("*"):  # links to absolute paths would lead out of the folder
        if path.is_symlink() and os.readlink(path).startswith("/"):
            target = folder / os.readlink(path).lstrip("/")
            path.unlink()
            path.symlink_to(os.path.relpath(target, path.parent))
    shutil.rmtree(state)


def unpack_wheels(folder: Path, machine: str, wheels: list[str]) -> None:
    """Download wheels for the Python in the folder, and unpack them."""
    found = sorted(folder.glob("usr/bin/python3.[0-9]*[0-9]"))
    if not found:
        raise SystemExit(f"no Python came into {folder}/usr/bin")
    version = re.fullmatch(r"python(3\.\d+)", found[-1].name)[1]
    kept = folder / "wheels"
    platforms = [f"--platform=manylinux{tag}_{machine}" for tag in ("2014", "_2_26", "_2_27", "_2_28")]
    subprocess.run([sys.executable, "-m", "pip", "download", "-q", "-d", str(kept), "--only-binary=:all:", *platforms,
                    f"--python-version={version}", "--implementation=cp", *wheels], check=True)  # fmt: skip
    for wheel in kept.glob("*.whl"):
        with zipfile.ZipFile(wheel) as file:
            file.extractall(folder / "usr/lib/python3/dist-packages")  # where Debian's Python looks
    shutil.rmtree(kept)


def main() -> int:
    """Make the folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--machine", choices=list(DEBIAN), default="x86_64" if platform.machine() == "aarch64" else
                        "aarch64", help="by default the one that this machine is not")  # fmt: skip
    args = parser.parse_args()
    missing = [tool for tool in ("apt-get", "dpkg-deb", "tar") if shutil.which(tool) is None]
    if missing:
        print(f"this needs {', '.join(missing)}, from Debian or Ubuntu; or unpack a Python for {args.machine} into the "
              "folder by other means: usr/bin/python3.x, its libraries and packages")
        return 1
    folder = args.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    unpack_packages(folder, args.machine, PACKAGES)
    unpack_wheels(folder, args.machine, WHEELS)
    print(f"{folder} holds a Python for {args.machine}: run TRITIUM_FOREIGN_ROOT={folder} make test-arch")
    return 0


if __name__ == "__main__":
    sys.exit(main())
