"""The driver's names."""

from __future__ import annotations

from tritium.backends.amdgcn.driver import Driver as HIPDriver
from tritium.backends.amdgcn.runtime.launch import Launcher as HIPLauncher
from tritium.backends.amdgcn.runtime.services import Utils as HIPUtils

__all__ = ["HIPDriver", "HIPLauncher", "HIPUtils"]
