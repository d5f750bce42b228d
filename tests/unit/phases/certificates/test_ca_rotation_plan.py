"""phases/certificates/ca_rotation_plan.py: who is in the way of what, and the plain words."""

from __future__ import annotations

import datetime as dt

import msgspec
import pytest

from kubevouch.agent.trust_bundle import bundle_hash
from kubevouch.phases.certificates.ca_rotation_plan import (
    Facts,
    Phase,
    Rotation,
    hanging,
    laggards,
    standing,
    unknown_before,
)
from kubevouch.pki import keys
from kubevouch.pki.authority import CertificateAuthority, create_authority, issue_leaf
from kubevouch.pki.control_plane import ADMIN, kubelet
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.records.certificate_ledger import IssuedCertificate, entry_of

NOW = dt.datetime(2031, 3, 1, 12, tzinfo=dt.UTC)
DAY = dt.timedelta(days=1)
SIGNER = "kubernetes.io/kube-apiserver-client-kubelet"


def _authority(name: str) -> CertificateAuthority:
    return create_authority(name, keys.generate(KeyAlgorithm.ECDSA_P256), now=NOW - DAY)


FORMER, NEXT = _authority("kubernetes"), _authority("kubernetes-20310301")
BOTH = bundle_hash((FORMER.certificate, NEXT.certificate))
ALONE = bundle_hash((FORMER.certificate,))


def rotation(phase: Phase, **changes: object) -> Rotation:
    made = Rotation(
        phase=phase,
        since=NOW,
        began=NOW,
        former=FORMER.certificate.pem().decode(),
        next=NEXT.certificate.pem().decode(),
        renewal_begins=NOW,
    )
    return msgspec.structs.replace(made, **changes)


def issued(name: str, by: CertificateAuthority) -> IssuedCertificate:
    leaf = issue_leaf(by, kubelet(name), keys.generate(KeyAlgorithm.ECDSA_P256), now=NOW)
    return entry_of(SIGNER, leaf)


def facts(*certificates: IssuedCertificate, published: str = BOTH, **machines: str) -> Facts:
    return Facts(machines, certificates, {}, published, NOW - 2 * DAY)


def test_who_does_not_trust_both_holds_up_the_next_ca() -> None:
    seen = facts(a=BOTH, b=ALONE, c="")
    late = laggards(rotation(Phase.DISTRIBUTING), seen)
    assert [each.name for each in late] == ["b", "c"]
    assert late[0].why.startswith(f"trusts {ALONE[:19]}…") and late[1].why == "has not reported what it trusts"
    assert [each.name for each in laggards(rotation(Phase.DISTRIBUTING, given_up=("b",)), seen)] == ["c"]


@pytest.mark.parametrize(
    ("published", "held_up"),
    [(BOTH, False), ("", False), (ALONE, True), ("unreadable", True)],
    ids=["both", "none", "alone", "unreadable"],
)
def test_pods_hold_it_up_where_a_bundle_is_published(published: str, held_up: bool) -> None:
    late = laggards(rotation(Phase.DISTRIBUTING), facts(published=published))
    assert [each.name for each in late] == (["pods"] if held_up else [])


@pytest.mark.parametrize("backwards", [False, True])
def test_a_live_certificate_of_the_ca_that_goes_is_in_the_way(backwards: bool) -> None:
    leaving, coming = (NEXT, FORMER) if backwards else (FORMER, NEXT)
    seen = facts(issued("a", leaving), issued("b", coming), a=BOTH, b=BOTH)
    going = rotation(Phase.RENEWING, backwards=backwards)
    assert [each.name for each in hanging(going, seen, NOW)] == ["a"]
    assert hanging(going, seen, NOW)[0].why.startswith(
        "has a kube-apiserver-client-kubelet certificate of the CA that goes, until 2032-"
    )


def test_what_has_ended_is_not_in_the_way_but_its_machine_is() -> None:
    seen = facts(issued("a", FORMER), a=BOTH)
    late = hanging(rotation(Phase.RENEWING), seen, NOW + 400 * DAY)
    assert [each.why for each in late] == ["has a certificate that the ledger does not know"]
    assert hanging(rotation(Phase.RENEWING, given_up=("a",)), seen, NOW) == []


def test_nobody_knows_without_a_key_identifier() -> None:
    entry = msgspec.structs.replace(issued("a", NEXT), authority="")
    assert [each.name for each in hanging(rotation(Phase.RENEWING), facts(entry, a=BOTH), NOW)] == ["a"]


