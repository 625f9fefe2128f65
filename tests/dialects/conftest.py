import pytest

from tests.dialects.engines import ENGINES, NAMES
from tritium import knobs


@pytest.fixture(params=NAMES)
def engine(request):
    """`engine(kernel, args, grid)`."""
    return ENGINES[request.param]


@pytest.fixture
def level(request):
    """The dialect that is set while the test runs."""
    with knobs.language.scope():
        knobs.language.dialect = request.param
        yield request.param
