"""A machine's certificate and key in other hands, and what revokes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import identity_world as world
from kubevouch.api.kubevouch_v1alpha1.catalog import CERTIFICATE_REVOCATIONS
from kubevouch.pki import keys
from kubevouch.pki.x509 import x509_certificate
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.revocation.revocations import authority_id
from kubevouch.testing.cluster import Cluster
from wire import Wire


class Thief:
    """A machine's certificate and key in other hands."""

    def __init__(self, cluster: Cluster, folder: Path, name: str = "worker-1", key: Any = None) -> None:
        key = key or world.new_key()
        posted = world.ask(cluster, world.token_user(), world.node_request(name, key))
        assert world.outcome(cluster, posted) == "Approved,Issued"
        issued = cluster.get("CertificateSigningRequest", posted).status.certificate
        pair = folder / f"{posted}.pem"
        pair.write_bytes(issued + keys.to_pem(key))
        self.certificate: Certificate = x509_certificate.parse_pem(issued)
        self.wire = Wire(int(cluster.url.rpartition(":")[2]), cluster.pki.ca_certificate, pair)
        self.name = name

    def looks(self) -> int:
        return self.wire.request("GET", f"/api/v1/nodes/{self.name}").code


def manifest(name: str, reason: str = "keyCompromise", **revoked: Any) -> dict[str, Any]:
    return {
        "apiVersion": CERTIFICATE_REVOCATIONS.api_version,
        "kind": CERTIFICATE_REVOCATIONS.kind,
        "metadata": {"name": name},
        "spec": {"reason": reason, "revoked": revoked},
    }


def serial_of(cluster: Cluster, certificate: Certificate) -> list[dict[str, Any]]:
    authority = x509_certificate.parse_pem(cluster.pki.ca_certificate)
    return [{"issuer": authority_id(authority).hex(), "numbers": [f"{certificate.serial:x}"]}]
