"""The functions of NVIDIA's math library; every target has them."""

from .. import libdevice as _all
from ..libdevice import CUDA as __all__

globals().update({name: getattr(_all, name) for name in __all__})
