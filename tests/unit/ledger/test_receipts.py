"""Receipts: what is signed is what is said, and nothing else counts."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import ledger_world as world
from kubevouch.cli.exit_codes import ExitCode
from kubevouch.cli.main import run
from kubevouch.ledger import checkpoints, receipts
from kubevouch.ledger.entries import Recorded
from kubevouch.ledger.receipts import ReceiptError
from throwaway_ca import ThrowawayCA

KEY = Ed25519PrivateKey.generate()
KNOWN = checkpoints.verifier_key("example.com/ledger", KEY)
PROOFS = [{"provider": "tpm", "identity": "sha256:ab", "strength": "measured", "evidenceDigest": "cd"}]
DECIDED = Recorded(
    3,
    msgspec.structs.replace(
        world.entry(3), approver="node-attestation", rules="ef", evidence={"proofs": PROOFS}, trace=[1]
    ),
)
ISSUED = Recorded(5, world.entry(5))


@pytest.fixture(scope="module")
def text() -> str:
    return receipts.make(DECIDED, ISSUED, KEY, KNOWN.name)


def test_a_receipt_says_what_the_ledger_does(text: str) -> None:
    found = receipts.verified(text, KNOWN)

    assert (found.subject, found.join.serial) == ("system:node:n1", ISSUED.entry.serial)
    assert (found.join.decision.sequence, found.join.sequence) == (3, 5)
    assert (found.join.decision.approver, found.join.decision.rules_digest) == ("node-attestation", "ef")
    assert found.join.evidence is not None and found.join.evidence.proofs == PROOFS


def test_the_envelope_is_the_one_of_dsse(text: str) -> None:
    """By hand, from the specification's words."""
    envelope = json.loads(text)
    payload = base64.b64decode(envelope["payload"])
    kind = envelope["payloadType"]
    (signature,) = envelope["signatures"]
    signed = b" ".join([b"DSSEv1", str(len(kind)).encode(), kind.encode(), str(len(payload)).encode(), payload])
    KEY.public_key().verify(base64.b64decode(signature["sig"]), signed)
    statement = json.loads(payload)
    assert kind == "application/vnd.in-toto+json" and statement["_type"] == "https://in-toto.io/Statement/v1"
    assert list(statement) == ["_type", "subject", "predicateType", "predicate"]


def _resigned(text: str, change: Any) -> str:
    """As somebody would make it who has the key, and another form in mind."""
    envelope = json.loads(text)
    statement = json.loads(base64.b64decode(envelope["payload"]))
    change(envelope, statement)
    payload = json.dumps(statement).encode()
    kind = envelope["payloadType"].encode()
    signed = b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)
    envelope["payload"] = base64.b64encode(payload).decode()
    envelope["signatures"] = [{"keyid": "x", "sig": base64.b64encode(KEY.sign(signed)).decode()}]
    return json.dumps(envelope)


def test_the_name_of_a_key_is_only_a_hint(text: str) -> None:
    assert receipts.verified(_resigned(text, lambda envelope, statement: None), KNOWN).subject == "system:node:n1"


@pytest.mark.parametrize(
    "change",
    [
        lambda envelope, _: envelope.update(payloadType="application/json"),
        lambda _, statement: statement.update(predicateType="https://slsa.dev/provenance/v1"),
        lambda _, statement: statement.update(_type="https://in-toto.io/Statement/v0.1"),
        lambda _, statement: statement.update(subject=[]),
        lambda _, statement: statement.update(subject=statement["subject"] * 2),
        lambda _, statement: statement["subject"][0].update(digest={"md5": "x"}),
        lambda _, statement: statement["predicate"]["evidence"]["proofs"].append({}),
        lambda _, statement: statement["predicate"].pop("serial"),
    ],
)
def test_what_is_signed_and_no_receipt_is_refused(text: str, change: Any) -> None:
    with pytest.raises(ReceiptError):
        receipts.verified(_resigned(text, change), KNOWN)


def test_each_changed_byte_of_the_payload_is_noticed(text: str) -> None:
    envelope = json.loads(text)
    payload = bytearray(base64.b64decode(envelope["payload"]))
    for position in range(0, len(payload), 37):
        changed = bytearray(payload)
        changed[position] ^= 1
        with pytest.raises(ReceiptError, match="has not signed"):
            receipts.verified(json.dumps(envelope | {"payload": base64.b64encode(changed).decode()}), KNOWN)


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[" * 100_000, '{"payloadType":"a","payload":"","signatures":[]}', "x" * (receipts.MAX_BYTES + 1),
     '{"payloadType":"a","payload":"","signatures":[' + ",".join(['{"sig":""}'] * 17) + "]}",
     '{"payloadType":"a","payload":"*","signatures":[{"sig":""}]}'],
)  # fmt: skip
def test_text_that_is_no_receipt(text: str) -> None:
    with pytest.raises(ReceiptError):
        receipts.verified(text, KNOWN)


def test_another_key_has_not_signed_it(text: str) -> None:
    other = checkpoints.verifier_key(KNOWN.name, Ed25519PrivateKey.generate())
    with pytest.raises(ReceiptError, match="has not signed"):
        receipts.verified(text, other)


def test_it_is_about_one_certificate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ledger = world.written(tmp_path / "ledger.db", 6)
    assert run(["issued", "receipt", ISSUED.entry.serial, "--ledger", str(ledger)]) == ExitCode.DONE
    (tmp_path / "r").write_text(capsys.readouterr().out)
    (tmp_path / "c.pem").write_text("-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n")
    checked = ["verify", "receipt", str(tmp_path / "r"), "--key", str(world.key_of(ledger))]
    assert run(checked) == ExitCode.DONE
    assert "system:node:n1" in capsys.readouterr().out

    assert run([*checked, "--certificate", str(tmp_path / "c.pem")]) == ExitCode.INVALID
    assert capsys.readouterr().err.startswith("error: got ")
    other = ThrowawayCA().issue("other").certificate
    (tmp_path / "c.pem").write_bytes(other)
    assert run([*checked, "--certificate", str(tmp_path / "c.pem")]) == ExitCode.FAILED
    assert "it is about a certificate of SHA-256" in capsys.readouterr().err
    assert run(["issued", "receipt", "99", "--ledger", str(ledger)]) == ExitCode.FAILED
    assert "no certificate with the serial number 99" in capsys.readouterr().err


def test_what_was_proven_is_told(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "r").write_text(text)
    checked = ["verify", "receipt", str(tmp_path / "r"), "--key", str(KNOWN)]
    assert run(checked) == ExitCode.DONE
    assert "tpm (measured), sha256:ab" in capsys.readouterr().out
    assert run([*checked, "-o", "json"]) == ExitCode.DONE
    assert json.loads(capsys.readouterr().out)["strength"] == "measured"
