"""The pytest plug-in: a fixture that starts a real, truthful API server for a test.

pytest loads it through the entry point ``pytest11``; the server is imported when a test asks for the fixture.

    def test_it(kubevouch_cluster):
        kubevouch_cluster.apply(...)

    @pytest.mark.kubevouch(https=True, controllers=("*",))
    def test_that(kubevouch_cluster): ...
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from kubevouch.testing import Cluster


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "kubevouch(**settings): how kubevouch.testing.Cluster is to be made.")


@pytest.fixture
def kubevouch_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A ``kubevouch.testing.Cluster``, running; the marker ``kubevouch`` gives it arguments."""
    from kubevouch.testing import Cluster

    settings: dict[str, object] = {}
    for marker in reversed(list(request.node.iter_markers("kubevouch"))):
        settings.update(marker.kwargs)
    with Cluster(**settings) as cluster:  # type: ignore[arg-type]
        yield cluster
