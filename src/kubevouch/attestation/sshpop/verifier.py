"""The server's side of sshpop: a certificate of a host by a CA of hosts, and a signature by the host's key."""

from __future__ import annotations

import datetime as dt
import hashlib
import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any

import msgspec

from kubevouch.attestation import serving_names, settings
from kubevouch.attestation.answering import Answering, require
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
    UnavailableError,
)
from kubevouch.attestation.sshpop.evidence import (
    NAME,
    NAMESPACE,
    NONCE_BYTES,
    VERSIONS,
    Proof,
    SignatureForm,
    signed_message,
)
from kubevouch.machinery.text import names
from kubevouch.pki.errors import SSHError
from kubevouch.pki.ssh import certificate, krl, public_key, sshsig, wire
from kubevouch.pki.ssh.certificate import Certificate
from kubevouch.pki.ssh.krl import RevocationList
from kubevouch.pki.ssh.public_key import PublicKey
from kubevouch.util import files


class NodeName(StrEnum):
    """What of the host's name is the Node's."""

    NONE = "none"
    PRINCIPAL = "principal"
    FIRST_LABEL = "firstLabel"


class Settings(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Args:
    authorities, authorities_file: public keys of the CAs of hosts, one a line; one of the two.
    revoked_file: a key revocation list of ``ssh-keygen -k``; read anew whenever it counts.
    node_name: where the Node's name is; ``none`` leaves it to inventory and policy.
    domain: with ``firstLabel``, what has to stand behind the first label.
    """

    authorities: str = ""
    authorities_file: str = ""
    revoked_file: str = ""
    node_name: NodeName = NodeName.NONE
    domain: str = ""


def make_verifier(settings_: Mapping[str, Any], sources: Sources) -> SSHPopVerifier:
    """Raises :class:`SettingsError`."""
    read = settings.read(settings_, Settings, NAME)
    text = settings.text_or_file(read.authorities, read.authorities_file, NAME, "authorities")
    if read.node_name is NodeName.FIRST_LABEL and not read.domain:
        raise SettingsError(
            f"settings of {NAME}: nodeName firstLabel without domain",
            hint="a.one.example and a.two.example would both be the Node a; say the domain of the hosts",
        )
    made = SSHPopVerifier(_authorities(text), read)
    made.revocations()
    return made


class SSHPopVerifier(Answering):
    """A :class:`~kubevouch.attestation.interface.Verifier`."""

    name = NAME
    versions: Sequence[str] = VERSIONS
    needs_challenge = True

    def __init__(self, authorities: Sequence[PublicKey], settings_: Settings) -> None:
        self._authorities = authorities
        self._settings = settings_
        self._read: tuple[files.Stamp, RevocationList] | None = None

    async def verify_client(
        self, evidence: Evidence, binding: Binding, challenge: Challenge | None, now: dt.datetime
    ) -> Attested:
        proof = self.shown(evidence, Proof, "the proof of sshpop")
        require(challenge)
        try:
            revocations = self.revocations()
        except SettingsError as err:
            # Without its list nobody is let in, and nobody is turned away for ever.
            raise UnavailableError(str(err)) from err
        host = verify_proof(proof, self._authorities, revocations, nonce=binding.digest, now=now)
        dns_names, addresses = _names(host.principals)
        return Attested(
            provider=NAME,
            version=evidence.version,
            identity=f"sha256:{hashlib.sha256(host.key.blob).hexdigest()}",
            strength=Strength.KEY,
            node_name=_node_name(proof.host, self._settings),
            renewable=True,
            addresses=addresses,
            dns_names=dns_names,
            claims=tuple(
                Claim(name=f"{NAME}.{name}", value=value[:256], source=NAME, strength=Strength.KEY)
                for name, value in (
                    ("principal", proof.host),
                    ("keyId", host.key_id),
                    ("serial", str(host.serial)),
                    ("ca", f"sha256:{hashlib.sha256(host.authority.blob).hexdigest()}"),
                )
            ),
            evidence_digest=hashlib.sha256(evidence.data).hexdigest(),
        )

    async def verify_serving(self, attested: Attested, names: Iterable[str], now: dt.datetime) -> Mapping[str, str]:
        """The principals of the certificate."""
        return serving_names.among(attested, names)

    def revocations(self) -> RevocationList | None:
        """As the file is now: whoever writes one wants it to count.

        Raises:
            SettingsError: it cannot be read.
        """
        path = self._settings.revoked_file
        if not path:
            return None
        stamp = files.stamp(path)
        if stamp is not None and self._read is not None and self._read[0] == stamp:
            return self._read[1]
        try:
            found = krl.parse(settings.read_file(path, NAME, "revokedFile"))
            self._read = None if stamp is None else (stamp, found)
            return found
        except SSHError as err:
            raise SettingsError(
                f"settings of {NAME}: revokedFile {path}: {err}", hint="make it with ssh-keygen -k"
            ) from err


def verify_proof(
    proof: Proof,
    authorities: Sequence[PublicKey],
    revocations: RevocationList | None,
    *,
    nonce: bytes,
    now: dt.datetime,
    namespace: str = NAMESPACE,
) -> Certificate:
    """The certificate of the host whose key has signed ``nonce``.

    Raises:
        RefusedEvidenceError: with the step, in this order: ``nonce``; ``size``, ``structure``, ``key-type``,
            ``key-size`` of the certificate; those of :func:`~kubevouch.pki.ssh.certificate.verify_host`; ``revoked``;
            ``signature-form``, ``signature`` for another key, ``namespace``, ``signature``.
    """
    if len(proof.client_nonce) != NONCE_BYTES:
        raise RefusedEvidenceError(
            "nonce", f"got a client nonce of {len(proof.client_nonce)} bytes, expected {NONCE_BYTES}"
        )
    try:
        host = certificate.parse(proof.certificate)
        certificate.verify_host(host, authorities, host=proof.host, now=now)
        if revocations is not None:
            revocations.verify(host)
        _verify_signature(host.key, proof, signed_message(nonce, proof.client_nonce), namespace)
    except SSHError as err:
        raise RefusedEvidenceError(err.step, str(err)) from err
    return host


def _verify_signature(key: PublicKey, proof: Proof, message: bytes, namespace: str) -> None:
    if proof.signature_form == SignatureForm.BARE:
        key.verify(wire.base64_octets(proof.signature), message)
    elif proof.signature_form == SignatureForm.SSHSIG:
        signature = sshsig.parse(proof.signature)
        # ssh-keygen writes the plain key even where it was given the certificate.
        if signature.public_key != key.blob:
            raise SSHError("signature", "it is by another key than the certificate's")
        key.verify(signature.signature, sshsig.signed_octets(signature, message, namespace))
    else:
        raise SSHError("signature-form", f"got {proof.signature_form[:64]!r}, expected {' or '.join(SignatureForm)}")


def _authorities(text: bytes) -> tuple[PublicKey, ...]:
    found = []
    for number, line in enumerate(text.decode("utf-8", "replace").splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            found.append(public_key.parse_line(line))
        except SSHError as err:
            raise SettingsError(
                f"settings of {NAME}: authorities, line {number}: {err}",
                hint="give the public keys of the CAs, such as ssh-ed25519 AAAA…",
            ) from err
    if not found:
        raise SettingsError(f"settings of {NAME}: got authorities without a key")
    return tuple(found)


def _names(principals: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """DNS names and addresses among the principals; a pattern is neither."""
    dns_names, addresses = [], []
    for each in principals:
        try:
            addresses.append(str(ipaddress.ip_address(each)))
        except ValueError:
            if not names.subdomain(each):
                dns_names.append(each)
    return tuple(dns_names), tuple(addresses)


def _node_name(host: str, wanted: Settings) -> str:
    if wanted.node_name is NodeName.NONE:
        return ""
    name = host
    if wanted.node_name is NodeName.FIRST_LABEL:
        name, _, rest = host.partition(".")
        if rest != wanted.domain:
            raise RefusedEvidenceError("name", f"the host {host[:64]!r} is not of {wanted.domain}")
    faults = names.subdomain(name)
    if faults:
        raise RefusedEvidenceError("name", f"{name[:64]!r}: {faults[0]}")
    return name
