"""The drivers of this process. The module answers as `driver` itself does: `runtime.driver.active`.

    >>> from tritium.runtime import driver
    >>> driver.active.get_current_target().backend in ("cpu", "cuda", "hip")
    True
"""

from tritium.backends.driver import DriverBase, Drivers, GPUDriver, driver

__all__ = ["DriverBase", "Drivers", "GPUDriver", "driver"]


def __getattr__(name: str):
    return getattr(driver, name)
