"""How the tests of eager kernels run them."""

from tritium.interp.eager import InterpretedFunction

eager = InterpretedFunction


def run(kernel, *args, grid=(1,), **kwargs):
    assert kernel[grid](*args, **kwargs) is None
