from __future__ import annotations

import datetime as dt

import msgspec
import pytest

from asynctest import async_test
from kubevouch.authentication.node_recovery import CHALLENGE_LIFE, SESSION_LIFE, NodeRecovery
from kubevouch.pki import authority, keys, recovery_proof
from kubevouch.pki.client_certificate import TrustAnchors
from kubevouch.pki.errors import RecoveryProofError
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.recovery_proof import Answer
from kubevouch.pki.x509.request_builder import build_request
from kubevouch.pki.x509.subject import Subject
from kubevouch.records import node_recovery
from kubevouch.records.node_recovery import (
    KeyReplacedError,
    Record,
    RecoveryBudgetError,
    RecoveryPolicy,
    RecoveryRefusedError,
    Use,
)
from kubevouch.testing.clock import FakeClock

NOW = dt.datetime(2031, 3, 1, 12, tzinfo=dt.UTC)
YEAR = dt.timedelta(days=365)
CA = authority.create_authority("ca", keys.generate(KeyAlgorithm.ECDSA_P256), now=NOW - 2 * YEAR)
KEY, REQUEST_KEY, ONE, NEXT = (keys.generate(KeyAlgorithm.ECDSA_P256) for _ in range(4))
D_ONE, D_NEXT, D_REQUEST = (node_recovery.digest(keys.public_key_of(key)) for key in (ONE, NEXT, REQUEST_KEY))
RECORD = Record(node="a", key=D_ONE, changed=NOW - YEAR)
SPEC = authority.LeafSpec(
    common_name="system:node:a", organizations=("system:nodes",), purposes=("client auth",),
    validity=dt.timedelta(days=10),
)  # fmt: skip
LEAF = authority.issue_leaf(CA, SPEC, KEY, now=NOW - dt.timedelta(days=20))


def desk(record: Record | None = RECORD, clock: FakeClock | None = None, secret: bytes = b"s" * 32) -> NodeRecovery:
    anchors = TrustAnchors([CA.certificate])
    return NodeRecovery(
        RecoveryPolicy(),
        anchors,
        clock or FakeClock(NOW),
        lambda: secret,
        {"a": record}.get,
        lambda: 0,
    )


def answer(challenge: str) -> Answer:
    request = build_request(REQUEST_KEY, Subject(common_name="system:node:a", organizations=("system:nodes",)))
    return recovery_proof.answer("a", challenge, [LEAF], KEY, request, (ONE, NEXT))


@async_test
async def test_a_session_is_a_user_with_what_was_proven() -> None:
    clock = FakeClock(NOW)
    one, replica = desk(clock=clock), desk(clock=clock)
    token = replica.session(answer(one.challenge("a")))
    found = await one.authenticate_token(token)
    assert found is not None and found.method == "node-recovery"
    assert (found.user.name, found.user.uid) == ("kubevouch:recovery:a", "")
    assert found.user.groups == ("kubevouch:recoverers",)
    assert found.user.extra == node_recovery.user_extra(Use(D_ONE, D_NEXT, D_REQUEST))
    assert await one.authenticate_token(token, ["https://somebody"]) is None
    clock.advance(SESSION_LIFE.total_seconds())
    assert await one.authenticate_token(token) is None


@async_test
async def test_what_is_no_session() -> None:
    one = desk()
    token = one.session(answer(one.challenge("a")))
    others = ["", "a.b.c", "abcdef.0123456789abcdef", one.challenge("a"), token[:-4] + "AAAA", token + "." + token]
    for each in (*others, "x" * 5000, "é.é.é"):
        assert await one.authenticate_token(each) is None, each
    assert await desk(secret=b"t" * 32).authenticate_token(token) is None
    assert await desk(secret=b"").authenticate_token(token) is None


def test_challenges() -> None:
    clock = FakeClock(NOW)
    one = desk(clock=clock)
    given = one.challenge("a")
    assert given != one.challenge("a")
    for wrong in (one.challenge("b"), "", desk(secret=b"t" * 32).challenge("a")):
        with pytest.raises(RecoveryProofError, match="not one for this node"):
            one.session(answer(wrong))
    one.session(answer(given))
    with pytest.raises(RecoveryProofError, match="answered already"):
        one.session(answer(given))
    late = answer(one.challenge("a"))
    clock.advance(CHALLENGE_LIFE.total_seconds())
    with pytest.raises(RecoveryProofError, match="its time is over"):
        one.session(late)


def test_a_session_token_is_no_challenge() -> None:
    one = desk()
    token = one.session(answer(one.challenge("a")))
    with pytest.raises(RecoveryProofError, match="not one for this node"):
        one.session(answer(token))


def test_without_a_key_there_are_no_challenges() -> None:
    with pytest.raises(RecoveryProofError, match="no key"):
        desk(secret=b"").challenge("a")


def test_a_wrong_answer_does_not_use_up_the_challenge() -> None:
    one = desk()
    given = answer(one.challenge("a"))
    with pytest.raises(RecoveryProofError):
        one.session(msgspec.structs.replace(given, key_signature=b""))
    one.session(given)


def test_other_anchors() -> None:
    one = desk()
    other = authority.create_authority("ca", keys.generate(KeyAlgorithm.ECDSA_P256), now=NOW - YEAR)
    one.replace_anchors(TrustAnchors([other.certificate]))
    with pytest.raises(RecoveryProofError, match="not one of this cluster's"):
        one.session(answer(one.challenge("a")))


def test_the_record_decides() -> None:
    replace = msgspec.structs.replace
    for record, kind in (
        (None, RecoveryRefusedError),
        (replace(RECORD, key="another"), RecoveryRefusedError),
        (replace(RECORD, locked="why"), RecoveryRefusedError),
        (replace(RECORD, uses=(NOW, NOW, NOW)), RecoveryBudgetError),
        (replace(RECORD, key=D_NEXT, former=(D_ONE,), request="another"), KeyReplacedError),
    ):
        one = desk(record)
        with pytest.raises(kind):
            one.session(answer(one.challenge("a")))


@async_test
async def test_a_replayed_key_gets_to_the_approving_controller() -> None:
    one = desk(msgspec.structs.replace(RECORD, key="another", former=(D_ONE,)))
    assert await one.authenticate_token(one.session(answer(one.challenge("a")))) is not None
