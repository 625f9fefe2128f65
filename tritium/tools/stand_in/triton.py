"""What `import triton` finds in processes that a program starts which takes tritium for Triton."""

import sys
from pathlib import Path

if __name__ == "triton":
    sys.path.append(str(Path(__file__).parents[3]))  # where tritium is, should nothing else say so
    import tritium

    sys.modules["triton"] = tritium
    tritium.install_as_triton()