def test_files_and_the_commands_own_credential_count() -> None:
    leaf = issue_leaf(FORMER, ADMIN, keys.generate(KeyAlgorithm.ECDSA_P256), now=NOW)
    other = issue_leaf(NEXT, ADMIN, keys.generate(KeyAlgorithm.ECDSA_P256), now=NOW)
    seen = Facts({}, (), {"admin.conf": leaf, "scheduler.conf": other}, "", NOW - 2 * DAY)
    assert [each.name for each in hanging(rotation(Phase.RENEWING), seen, NOW)] == ["admin.conf"]
    assert hanging(rotation(Phase.RENEWING), seen, NOW + 400 * DAY) == []


def test_a_server_that_shows_its_former_certificate_is_in_the_way() -> None:
    seen = Facts({}, (), {}, "", NOW - 2 * DAY, ["apiserver at 10.0.0.1:6443"])
    assert [each.name for each in hanging(rotation(Phase.RENEWING), seen, NOW)] == ["apiserver at 10.0.0.1:6443"]


def test_without_a_ledger_nothing_is_known() -> None:
    seen = Facts({}, (), {}, "", None)
    assert [each.name for each in hanging(rotation(Phase.RENEWING), seen, NOW)] == ["ledger"]


def test_a_ledger_younger_than_the_ca_is_told() -> None:
    going = rotation(Phase.RENEWING)
    assert unknown_before(going, Facts({}, (), {}, "", NOW - 2 * DAY)) == ""
    assert "before 2031-03-01T12:00:00Z" in unknown_before(going, Facts({}, (), {}, "", NOW))


def test_the_order_to_renew() -> None:
    order = rotation(Phase.RENEWING).order
    assert order is not None and order.authority == f"sha256:{NEXT.certificate.fingerprint().hex()}"
    back = rotation(Phase.RENEWING, backwards=True).order
    assert back is not None and back.authority == f"sha256:{FORMER.certificate.fingerprint().hex()}"
    assert rotation(Phase.RENEWING, paused=True).order is None
    assert all(rotation(each).order is None for each in Phase if each is not Phase.RENEWING)


@pytest.mark.parametrize(
    ("phase", "trusted"),
    [
        (Phase.PREPARING, ()),
        (Phase.DISTRIBUTING, (FORMER, NEXT)),
        (Phase.RENEWING, (NEXT, FORMER)),
        (Phase.FINISHING, (NEXT,)),
        (Phase.FINISHED, (NEXT,)),
        (Phase.WITHDRAWING, (FORMER,)),
        (Phase.WITHDRAWN, (FORMER,)),
    ],
)
def test_what_each_phase_trusts(phase: Phase, trusted: tuple[CertificateAuthority, ...]) -> None:
    assert rotation(phase).bundle == tuple(each.certificate for each in trusted)


@pytest.mark.parametrize(
    ("state", "words", "ready", "command"),
    [
        (None, "no CA rotation has been started", 0, "start"),
        (rotation(Phase.PREPARING), "the next CA is being made", 0, "start"),
        (rotation(Phase.DISTRIBUTING), "both CAs are published, the former one signs", 1, "start"),
        (rotation(Phase.DISTRIBUTING, paused=True), "paused: both CAs are published, the former", 1, "start"),
        (rotation(Phase.RENEWING), "both CAs are trusted, the next one signs, and machines", 1, "finish"),
        (rotation(Phase.RENEWING, backwards=True), "both CAs are trusted, the former one signs", 1, "finish"),
        (rotation(Phase.FINISHING), "one CA is being given up", 2, "finish"),
        (rotation(Phase.WITHDRAWING), "the next CA is being withdrawn", 0, "rollback"),
        (rotation(Phase.FINISHED), "the rotation is over, one CA is trusted", 2, ""),
        (rotation(Phase.WITHDRAWN, paused=True), "the rotation was rolled back", 2, ""),
    ],
)
def test_the_words(state: Rotation | None, words: str, ready: int, command: str) -> None:
    found = standing(state, facts(issued("a", FORMER), issued("b", NEXT), a=BOTH, b=ALONE), NOW)
    assert found.words.startswith(words)
    assert (found.ready, found.total) == (ready, 2)
    assert found.command == (f"kubevouch ca rotate {command}" if command else "")
