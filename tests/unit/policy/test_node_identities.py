"""policy/node_identities.py: one machine, one name, written once."""

from __future__ import annotations

import datetime as dt
from typing import Any

import msgspec
import pytest

from kubevouch.api.attested import Attested, Claim, Strength
from kubevouch.api.kubevouch_v1alpha1.node_identities import (
    MAX_GRANTS,
    MAX_HISTORY,
    ExpectedHardware,
    NodeIdentity,
    NodeIdentitySpec,
    NodeIdentityStatus,
)
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.machinery.text.times import Time
from kubevouch.policy import node_identities
from kubevouch.policy.node_identities import Asked, IdentityRefusedError, decide, grant_of, verify_not_banned_by

NOW = dt.datetime(2031, 3, 1, 12, tzinfo=dt.UTC)
K1, K2 = "1" * 64, "2" * 64


def proof(identity: str = "m-1", provider: str = "tpm", **more: Any) -> Attested:
    return Attested(provider=provider, version="v1", identity=identity, strength=Strength.TPM, **more)


def asked(*proofs: Attested, key: str = K1, uid: str = "u1", name: str = "worker-7", own: bool = False) -> Asked:
    return Asked(
        node_name=name, proofs=proofs or (proof(),), key=key, uid=uid, requester="system:bootstrap:p9k2zq",
        seconds=3600, own=own,
    )  # fmt: skip


def owned(by: Asked, spec: NodeIdentitySpec | None = None, named: NodeIdentity | None = None) -> NodeIdentity:
    decided = decide(by, named, (), NOW)
    return NodeIdentity(
        metadata=ObjectMeta(name=by.node_name), spec=spec or NodeIdentitySpec(), status=decided.status
    )  # fmt: skip


def refusal(by: Asked, named: NodeIdentity | None, *others: NodeIdentity, now: dt.datetime = NOW) -> str:
    with pytest.raises(IdentityRefusedError) as caught:
        decide(by, named, others, now)
    return caught.value.step


def until(seconds: int, identity: str = "") -> NodeIdentitySpec:
    moment = Time.of(NOW + dt.timedelta(seconds=seconds))
    return NodeIdentitySpec(expect_new_hardware=ExpectedHardware(until=moment, identity=identity))


def test_the_first_machine_has_the_name_and_what_it_showed_is_written_down() -> None:
    claim = Claim(name="tpm.ekHash", value="ab", source="tpm", strength=Strength.TPM)
    decided = decide(asked(proof(claims=(claim,), provider_id="demo://7")), None, (), NOW)
    status = decided.status
    assert (decided.event, status.identity, status.provider_id, status.key_fingerprint) == (
        "Claimed",
        "m-1",
        "demo://7",
        K1,
    )
    assert [(each.name, each.value) for each in status.claims] == [("tpm.ekHash", "ab")]
    assert [each.request_uid for each in status.granted] == ["u1"]
    assert status.first_seen == status.last_seen == Time.of(NOW)


@pytest.mark.parametrize(
    ("second", "step"),
    [
        (asked(proof("m-2"), key=K2, uid="u2"), "name-taken"),
        # Another method says nothing of the first one: the same text may be another machine's.
        (asked(proof("m-1", "aws"), uid="u2"), "name-taken"),
        (asked(proof("m-2"), uid="u2"), "name-taken"),
        (asked(proof("m-2"), key=K2, uid="u2", own=True), "name-taken"),
        (asked(proof("M-1"), key=K2, uid="u2"), "name-taken"),
        (asked(proof(), key=K2, uid="u2", name="worker-8"), "has-another-name"),
        (asked(proof("m-2"), proof("m-1", "aws"), key=K2, uid="u2"), "name-taken"),
    ],
)
def test_another_machine_never_gets_it(second: Asked, step: str) -> None:
    first = owned(asked())
    named, others = (first, ()) if second.node_name == "worker-7" else (None, (first,))
    assert refusal(second, named, *others) == step


def test_every_proof_of_a_machine_keeps_it_to_one_name() -> None:
    first = owned(asked(proof(), proof("i-1", "aws")))
    assert refusal(asked(proof("i-1", "aws"), name="worker-8"), None, first) == "has-another-name"
    assert refusal(asked(proof(), proof("i-2", "aws"), uid="u2"), first) == "name-taken"


