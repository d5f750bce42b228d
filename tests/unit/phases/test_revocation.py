"""Who must not be cut off by a revocation."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from kubevouch import wellknown
from kubevouch.api.kubevouch_v1alpha1.catalog import CERTIFICATE_REVOCATIONS
from kubevouch.api.kubevouch_v1alpha1.certificate_revocations import CertificateRevocation
from kubevouch.ledger.entries import ISSUED, Entry, with_certificate
from kubevouch.ledger.memory import MemoryLedger
from kubevouch.phases import revocation
from kubevouch.phases.known_certificates import Issued
from kubevouch.phases.revocation import CutsOffError
from kubevouch.pki import authority, keys
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.revocation.known import KnownCertificates
from kubevouch.server.bootstrap import own_kinds
from kubevouch.testing.cluster import Cluster

HOUR = dt.timedelta(hours=1)


def revoked(name: str, **targets: Any) -> CertificateRevocation:
    tree = {"metadata": {"name": name}, "spec": {"reason": "superseded", "revoked": targets}}
    obj = CERTIFICATE_REVOCATIONS.codec.from_tree(tree).value
    assert isinstance(obj, CertificateRevocation)
    return obj


def administrator(ca: authority.CertificateAuthority, name: str, now: dt.datetime) -> Certificate:
    spec = authority.LeafSpec(common_name=name, organizations=(wellknown.CLUSTER_ADMINS_GROUP,),
                              purposes=("client auth",))  # fmt: skip
    return authority.issue_leaf(ca, spec, keys.generate(KeyAlgorithm.ECDSA_P256), now=now - HOUR)


def test_the_last_administrator_is_not_revoked_in_two_steps() -> None:
    with Cluster(controllers=()) as cluster:
        client, now = cluster.server.client, cluster.clock.now()
        cluster.run(own_kinds.ensure(client))
        ca = authority.create_authority("kubernetes", keys.generate(KeyAlgorithm.ECDSA_P256), now=now - HOUR)
        ledger = MemoryLedger()
        for name in ("adm-a", "adm-b"):
            entry = with_certificate(Entry(kind=ISSUED, at=now - HOUR), administrator(ca, name, now))
            cluster.run(ledger.append(entry))
        issued = Issued(KnownCertificates.of(ledger), "test")

        def judge(*objects: CertificateRevocation, own: tuple[Certificate, ...] = ()) -> None:
            plan = cluster.run(revocation.planned(issued, objects, now=now))
            cluster.run(revocation.verify_an_admin_is_left(client, issued, plan, own, now=now))

        first, second = revoked("first", users=["adm-a"]), revoked("second", users=["adm-b"])
        judge(first)
        with pytest.raises(CutsOffError):
            judge(first, second)
        cluster.run(client.create(CERTIFICATE_REVOCATIONS, first))
        with pytest.raises(CutsOffError, match="revokes adm-b, the last administrator"):
            judge(second)
        judge(second, own=(administrator(ca, "adm-c", now),))
        # Nor does one count who is revoked and asks nevertheless.
        with pytest.raises(CutsOffError, match="revokes adm-b"):
            judge(second, own=(administrator(ca, "adm-a", now),))
        judge(revoked("third", users=["nobody"]), own=(administrator(ca, "adm-a", now),))
