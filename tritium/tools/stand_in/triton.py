"""What `import triton` finds where the switch is on, and in processes of a program that takes tritium for Triton."""

import sys
from pathlib import Path

if __name__ == "triton":
    sys.path.append(str(Path(__file__).parents[3]))  # where tritium is, should nothing else say so
    import tritium

    sys.modules["triton"] = tritium
    tritium.install_as_triton()

    from tritium.tools.switch import tell_what_is_hidden

    tell_what_is_hidden()
