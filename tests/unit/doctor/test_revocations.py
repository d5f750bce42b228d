"""What the doctor says of revocations."""

from __future__ import annotations

from typing import Any

from kubevouch.api.kubevouch_v1alpha1.catalog import CERTIFICATE_REVOCATIONS
from kubevouch.api.kubevouch_v1alpha1.certificate_revocations import CertificateRevocation
from kubevouch.doctor.findings import Code
from kubevouch.doctor.revocations import judge, standing
from kubevouch.doctor.status import Severity, severity_of
from kubevouch.phases.revocation_enforcement import written


def revoked(name: str, **conditions: str) -> CertificateRevocation:
    tree: dict[str, Any] = {
        "metadata": {"name": name, "creationTimestamp": f"2026-11-0{len(name)}T00:00:00Z"},
        "spec": {"reason": "keyCompromise", "revoked": {"users": ["alice"]}},
        "status": {"conditions": [
            {"type": key, "status": value, "reason": "R", "message": f"seen {value}"}
            for key, value in conditions.items()
        ]},
    }  # fmt: skip
    obj = CERTIFICATE_REVOCATIONS.codec.from_tree(tree).value
    assert isinstance(obj, CertificateRevocation)
    return obj


def test_what_is_not_seen_to_be_refused_is_a_finding() -> None:
    told = map(written, (revoked("a", InForce="True"), revoked("b", InForce="False"), revoked("c")))
    found = list(judge(told))
    assert [each.code for each in found] == [Code.REVOCATION_NOT_ENFORCED] * 2
    assert found[0].cause == "revocation b, R: seen False" and found[0].fix == "kubevouch revoke show b"
    assert "no controller has looked at it" in found[1].cause
    assert severity_of(Code.REVOCATION_NOT_ENFORCED) is Severity.NOW


def test_what_has_ended_is_none_and_the_newest_comes_first() -> None:
    ended = revoked("ended", InForce="False", Ended="True")
    left = standing([revoked("a"), ended, revoked("bb"), revoked("ccc", Ended="False")])
    assert [each.metadata.name for each in left] == ["ccc", "bb", "a"]
