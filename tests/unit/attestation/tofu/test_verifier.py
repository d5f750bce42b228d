"""A key that nobody vouches for, and the first use that decides."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from asynctest import async_test
from device_certificates import NOW
from kubevouch.api.kubevouch_v1alpha1.node_identities import NodeIdentity
from kubevouch.attestation import catalog
from kubevouch.attestation.interface import (
    Attested,
    Binding,
    Challenge,
    Evidence,
    RefusedEvidenceError,
    SettingsError,
    Strength,
    UnsupportedVersionError,
)
from kubevouch.attestation.tofu.attestor import make_attestor
from kubevouch.attestation.tofu.evidence import Proof, signed_message
from kubevouch.attestation.tofu.verifier import verify_proof
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.pki import keys
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.policy import node_identities
from kubevouch.policy.node_identities import Asked, IdentityRefusedError
from kubevouch.testing.clock import FakeClock
from verifier_sources import AROUND

_CASES = [json.loads(line) for line in (Path(__file__).parents[3] / "vectors" / "node.jsonl").read_text().splitlines()]
FIRST_USES = [case for case in _CASES if case["area"] == "attest-tofu" and "store" in case["given"]]
MACHINE = ec.generate_private_key(ec.SECP256R1())
KEY = keys.generate(KeyAlgorithm.ECDSA_P256)
BINDING = Binding(spki=keys.public_key_of(KEY).canonical_info, cluster_id="c", nonce=b"n" * 32)


def prove(key: ec.EllipticCurvePrivateKey = MACHINE, digest: bytes = BINDING.digest) -> Proof:
    signature = key.sign(signed_message(digest), ec.ECDSA(hashes.SHA256()))
    return Proof(key=keys.public_key_of(key).canonical_info, signature=signature)


def info_of(algorithm: KeyAlgorithm) -> bytes:
    return keys.public_key_of(keys.generate(algorithm)).canonical_info


@pytest.mark.parametrize(
    ("step", "proof"),
    [
        ("", prove()),
        ("structure", Proof(key=b"", signature=b"")),
        ("structure", Proof(key=prove().key + b"\0", signature=prove().signature)),
        ("structure", Proof(key=prove().key[:-1], signature=prove().signature)),
        ("key", Proof(key=info_of(KeyAlgorithm.RSA_2048), signature=b"")),
        ("key", Proof(key=info_of(KeyAlgorithm.ECDSA_P384), signature=b"")),
        ("key", prove(KEY)),  # type: ignore[arg-type]
        ("signature", prove(digest=b"d" * 32)),
        ("signature", Proof(key=prove().key, signature=b"")),
        ("signature", Proof(key=prove().key, signature=b"\0" * 64)),
        ("signature", Proof(key=prove(ec.generate_private_key(ec.SECP256R1())).key, signature=prove().signature)),
        ("signature", Proof(key=prove().key, signature=MACHINE.sign(BINDING.digest, ec.ECDSA(hashes.SHA256())))),
    ],
)
def test_tampered_proofs(step: str, proof: Proof) -> None:
    assert step_of(proof) == step


def step_of(proof: Proof) -> str:
    try:
        verify_proof(proof, digest=BINDING.digest, spki=BINDING.spki)
    except RefusedEvidenceError as err:
        return err.step
    return ""


def test_no_octet_of_a_proof_can_be_changed() -> None:
    good = prove()
    for place in range(len(good.signature)):
        changed = bytearray(good.signature)
        changed[place] ^= 0x01
        assert step_of(Proof(key=good.key, signature=bytes(changed))) == "signature"


async def judged(proof: Proof, version: str = "v1", challenge: Challenge | None = Challenge()) -> Attested:  # noqa: B008
    evidence = Evidence(provider="tofu", version=version, data=msgspec.json.encode(proof))
    return await catalog.verifier("tofu")({}, AROUND).verify_client(evidence, BINDING, challenge, NOW)


@async_test
async def test_what_is_known_afterwards() -> None:
    known = await judged(prove())
    assert (known.strength, known.renewable, known.node_name) == (Strength.FIRST_USE, True, "")
    assert known.identity == (await judged(prove())).identity
    assert known.identity != (await judged(prove(ec.generate_private_key(ec.SECP256R1())))).identity
    verifier = catalog.verifier("tofu")({}, AROUND)
    assert await verifier.verify_serving(known, ["a", "10.0.0.1"], NOW) == {}
    with pytest.raises(UnsupportedVersionError):
        await judged(prove(), "v2")
    with pytest.raises(RefusedEvidenceError, match=r"^nonce: "):
        await judged(prove(), challenge=None)
    with pytest.raises(SettingsError):
        catalog.verifier("tofu")({"more": 1}, AROUND)


def asked(identity: str, key: str) -> Asked:
    """A machine ``identity`` whose evidence is no better than the first time: that of tofu with its key is."""
    proof = Attested(provider="tofu", version="v1", identity=identity, strength=Strength.FIRST_USE)
    return Asked(node_name="n", proofs=(proof,), key=key, uid=f"uid of {key}", requester="r", seconds=600)


@pytest.mark.parametrize("case", FIRST_USES, ids=[case["id"] for case in FIRST_USES])
def test_the_cases(case: dict[str, Any]) -> None:
    """As the rules of a name's history have them; of two at once the one whose write comes second sees the first."""
    given, then = case["given"], case["then"]
    named: NodeIdentity | None = None
    for identity, key in given["store"].items():
        status = node_identities.decide(asked(identity, key), None, (), NOW).status
        named = NodeIdentity(metadata=ObjectMeta(name="n"), status=status)
    winners = 0
    for key in given.get("two_requests_at_once") or [given["key"]]:
        try:
            decided = node_identities.decide(asked(given["identity"], key), named, (), NOW)
        except IdentityRefusedError:
            continue
        winners += 1
        named = NodeIdentity(metadata=ObjectMeta(name="n"), status=decided.status)
    assert winners == (then["winners"] if "winners" in then else int(then["ok"]))
    if "store" in then:
        assert named is not None
        assert {named.status.identity: named.status.key_fingerprint} == then["store"]


@async_test
async def test_the_node_keeps_its_key(tmp_path: Path) -> None:
    path = tmp_path / "state" / "machine.key"
    attestor = await catalog.attestor("tofu")({"key": str(path)}, FakeClock())
    assert path.stat().st_mode & 0o777 == 0o600
    identities = set()
    for attesting in (attestor, await make_attestor({"key": str(path)}, FakeClock())):
        shown = await attesting.attest("v1", KEY, BINDING, None)
        identities.add((await judged(msgspec.json.decode(shown, type=Proof))).identity)
        await attesting.close()
    assert len(identities) == 1


@async_test
async def test_a_key_that_cannot_be_read_is_not_made_anew(tmp_path: Path) -> None:
    """Its name belongs to it: a new one would be another machine, and lock the node out of its own name."""
    path = tmp_path / "machine.key"
    path.touch(mode=0o600)
    for contents, expected in (
        (b"", "key"),
        (b"half", "key"),
        (keys.to_pem(keys.generate(KeyAlgorithm.ECDSA_P384)), "expected a P-256 key"),
    ):
        path.write_bytes(contents)
        with pytest.raises(SettingsError, match=expected):
            await make_attestor({"key": str(path)}, FakeClock())
        assert path.read_bytes() == contents
    path.write_bytes(keys.to_pem(keys.generate(KeyAlgorithm.ECDSA_P256)))
    path.chmod(0o644)
    with pytest.raises(SettingsError, match="0600"):
        await make_attestor({"key": str(path)}, FakeClock())
