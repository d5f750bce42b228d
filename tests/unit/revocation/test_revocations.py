"""What is revoked, by every way to name it, and that nothing else is."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from kubevouch.api.core_v1 import ConfigMap
from kubevouch.api.kubevouch_v1alpha1.catalog import CERTIFICATE_REVOCATIONS
from kubevouch.api.kubevouch_v1alpha1.certificate_revocations import (
    CertificateRevocation,
    CertificateRevocationSpec,
    CertificateRevocationStatus,
    IssuedNumbers,
    IssuedPeriod,
    RevocationTargets,
)
from kubevouch.ledger.entries import ISSUED, Entry
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.machinery.text.times import Time
from kubevouch.pki import authority, keys
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.revocation import node_records
from kubevouch.revocation.revocations import (
    Mark,
    Revocations,
    Revoked,
    authority_id,
    mark_in,
    mark_of,
    marks_of,
    numbers,
)

NOW = dt.datetime(2031, 3, 1, 12, tzinfo=dt.UTC)
SECOND, DAY = dt.timedelta(seconds=1), dt.timedelta(days=1)
KEY, OTHER_KEY = (keys.generate(KeyAlgorithm.ECDSA_P256) for _ in range(2))
CA, OTHER_CA = (
    authority.create_authority(name, keys.generate(KeyAlgorithm.ECDSA_P256), now=NOW - DAY) for name in ("a", "b")
)


def certificate(
    name: str = "system:node:a",
    serial: int = 7,
    at: dt.datetime = NOW,
    key: Any = KEY,
    by: authority.CertificateAuthority = CA,
) -> Certificate:
    spec = authority.LeafSpec(common_name=name, organizations=("system:nodes",), purposes=("client auth",))
    return authority.issue_leaf(by, spec, key, now=at, serial=serial)


def marks(held: Certificate, by: authority.CertificateAuthority = CA) -> tuple[Mark, ...]:
    return marks_of((held, by.certificate))


def revocation(
    name: str = "r1", reason: str = "keyCompromise", at: dt.datetime = NOW, message: str = "", **targets: Any
) -> CertificateRevocation:
    return CertificateRevocation(
        metadata=ObjectMeta(name=name, creation_timestamp=Time.of(at)),
        spec=CertificateRevocationSpec(revoked=RevocationTargets(**targets), reason=reason, message=message),
    )


def holding(*objects: CertificateRevocation) -> Revocations:
    found = Revocations()
    found.load(objects)
    return found


def serials(*given: int, by: authority.CertificateAuthority = CA) -> list[IssuedNumbers]:
    return [IssuedNumbers(issuer=authority_id(by.certificate).hex(), numbers=[f"{each:x}" for each in given])]


def test_nothing_is_revoked_where_nothing_was() -> None:
    assert holding().why(marks(certificate())) == ""


def test_a_serial_number_is_its_issuers() -> None:
    """Two authorities may have given the same one."""
    found = holding(revocation(serials=serials(7), message="stolen\n"))
    assert found.why(marks(certificate())) == ("r1 has revoked it since 2031-03-01T12:00:00Z (keyCompromise): stolen?")
    assert found.why(marks(certificate(serial=8))) == ""
    assert found.why(marks(certificate(by=OTHER_CA), OTHER_CA)) == ""


def test_the_issuer_is_who_has_verified_it() -> None:
    """What a certificate says of its issuer is not asked."""
    held = certificate(by=OTHER_CA)
    assert holding(revocation(serials=serials(7, by=OTHER_CA))).why(marks_of((held, CA.certificate))) == ""


def test_a_certificate_by_its_fingerprint() -> None:
    held = certificate()
    found = holding(revocation(certificates=[held.fingerprint().hex()]))
    assert found.why(marks(held)) and not found.why(marks(certificate(serial=8)))
    assert found.certificate(held.fingerprint()) and found.certificate(b"x" * 32) is None


def test_a_key_in_every_certificate_whoever_has_issued_it() -> None:
    digest = marks(certificate())[0].key
    found = holding(revocation("k", keys=[digest.hex()]))
    for held, by in ((certificate(), CA), (certificate("bob", 9, NOW + DAY), CA), (certificate(by=OTHER_CA), OTHER_CA)):
        assert found.why(marks(held, by)).startswith("k ")
    assert not found.why(marks(certificate(key=OTHER_KEY)))
    assert found.key(digest) and found.key(b"x" * 32) is None


@pytest.mark.parametrize("targets", [{"users": ["system:node:a"]}, {"nodes": ["a"]}])
def test_a_user_until_a_moment(targets: dict[str, Any]) -> None:
    found = holding(revocation(**targets))
    assert found.why(marks(certificate())) and not found.why(marks(certificate(at=NOW + SECOND)))
    later = holding(revocation(**targets, issued_until=Time.of(NOW + DAY)))
    assert later.why(marks(certificate(at=NOW + SECOND)))
    assert found.node("a", NOW) and not found.node("a", NOW + SECOND) and not found.node("b", NOW)


@pytest.mark.parametrize("name", ["system:node:A", "system:node:a ", "system:node:\u0430", "a", "system:node:a\u0301"])
def test_a_look_alike_is_somebody_else(name: str) -> None:
    """Neither is he revoked with the other, nor the other with him."""
    assert not holding(revocation(users=["system:node:a"])).user(name, NOW)
    assert not holding(revocation(users=[name])).why(marks(certificate()))


@pytest.mark.parametrize("by", [CA, None])
def test_all_of_a_period(by: authority.CertificateAuthority | None) -> None:
    issuer = "" if by is None else authority_id(by.certificate).hex()
    period = IssuedPeriod(issuer=issuer, since=Time.of(NOW), until=Time.of(NOW + DAY))
    found = holding(revocation(periods=[period]))
    moments = (NOW - SECOND, NOW, NOW + DAY, NOW + DAY + SECOND)
    assert [bool(found.why(marks(certificate(at=at)))) for at in moments] == [False, True, True, False]
    assert bool(found.why(marks(certificate(by=OTHER_CA), OTHER_CA))) is (by is None)


def test_whatever_stands_between_client_and_anchor() -> None:
    between = authority.cross_sign(CA, OTHER_CA.certificate, now=NOW)
    chain = (certificate(by=OTHER_CA), between, CA.certificate)
    assert not holding(revocation(serials=serials(8))).why(marks_of(chain))
    gone = revocation(reason="cACompromise", serials=serials(between.serial))
    assert "cACompromise" in holding(gone).why(marks_of(chain))
    # An anchor that is the client's own certificate has issued itself.
    alone = CA.certificate
    assert holding(revocation(certificates=[alone.fingerprint().hex()])).why(marks_of((alone,)))


def test_what_stays_counts_before_what_can_be_lifted() -> None:
    hold = revocation("hold", "certificateHold", serials=serials(7))
    grave = revocation("grave", at=NOW + DAY, serials=serials(7))
    for order in ((hold, grave), (grave, hold)):
        found = holding(*order)
        assert found.why(marks(certificate())).startswith("grave")
        known = found.serial(authority_id(CA.certificate), 7)
        assert known is not None and known.name == "grave"
        assert found.serials(authority_id(CA.certificate)) == (7,)
    found.changed("grave", None)
    assert found.why(marks(certificate())).startswith("hold")
    found.changed("hold", None)
    assert found.why(marks(certificate())) == "" and found.values == 0 and len(found) == 0


def test_a_status_reaches_what_only_the_ledger_knows() -> None:
    held, told = certificate(), []
    found = holding(bare := revocation(tokens=["abcdef"]))
    found.on_change(lambda: told.append(found.why(marks(held))))
    status = CertificateRevocationStatus(serials=serials(7), certificates=[held.fingerprint().hex()], matched=1)
    found.changed("r1", msgspec.structs.replace(bare, status=status))
    assert told[0].startswith("r1") and found.certificate(held.fingerprint())
    # Heartbeats and counts are no change.
    found.changed("r1", msgspec.structs.replace(bare, status=msgspec.structs.replace(status, matched=2)))
    assert len(told) == 1


def test_what_is_no_number_is_left_out() -> None:
    """A status has no pattern."""
    issuer = authority_id(CA.certificate).hex()
    bad = [IssuedNumbers(issuer=issuer, numbers=["-7", "x", "", "f" * 41, "0", "07", "f" * 40])]
    bad += [IssuedNumbers(issuer="zz", numbers=["7"]), IssuedNumbers(issuer="", numbers=["7"])]
    assert [serial for _, serial in numbers(bad)] == [0, 7, (1 << 160) - 1]
    obj = revocation(tokens=["abcdef"])
    status = CertificateRevocationStatus(serials=bad, certificates=["no", ""])
    found = holding(msgspec.structs.replace(obj, status=status))
    assert found.why(marks(certificate())) and not found.why(marks(certificate(serial=8)))


def test_the_moment_that_is_told_is_not_after_the_objects() -> None:
    def at(moment: dt.datetime | None) -> Revoked:
        obj = revocation(serials=serials(7))
        told = None if moment is None else Time.of(moment)
        (found,) = holding(msgspec.structs.replace(obj, spec=msgspec.structs.replace(obj.spec, revoked_at=told)))
        return found

    assert [at(each).at for each in (None, NOW - DAY, NOW + DAY)] == [NOW, NOW - DAY, NOW]


def test_locked_out_nodes_are_asked_about_here_too() -> None:
    record = node_records.removed(node_records.NONE, NOW, NOW + DAY, lock=True, why="stolen")
    name = node_records.config_maps_of("a")[0]
    stored = ConfigMap(metadata=ObjectMeta(name=name, namespace="kube-system"), data=node_records.encode({"a": record}))
    found = Revocations()
    assert found.lockouts.changed("kube-system", name, stored) is True
    assert found.lockouts.changed("kube-system", name, stored) is False
    assert "stolen" in found.why(marks(certificate())) and "stolen" in found.node("a", NOW)
    assert not found.why(marks(certificate(at=NOW + SECOND))) and not found.why(marks(certificate("bob")))


def test_marks_are_of_the_verified_chain() -> None:
    held = certificate()
    assert marks(held) == (mark_of(held, authority_id(CA.certificate)),)
    chains: Sequence[Certificate] = (held, CA.certificate)
    assert len(marks_of(chains)) == 1


def test_what_the_server_has_lost_counts_until_the_same_is_there() -> None:
    held = certificate()
    found = holding(revocation(users=["system:node:a"]))
    found.keep(revocation(users=["system:node:a"], issued_until=Time.of(NOW)))
    found.changed("r1", None)
    assert found.why(marks(held))
    assert (len(found), [each.name for each in found]) == (1, ["r1"])
    assert found.object("r1") is not None
    # Also when all is read anew.
    found.load(())
    assert found.why(marks(held))
    # Somebody else's of that name says something else.
    found.changed("r1", revocation(users=["system:node:b"]))
    assert found.why(marks(held))
    # It says the same of what was issued earlier only.
    found.changed("r1", revocation(users=["system:node:a"], issued_until=Time.of(NOW - DAY)))
    assert found.why(marks(held))
    found.changed("r1", revocation(users=["system:node:a"], issued_until=Time.of(NOW + DAY)))
    found.changed("r1", None)
    assert not found.why(marks(held))


def test_what_is_taken_back_after_it_was_lost_counts_no_more() -> None:
    found = holding()
    found.keep(revocation(serials=serials(7)))
    assert found.why(marks(certificate()))
    assert not found.covers(revocation(serials=serials(7)))
    found.keep_no_more("r1")
    assert not found.why(marks(certificate()))
    assert len(found) == 0


def test_which_may_reach_a_certificate_that_has_become_known() -> None:
    """Each by its look-up: what is heard of is many, and most of it is about nothing that is revoked."""
    at = dt.datetime(2031, 3, 1, 12, tzinfo=dt.UTC)
    digest, key, issuer = "aa" * 32, "bb" * 32, "cc" * 20

    def made(name: str, **revoked: Any) -> CertificateRevocation:
        tree = {
            "metadata": {"name": name, "creationTimestamp": "2031-03-01T12:00:00Z"},
            "spec": {"reason": "superseded", "revoked": revoked},
        }
        found = CERTIFICATE_REVOCATIONS.codec.from_tree(tree).value
        assert isinstance(found, CertificateRevocation)
        return found

    revocations = Revocations()
    targets: dict[str, dict[str, Any]] = {
        "serial": {"serials": [{"issuer": issuer, "numbers": ["7"]}]}, "fingerprint": {"certificates": [digest]},
        "key": {"keys": [key]}, "user": {"users": ["alice"]}, "requester": {"requesters": ["bob"]},
        "token": {"tokens": ["abcdef"]}, "other": {"users": ["carol"], "requesters": ["alice"]},
        "period": {"periods": [{"since": "2031-03-01T11:00:00Z", "until": "2031-03-01T12:00:00Z"}]},
    }  # fmt: skip
    revocations.load(made(name, **each) for name, each in targets.items())
    mark = Mark(bytes.fromhex(issuer), 7, bytes.fromhex(digest), bytes.fromhex(key), "alice", at)
    assert revocations.about(mark, "bob", at) == targets.keys() - {"other"}
    later = msgspec.structs.replace(mark, issued=at + dt.timedelta(hours=1))
    named = {"user", "requester", "token", "period", "other"}
    assert revocations.about(later, "bob", at + dt.timedelta(seconds=1)) == targets.keys() - named
    revocations.changed("token", None)
    assert "token" not in revocations.about(mark, "", at)


def test_a_mark_of_what_is_written_down() -> None:
    entry = Entry(kind=ISSUED, at=dt.datetime(2031, 3, 1, tzinfo=dt.UTC), serial="0a", issuer_key="aa", subject="alice")
    assert mark_in(entry) == Mark(b"\xaa", 10, b"", b"", "alice", entry.at)
    assert mark_in(msgspec.structs.replace(entry, serial="f" * 41)).serial == 0
    assert mark_in(msgspec.structs.replace(entry, certificate=b"x")).fingerprint == hashlib.sha256(b"x").digest()
