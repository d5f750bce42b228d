"""The certs phase: ``pki/`` as kubeadm lays it out. What is there and good is kept."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec

from kubevouch.pki import control_plane, keys, pem, x509_certificate
from kubevouch.pki.authority import CertificateAuthority, LeafSpec, create_authority, issue_leaf
from kubevouch.pki.control_plane import CA, FRONT_PROXY_CA, ControlPlaneCertificate, ControlPlaneNames
from kubevouch.pki.errors import PKIError
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.signature import PrivateKey
from kubevouch.util.files import PRIVATE, PUBLIC, make_folder, write_atomically

DEFAULT_ALGORITHM = KeyAlgorithm.ECDSA_P256


class CertsError(Exception):
    """A file of ``pki/`` is not what it has to be; ``hint`` says what to do."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key, as PEM files."""

    certificate: Path
    key: Path


def pair_at(folder: Path, base_name: str) -> Pair:
    return Pair(folder / f"{base_name}.crt", folder / f"{base_name}.key")


def certificate_pem(contents: bytes) -> bytes:
    return pem.encode(pem.CERTIFICATE, contents)


def ensure_authority(
    folder: Path, base_name: str, *, now: dt.datetime, algorithm: KeyAlgorithm = DEFAULT_ALGORITHM
) -> CertificateAuthority:
    """The authority in ``folder``, made if neither of its files is there.

    Raises:
        CertsError: one file without the other, or a pair that does not fit.
    """
    pair = pair_at(folder, base_name)
    there = (pair.certificate.exists(), pair.key.exists())
    if there == (True, True):
        return load_authority(pair)
    if any(there):
        missing = pair.key if there[0] else pair.certificate
        raise CertsError(
            f"{missing} is missing, expected it beside its other half",
            "put the file back, or move both away to make a new authority",
        )
    key = keys.generate(algorithm)
    authority = create_authority(control_plane.AUTHORITIES[base_name], key, now=now)
    make_folder(pair.key.parent)
    write_atomically(pair.key, keys.to_pem(key), mode=PRIVATE)
    write_atomically(pair.certificate, certificate_pem(authority.certificate.contents), mode=PUBLIC)
    return authority


def load_authority(pair: Pair) -> CertificateAuthority:
    """Raises :class:`CertsError`."""
    try:
        return CertificateAuthority.load(
            pair.certificate.read_bytes(),
            pair.key.read_bytes(),
            certificate_file=str(pair.certificate),
            key_file=str(pair.key),
        )
    except (PKIError, OSError) as err:
        raise CertsError(str(err), "restore the pair from a backup, or move both files away to make a new one") from err


def ensure_leaf(
    folder: Path,
    wanted: ControlPlaneCertificate,
    authority: CertificateAuthority,
    *,
    now: dt.datetime,
    algorithm: KeyAlgorithm = DEFAULT_ALGORITHM,
) -> Pair:
    """The pair for ``wanted``; one that is there is kept while it is valid, signed by the authority and names all."""
    pair = pair_at(folder, wanted.base_name)
    if _is_usable(pair, wanted.spec, authority, now):
        return pair
    key = keys.generate(algorithm)
    leaf = issue_leaf(authority, wanted.spec, key, now=now)
    make_folder(pair.key.parent)
    write_atomically(pair.key, keys.to_pem(key), mode=PRIVATE)
    write_atomically(pair.certificate, certificate_pem(leaf.contents), mode=PUBLIC)
    return pair


def _is_usable(pair: Pair, spec: LeafSpec, authority: CertificateAuthority, now: dt.datetime) -> bool:
    try:
        certificates = x509_certificate.parse_bundle(pair.certificate.read_bytes())
        key = keys.load_pem(pair.key.read_bytes())
    except (PKIError, OSError):
        return False
    leaf = certificates[0]
    names = leaf.meaning.alt_names
    return (
        leaf.not_before <= now < leaf.not_after
        and leaf.public_key.canonical_info == keys.public_key_of(key).canonical_info
        and leaf.issuer_name == authority.certificate.subject_name
        and set(spec.alt_names.dns_names) <= set(names.dns_names)
        and set(spec.alt_names.ip_addresses) <= set(names.ip_addresses)
    )


def ensure_service_account_key(folder: Path) -> Pair:
    """``sa.key`` and ``sa.pub``: a bare key pair for service account tokens."""
    private, public = folder / "sa.key", folder / "sa.pub"
    if not private.exists():
        key = ec.generate_private_key(ec.SECP256R1())
        make_folder(folder)
        write_atomically(private, keys.to_pem(key), mode=PRIVATE)
    if not public.exists():
        loaded = keys.load_pem(private.read_bytes())
        write_atomically(public, keys.public_to_pem(keys.public_key_of(loaded)), mode=PRIVATE)
    return Pair(public, private)


def load_service_account_key(pair: Pair) -> PrivateKey:
    """The key that signs service account tokens. Raises :class:`CertsError`."""
    try:
        return keys.load_pem(pair.key.read_bytes())
    except (PKIError, OSError) as err:
        raise CertsError(
            f"{pair.key}: {err}", "restore the key from a backup, or move it away to make a new one"
        ) from err


@dataclass(frozen=True, slots=True)
class ControlPlanePKI:
    """What :func:`ensure_control_plane` leaves in ``pki/``."""

    folder: Path
    authority: CertificateAuthority
    front_proxy_authority: CertificateAuthority
    apiserver: Pair
    service_account: Pair

    @property
    def ca_certificate(self) -> bytes:
        """The CA in PEM, as it is published."""
        return certificate_pem(self.authority.certificate.contents)


def ensure_control_plane(
    folder: Path, names: ControlPlaneNames, *, now: dt.datetime, algorithm: KeyAlgorithm = DEFAULT_ALGORITHM
) -> ControlPlanePKI:
    """Everything that a control plane without etcd has in ``pki/``.

    Raises:
        CertsError: a file is there and cannot be used.
        OSError: the folder cannot be written.
    """
    authority = ensure_authority(folder, CA, now=now, algorithm=algorithm)
    front_proxy = ensure_authority(folder, FRONT_PROXY_CA, now=now, algorithm=algorithm)
    signers = {CA: authority, FRONT_PROXY_CA: front_proxy}
    pairs = {
        wanted.base_name: ensure_leaf(folder, wanted, signers[wanted.signed_by], now=now, algorithm=algorithm)
        for wanted in control_plane.catalog(names, etcd=False)
    }
    service_account = ensure_service_account_key(folder)
    return ControlPlanePKI(folder, authority, front_proxy, pairs["apiserver"], service_account)
