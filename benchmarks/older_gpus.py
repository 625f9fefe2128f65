"""Code for older NVIDIA GPUs, timed on the one that is there: what tritium and Triton make of a kernel for them.

    python benchmarks/older_gpus.py 80 gpu_tiles.py --rows eight,large
    python benchmarks/older_gpus.py 89 gpu_survey.py --rows products,attention --rounds 3

Another benchmark runs with both sides compiling for that architecture (TRITON_OVERRIDE_ARCH). A newer GPU takes their
PTX, but not their machine code, so ptxas is told the GPU's own architecture. Instructions, registers and schedules are
those of the older one; its clock, its caches, and how many blocks its shared memory holds are not.
"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
WRAPPER = """#!/bin/sh
for word; do
    shift
    case "$word" in *sm_{older}) word="${{word%sm_{older}}}sm_{own}" ;; esac
    set -- "$@" "$word"
done
exec {ptxas} "$@"
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("arch", type=int, help="the older architecture, such as 80")
    parser.add_argument("benchmark", help="a script beside this one")
    options, rest = parser.parse_known_args()
    import torch

    from tritium.backends.nvptx.assemble.ptxas import ptxas

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the benchmark ends with this script
    major, minor = torch.cuda.get_device_capability()
    with tempfile.TemporaryDirectory() as folder:
        wrapper = Path(folder) / "ptxas"
        wrapper.write_text(WRAPPER.format(older=options.arch, own=10 * major + minor, ptxas=shlex.quote(str(ptxas()))))
        wrapper.chmod(0o755)
        environ = os.environ | {
            "TRITON_OVERRIDE_ARCH": f"sm{options.arch}", "TRITON_PTXAS_PATH": str(wrapper),
            "TRITON_CACHE_DIR": f"{folder}/triton", "TRITIUM_CACHE_DIR": f"{folder}/tritium",
        }  # fmt: skip
        return subprocess.run([sys.executable, str(HERE / options.benchmark), *rest], env=environ).returncode


if __name__ == "__main__":
    sys.exit(main())
