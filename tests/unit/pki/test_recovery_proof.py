from __future__ import annotations

import datetime as dt
from collections.abc import Callable

import msgspec
import pytest

from kubevouch.pki import authority, keys, recovery_proof
from kubevouch.pki.client_certificate import TrustAnchors
from kubevouch.pki.errors import RecoveryProofError
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.recovery_proof import Answer, ProvenAnswer
from kubevouch.pki.x509 import signature
from kubevouch.pki.x509.request_builder import build_request
from kubevouch.pki.x509.signature import PrivateKey
from kubevouch.pki.x509.subject import Subject
from kubevouch.pki.x509.x509_certificate import Certificate

NOW = dt.datetime(2031, 3, 1, 12, tzinfo=dt.UTC)
YEAR = dt.timedelta(days=365)
P256 = KeyAlgorithm.ECDSA_P256
CA = authority.create_authority("ca", keys.generate(P256), now=NOW - 2 * YEAR)
ANCHORS = TrustAnchors([CA.certificate])
KEY, REQUEST_KEY, ONE, NEXT, OTHER = (keys.generate(P256) for _ in range(5))


def certificate(key: PrivateKey = KEY, name: str = "system:node:a", purpose: str = "client auth") -> Certificate:
    spec = authority.LeafSpec(
        common_name=name, organizations=("system:nodes",), purposes=(purpose,), validity=YEAR - authority.BACKDATE
    )
    return authority.issue_leaf(CA, spec, key, now=NOW - YEAR - dt.timedelta(days=30) + authority.BACKDATE)


def request(key: PrivateKey = REQUEST_KEY, name: str = "system:node:a", group: str = "system:nodes") -> bytes:
    return build_request(key, Subject(common_name=name, organizations=(group,)))


def answer(leaf: Certificate | None = None, key: PrivateKey = KEY, wanted: bytes = b"") -> Answer:
    return recovery_proof.answer("a", "challenge", [leaf or certificate(key)], key, wanted or request(), (ONE, NEXT))


def verified(given: Answer, anchors: TrustAnchors = ANCHORS, now: dt.datetime = NOW) -> ProvenAnswer:
    return recovery_proof.verify_answer(given, anchors, now=now, max_age=dt.timedelta(days=60))


@pytest.mark.parametrize("algorithm", list(KeyAlgorithm))
def test_what_a_good_answer_proves(algorithm: KeyAlgorithm) -> None:
    key = keys.generate(algorithm, post_quantum=True)
    given = msgspec.json.decode(msgspec.json.encode(answer(key=key)), type=Answer)
    proven = verified(given)
    assert (proven.node_name, proven.key, proven.next_key) == ("a", *map(keys.public_key_of, (ONE, NEXT)))
    assert proven.request.public_key == keys.public_key_of(REQUEST_KEY)
    assert proven.chain[0].public_key.info == keys.public_key_of(key).info


@pytest.mark.parametrize("algorithm", [*KeyAlgorithm])
def test_the_algorithm_for_a_public_key_is_that_of_its_private_half(algorithm: KeyAlgorithm) -> None:
    key = keys.generate(algorithm, post_quantum=True)
    public_key = keys.public_key_of(key)
    made = signature.signing(key).sign(b"text")
    signature.verify(signature.algorithm_for(public_key), public_key, b"text", made, post_quantum=True)


def changed(**fields: object) -> Callable[[], Answer]:
    return lambda: msgspec.structs.replace(answer(), **fields)


INFO = keys.public_key_of(OTHER).info
P384 = keys.public_key_of(keys.generate(KeyAlgorithm.ECDSA_P384)).info
STEP_1: list[tuple[str, Callable[[], Answer]]] = [
    ("cannot be read", changed(certificates="")),
    ("cannot be read", changed(certificates="\ud800")),
    ("cannot be read", changed(request="x")),
    ("cannot be read", changed(key=b"")),
    ("cannot be read", changed(next_key=b"\x30\x00")),
    ("expected 5 at most", changed(certificates=certificate().pem().decode() * 6)),
    ("two different recovery keys", changed(key=keys.public_key_of(NEXT).info)),
    ("two different recovery keys", changed(key=P384)),
]
STEP_2: list[tuple[str, Callable[[], Answer]]] = [
    ("the certificate is for", changed(node_name="b")),
    ("the certificate is for", lambda: answer(certificate(name="system:node:b"))),
    ("the request is for", lambda: answer(wanted=request(name="system:node:b"))),
    ("the request is for", lambda: answer(wanted=request(group="system:masters"))),
]
STEP_4: list[tuple[str, Callable[[], Answer]]] = [
    ("the certificate's key has not signed", changed(challenge="another")),
    ("the certificate's key has not signed", changed(request=request(OTHER).decode())),
    ("the certificate's key has not signed", changed(next_key=INFO)),
    ("the certificate's key has not signed", changed(certificates=certificate(OTHER).pem().decode())),
    ("the certificate's key has not signed", changed(certificate_signature=b"")),
    ("the recovery key has not signed", changed(key_signature=b"x")),
    ("the next recovery key has not signed", changed(next_key_signature=b"x")),
]


@pytest.mark.parametrize(("words", "make"), STEP_1)
def test_step_1_what_cannot_be_read(words: str, make: Callable[[], Answer]) -> None:
    with pytest.raises(RecoveryProofError, match=words):
        verified(make())


@pytest.mark.parametrize(("words", "make"), STEP_2)
def test_step_2_another_node(words: str, make: Callable[[], Answer]) -> None:
    with pytest.raises(RecoveryProofError, match=words):
        verified(make())


def test_step_3_dates_and_authority() -> None:
    leaf = certificate()
    with pytest.raises(RecoveryProofError, match="has not ended yet"):
        verified(answer(leaf), now=leaf.not_after)
    verified(answer(leaf), now=leaf.not_after + dt.timedelta(days=60))
    with pytest.raises(RecoveryProofError, match="longer ago than is allowed"):
        verified(answer(leaf), now=leaf.not_after + dt.timedelta(days=60, seconds=1))
    foreign = authority.create_authority("ca", OTHER, now=NOW - 2 * YEAR)
    with pytest.raises(RecoveryProofError, match="not one of this cluster's"):
        verified(answer(leaf), TrustAnchors([foreign.certificate]))
    with pytest.raises(RecoveryProofError, match=r"not one of this cluster's.*key usage"):
        verified(answer(certificate(purpose="server auth")))


@pytest.mark.parametrize(("words", "make"), STEP_4)
def test_step_4_a_key_that_has_not_signed(words: str, make: Callable[[], Answer]) -> None:
    with pytest.raises(RecoveryProofError, match=words):
        verified(make())


def test_parts_of_a_statement_cannot_trade_places() -> None:
    public = [keys.public_key_of(key) for key in (REQUEST_KEY, ONE, NEXT)]
    one = recovery_proof.statement("ab", "c", certificate(), public[0], public[1], public[2])
    assert one != recovery_proof.statement("a", "bc", certificate(), public[0], public[1], public[2])
