"""What the tests against real programs share."""

from collections.abc import Callable
from pathlib import Path

import pytest

import peers


@pytest.fixture(scope="session")
def kubectl() -> Callable[[str], Path]:
    """`kubectl("1.37")`: the path of that kubectl; fails the test when it was not fetched."""
    return peers.kubectl


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Other people's clients leave sockets to the garbage collector, which may find them in any later test."""
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"))
