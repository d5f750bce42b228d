"""What the tests against real programs share."""

from collections.abc import Callable
from pathlib import Path

import pytest

import peers


@pytest.fixture(scope="session")
def kubectl() -> Callable[[str], Path]:
    """`kubectl("1.37")`: the path of that kubectl; fails the test when it was not fetched."""
    return peers.kubectl
