"""The functions of NVIDIA's math library; every target has them."""

from ..library import CUDA as __all__
from ..library import FUNCTIONS as _functions

globals().update({name: _functions[name] for name in __all__})
