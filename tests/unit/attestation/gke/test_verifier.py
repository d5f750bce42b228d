"""Requests of GKE's nodes: what Google's own approver saw in them, in this order."""

from __future__ import annotations

import datetime as dt
import json
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.x509.oid import NameOID

from asynctest import async_test
from cloud_servers.gcp import INSTANCE_ID, NAME, PROJECT, ZONE, GoogleCloud, resource, tpm_key
from kubevouch.attestation import request
from kubevouch.attestation.gcp.instance_identity import OID
from kubevouch.attestation.gke.verifier import GKEVerifier, load_signing_key, make_verifier
from kubevouch.attestation.interface import (
    Attested,
    Binding,
    Evidence,
    RefusedEvidenceError,
    SettingsError,
    Strength,
    UnavailableError,
    UnsupportedVersionError,
)
from kubevouch.client.interface import Client
from kubevouch.pki import keys
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.tpm import algorithms, attest
from kubevouch.pki.tpm.marshalling import sized
from kubevouch.pki.tpm.public_area import Public
from kubevouch.pki.x509 import pem
from kubevouch.pki.x509.request_builder import build_request
from kubevouch.pki.x509.subject import Subject
from kubevouch.testing.clock import FakeClock
from node_cases import CASES
from token_keys import private_key

# As go-tpm-tools has it, and as cloud-provider-gcp read it.
GOOD = bytes.fromhex(
    "30320c0a75732d65617374392d7a020562c6d1a9b20c0964656d6f2d70726f6a02071b5b361667b8be0c09766d2d626c75652d33"
)
SWAPPED = bytes.fromhex(
    "30320c0a75732d65617374392d7a02071b5b361667b8be0c09766d2d626c75652d33020562c6d1a9b20c0964656d6f2d70726f6a"
)
NOW = dt.datetime(2031, 3, 1, 12, tzinfo=dt.UTC)
KEY = keys.generate(KeyAlgorithm.ECDSA_P256)
IDENTITY = {
    "zone": ZONE,
    "id": int(INSTANCE_ID),
    "name": NAME,
    "project_id": 424242424242,
    "project_name": PROJECT,
}


@dataclass
class World:
    clock: FakeClock
    client: Client | None = None


def spki(key: Any) -> bytes:
    public = key.public_key()
    return bytes(public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo))


