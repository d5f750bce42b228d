"""Reads of cluster-info without a credential, more than any fleet needs: answered up to a budget, then told to wait."""

from __future__ import annotations

from pathlib import Path

import pytest

from asynctest import async_test
from kubevouch.server.flow_control.public_reads import PublicReads
from kubevouch.server.flow_control.sources import SourceBudget
from served_world import served

CLUSTER_INFO = "/api/v1/namespaces/kube-public/configmaps/cluster-info"
REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
SLOW = 0.01  # a second has no part in what is counted


@pytest.mark.parametrize(("of_source", "of_all"), [(3, 100), (100, 3)])
def test_a_flood_of_cluster_info_is_told_to_wait(tmp_path: Path, of_source: int, of_all: int) -> None:
    @async_test
    async def scenario() -> None:
        async with served(tmp_path) as at, at.session() as flood, at.session(at.token) as machine:
            reads = PublicReads(SourceBudget(SLOW, of_source), SourceBudget(SLOW, of_all))
            at.server.api.flow_control.public_reads = reads
            for _ in range(3):
                assert (await flood.get(CLUSTER_INFO)).status == 200
            refused = await flood.get(CLUSTER_INFO)
            assert refused.status == 429
            assert 90 <= int(refused.headers["Retry-After"]) <= 100
            assert (await refused.json())["reason"] == "TooManyRequests"
            # Probes, and whoever has a credential, do not pay for it.
            assert (await flood.get("/livez")).status == 200
            assert (await machine.get("/version")).status == 200
            # A machine of the same address that asks for a certificate earns what it has read, whatever it is told.
            assert (await machine.post(REQUESTS, json={"kind": "CertificateSigningRequest"})).status >= 400
            assert (await flood.get(CLUSTER_INFO)).status == 200
            assert reads.refused == 1

    scenario()
