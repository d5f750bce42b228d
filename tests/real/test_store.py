"""The store on the etcd that Kubernetes' programs come with; the usual suite has an older one.

What etcd says of progress counts from 3.5.13 on, and is not asked for before.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import aio
from etcd_server import EtcdServer
from integration import test_store_etcd as older
from integration.test_store_etcd_faults import others_write
from real_cluster import program


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdServer]:
    folder = tmp_path_factory.mktemp("etcd")
    with EtcdServer(folder, arguments=("--max-request-bytes=3145728",), program=program("etcd")) as server:
        yield server


class TestStore(older.TestEtcdStore):
    """The same as on the etcd of the usual suite."""


def test_its_word_about_progress_counts(etcd: EtcdServer) -> None:
    aio.run(others_write(etcd, tells=True))
