"""Possession of a certified SSH host key."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

import evidence_cases
from asynctest import async_test
from device_certificates import NOW
from evidence_cases import Case
from kubevouch.attestation import catalog
from kubevouch.attestation.interface import (
    Attested,
    Binding,
    Challenge,
    Evidence,
    RefusedEvidenceError,
    SettingsError,
    Strength,
    UnavailableError,
    UnsupportedVersionError,
)
from kubevouch.attestation.sshpop.attestor import make_attestor
from kubevouch.attestation.sshpop.evidence import NAMESPACE, Proof, SignatureForm, signed_message
from kubevouch.attestation.sshpop.verifier import SSHPopVerifier, make_verifier, verify_proof
from kubevouch.pki import keys
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.ssh import krl
from kubevouch.pki.ssh.public_key import parse_line
from kubevouch.testing.clock import FakeClock
from ssh_hosts import SSHKey, certify, make_key, prove
from verifier_sources import AROUND

CA, HOST = make_key(), make_key()
LINE = certify(HOST, CA)
BINDING = Binding(spki=b"an spki", cluster_id="c", nonce=b"n" * 32)
NONCE = BINDING.digest


@pytest.mark.parametrize("case", evidence_cases.of("sshpop"))
def test_evidence_of_real_tools(case: Case) -> None:
    proof = Proof(
        certificate=case.text("certificate"),
        host=case.text("host"),
        client_nonce=case.octets("client_nonce"),
        signature=case.text("signature") or case.text("signature_b64"),
        signature_form=case.text("signature_form"),
    )
    revoked = case.octets("krl")
    case.judge(
        lambda: verify_proof(
            proof,
            [parse_line(each) for each in case.roots],
            krl.parse(revoked) if revoked else None,
            nonce=case.nonce,
            now=case.now,
            namespace=case.text("namespace"),
        )
    )


def step_of(proof: Proof) -> str:
    """The one that fails; empty if none does."""
    try:
        verify_proof(proof, [CA.public], None, nonce=NONCE, now=NOW)
    except RefusedEvidenceError as err:
        return err.step
    return ""


def changed(**fields: Any) -> Proof:
    return msgspec.structs.replace(prove(LINE, HOST, NONCE), **fields)


def bare(message: bytes) -> str:
    return base64.b64encode(HOST.sign(message)).decode()


OTHER = Binding(spki=b"another key", cluster_id="c", nonce=b"n" * 32).digest
LATER = Binding(spki=b"an spki", cluster_id="c", nonce=b"m" * 32).digest
MESSAGE = signed_message(NONCE, b"c" * 32)


@pytest.mark.parametrize(
    ("step", "proof"),
    [
        ("", prove(LINE, HOST, NONCE)),
        ("", prove(LINE, HOST, NONCE, hash_name="sha256")),
        ("", prove(LINE, HOST, NONCE, reserved=b"of a later version")),
        ("", changed(signature=bare(MESSAGE), signature_form=SignatureForm.BARE)),
        ("nonce", changed(client_nonce=b"")),
        ("nonce", prove(LINE, HOST, NONCE, client_nonce=b"c" * 31)),
        ("certificate-type", changed(certificate=HOST.line)),
        ("ca", changed(certificate=certify(HOST, HOST))),
        ("principal", changed(host="node-2.example")),
        ("principal", changed(host="")),
        ("signature", prove(LINE, HOST, OTHER)),
        ("signature", prove(LINE, HOST, LATER)),
        ("signature", changed(client_nonce=b"d" * 32)),
        ("signature", prove(LINE, make_key(), NONCE, shown=HOST)),
        ("signature", prove(LINE, HOST, NONCE, shown=make_key())),
        ("signature", prove(LINE, make_key(), NONCE)),
        ("signature", changed(certificate=certify(make_key(), CA))),
        ("namespace", prove(LINE, HOST, NONCE, namespace="file")),
        ("namespace", prove(LINE, HOST, NONCE, namespace="")),
        ("signature-form", prove(LINE, HOST, NONCE, hash_name="sha1")),
        ("signature-form", changed(signature_form="")),
        ("signature-form", changed(signature_form="ssh-rsa")),
        ("structure", changed(signature="")),
        ("structure", changed(signature_form=SignatureForm.BARE)),
        ("structure", changed(signature=bare(MESSAGE))),
        ("structure", changed(certificate="")),
        ("signature", changed(signature=bare(b"a" * 32), signature_form=SignatureForm.BARE)),
        ("signature", changed(signature=bare(NONCE + b"c" * 32), signature_form=SignatureForm.BARE)),
    ],
)
def test_tampered_proofs(step: str, proof: Proof) -> None:
    assert step_of(proof) == step


def evidence(proof: Proof, version: str = "v1") -> Evidence:
    return Evidence(provider="sshpop", version=version, data=msgspec.json.encode(proof), challenge="attest-1")


def verifier(**settings: Any) -> SSHPopVerifier:
    return make_verifier({"authorities": f"# those of the lab\n\n{CA.line} ca\n", **settings}, AROUND)


async def attested(proof: Proof, **settings: Any) -> Attested:
    return await verifier(**settings).verify_client(evidence(proof), BINDING, Challenge(), NOW)


@async_test
async def test_what_is_known_afterwards() -> None:
    line = certify(HOST, CA, principals=("node-1.example", "10.0.0.7", "*.example", "node-1"))
    known = await attested(prove(line, HOST, NONCE))
    assert (known.provider, known.strength, known.renewable, known.node_name) == ("sshpop", Strength.KEY, True, "")
    assert (known.dns_names, known.addresses) == (("node-1.example", "node-1"), ("10.0.0.7",))
    assert known.identity == (await attested(prove(certify(HOST, CA, serial=8), HOST, NONCE))).identity
    serving = await verifier().verify_serving(known, ["10.0.0.7", "node-1", "a.example", "*.example"], NOW)
    assert serving == {"10.0.0.7": "sshpop", "node-1": "sshpop"}


@async_test
async def test_names_that_the_ca_of_the_hosts_gave() -> None:
    good = prove(LINE, HOST, NONCE)
    assert (await attested(good, nodeName="principal")).node_name == "node-1.example"
    assert (await attested(good, nodeName="firstLabel", domain="example")).node_name == "node-1"
    with pytest.raises(RefusedEvidenceError, match=r"^name: "):
        await attested(good, nodeName="firstLabel", domain="other.example")
    for host in ("*.example", "NODE-1", "a/b", "node-1\n", "."):
        strange = prove(certify(HOST, CA, principals=(host,)), HOST, NONCE, host=host)
        with pytest.raises(RefusedEvidenceError, match=r"^name: "):
            await attested(strange, nodeName="principal")


@async_test
async def test_a_list_of_revoked_keys_counts_as_it_is_now(tmp_path: Path) -> None:
    vectors = msgspec.json.decode((Path(__file__).parents[3] / "vectors" / "ssh_revocation.json").read_bytes())["lists"]
    path = tmp_path / "krl"
    path.write_bytes(base64.b64decode(vectors["nothing"]["krl_b64"]))
    judge = verifier(revokedFile=str(path))
    proof = evidence(prove(LINE, HOST, NONCE))
    await judge.verify_client(proof, BINDING, Challenge(), NOW)
    path.write_bytes(base64.b64decode(vectors["its serial, of any CA"]["krl_b64"]))
    with pytest.raises(RefusedEvidenceError, match=r"^revoked: "):
        await judge.verify_client(proof, BINDING, Challenge(), NOW)
    for broken in (lambda: path.write_bytes(b"half"), path.unlink):
        broken()
        with pytest.raises(UnavailableError, match="revokedFile"):
            await judge.verify_client(proof, BINDING, Challenge(), NOW)


@async_test
async def test_what_is_asked_before_the_proof_is_looked_at() -> None:
    with pytest.raises(UnsupportedVersionError):
        await verifier().verify_client(evidence(prove(LINE, HOST, NONCE), "v2"), BINDING, Challenge(), NOW)
    with pytest.raises(RefusedEvidenceError, match=r"^nonce: got no challenge"):
        await verifier().verify_client(evidence(prove(LINE, HOST, NONCE)), BINDING, None, NOW)


@pytest.mark.parametrize(
    "settings",
    [
        {}, {"authorities": "# none"}, {"authorities": "ssh-dss AAAA"}, {"authorities": LINE},
        {"authorities": CA.line, "authoritiesFile": "/x"}, {"authoritiesFile": "/nowhere"},
        {"authorities": CA.line, "revokedFile": "/nowhere"}, {"authorities": CA.line, "nodeName": "firstLabel"},
        {"authorities": CA.line, "more": 1},
    ],
)  # fmt: skip
def test_settings_that_it_cannot_work_with(settings: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match="settings of sshpop"):
        make_verifier(settings, AROUND)


@pytest.mark.parametrize("kind", ["ed25519", "ecdsa", "rsa"])
@async_test
async def test_the_node_s_side_proves_what_the_server_s_side_asks(tmp_path: Path, kind: str) -> None:
    made: Any = HOST.key
    if kind == "ecdsa":
        made = ec.generate_private_key(ec.SECP384R1())
    elif kind == "rsa":
        made = rsa.generate_private_key(65537, 2048)
    key = tmp_path / "ssh_host_key"
    key.touch(mode=0o600)
    key.write_bytes(made.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))
    host = SSHKey(made)
    (tmp_path / "ssh_host_key-cert.pub").write_text(certify(host, CA) + " root@node-1\n")
    attestor = await catalog.attestor("sshpop")({"hostKey": str(key)}, FakeClock())
    shown = await attestor.attest("v1", keys.generate(KeyAlgorithm.ECDSA_P256), BINDING, None)
    proof = Evidence(provider="sshpop", version="v1", data=shown, challenge="a")
    known = await verifier(nodeName="principal").verify_client(proof, BINDING, Challenge(), NOW)
    assert known.node_name == "node-1.example"
    assert NAMESPACE in base64.b64decode("".join(msgspec.json.decode(shown)["signature"].splitlines()[1:-1])).decode(
        "latin-1"
    )
    await attestor.close()


@async_test
async def test_a_pair_that_is_none(tmp_path: Path) -> None:
    key = tmp_path / "key"
    HOST.write(key)
    line, another, nameless = tmp_path / "cert", tmp_path / "another", tmp_path / "nameless"
    line.write_text(LINE)
    another.write_text(certify(make_key(), CA))
    nameless.write_text(certify(HOST, CA, principals=()))
    for settings, expected in (
        ({"hostKey": str(key)}, "No such file"),
        ({"hostKey": str(key), "certificate": str(another)}, "is not the key of"),
        ({"hostKey": str(key), "certificate": str(nameless)}, "names no host"),
        ({"hostKey": str(key), "certificate": str(key)}, "certificate"),
        ({"hostKey": str(tmp_path / "none"), "certificate": str(line)}, "No such file"),
        ({"hostKey": str(line), "certificate": str(line)}, "hostKey"),
        ({"hostKey": str(key), "certificate": str(line), "more": "x"}, "more"),
    ):
        with pytest.raises(SettingsError, match=expected):
            await make_attestor(settings, FakeClock())
    line.chmod(0o600)
    with pytest.raises(SettingsError, match="no SSH private key"):
        await make_attestor({"hostKey": str(line), "certificate": str(line)}, FakeClock())
