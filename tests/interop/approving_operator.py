"""A small operator on kopf: approves requests for one signer whose label names a known team, and denies the others.

Run by test_kopf.py as `kopf run --standalone approving_operator.py`.
"""

from __future__ import annotations

from typing import Any

import kopf
import kubernetes_asyncio.client
import kubernetes_asyncio.config

SIGNER = "example.com/dolphins"
TEAMS = {"red", "blue"}
CONDITION = kubernetes_asyncio.client.V1CertificateSigningRequestCondition


@kopf.on.create("certificates.k8s.io", "v1", "certificatesigningrequests", field="spec.signerName", value=SIGNER)
async def decide(name: str, body: kopf.Body, labels: kopf.Labels, **_: Any) -> None:
    type_ = "Approved" if labels.get("team") in TEAMS else "Denied"
    await kubernetes_asyncio.config.load_kube_config()
    async with kubernetes_asyncio.client.ApiClient() as api:
        requests = kubernetes_asyncio.client.CertificatesV1Api(api)
        found = await requests.read_certificate_signing_request(name)
        found.status.conditions = [CONDITION(type=type_, status="True", reason="Team", message="by the operator")]
        await requests.replace_certificate_signing_request_approval(name, found)
    kopf.info(body, reason=type_, message="decided by team")
