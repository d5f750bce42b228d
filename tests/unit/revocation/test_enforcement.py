"""What may be said of a revocation, from what was seen."""

from __future__ import annotations

import datetime as dt
from typing import Any

import msgspec
import pytest

from kubevouch import wellknown
from kubevouch.api.kubevouch_v1alpha1.certificate_revocations import MAX_NUMBERS, IssuedNumbers, RevocationTargets
from kubevouch.ledger.entries import ISSUED, Entry, with_certificate
from kubevouch.pki import authority, keys
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.revocation import enforcement
from kubevouch.revocation.enforcement import OWN_SERVER, STRANGER, Answer, Holder, Reach, State, Way, judge, weigh

NOW = dt.datetime(2026, 11, 22, 20, tzinfo=dt.UTC)
ENDS = NOW + dt.timedelta(days=365)
NODE = RevocationTargets(nodes=["worker-1"])
HOLDER = Holder("system:node:worker-1", (wellknown.NODES_GROUP, wellknown.AUTHENTICATED_GROUP), "ab" * 32)
POLICY = Way("a policy", State.CONFIGURED, writes=True, leaves_open="reads")
OTHER = "cd" * 32
_CA = authority.create_authority("kubernetes", keys.generate(KeyAlgorithm.ECDSA_P256), now=NOW)


def certified(user: str, *groups: str) -> Entry:
    spec = authority.LeafSpec(common_name=user, organizations=groups, purposes=("client auth",))
    leaf = authority.issue_leaf(_CA, spec, keys.generate(KeyAlgorithm.ECDSA_P256), now=NOW)
    return with_certificate(Entry(kind=ISSUED, at=NOW), leaf)


def told(*ways: Way, targets: RevocationTargets = NODE, **known: Any) -> tuple[str, str, str]:
    given: dict[str, Any] = {"matched": 1, "until": ENDS}
    found = judge(Reach("r1", targets, **(given | known)), ways)
    assert found.type == "InForce"
    return found.status, found.reason, found.message


def webhook(*states: State) -> Way:
    return enforcement.authorizers([(HOLDER, each) for each in states], NOW)


@pytest.mark.parametrize(
    ("shown", "bare", "expected"),
    [
        (Answer(allowed=False, denied=True), Answer(allowed=True, denied=False), State.REFUSES),
        (Answer(allowed=True, denied=False), Answer(allowed=True, denied=False), State.PASSES),
        # No opinion is no denial: with other rights it passes.
        (Answer(allowed=False, denied=False), Answer(allowed=False, denied=False), State.PASSES),
        # Denied whatever comes with it, or perhaps only what nobody allows: nothing is shown.
        (Answer(allowed=False, denied=True), Answer(allowed=False, denied=True), State.UNKNOWN),
        (Answer(allowed=False, denied=True), Answer(allowed=False, denied=False), State.UNKNOWN),
    ],
)
def test_what_two_answers_show(shown: Answer, bare: Answer, expected: State) -> None:
    assert weigh(shown, bare) is expected


def test_a_server_that_denies_a_stranger_shows_nothing() -> None:
    assert enforcement.refuses_everybody(Answer(allowed=False, denied=True))
    assert not enforcement.refuses_everybody(Answer(allowed=False, denied=False))


def test_it_is_in_force_only_where_a_refusal_was_seen() -> None:
    assert told(OWN_SERVER)[:2] == ("True", "Refused")
    status, reason, message = told(webhook(State.REFUSES, State.REFUSES))
    assert (status, reason) == ("True", "Refused") and "was seen to deny system:node:worker-1" in message
    assert "watches, exec and port-forward that are open go on" in message
    for states in ((State.PASSES,), (State.REFUSES, State.PASSES), (State.UNKNOWN, State.PASSES)):
        status, reason, message = told(webhook(*states))
        assert (status, reason) == ("False", "NothingEnforces")
        assert "until 2027-11-22 20:00 UTC" in message and "reads and writes" in message
    assert "of which none is known" in told(webhook(State.PASSES), until=None)[2]


def test_who_was_not_asked_is_not_known() -> None:
    assert told()[:2] == ("Unknown", "NotAsked")
    assert told(webhook())[:2] == ("Unknown", "NotAsked")
    assert told(webhook(State.REFUSES, State.UNKNOWN))[:2] == ("Unknown", "NotAsked")
    status, reason, message = told(enforcement.unanswered("it is away"))
    assert (status, reason) == ("Unknown", "NotAsked") and "it is away" in message
    everybody = enforcement.unanswered("all", enforcement.REFUSES_EVERYBODY)
    assert told(everybody)[:2] == ("Unknown", "RefusesEverybody")


