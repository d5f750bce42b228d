from __future__ import annotations

from collections.abc import Iterator

import pytest

from kubevouch.testing import Cluster
from unit.server.handlers.api import API


@pytest.fixture(scope="package")
def api() -> Iterator[API]:
    """One cluster for all; each test has names of its own there."""
    with Cluster() as cluster:
        yield API(cluster)
