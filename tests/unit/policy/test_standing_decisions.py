from __future__ import annotations

import datetime as dt
from typing import Any

import msgspec
import pytest

from asynctest import async_test
from kubevouch.api.kubevouch_v1alpha1.certificate_request_policies import (
    APPROVE,
    APPROVE_OR_DENY,
    AUDIT,
    ENFORCE,
    REQUIRE,
    CertificateRequestPolicy,
    CertificateRequestPolicySpec,
)
from kubevouch.api.kubevouch_v1alpha1.certificate_revocations import (
    ENDED,
    CertificateRevocation,
    CertificateRevocationSpec,
    CertificateRevocationStatus,
    IssuedNumbers,
    RevocationTargets,
)
from kubevouch.api.kubevouch_v1alpha1.node_identities import NodeIdentity, NodeIdentitySpec, NodeIdentityStatus
from kubevouch.api.meta_v1 import Condition
from kubevouch.ledger.entries import RELEASED, Entry
from kubevouch.ledger.memory import MemoryLedger
from kubevouch.machinery.meta import ObjectMeta, OwnerReference, replace_metadata
from kubevouch.machinery.text.times import Time
from kubevouch.policy.standing_decisions import (
    Action,
    StandingDecisions,
    in_force,
    judge,
    kept_form,
    recorded,
    said,
    stands,
    to_create,
    to_protect,
)
from kubevouch.wellknown import DECISION_PROTECTION_FINALIZER

NOW = dt.datetime(2026, 11, 1, tzinfo=dt.UTC)
PLURAL = "certificaterevocations"


def meta(generation: int = 1, uid: str = "1", **more: Any) -> ObjectMeta:
    made = {"finalizers": [DECISION_PROTECTION_FINALIZER], "creation_timestamp": Time.of(NOW), **more}
    return ObjectMeta(name="x", uid=uid, generation=generation, **made)


def revocation(reason: str = "keyCompromise", ended: bool = False, **more: Any) -> CertificateRevocation:
    targets = RevocationTargets(users=["alice"], serials=more.pop("serials", []))
    conditions = [Condition(type=ENDED, status="True")] if ended else []
    return CertificateRevocation(
        metadata=meta(**more),
        spec=CertificateRevocationSpec(revoked=targets, reason=reason),
        status=CertificateRevocationStatus(conditions=conditions),
    )


def identity(banned: bool = True, machine: str = "tpm-1", **more: Any) -> NodeIdentity:
    status = NodeIdentityStatus(provider="tpm", identity=machine) if machine else NodeIdentityStatus()
    return NodeIdentity(metadata=meta(**more), spec=NodeIdentitySpec(banned=banned), status=status)


def policy(effect: str = REQUIRE, mode: str = ENFORCE) -> CertificateRequestPolicy:
    return CertificateRequestPolicy(metadata=meta(), spec=CertificateRequestPolicySpec(effect=effect, mode=mode))


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        (revocation(), True),
        (revocation("certificateHold"), True),
        (revocation(ended=True), False),
        (identity(), True),
        (identity(banned=False), False),
        (policy(), True),
        (policy(mode=AUDIT), False),
        (policy(APPROVE), False),
        (policy(APPROVE_OR_DENY), False),
    ],
)
def test_what_lets_somebody_in_when_it_is_lost(obj: Any, expected: bool) -> None:
    assert stands(obj) is expected


GOING = Time.of(NOW)
UNPROTECTED: dict[str, Any] = {"finalizers": []}


