"""The functions of AMD's math library; every target has them."""

from ..library import FUNCTIONS as _functions
from ..library import HIP as __all__

globals().update({name: _functions[name] for name in __all__})