def name_of(key: Any, *, shortened: bool = False) -> bytes:
    """What LoadExternal calls the key: sign, userWithAuth, ECDSA with SHA-256 and no policy."""
    numbers = key.public_key().public_numbers()
    size = 0 if shortened else (key.curve.key_size + 7) // 8
    unique = tuple(each.to_bytes(max(size, (each.bit_length() + 7) // 8), "big") for each in (numbers.x, numbers.y))
    public = Public(
        type=algorithms.ECC,
        name_algorithm=algorithms.SHA256,
        attributes=0x00040040,
        scheme=(algorithms.ECDSA, algorithms.SHA256),
        curve={256: algorithms.P256, 384: algorithms.P384}[key.curve.key_size],
        unique=unique,
    )
    return public.name()


def certify(key: Any = KEY, magic: int = attest.GENERATED, kind: int = attest.CERTIFY, **more: Any) -> bytes:
    """TPMS_ATTEST as TPM2_Certify without qualifying data makes it."""
    name = name_of(key, **more)
    body = sized(name) + sized(b"\x00\x0b" + bytes(32))
    if kind == attest.QUOTE:
        body = struct.pack(">IHB", 1, algorithms.SHA256, 3) + b"\x01\x00\x00" + sized(bytes(32))
    clock = struct.pack(">QIIB", 4711, 3, 0, 1)
    return struct.pack(">IH", magic, kind) + sized(b"\x00\x0b" + bytes(32)) + sized(b"") + clock + bytes(8) + body


def blocks(
    attested: bytes = b"", identity: Any = None, signer: Any = None, key: Any = KEY, signature: bytes = b""
) -> bytes:
    """A request as gke-exec-auth-plugin wrote it."""
    said = attested or certify(key)
    sealed = signature or (signer or tpm_key()).sign(said, padding.PKCS1v15(), hashes.SHA256())
    text = identity if isinstance(identity, bytes) else json.dumps(identity or IDENTITY).encode()
    return (
        build_request(key, Subject(common_name=f"system:node:{NAME}", organizations=("system:nodes",)))
        + pem.encode("VM IDENTITY", text)
        + pem.encode("ATTESTATION DATA", said)
        + pem.encode("ATTESTATION SIGNATURE", sealed)
    )


def certificate(key: Any = None, value: bytes = GOOD) -> bytes:
    """That of the TPM's key, with the instance in it."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "attestation key")])
    built = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key((key or tpm_key()).public_key())
        .serial_number(7)
        .not_valid_before(NOW)
        .not_valid_after(NOW + dt.timedelta(days=1))
        .add_extension(x509.UnrecognizedExtension(x509.ObjectIdentifier(OID), value), critical=False)
        .sign(private_key(0), hashes.SHA256())
    )
    return pem.encode("ATTESTATION CERTIFICATE", built.public_bytes(serialization.Encoding.DER))


def verifier(cloud: GoogleCloud, folder: Path) -> GKEVerifier:
    settings = cloud.verifier_settings(folder)
    return make_verifier(settings, World(FakeClock(NOW)))


async def attested(made: GKEVerifier, text: bytes, key: Any = KEY) -> Attested:
    (evidence,) = request.parse(text)
    assert (evidence.provider, evidence.version) == ("gke", "v1")
    return await made.verify_client(evidence, Binding(spki(key), "blue"), None, NOW)


@async_test
async def test_a_request_of_a_node_of_gke(tmp_path: Path) -> None:
    async with GoogleCloud(tmp_path, NOW) as cloud:
        made = verifier(cloud, tmp_path)
        found = await attested(made, blocks() + certificate())
        names = await made.verify_serving(found, [NAME, "10.0.0.5", "10.0.0.6"], NOW)

    assert (found.identity, found.strength) == (f"{PROJECT}/{INSTANCE_ID}", Strength.KEY)
    assert (found.provider, found.node_name, found.provider_id) == ("gke", NAME, f"gce://{PROJECT}/{ZONE}/{NAME}")
    assert set(names) == {NAME, "10.0.0.5"}


@async_test
async def test_keys_of_every_kind_that_such_nodes_had(tmp_path: Path) -> None:
    # Such nodes' library left the zeros out of what the TPM was given, and so out of the name.
    short = next(
        key
        for key in (ec.derive_private_key(number, ec.SECP256R1()) for number in range(1, 5000))
        if key.public_key().public_numbers().x.bit_length() <= 248
    )
    longer = ec.generate_private_key(ec.SECP384R1())
    async with GoogleCloud(tmp_path, NOW) as cloud:
        made = verifier(cloud, tmp_path)
        for shortened in (True, False):
            await attested(made, blocks(certify(short, shortened=shortened), key=short), short)
        await attested(made, blocks(certify(longer), key=longer), longer)
        evidence = Evidence(provider="gke", version="v2", data=b"{}")
        with pytest.raises(UnsupportedVersionError):
            await made.verify_client(evidence, Binding(spki(KEY), "blue"), None, NOW)


OTHER = keys.generate(KeyAlgorithm.ECDSA_P256)
TAMPERED: dict[str, tuple[Callable[[], bytes], str]] = {
    "identity is no JSON": (lambda: blocks(identity=b"x"), "structure"),
    "identity says it twice": (
        lambda: blocks(identity=json.dumps(IDENTITY).encode()[:-1] + b',"name":"other"}'),
        "duplicate-key",
    ),
    "identity leaves the path": (lambda: blocks(identity={**IDENTITY, "name": "../x"}), "claims"),
    "zone leaves the path": (lambda: blocks(identity={**IDENTITY, "zone": "z/instances/y"}), "claims"),
    "id of no instance": (lambda: blocks(identity={**IDENTITY, "id": -1}), "claims"),
    "another project": (lambda: blocks(identity={**IDENTITY, "project_name": "demo-proj2"}), "project"),
    "project and its number swapped": (lambda: blocks(identity={**IDENTITY, "project_name": "424242424242"}), "claims"),
    "another name": (lambda: blocks(identity={**IDENTITY, "name": "vm-blue-4"}), "instance"),
    "another id": (lambda: blocks(identity={**IDENTITY, "id": 7}), "instance"),
    "signed by another TPM": (lambda: blocks(signer=private_key(0)), "signature"),
    "signature cut off": (lambda: blocks(signature=b"x"), "signature"),
    "made by no TPM": (lambda: blocks(certify(magic=0xFF544348)), "magic"),
    "a quote": (lambda: blocks(certify(kind=attest.QUOTE)), "attest-type"),
    "cut off": (lambda: blocks(certify()[:-1]), "structure"),
    "octets behind": (lambda: blocks(certify() + b"\x00"), "structure"),
    "empty": (lambda: blocks(certify()[:3]), "structure"),
    "another key": (lambda: blocks(certify(OTHER)), "name"),
    "no certificate": (lambda: blocks() + pem.encode("ATTESTATION CERTIFICATE", b"x"), "structure"),
    "certificate of another key": (lambda: blocks() + certificate(private_key(1)), "ak-key"),
    "certificate of another instance": (
        lambda: blocks() + certificate(value=GOOD.replace(b"vm-blue-3", b"vm-blue-4")),
        "instance-identity",
    ),
    "certificate of another zone": (
        lambda: blocks() + certificate(value=GOOD.replace(b"us-east9-z", b"us-east9-y")),
        "instance-identity",
    ),
    "certificate in the other order": (lambda: blocks() + certificate(value=SWAPPED), "instance-identity"),
}


@pytest.mark.parametrize("case", TAMPERED)
@async_test
async def test_what_was_tampered_with(tmp_path: Path, case: str) -> None:
    make, step = TAMPERED[case]
    async with GoogleCloud(tmp_path, NOW) as cloud:
        with pytest.raises(RefusedEvidenceError) as caught:
            await attested(verifier(cloud, tmp_path), make())
    assert caught.value.step == step


@async_test
async def test_a_key_that_such_nodes_never_had(tmp_path: Path) -> None:
    strange = ed25519.Ed25519PrivateKey.generate()
    async with GoogleCloud(tmp_path, NOW) as cloud:
        with pytest.raises(RefusedEvidenceError) as caught:
            await attested(verifier(cloud, tmp_path), blocks(), strange)
    assert caught.value.step == "name"


API = [case for case in CASES if case["when"] == "GKE style verify"]


@pytest.mark.parametrize("case", API, ids=[case["id"] for case in API])
@async_test
async def test_an_api_that_fails_denies_nobody(tmp_path: Path, case: dict[str, Any]) -> None:
    status, denied = case["given"]["api"]["instance"], case["then"]["denied"]
    async with GoogleCloud(tmp_path, NOW) as cloud:
        if denied:
            assert status == 404
            cloud.instances.clear()
        else:
            cloud.fail(status)
        with pytest.raises(RefusedEvidenceError if denied else UnavailableError):
            await attested(verifier(cloud, tmp_path), blocks())


@async_test
async def test_zones_whose_instances_may_join(tmp_path: Path) -> None:
    async with GoogleCloud(tmp_path, NOW) as cloud:
        settings = {**cloud.verifier_settings(tmp_path), "zones": ["us-east9-y"]}
        with pytest.raises(RefusedEvidenceError) as caught:
            await attested(make_verifier(settings, World(FakeClock(NOW))), blocks())
    assert caught.value.step == "zone"


@pytest.mark.parametrize(
    "text", ["", "x", "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", "P-256", "1024"]
)
def test_keys_of_the_api_that_no_such_tpm_has(text: str) -> None:
    strange = {"P-256": KEY, "1024": rsa.generate_private_key(65537, 1024)}
    if text in strange:
        public = strange[text].public_key()
        text = public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo).decode()
    with pytest.raises(RefusedEvidenceError) as caught:
        load_signing_key(text)
    assert caught.value.step == "ak-key"


@async_test
async def test_an_instance_that_is_not_shielded(tmp_path: Path) -> None:
    async with GoogleCloud(tmp_path, NOW) as cloud:
        cloud.instances[NAME] = resource(shieldedInstanceConfig={"enableVtpm": False})
        with pytest.raises(RefusedEvidenceError) as caught:
            await attested(verifier(cloud, tmp_path), blocks())
    assert caught.value.step == "ak-key"


@pytest.mark.parametrize("settings", [{"projects": []}, {"projects": ["p"], "instances": "/instances.json"}, {}])
def test_settings_that_cannot_work(settings: dict[str, Any]) -> None:
    with pytest.raises(SettingsError):
        make_verifier(settings, World(FakeClock(NOW)))


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text + pem.encode("ATTESTATION DATA", b"x"),
        lambda text: text + pem.encode("VM IDENTITY", b"x"),
        lambda text: text + pem.encode(request.PROVIDER_BLOCK, b"gcp"),
        lambda text: text + pem.encode(request.DATA_BLOCK, b"{}"),
        lambda text: text + b"x",
        lambda text: text.replace(b"ATTESTATION SIGNATURE", b"ATTESTATION SIGNATURES"),
        lambda text: text[: text.index(b"-----BEGIN ATTESTATION SIGNATURE")],
        lambda text: text.replace(b"ATTESTATION DATA", b"ATTESTATION CERTIFICATE"),
    ],
)
def test_blocks_that_could_be_read_in_two_ways(change: Callable[[bytes], bytes]) -> None:
    with pytest.raises(RefusedEvidenceError) as caught:
        request.parse(change(blocks()))
    assert caught.value.step == "structure"


def test_it_may_come_in_our_own_blocks_too() -> None:
    proof = Evidence(provider="gke", version="v1", data=b"{}")
    built = request.build(build_request(KEY, Subject(common_name="system:node:a")), [proof])
    assert request.parse(built) == (proof,)