@pytest.mark.parametrize(
    ("held", "current", "definition_stands", "expected"),
    [
        (None, None, True, Action.NOTHING),
        (None, revocation(**UNPROTECTED), True, Action.PROTECT),
        (None, revocation(), True, Action.RECORD),
        (revocation(), revocation(), True, Action.NOTHING),
        # A comment was changed: the ledger does not grow by that.
        (revocation(), revocation(generation=7), True, Action.NOTHING),
        (identity(), identity(generation=7), True, Action.NOTHING),
        # Gone.
        (revocation(), None, True, Action.PUT_BACK),
        (revocation(), revocation(deletion_timestamp=GOING), True, Action.RELEASE),
        (revocation(), revocation(deletion_timestamp=GOING), False, Action.LET_GO),
        (revocation(), revocation(deletion_timestamp=GOING, finalizers=["a/b"]), True, Action.NOTHING),
        # Changed by somebody: the generation says so.
        (identity(), identity(banned=False, generation=2), True, Action.RELEASE),
        (revocation("certificateHold"), revocation(generation=2), True, Action.RECORD),
        (revocation(), revocation(ended=True), True, Action.RELEASE),
        # A store that went back, or another object under the name that nobody has let go of.
        (identity(generation=2), identity(banned=False), True, Action.RESTORE),
        (identity(), identity(banned=False, uid="2", generation=9), True, Action.RESTORE),
        (revocation(generation=2), revocation("certificateHold"), True, Action.RESTORE),
        # The ban is there, and the machine that it is about is not.
        (identity(), identity(machine="", uid="2"), True, Action.RESTORE),
        (revocation(), revocation(uid="2"), True, Action.RECORD),
        # Not in force, and nobody has said that it was.
        (None, identity(banned=False), True, Action.RELEASE),
        (None, identity(banned=False, finalizers=[]), True, Action.NOTHING),
    ],
)
def test_what_is_done(held: Any, current: Any, definition_stands: bool, expected: Action) -> None:
    kept = None if held is None else kept_form(held)
    assert judge(kept, current, definition_stands=definition_stands) is expected


def test_no_owner_keeps_a_revocation() -> None:
    owner = OwnerReference(api_version="v1", kind="ConfigMap", name="a", uid="b")
    owned = replace_metadata(revocation(), owner_references=[owner])
    assert judge(kept_form(owned), owned, definition_stands=True) is Action.PROTECT
    assert to_protect(owned).metadata.owner_references == []
    other = replace_metadata(identity(), owner_references=[owner])
    assert to_protect(other).metadata == other.metadata


def test_another_object_says_the_same_later() -> None:
    """It is created anew, and means what was issued until the first one was."""
    held = kept_form(revocation())
    later = Time.of(NOW + dt.timedelta(days=1))
    made = replace_metadata(to_create(held), uid="2", creation_timestamp=later)
    assert said(made) == said(held)
    assert made.spec.revoked.issued_until == Time.of(NOW)
    assert made.spec.revoked_at == Time.of(NOW)


@async_test
async def test_the_ledger_has_it_until_its_release() -> None:
    ledger = MemoryLedger()
    await ledger.append(*recorded(PLURAL, revocation(), NOW, "me"))
    await ledger.append(*recorded(PLURAL, revocation(generation=2), NOW, "me"))
    ((key, held),) = (await in_force(ledger)).items()
    assert key == (PLURAL, "x")
    assert held == kept_form(revocation(generation=2))
    await ledger.append(Entry(kind=RELEASED, at=NOW, request="x", resource=PLURAL))
    assert await in_force(ledger) == {}


@async_test
async def test_one_that_is_large_is_in_several_entries() -> None:
    numbers = [f"{number:040x}".lstrip("0") or "0" for number in range(1 << 100, (1 << 100) + 4000)]
    large = revocation(serials=[IssuedNumbers(issuer=f"{each:02x}" * 20, numbers=numbers) for each in range(3)])
    entries = recorded(PLURAL, large, NOW, "me")
    assert len(entries) > 2
    ledger = MemoryLedger()
    # Of one that was cut short, the next one begins anew.
    await ledger.append(entries[0])
    await ledger.append(*entries)
    assert await in_force(ledger) == {(PLURAL, "x"): kept_form(large)}


@async_test
async def test_what_cannot_be_read_hides_nothing_else() -> None:
    ledger = MemoryLedger()
    (entry,) = recorded(PLURAL, revocation(), NOW, "me")
    await ledger.append(msgspec.structs.replace(entry, request="broken", document=b"{"))
    await ledger.append(msgspec.structs.replace(entry, request="later", resource="oflaterversions"))
    await ledger.append(entry)
    assert set(await in_force(ledger)) == {(PLURAL, "x")}


def test_who_decides_hears_of_what_is_lost() -> None:
    decisions, told = StandingDecisions(), []
    decisions.on_change(lambda plural, obj, is_lost: told.append((plural, obj.metadata.name, is_lost)))
    key = PLURAL, "x"
    decisions.lose(key)
    assert told == []
    decisions.hold(key, revocation())
    decisions.lose(key)
    decisions.lose(key)
    assert [each.metadata.name for each in decisions.lost(PLURAL)] == ["x"]
    assert decisions.counts()[PLURAL] == 1
    decisions.release(key)
    assert told == [(PLURAL, "x", True), (PLURAL, "x", False)]
    decisions.lose(key)
    assert list(decisions.lost(PLURAL)) == []
