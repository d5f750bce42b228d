"""The form that GKE's nodes had: a key in software, of which the instance's virtual TPM says that it has seen it.

Source: kubernetes/cloud-provider-gcp release-1.28, ``cmd/gke-exec-auth-plugin/tpm.go``, ``pkg/tpmattest``,
``cmd/gcp-controller-manager/node_csr_approver.go``. It is read so that nodes that have it can move to another method,
and it proves less than any of ours: nothing in it is of this cluster or of this hour, so that who has copied a request
may send it again for as long as the instance is there (the key in it is the same, so that it gives him nothing), and
the key was made in software. The identity in it is signed by nobody; it only says which instance's key the API is to be
asked for.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_der_public_key,
    load_pem_public_key,
)

from kubevouch.attestation import documents, settings
from kubevouch.attestation.answering import Answering
from kubevouch.attestation.gcp import instance_identity
from kubevouch.attestation.gcp.evidence import provider_id
from kubevouch.attestation.gcp.identity_token import INSTANCE_ID, NAME, PROJECT, ZONE
from kubevouch.attestation.gcp.instances import Instances
from kubevouch.attestation.gcp.verifier import Settings, instance_claims, known_instance, make_instances, serving
from kubevouch.attestation.http import Web, counter
from kubevouch.attestation.interface import (
    Attested,
    Binding,
    Challenge,
    Claim,
    Evidence,
    RefusedEvidenceError,
    SettingsError,
    Sources,
    Strength,
)
from kubevouch.attestation.request import GKE
from kubevouch.pki.errors import ParseError, StructureError
from kubevouch.pki.tpm import algorithms, attest
from kubevouch.pki.tpm.public_area import Attributes, Public
from kubevouch.pki.x509 import x509_certificate

VERSION = "v1"
_SOURCE = "gke-vtpm"
_MIN_BITS = 2048


class VMIdentity(msgspec.Struct, frozen=True):
    """The block VM IDENTITY. ``project_id`` is the number of the project, and ``project_name`` its id."""

    zone: str
    id: int
    name: str
    project_id: int
    project_name: str


class Shown(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The blocks. ``certificate`` is that of the TPM's key, which Google issued; the key itself comes from the API."""

    attest: bytes
    signature: bytes
    identity: bytes
    certificate: bytes = b""


def parse_identity(text: bytes, projects: Iterable[str], zones: Iterable[str] = ()) -> VMIdentity:
    """Which instance the node says it is.

    Raises:
        RefusedEvidenceError: ``structure``, ``duplicate-key``, ``claims``, ``project``, ``zone``.
    """
    # 1. 2. Its form: parts of it become parts of URLs.
    said = documents.decode(text, VMIdentity, "the identity of a machine")
    forms = ((ZONE, said.zone), (NAME, said.name), (PROJECT, said.project_name), (INSTANCE_ID, str(said.id)))
    for pattern, part in forms:
        if not pattern.fullmatch(part):
            raise RefusedEvidenceError("claims", f"got {part[:64]!r} in the identity of a machine")
    # 3. 4. It is one of ours.
    if said.project_name not in projects:
        raise RefusedEvidenceError("project", f"got {said.project_name!r}, which may not join")
    if zones and said.zone not in zones:
        raise RefusedEvidenceError("zone", f"got {said.zone!r}, which may not join")
    return said


def load_signing_key(text: str) -> rsa.RSAPublicKey:
    """6. The key of the instance's virtual TPM, as the API has it. Raises :class:`RefusedEvidenceError`, ``ak-key``."""
    try:
        key = load_pem_public_key(text.encode())
    except (ValueError, UnsupportedAlgorithm) as err:
        raise RefusedEvidenceError("ak-key", f"the API gives no key that can be read: {err}") from err
    if not isinstance(key, rsa.RSAPublicKey) or key.key_size < _MIN_BITS:
        raise RefusedEvidenceError("ak-key", f"the API gives a key that is no RSA key of {_MIN_BITS} bits")
    return key


def verify_certificate(contents: bytes, key: rsa.RSAPublicKey, said: VMIdentity) -> None:
    """7. A certificate that came along says nothing else than the API does. It proves nothing by itself.

    Args:
        said: held against the API before, but for the project's number.

    Raises:
        RefusedEvidenceError: ``structure``, ``ak-key``, ``instance-identity``.
    """
    try:
        certificate = x509_certificate.parse_der(contents)
    except ParseError as err:
        raise RefusedEvidenceError("structure", f"the certificate of the TPM's key: {err}") from err
    if certificate.public_key.canonical_info != key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo):
        raise RefusedEvidenceError("ak-key", "the certificate that came along is of another key than the instance's")
    for each in certificate.extensions:
        if each.oid == instance_identity.OID:
            instance_identity.verify(
                instance_identity.parse(each.value),
                project_number=said.project_id,
                project_id=said.project_name,
                zone=said.zone,
                instance_id=said.id,
                instance_name=said.name,
            )


