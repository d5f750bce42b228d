"""An SVID as evidence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from asynctest import async_test
from device_certificates import NOW, Issued, authority, issue
from kubevouch.attestation import catalog
from kubevouch.attestation.interface import (
    Attested,
    Binding,
    Challenge,
    Evidence,
    RefusedEvidenceError,
    SettingsError,
    UnavailableError,
    UnsupportedVersionError,
)
from kubevouch.attestation.spiffe.evidence import parse_id
from kubevouch.attestation.x509pop.evidence import Proof, SignatureForm, signed_message
from kubevouch.pki import keys
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.testing.clock import FakeClock
from verifier_sources import AROUND

AUTHORITY = authority("spire")
ID = "spiffe://example.test/node/worker-7"
BINDING = Binding(spki=b"an spki", cluster_id="c", nonce=b"n" * 32)
SETTINGS = {"trustDomain": "example.test", "paths": ["/node/"], "bundle": AUTHORITY.pem}


def svid(*ids: str, by: Issued = AUTHORITY, **more: Any) -> Issued:
    return issue("", by, uris=ids or (ID,), **more)


def prove(shown: Issued, digest: bytes = BINDING.digest) -> bytes:
    assert isinstance(shown.key, ec.EllipticCurvePrivateKey)
    nonce = b"c" * 32
    return msgspec.json.encode(
        Proof(
            certificates=(shown.der,),
            client_nonce=nonce,
            signature=shown.key.sign(signed_message(digest, nonce), ec.ECDSA(hashes.SHA256())),
            signature_form=SignatureForm.ECDSA,
        )
    )


async def judged(text: bytes, version: str = "v1", challenge: Any = Challenge(), **settings: Any) -> Attested:  # noqa: B008
    verifier = catalog.verifier("spiffe")({**SETTINGS, **settings}, AROUND)
    evidence = Evidence(provider="spiffe", version=version, data=text)
    return await verifier.verify_client(evidence, BINDING, challenge, NOW)


@async_test
async def test_the_identity_is_the_spiffe_id_whatever_the_key() -> None:
    known = await judged(prove(svid()))
    assert (known.identity, known.node_name, known.renewable) == (ID, "", True)
    assert (await judged(prove(svid()))).identity == ID
    assert (await judged(prove(svid()), nodeName=True)).node_name == "worker-7"
    verifier = catalog.verifier("spiffe")(SETTINGS, AROUND)
    assert await verifier.verify_serving(known, ["worker-7"], NOW) == {}


@pytest.mark.parametrize(
    ("step", "shown"),
    [
        ("spiffe-id", issue("d", AUTHORITY)),
        ("spiffe-id", svid(ID, "spiffe://example.test/node/worker-8")),
        ("spiffe-id", svid("https://example.test/node/worker-7")),
        ("spiffe-id", svid("spiffe://example.test/node/../node/worker-7")),
        ("spiffe-id", svid("spiffe://example.test/node//worker-7")),
        ("spiffe-id", svid("spiffe://example.test/node/worker-7?x=y")),
        ("spiffe-id", svid("spiffe://example.test")),
        ("trust-domain", svid("spiffe://other.test/node/worker-7")),
        ("path", svid("spiffe://example.test/workload/worker-7")),
        ("path", svid("spiffe://example.test/node")),
        ("path", svid("spiffe://example.test/nodes/worker-7")),
        ("ca", svid(ca=True)),
        ("key-usage", svid(digital_signature=False)),
        ("chain", svid(by=authority("spire"))),
    ],
)
@async_test
async def test_svids_that_are_none_of_a_machine(step: str, shown: Issued) -> None:
    with pytest.raises(RefusedEvidenceError) as caught:
        await judged(prove(shown))
    assert caught.value.step == step


@async_test
async def test_names_that_a_path_gives() -> None:
    for path in ("Worker-7", "a/b", "worker_7"):
        with pytest.raises(RefusedEvidenceError, match=r"^name: "):
            await judged(prove(svid(f"spiffe://example.test/node/{path}")), nodeName=True)


@async_test
async def test_the_authorities_of_a_trust_domain_change(tmp_path: Path) -> None:
    path = tmp_path / "bundle.pem"
    path.write_text(AUTHORITY.pem)
    settings = {"trustDomain": "example.test", "paths": ["/node/"], "bundleFile": str(path)}
    verifier = catalog.verifier("spiffe")(settings, AROUND)
    newer = authority("spire 2")
    evidence = Evidence(provider="spiffe", version="v1", data=prove(svid(by=newer)))
    with pytest.raises(RefusedEvidenceError, match=r"^chain: "):
        await verifier.verify_client(evidence, BINDING, Challenge(), NOW)
    path.write_text(AUTHORITY.pem + newer.pem)
    assert (await verifier.verify_client(evidence, BINDING, Challenge(), NOW)).identity == ID
    path.unlink()
    with pytest.raises(UnavailableError):
        await verifier.verify_client(evidence, BINDING, Challenge(), NOW)


@async_test
async def test_what_is_asked_before_the_proof_is_looked_at() -> None:
    with pytest.raises(UnsupportedVersionError):
        await judged(prove(svid()), "v2")
    with pytest.raises(RefusedEvidenceError, match=r"^nonce: "):
        await judged(prove(svid()), challenge=None)
    with pytest.raises(RefusedEvidenceError, match=r"^signature: "):
        await judged(prove(svid(), b"d" * 32))


@pytest.mark.parametrize(
    "changed",
    [
        {"trustDomain": "Example.test"}, {"trustDomain": ""}, {"trustDomain": "a/b"}, {"paths": []},
        {"paths": ["node/"]}, {"paths": ["/node"]}, {"paths": [""]}, {"bundle": ""}, {"bundle": "x"},
        {"bundleFile": "/nowhere"}, {"x": 1},
    ],
)  # fmt: skip
def test_settings_that_it_cannot_work_with(changed: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match="settings of spiffe"):
        catalog.verifier("spiffe")({**SETTINGS, **changed}, AROUND)


@pytest.mark.parametrize(
    "text",
    [
        "", "spiffe://", "spiffe://a", "spiffe://a/", "spiffe://A/b", "spiffe://a:1/b", "spiffe://u@a/b", "SPIFFE://a/b",
        "spiffe://a/b#", "spiffe://a/b/", "spiffe://a/%62", "spiffe://a/b c", "spiffe://a/ü", "spiffe://a/b\n",
        "spiffe://a/" + "b" * 2048,
    ],
)  # fmt: skip
def test_what_is_no_spiffe_id(text: str) -> None:
    with pytest.raises(ValueError):
        parse_id(text)


@async_test
async def test_the_node_s_side_shows_what_is_on_its_disk(tmp_path: Path) -> None:
    certificate, key = svid().write(tmp_path)
    attestor = await catalog.attestor("spiffe")({"svid": str(certificate), "key": str(key)}, FakeClock())
    assert attestor.name == "spiffe"
    asked_for = keys.generate(KeyAlgorithm.ECDSA_P256)
    assert (await judged(await attestor.attest("v1", asked_for, BINDING, None))).identity == ID
    key.unlink()
    with pytest.raises(SettingsError, match="settings of spiffe"):
        await attestor.attest("v1", asked_for, BINDING, None)
