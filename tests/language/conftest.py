import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from builders import Bench


@pytest.fixture
def b():
    """A fresh builder for an unnamed target."""
    return Bench()
