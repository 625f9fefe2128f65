"""The functions of AMD's math library; every target has them."""

from .. import libdevice as _all
from ..libdevice import HIP as __all__

globals().update({name: getattr(_all, name) for name in __all__})
