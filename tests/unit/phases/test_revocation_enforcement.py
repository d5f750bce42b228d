"""What a command says of revocations, beside an API server of ours and beside what an object says."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kubevouch.api.kubevouch_v1alpha1.catalog import CERTIFICATE_REVOCATIONS
from kubevouch.api.kubevouch_v1alpha1.certificate_revocations import CertificateRevocation
from kubevouch.ledger.memory import MemoryLedger
from kubevouch.phases import node_removal
from kubevouch.phases.revocation_enforcement import InForce, look, of_node, settled, written
from kubevouch.revocation.known import KnownCertificates
from kubevouch.server.bootstrap import own_kinds
from kubevouch.testing.cluster import Cluster


def revoked(*conditions: dict[str, str]) -> CertificateRevocation:
    tree: dict[str, Any] = {
        "metadata": {"name": "r1"}, "spec": {"reason": "superseded", "revoked": {"users": ["alice"]}},
        "status": {"conditions": list(conditions)},
    }  # fmt: skip
    obj = CERTIFICATE_REVOCATIONS.codec.from_tree(tree).value
    assert isinstance(obj, CertificateRevocation)
    return obj


def in_force(status: str, reason: str = "R") -> dict[str, str]:
    return {"type": "InForce", "status": status, "reason": reason, "message": "seen"}


def test_a_server_of_ours_refuses_before_anybody_has_written_it() -> None:
    with Cluster(controllers=()) as cluster:
        client, known = cluster.server.client, KnownCertificates.of(MemoryLedger())
        cluster.run(own_kinds.ensure(client))
        made = cluster.run(client.create(CERTIFICATE_REVOCATIONS, revoked()))
        (told,) = cluster.run(settled(client, [made], known, cluster.clock))
        assert told.is_true and told.by_own_server and told.tree()["reason"] == "Refused"
        assert cluster.run(look(client, made, known, cluster.clock)).is_true
        cluster.run(node_removal.remove(client, "worker-1"))
        (locked,) = cluster.run(of_node(client, "worker-1", cluster.clock))
        assert locked.is_true and locked.by_own_server


def test_what_nobody_has_written_is_not_known() -> None:
    told = written(revoked())
    assert (told.status, told.reason, told.is_true) == ("Unknown", "NotAsked", False)
    assert told.written == "not written; kubevouch controllers writes it"
    told = written(revoked(in_force("False", "NothingEnforces")))
    assert (told.status, told.is_true, told.written) == ("False", False, "InForce=False (NothingEnforces)")
    assert written(revoked(in_force("True"))).is_true


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ((), False),
        ((in_force("True"),), True),
        ((in_force("False"),), False),
        ((in_force("Unknown", "NotAsked"),), False),
        # The file of the certificate is here, and the controllers have its fingerprint only.
        ((in_force("Unknown", "HolderUnknown"),), True),
    ],
)
def test_it_is_waited_until_the_object_says_the_same(said: tuple[dict[str, str], ...], expected: bool) -> None:
    conditions = revoked(*said).status.conditions
    seen = InForce("r1", "True", "Refused", "", in_object=conditions[0] if conditions else None)
    assert seen.is_settled is expected
    assert msgspec.structs.replace(seen, by_own_server=True).is_settled
