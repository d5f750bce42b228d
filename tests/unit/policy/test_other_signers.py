"""policy/other_signers.py: who else approves and signs, and whose turn it is."""

from __future__ import annotations

import datetime as dt

import pytest

from controller_world import fixture
from kubevouch import wellknown
from kubevouch.api.certificates_v1 import (
    CertificateSigningRequest,
    CertificateSigningRequestCondition,
    CertificateSigningRequestSpec,
    CertificateSigningRequestStatus,
)
from kubevouch.api.coordination_v1 import LeaseSpec
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.machinery.text.times import MicroTime, Time
from kubevouch.pki import recognizers
from kubevouch.pki.policy import BACKDATE
from kubevouch.pki.x509 import x509_certificate
from kubevouch.policy import other_signers
from kubevouch.policy.other_signers import PROBATION_SECONDS, RETURN_SECONDS, Elsewhere, Turn, Turns

NOW = dt.datetime(2026, 11, 22, 12, tzinfo=dt.UTC)
_NAME = wellknown.KUBELET_SERVING_SIGNER


def _csr(
    *,
    certificate: bytes = b"",
    annotations: dict[str, str] | None = None,
    message: str = "",
    reason: str = "AutoApproved",
) -> CertificateSigningRequest:
    approved = CertificateSigningRequestCondition(
        type="Approved", status="True", reason=reason, message=message, last_update_time=Time.of(NOW)
    )
    return CertificateSigningRequest(
        metadata=ObjectMeta(name="a", uid="u", annotations=annotations or {}),
        spec=CertificateSigningRequestSpec(signer_name=_NAME),
        status=CertificateSigningRequestStatus(conditions=[approved], certificate=certificate),
    )


def test_a_certificate_is_ours_by_the_mark_of_its_own_octets() -> None:
    mark = {wellknown.SIGNED_ANNOTATION: other_signers.signed_mark(b"x")}
    assert not other_signers.is_signed_elsewhere(_csr())
    assert not other_signers.is_signed_elsewhere(_csr(certificate=b"x", annotations=mark))
    assert other_signers.is_signed_elsewhere(_csr(certificate=b"x"))
    assert other_signers.is_signed_elsewhere(_csr(certificate=b"y", annotations=mark))


@pytest.mark.parametrize("message", [recognizers.NODE_CLIENT.message, recognizers.SELF_NODE_CLIENT.message])
def test_an_approval_is_kube_controller_managers_by_its_words_and_the_missing_mark(message: str) -> None:
    mark = {wellknown.APPROVED_ANNOTATION: "u"}
    assert other_signers.approved_by_manager_at(_csr(message=message)) == NOW
    assert other_signers.approved_by_manager_at(_csr(message=message, annotations=mark)) is None
    # Whoever creates a request does not know its uid.
    guessed = {wellknown.APPROVED_ANNOTATION: "true"}
    assert other_signers.approved_by_manager_at(_csr(message=message, annotations=guessed)) == NOW
    assert other_signers.approved_by_manager_at(_csr(message=message, reason="KubectlApprove")) is None
    assert other_signers.approved_by_manager_at(_csr(message="by somebody")) is None


def test_a_certificate_was_made_when_it_is_dated_back_from_and_not_before_its_approval() -> None:
    text = fixture("ca-ec.crt")
    made = x509_certificate.parse_pem(text).not_before + BACKDATE
    assert other_signers.signed_at(_csr(certificate=text)) == max(made, NOW)
    assert other_signers.signed_at(_csr(certificate=b"nonsense")) == NOW


def test_what_others_did_is_counted_by_name_with_the_last_time() -> None:
    found = other_signers.signed_elsewhere((_csr(certificate=b"x"), _csr(certificate=b"y"), _csr()), {_NAME})
    assert found == {_NAME: Elsewhere(2, NOW)}
    assert other_signers.signed_elsewhere((_csr(certificate=b"x"),), {"a.b/c"}) == {}
    assert other_signers.approved_by_manager(()) is None
    seen = (_csr(message=recognizers.NODE_CLIENT.message), _csr())
    assert other_signers.approved_by_manager(seen) == Elsewhere(1, NOW)


