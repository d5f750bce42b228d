"""The server's side of spiffe: an X.509-SVID of a trust domain, below a path that is for machines."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from kubevouch.attestation import settings
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
from kubevouch.attestation.spiffe.evidence import NAME, VERSIONS, SpiffeID, is_trust_domain, parse_id
from kubevouch.attestation.x509pop.evidence import Proof
from kubevouch.attestation.x509pop.verifier import verify_proof
from kubevouch.machinery.text import names
from kubevouch.pki.client_certificate import TrustAnchors
from kubevouch.pki.errors import ParseError
from kubevouch.pki.x509.x509_certificate import Certificate


class Settings(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Args:
    trust_domain: whose SVIDs count.
    bundle, bundle_file: the X.509 authorities of the trust domain in PEM; one of them. The file is read anew.
    paths: SPIFFE IDs below one of these count: ``/node/`` takes ``/node/worker-7``. A domain has workloads, too.
    node_name: the one segment behind the path is the name of the Node.
    """

    trust_domain: str
    paths: tuple[str, ...]
    bundle: str = ""
    bundle_file: str = ""
    node_name: bool = False


def make_verifier(settings_: Mapping[str, Any], sources: Sources) -> SpiffeVerifier:
    """Raises :class:`SettingsError`."""
    read = settings.read(settings_, Settings, NAME)
    if not is_trust_domain(read.trust_domain):
        raise SettingsError(f"settings of {NAME}: trustDomain: got {read.trust_domain!r}", hint="such as example.org")
    if not read.paths or any(not each.startswith("/") or not each.endswith("/") for each in read.paths):
        raise SettingsError(
            f"settings of {NAME}: paths: expected some that begin and end with a slash",
            hint="name those of machines, such as /node/: an SVID of a workload must not become a node",
        )
    made = SpiffeVerifier(read)
    made.authorities()
    return made


class SpiffeVerifier(Answering):
    """A :class:`~kubevouch.attestation.interface.Verifier`."""

    name = NAME
    versions: Sequence[str] = VERSIONS
    needs_challenge = True

    def __init__(self, settings_: Settings) -> None:
        self._settings = settings_

    async def verify_client(
        self, evidence: Evidence, binding: Binding, challenge: Challenge | None, now: dt.datetime
    ) -> Attested:
        proof = self.shown(evidence, Proof, "the proof of spiffe")
        require(challenge)
        try:
            authorities = self.authorities()
        except SettingsError as err:
            raise UnavailableError(str(err)) from err
        chain = verify_proof(proof, authorities, nonce=binding.digest, now=now)
        spiffe_id = verify_id(chain[0], self._settings)
        return Attested(
            provider=NAME,
            version=evidence.version,
            identity=str(spiffe_id),
            strength=Strength.KEY,
            node_name=_node_name(spiffe_id, self._settings),
            renewable=True,
            claims=tuple(
                Claim(name=f"{NAME}.{name}", value=value[:256], source=NAME, strength=Strength.KEY)
                for name, value in (("id", str(spiffe_id)), ("authority", chain[-1].fingerprint().hex()))
            ),
            evidence_digest=hashlib.sha256(evidence.data).hexdigest(),
        )

    async def verify_serving(self, attested: Attested, names: Iterable[str], now: dt.datetime) -> Mapping[str, str]:
        """None: an SVID's DNS names are whatever its registration entry says."""
        return {}

    def authorities(self) -> TrustAnchors:
        """As they are now: a trust domain changes its authorities within days. Raises :class:`SettingsError`."""
        text = settings.text_or_file(self._settings.bundle, self._settings.bundle_file, NAME, "bundle")
        try:
            return TrustAnchors.from_pem(text)
        except ParseError as err:
            raise SettingsError(f"settings of {NAME}: bundle: {err}", hint="give the authorities in PEM") from err


def verify_id(svid: Certificate, wanted: Settings) -> SpiffeID:
    """The one SPIFFE ID of an SVID, of the trust domain and below one of the paths.

    Raises:
        RefusedEvidenceError: ``spiffe-id``, ``trust-domain``, ``path``, in this order.
    """
    uris = svid.meaning.alt_names.uris
    if len(uris) != 1:
        raise RefusedEvidenceError("spiffe-id", f"got {len(uris)} URIs in the SVID, expected one")
    try:
        found = parse_id(uris[0])
    except ValueError as err:
        raise RefusedEvidenceError("spiffe-id", str(err)) from err
    # Bundles of federated domains may stand in one file: the authority alone does not say whose SVID it is.
    if found.trust_domain != wanted.trust_domain:
        raise RefusedEvidenceError("trust-domain", f"got {found.trust_domain!r}, expected {wanted.trust_domain!r}")
    if not any(found.path.startswith(each) for each in wanted.paths):
        raise RefusedEvidenceError("path", f"{found.path[:128]!r} is below none of {', '.join(wanted.paths)}")
    return found


def _node_name(found: SpiffeID, wanted: Settings) -> str:
    if not wanted.node_name:
        return ""
    prefix = next(each for each in sorted(wanted.paths, key=len, reverse=True) if found.path.startswith(each))
    name = found.path.removeprefix(prefix)
    faults = names.subdomain(name)
    if faults:
        raise RefusedEvidenceError("name", f"{name[:64]!r}: {faults[0]}")
    return name
