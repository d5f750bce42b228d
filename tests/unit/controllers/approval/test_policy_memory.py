"""controllers/approval/policy_memory.py: what is remembered, and what makes it count no more."""

from __future__ import annotations

import datetime as dt
from typing import Any

import msgspec
import pytest

from kubevouch.api.kubevouch_v1alpha1.certificate_approvals import CertificateApproval, CertificateApprovalSpec
from kubevouch.api.kubevouch_v1alpha1.certificate_request_policies import (
    REQUIRE,
    CertificateRequestPolicy,
    CertificateRequestPolicySpec,
    PolicySelector,
    PolicyValidation,
)
from kubevouch.controllers.approval import policy_memory
from kubevouch.controllers.approval.policy_memory import FAILURE_LASTS, PolicyMemory
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.policy.certificate_policies import CompiledPolicy, Known, compile_policy
from kubevouch.policy.constraints import Records
from kubevouch.policy.expressions import Surroundings
from kubevouch.policy.verdict import MAX_STEP_BYTES, Step, StepResult

NOW = dt.datetime(2026, 11, 23, 12, tzinfo=dt.UTC)
KNOWN = Known(around=Surroundings(now=NOW, node={"metadata": {"name": "n1"}}))
FAILED = [(Step("validations[0]", StepResult.ERROR, "too much"),)]
MET = [(Step("validations[0]", StepResult.MET, "true"),)]


def policy(expression: str = "x509.dnsNames.size() > 0") -> CompiledPolicy:
    spec = CertificateRequestPolicySpec(
        effect=REQUIRE,
        selector=PolicySelector(signer_names=["*"]),
        validations=[PolicyValidation(expression=expression)],
    )
    return compile_policy(CertificateRequestPolicy(metadata=ObjectMeta(name="p"), spec=spec))


def later(seconds: float, **around: Any) -> Known:
    moved = msgspec.structs.replace(KNOWN.around, now=NOW + dt.timedelta(seconds=seconds), **around)
    return msgspec.structs.replace(KNOWN, around=moved)


def approval() -> CertificateApproval:
    spec = CertificateApprovalSpec(request_name="x", request_uid="u", approver="carol", groups=[], decision="Approve")
    return CertificateApproval(metadata=ObjectMeta(name="a", uid="1", resource_version="7"), spec=spec)


def test_what_is_unchanged_is_remembered_whatever_the_time() -> None:
    memory, mine = PolicyMemory(), policy()
    memory.keep("u", [mine], KNOWN, MET)
    assert memory.find("u", [mine], later(86_400)) == MET
    assert memory.find("other", [mine], KNOWN) is None


@pytest.mark.parametrize(
    "known",
    [
        later(0, node={"metadata": {"name": "n1", "labels": {"a": "b"}}}),
        later(0, machine={"source": "file"}),
        later(0, evidence={"token": "abcdef"}),
        msgspec.structs.replace(KNOWN, records=Records(approved={3600: 1})),
        msgspec.structs.replace(KNOWN, approvals=[approval()]),
    ],
)
def test_whatever_a_policy_looks_at_makes_it_be_looked_at_again(known: Known) -> None:
    memory, mine = PolicyMemory(), policy()
    memory.keep("u", [mine], KNOWN, FAILED)
    assert memory.find("u", [mine], known) is None
    assert memory.find("u", [mine], KNOWN) is None, "it has changed twice"


def test_a_policy_that_came_went_or_changed() -> None:
    memory, mine = PolicyMemory(), policy()
    for others in ([policy()], [mine, policy()], []):
        memory.keep("u", [mine], KNOWN, FAILED)
        assert memory.find("u", others, KNOWN) is None


def test_where_the_time_counts_a_failure_is_remembered_for_a_while_and_nothing_else_is() -> None:
    memory, timed = PolicyMemory(), policy("now > request.created")
    memory.keep("u", [timed], KNOWN, MET)
    assert memory.find("u", [timed], KNOWN) is None
    memory.keep("u", [timed], KNOWN, FAILED)
    lasts = FAILURE_LASTS.total_seconds()
    assert memory.find("u", [timed], later(lasts - 1)) == FAILED
    assert memory.find("u", [timed], later(lasts)) is None


def test_texts_are_cut_and_the_oldest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy_memory, "MAX_BYTES", 8 * 1024)
    memory, mine = PolicyMemory(), policy()
    long = [(Step("validations[0]", StepResult.ERROR, "x" * 5000, "y" * 10_000),)]
    for number in range(20):
        memory.keep(str(number), [mine], KNOWN, long)
        memory.keep(str(number), [mine], KNOWN, long)
    ((kept,),) = memory.find("19", [mine], KNOWN) or ()
    assert len(kept.got.encode()) <= MAX_STEP_BYTES >= len(kept.expected.encode())
    remembered = [number for number in range(20) if memory.find(str(number), [mine], KNOWN)]
    assert remembered == [15, 16, 17, 18, 19], "1,536 bytes each"