def test_what_is_configured_for_writes_is_no_refusal_of_reads() -> None:
    status, reason, message = told(webhook(State.PASSES), POLICY)
    assert (status, reason) == ("False", "WritesOnly")
    assert "configured; a refusal was not seen" in message and "open: reads" in message and "2027-11-22" in message
    seen = msgspec.structs.replace(POLICY, state=State.REFUSES)
    assert told(webhook(State.PASSES), seen)[:2] == ("False", "WritesOnly")
    assert told(webhook(State.REFUSES), seen)[:2] == ("True", "Refused")
    # A policy that was seen says nothing of reads about which nobody could be asked.
    assert told(enforcement.unanswered("away"), seen)[0] == "Unknown"
    absent = msgspec.structs.replace(POLICY, state=State.PASSES)
    assert told(webhook(State.PASSES), absent)[:2] == ("False", "NothingEnforces")


@pytest.mark.parametrize(
    ("targets", "listed", "matched", "expected"),
    [
        (RevocationTargets(tokens=["abcdef"]), [], 0, "NothingFound"),
        (RevocationTargets(keys=[OTHER]), [], 0, "NothingFound"),
        (RevocationTargets(tokens=["abcdef"]), [OTHER], 1, "Refused"),
        (RevocationTargets(tokens=["abcdef"]), [OTHER], 2, "PartlyEnforced"),
        (RevocationTargets(keys=[OTHER], users=["alice"]), [], 0, "PartlyEnforced"),
        (RevocationTargets(serials=[IssuedNumbers(issuer="ab", numbers=["7"])], users=["a"]), [], 0, "PartlyEnforced"),
        (RevocationTargets(users=["alice"]), [], MAX_NUMBERS + 1, "Refused"),
        (RevocationTargets(requesters=["alice"]), [OTHER] * MAX_NUMBERS, MAX_NUMBERS + 1, "TooMany"),
    ],
)
def test_a_webhook_refuses_users_and_fingerprints_only(
    targets: RevocationTargets, listed: list[str], matched: int, expected: str
) -> None:
    status, reason, _ = told(webhook(State.REFUSES), targets=targets, listed=listed, matched=matched)
    assert reason == expected and (status == "True") is (expected == "Refused")
    if expected != "TooMany":
        assert told(OWN_SERVER, targets=targets, listed=listed, matched=matched)[0] == "True"


def test_about_whom_is_asked() -> None:
    stranger = "ff" * 32
    entries = [certified(f"system:node:worker-{number}", "system:nodes") for number in range(20)]
    masters = certified("admin", "system:masters")
    targets = RevocationTargets(tokens=["abcdef"], nodes=["worker-1", "nobody"], certificates=[OTHER])
    reach = Reach("r1", targets, 21, [*entries, masters], [OTHER])
    found = enforcement.holders(reach, stranger)
    assert len(found) <= enforcement.MAX_HOLDERS
    (master,) = [each for each in found if "system:masters" in each.groups]
    assert master.user == "admin" and not master.guessed
    (by_fingerprint,) = [each for each in found if each.fingerprint == OTHER]
    assert (by_fingerprint.user, by_fingerprint.guessed) == (STRANGER, True)
    assert {each.user for each in found if each.fingerprint == stranger} >= {"system:node:nobody"}
    assert {*found} != {*enforcement.holders(reach, stranger, turn=1)}
    (alice,) = enforcement.holders(Reach("r2", RevocationTargets(users=["alice"]), 0), stranger)
    assert alice == Holder("alice", (wellknown.AUTHENTICATED_GROUP,), stranger, guessed=True)
    (node,) = enforcement.holders(Reach("r3", NODE, 0), stranger)
    assert node == Holder(HOLDER.user, HOLDER.groups, stranger)
    assert enforcement.holders(Reach("r4", RevocationTargets(tokens=["abcdef"]), 0), stranger) == ()
    broken = Reach("r5", NODE, 1, [Entry(kind=ISSUED, at=NOW, certificate=b"none")])
    assert [each.user for each in enforcement.holders(broken, stranger)] == [HOLDER.user]


def test_of_a_certificate_that_nobody_knows_no_refusal_is_promised() -> None:
    """No authorizer is asked about system:masters, and the fingerprint does not tell the groups."""
    guessed = Holder(STRANGER, (wellknown.AUTHENTICATED_GROUP,), OTHER, guessed=True)
    way = enforcement.authorizers([(HOLDER, State.REFUSES), (guessed, State.REFUSES)], NOW)
    status, reason, message = told(way)
    assert (status, reason) == ("Unknown", "HolderUnknown") and f"certificate {OTHER[:16]}…" in message
    assert told(enforcement.authorizers([(guessed, State.PASSES)], NOW))[:2] == ("False", "NothingEnforces")
    masters = Holder("admin", ("system:masters",), OTHER)
    assert "no authorizer is asked" in told(enforcement.authorizers([(masters, State.PASSES)], NOW))[2]


def test_names_of_others_do_no_harm_in_a_message() -> None:
    hostile = Holder("x\x1b[2J\n" + "y" * 500, ("g",), OTHER)
    many = [Holder(f"user-{number}", ("g",), OTHER) for number in range(5)]
    message = told(enforcement.authorizers([(each, State.PASSES) for each in (hostile, *many)], NOW))[2]
    assert "\x1b" not in message and "\n" not in message and "and 4 more" in message and len(message) < 1000