def test_the_second_of_a_request_holds_all_that_was_done_in_it() -> None:
    done = Elsewhere(1, NOW)
    assert done.since(NOW + dt.timedelta(seconds=0.9))
    assert not done.since(NOW + dt.timedelta(seconds=1))
    assert not done.since(None)


def test_a_name_that_nobody_else_has_is_signed_at_once() -> None:
    turns = Turns({_NAME})
    assert turns.wait(_NAME, "u", 0.0) == 0.0
    assert turns.wait("a.b/c", "u", 0.0) == 0.0


def test_once_the_manager_has_come_the_first_request_of_its_names_waits_and_no_other() -> None:
    turns = Turns({_NAME})
    turns.manager_came()
    assert turns.wait("a.b/c", "u", 0.0) == 0.0
    assert turns.wait(_NAME, "u", 0.0) == PROBATION_SECONDS
    assert turns.wait(_NAME, "w", 9.0) == PROBATION_SECONDS
    assert turns.wait(_NAME, "u", PROBATION_SECONDS) == 0.0
    # It has shown that nobody signs.
    assert turns.wait(_NAME, "w", PROBATION_SECONDS) == 0.0
    turns.manager_came()
    assert turns.wait(_NAME, "x", 20.0) == PROBATION_SECONDS


def test_what_somebody_else_has_signed_is_theirs_until_a_request_has_lain_for_long() -> None:
    turns = Turns({_NAME})
    assert turns.signed_elsewhere(_NAME)
    assert turns.wait(_NAME, "u", 0.0) == RETURN_SECONDS
    # They sign on, and who waits begins anew; that they came back shortens nothing.
    assert not turns.signed_elsewhere(_NAME)
    turns.manager_came()
    assert turns.of(_NAME) is Turn.ASIDE
    assert turns.wait(_NAME, "u", 100.0) == RETURN_SECONDS
    assert turns.wait(_NAME, "u", 100.0 + RETURN_SECONDS) == 0.0
    assert turns.of(_NAME) is Turn.OURS
    assert turns.signed_elsewhere(_NAME)


def test_a_request_that_is_gone_and_comes_again_waits_from_its_beginning() -> None:
    turns = Turns()
    turns.signed_elsewhere("a.b/c")
    turns.wait("a.b/c", "u", 0.0)
    turns.forget("a.b/c", "u")
    turns.forget("a.b/c", "u")
    assert turns.wait("a.b/c", "u", 10.0) == RETURN_SECONDS


def _lease(holder: str = "cp_1", *, acquired: int = 0, renewed: int = 0, transitions: int = 0) -> LeaseSpec:
    def at(seconds: int) -> MicroTime:
        return MicroTime.of(NOW + dt.timedelta(seconds=seconds))

    return LeaseSpec(
        holder_identity=holder, lease_duration_seconds=15, acquire_time=at(acquired), renew_time=at(renewed),
        lease_transitions=transitions,
    )  # fmt: skip


def test_a_lease_begins_with_another_holder_another_term_or_after_a_silence() -> None:
    before = _lease(renewed=2)
    assert other_signers.begins(None, before)
    assert not other_signers.begins(before, _lease(renewed=17))
    assert other_signers.begins(before, _lease(renewed=18))
    assert other_signers.begins(before, _lease("cp_2", renewed=4))
    assert other_signers.begins(before, _lease(acquired=3, renewed=4))
    assert other_signers.begins(before, _lease(renewed=4, transitions=1))
    assert other_signers.begins(LeaseSpec(holder_identity="cp_1"), LeaseSpec(holder_identity="cp_1"))
    assert not other_signers.begins(before, LeaseSpec(holder_identity=""))