STRONG = proof("m-1", "tpm", renewable=True)
WEAK = msgspec.structs.replace(proof("k-1", "sshpop", renewable=True), strength=Strength.KEY)


@pytest.mark.parametrize("first", [(STRONG,), (STRONG, WEAK), (WEAK, STRONG)])
def test_the_weaker_of_two_proofs_never_stands_alone(first: tuple[Attested, ...]) -> None:
    """Whichever was there at the claim, and whichever comes first in the renewal."""
    claimed = owned(asked(*first))
    renewed = owned(asked(WEAK, STRONG, key=K2, uid="u2"), named=claimed)
    assert renewed.status.provider == "sshpop"
    assert refusal(asked(WEAK, key="3" * 64, uid="u3"), renewed) == "name-taken"
    with pytest.raises(IdentityRefusedError, match="is tpm m-1 too, which is worth more than sshpop k-1 alone"):
        decide(asked(WEAK, key=K2, uid="u3", own=True), renewed, (), NOW)
    # Somebody else's stronger proof beside it is no help, of the same method or of another.
    assert refusal(asked(WEAK, proof("m-9", "tpm"), uid="u3"), renewed) == "name-taken"
    assert refusal(asked(WEAK, proof("i-9", "aws"), uid="u3"), renewed) == "name-taken"
    assert decide(asked(WEAK, STRONG, uid="u3"), renewed, (), NOW).event == "Renewed"


def test_of_two_proofs_that_are_worth_the_same_one_is_enough() -> None:
    other = proof("i-1", "aws", renewable=True)
    claimed = owned(asked(STRONG, other))
    assert decide(asked(STRONG, uid="u2"), claimed, (), NOW).event == "Renewed"
    stronger = msgspec.structs.replace(STRONG, strength=Strength.MEASURED)
    assert decide(asked(stronger, uid="u2"), claimed, (), NOW).event == "Renewed"


def test_a_proof_that_is_worth_less_than_it_was_is_still_that_proof() -> None:
    measured = msgspec.structs.replace(STRONG, strength=Strength.MEASURED)
    claimed = owned(asked(WEAK, measured))
    assert decide(asked(WEAK, STRONG, uid="u2"), claimed, (), NOW).event == "Renewed"


def test_a_proof_that_anybody_can_show_again_is_for_one_key() -> None:
    first = owned(asked(proof("m1")))
    assert refusal(asked(proof("m1"), key=K2, uid="u2"), first) == "already-used"
    assert decide(asked(proof("m1"), uid="u2"), first, (), NOW).event == "Renewed"
    assert decide(asked(proof("m1"), key=K2, uid="u2", own=True), first, (), NOW).event == "Renewed"


def test_a_fresh_proof_is_as_good_as_the_first_one() -> None:
    first = owned(asked(proof(renewable=True)))
    later = NOW + dt.timedelta(days=1)
    decided = decide(asked(proof(renewable=True), key=K2, uid="u2"), first, (), later)
    assert (decided.event, decided.status.key_fingerprint) == ("Renewed", K2)
    assert (decided.status.first_seen, decided.status.last_seen) == (Time.of(NOW), Time.of(later))


def test_who_was_stopped_after_the_claim_goes_on_with_it() -> None:
    """A12: claimed, and killed before anybody could see the decision."""
    first = owned(asked())
    again = decide(asked(), first, (), NOW)
    assert again.event == "Again"
    assert again.status.history == first.status.history
    # Also by another request, of the same key.
    assert decide(asked(uid="u2"), first, (), NOW).event == "Renewed"


@pytest.mark.parametrize("by", ["name", "hardware", "key"])
def test_who_is_banned_comes_back_under_no_name(by: str) -> None:
    banned = owned(asked(), NodeIdentitySpec(banned=True, banned_reason="stolen"))
    other = asked(proof() if by == "hardware" else proof("m-9"), key=K1 if by == "key" else K2, uid="u2",
                  name="worker-7" if by == "name" else "worker-8")  # fmt: skip
    assert refusal(other, banned if by == "name" else None, *(() if by == "name" else (banned,))) == "banned"


