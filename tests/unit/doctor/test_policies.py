"""doctor/policies.py: a policy that approves nothing is found, with the command that helps."""

from __future__ import annotations

import msgspec
import pytest

from kubevouch.api.kubevouch_v1alpha1.certificate_request_policies import (
    CertificateRequestPolicy,
    CertificateRequestPolicyStatus,
)
from kubevouch.api.meta_v1 import Condition
from kubevouch.doctor.findings import Code
from kubevouch.doctor.policies import judge
from kubevouch.machinery.meta import ObjectMeta


@pytest.mark.parametrize(
    ("status", "code"),
    [("True", None), ("False", Code.POLICY_NOT_AUTHORIZED), ("Unknown", Code.POLICY_WRITER_UNKNOWN)],
)
def test_each_finding(status: str, code: Code | None) -> None:
    ready = Condition(type="Ready", status="False", message="broken")
    said = CertificateRequestPolicyStatus(
        conditions=[ready, Condition(type="Authorized", status=status, message="why")]
    )
    policy = msgspec.structs.replace(CertificateRequestPolicy(metadata=ObjectMeta(name="p")), status=said)
    found = [(each.code, each.cause, each.fix) for each in judge([policy])]
    fix = "kubectl annotate --overwrite certificaterequestpolicy p kubevouch.io/writer=me"
    assert found == ([] if code is None else [(code, "policy p: why", fix)])