def verify_attestation(shown: Shown, spki: bytes, key: rsa.RSAPublicKey) -> None:
    """The virtual TPM with ``key`` says that it has seen the key of the request.

    Raises:
        RefusedEvidenceError: ``signature``, ``structure``, ``magic``, ``attest-type``, ``name``.
    """
    # 8. The signature, before anything that it covers is read.
    try:
        key.verify(shown.signature, shown.attest, padding.PKCS1v15(), hashes.SHA256())
    except InvalidSignature as err:
        raise RefusedEvidenceError("signature", "the instance's TPM has not signed this") from err
    # 9. to 11. What it says is made by a TPM, and says that an object is in it. A quote has no such part.
    try:
        said = attest.parse(shown.attest, attest.CERTIFY)
    except StructureError as err:
        raise RefusedEvidenceError("structure", str(err)) from err
    if said.magic != attest.GENERATED:
        raise RefusedEvidenceError("magic", "this was not made by a TPM")
    if not said.has_body:
        raise RefusedEvidenceError("attest-type", f"got {said.type:04x}, expected {attest.CERTIFY:04x}")
    # 12. The object is the key of the request, loaded as GKE's nodes did.
    if said.name not in _names(spki):
        raise RefusedEvidenceError("name", "another key was certified than that of the request")


def _names(spki: bytes) -> tuple[bytes, ...]:
    """What the TPM calls the key. The library of those nodes wrote coordinates without their leading zeros."""
    key = load_der_public_key(spki)
    curves = {known.name: number for number, known in algorithms.CURVES.items()}
    if not isinstance(key, ec.EllipticCurvePublicKey) or key.curve.name not in curves:
        raise RefusedEvidenceError("name", "GKE's nodes have no such key")
    point = key.public_numbers()
    sizes = ((key.key_size + 7) // 8, 0)
    return tuple(
        _public(curves[key.curve.name], *(_octets(each, size) for each in (point.x, point.y))).name() for size in sizes
    )


def _octets(number: int, size: int) -> bytes:
    return number.to_bytes(max(size, (number.bit_length() + 7) // 8), "big")


def _public(curve: int, x: bytes, y: bytes) -> Public:
    return Public(
        type=algorithms.ECC,
        name_algorithm=algorithms.SHA256,
        attributes=Attributes.SIGN | Attributes.USER_WITH_AUTH,
        scheme=(algorithms.ECDSA, algorithms.SHA256),
        curve=curve,
        unique=(x, y),
    )


def make_verifier(settings_: Mapping[str, Any], sources: Sources) -> GKEVerifier:
    """Settings are those of gcp; ``instances`` has to be ``api``. Raises :class:`SettingsError`."""
    read = settings.read({"instances": "api", **settings_}, Settings, GKE)
    web = Web(ca_file=read.ca_file, connect_to=read.connect_to, asked=counter(sources))
    instances = make_instances(read, web, sources)
    if not read.projects or read.instances != "api" or instances is None:
        raise SettingsError(f"settings of {GKE}: expected projects, and instances: api", hint="a file has no keys")
    return GKEVerifier(read, instances)


class GKEVerifier(Answering):
    """A :class:`~kubevouch.attestation.interface.Verifier`."""

    name = GKE
    versions: Sequence[str] = (VERSION,)
    needs_challenge = False

    def __init__(self, settings_: Settings, instances: Instances) -> None:
        self._settings = settings_
        self._instances = instances

    def destination(self, evidence: Evidence) -> str:
        return self.name

    async def verify_client(
        self, evidence: Evidence, binding: Binding, challenge: Challenge | None, now: dt.datetime
    ) -> Attested:
        shown = self.shown(evidence, Shown, "the blocks of a node of GKE")
        # 1. to 4.
        said = parse_identity(shown.identity, self._settings.projects, self._settings.zones)
        # 5. The instance is there, and the one that it says it is.
        instance = await known_instance(self._instances, said.project_name, said.zone, said.name, str(said.id))
        # 6. Its TPM has a key.
        text = await self._instances.signing_key(said.project_name, said.zone, said.name)
        if text is None:
            raise RefusedEvidenceError(
                "ak-key", f"the instance {said.name!r} is no shielded one, it has no signing key"
            )
        key = load_signing_key(text)
        # 7. A certificate that came along fits.
        if shown.certificate:
            verify_certificate(shown.certificate, key, said)
        # 8. to 12.
        verify_attestation(shown, binding.spki, key)
        return Attested(
            provider=GKE,
            version=VERSION,
            identity=f"{said.project_name}/{said.id}",
            # Of a key that somebody vouched for once: nothing says that it is there by now.
            strength=Strength.KEY,
            provider_id=provider_id(said.project_name, said.zone, said.name),
            node_name=said.name if self._settings.node_name else "",
            renewable=self._settings.reattest,
            addresses=instance.addresses,
            claims=(
                Claim("gcp.project", said.project_name, _SOURCE, Strength.CLOUD),
                Claim("gcp.zone", said.zone, _SOURCE, Strength.CLOUD),
                Claim("gcp.instanceID", str(said.id), _SOURCE, Strength.CLOUD),
                *instance_claims(instance),
            ),
            evidence_digest=hashlib.sha256(evidence.data).hexdigest(),
        )

    async def verify_serving(self, attested: Attested, names: Iterable[str], now: dt.datetime) -> Mapping[str, str]:
        return await serving(self._instances, attested, tuple(names))