@pytest.mark.parametrize(
    "other",
    [
        asked(proof("m-2"), key=K2),
        asked(name="worker-8", key=K2),
        asked(proof("m-2"), name="worker-8"),
    ],
    ids=["name", "machine", "key"],
)
def test_a_ban_that_the_server_has_lost_is_a_ban(other: Asked) -> None:
    banned = owned(asked(), NodeIdentitySpec(banned=True, banned_reason="stolen"))
    with pytest.raises(IdentityRefusedError, match="node worker-7 is banned: stolen"):
        verify_not_banned_by([banned], other)
    verify_not_banned_by([banned], asked(proof("m-2"), name="worker-8", key=K2))


def test_a_ban_takes_back_what_was_granted() -> None:
    first = owned(asked())
    assert grant_of(first, "u1", K1) is not None
    assert grant_of(first, "u2", K1) is None
    assert grant_of(first, "u1", K2) is None
    assert grant_of(None, "u1", K1) is None
    assert grant_of(owned(asked(), NodeIdentitySpec(banned=True)), "u1", K1) is None


def test_another_machine_takes_the_name_once_when_the_operator_expects_it() -> None:
    first = owned(asked(), until(60))
    second = asked(proof("m-2"), key=K2, uid="u2")
    decided = decide(second, first, (), NOW)
    assert (decided.event, decided.status.identity) == ("Replaced", "m-2")
    assert [each.event for each in decided.status.history] == ["Claimed", "Replaced"]
    assert [each.request_uid for each in decided.status.granted] == ["u2"]
    # The operator's word is used up, though it still stands there.
    now_theirs = NodeIdentity(metadata=first.metadata, spec=first.spec, status=decided.status)
    assert refusal(asked(proof("m-3"), key="3" * 64, uid="u3"), now_theirs) == "name-taken"
    assert refusal(asked(key=K1, uid="u4"), now_theirs) == "name-taken"


def test_an_expectation_ends_and_may_be_of_one_machine() -> None:
    second = asked(proof("m-2"), key=K2, uid="u2")
    assert refusal(second, owned(asked(), until(60)), now=NOW + dt.timedelta(seconds=61)) == "name-taken"
    assert refusal(second, owned(asked(), until(60, "m-3"))) == "name-taken"
    assert decide(second, owned(asked(), until(60, "m-2")), (), NOW).event == "Replaced"
    assert (
        refusal(second, NodeIdentity(metadata=ObjectMeta(name="worker-7"), spec=until(60, "m-3"))) == "other-hardware"
    )


def test_claims_history_and_grants_are_bounded() -> None:
    claims = tuple(Claim(name=f"c{n}", value="v" * 5000, source="s" * 99, strength=Strength.TPM) for n in range(99))
    named = owned(asked(proof(renewable=True, claims=claims)))
    assert len(named.status.claims) == 64
    assert len(named.status.claims[0].value) == 1024
    for number in range(MAX_HISTORY + 3):
        named = owned(asked(proof(renewable=True), uid=f"n{number}"), named=named)
    assert len(named.status.history) == MAX_HISTORY
    assert named.status.history[0].event == "Claimed"
    assert [each.request_uid for each in named.status.granted] == [f"n{MAX_HISTORY - 1 + n}" for n in range(MAX_GRANTS)]


def test_nobody_has_a_name_without_an_identity() -> None:
    assert node_identities.recorded(NodeIdentityStatus(provider="tpm")) == ()
    assert not node_identities.is_same((proof(""),), NodeIdentityStatus(provider="tpm"))


def test_an_address_where_a_machine_answers_is_no_part_of_what_it_is() -> None:
    """Whoever had an address before would keep, or take, the name of whoever has it next."""

    def at(address: str) -> Attested:
        return proof(address, "callback")

    first = owned(asked(proof(), at("10.0.0.7")))
    for number, proofs in enumerate([(proof(), at("10.0.0.8")), (at("10.0.0.9"), proof()), (proof(),)]):
        moved = asked(*proofs, uid=f"u{number}", own=True)
        first = owned(moved, named=first)
        assert (first.status.provider, first.status.identity) == ("tpm", "m-1")
        assert len(first.status.also) == 1
    other = asked(proof("m-2"), at("10.0.0.9"), name="worker-8", key=K2)
    assert decide(other, None, (first,), NOW).event == "Claimed"
    alone = owned(asked(at("10.0.0.7")))
    assert refusal(asked(at("10.0.0.8"), uid="u2"), alone) == "name-taken"
