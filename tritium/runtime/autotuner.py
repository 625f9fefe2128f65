"""The import path users know; the autotuner lives in `tritium.runtime.autotune`."""

from tritium.errors import AutotunerError
from tritium.runtime.autotune import Autotuner, Config, Heuristics, OutOfResources, PTXASError, autotune, heuristics

__all__ = [
    "Autotuner", "AutotunerError", "Config", "Heuristics", "OutOfResources", "PTXASError", "autotune", "heuristics",
]  # fmt: skip
