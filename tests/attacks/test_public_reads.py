"""Reads of cluster-info without a credential, more than any fleet needs: answered up to a budget, then told to wait."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from asynctest import async_test
from join_requests import KEY
from kubevouch.pki.x509.request_builder import build_request
from kubevouch.pki.x509.subject import Subject
from kubevouch.server.flow_control.public_reads import PublicReads
from kubevouch.server.flow_control.sources import SourceBudget
from served_world import served

CLUSTER_INFO = "/api/v1/namespaces/kube-public/configmaps/cluster-info"
REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
SLOW = 0.01  # a second has no part in what is counted


def csr() -> dict[str, Any]:
    request = build_request(KEY, Subject(common_name="system:node:a", organizations=("system:nodes",)))
    spec = {
        "request": base64.b64encode(request).decode(),
        "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
        "usages": ["digital signature", "client auth"],
    }
    kind = {"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest"}
    return kind | {"metadata": {"name": "a"}, "spec": spec}


@pytest.mark.parametrize(("of_source", "of_all"), [(3, 100), (100, 3)])
def test_a_flood_of_cluster_info_is_told_to_wait(tmp_path: Path, of_source: int, of_all: int) -> None:
    @async_test
    async def scenario() -> None:
        async with served(tmp_path) as at, at.session() as flood, at.session(at.token) as machine:
            none = SourceBudget(SLOW, 0)
            reads = PublicReads(SourceBudget(SLOW, of_source), SourceBudget(SLOW, of_all), none)
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
            # A machine of the same address that asks for a certificate earns what it has read, once it is taken.
            for wrong in ({"kind": "CertificateSigningRequest"}, csr() | {"spec": {}}):
                assert (await machine.post(REQUESTS, json=wrong)).status >= 400
            assert (await machine.post(f"{REQUESTS}?dryRun=All", json=csr())).status == 201
            assert (await flood.get(CLUSTER_INFO)).status == 429
            assert (await machine.post(REQUESTS, json=csr())).status == 201
            assert (await flood.get(CLUSTER_INFO)).status == 200
            assert reads.refused == 2

    scenario()
