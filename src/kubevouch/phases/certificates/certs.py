"""The certs phase: ``pki/`` as kubeadm lays it out. What is there and good is kept."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from pathlib import Path

import msgspec

from kubevouch.pki import control_plane, keys
from kubevouch.pki.authority import (
    AUTHORITY_VALIDITY,
    CertificateAuthority,
    LeafSpec,
    create_authority,
    issue_leaf,
    own_certificate,
)
from kubevouch.pki.client_certificate import TrustAnchors, verify_chain
from kubevouch.pki.control_plane import CA, FRONT_PROXY_CA, ControlPlaneCertificate, ControlPlaneNames
from kubevouch.pki.errors import AuthorityError, PKIError
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509 import pem, x509_certificate
from kubevouch.pki.x509.signature import PrivateKey
from kubevouch.pki.x509.subject_alt_names import SubjectAltNames
from kubevouch.pki.x509.usages import EXTENDED_KEY_USAGES
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.util.files import (
    PRIVATE,
    PUBLIC,
    UnsafeFileError,
    make_folder,
    read_private,
    sync_folder,
    write_atomically,
)
from kubevouch.util.logger import get_logger

DEFAULT_ALGORITHM = KeyAlgorithm.ECDSA_P256

ROTATION_FOLDER = "ca-rotation"
"""Below ``pki/`` while a CA rotation is under way; see ``ca_rotation_files``."""
CROSS_SIGNED = "*-by-*.crt"

_ANEW = "move both files away to begin with a new authority, which every machine has to join again"
SIGN_ELSEWHERE = "kubevouch certs generate-csr makes the request, kubevouch certs import takes the certificate"
_TIME = "%Y-%m-%d %H:%M UTC"

log = get_logger("phases.certs")


class CertsError(Exception):
    """A file of ``pki/`` is not what it has to be; ``hint`` says what to do."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class Pair(msgspec.Struct, frozen=True):
    """A certificate and its key, as PEM files."""

    certificate: Path
    key: Path


def pair_at(folder: Path, base_name: str) -> Pair:
    return Pair(folder / f"{base_name}.crt", folder / f"{base_name}.key")


def certificate_pem(contents: bytes) -> bytes:
    return pem.encode(pem.CERTIFICATE, contents)


def read_bundle(folder: Path) -> bytes:
    """All certificates of ``ca.crt`` in PEM and nothing else. Raises :class:`CertsError`."""
    path = pair_at(folder, CA).certificate
    try:
        return b"".join(each.pem() for each in x509_certificate.parse_bundle(path.read_bytes()))
    except (PKIError, OSError) as err:
        raise CertsError(f"{path} cannot be used: {_reason(err)}", "restore it from a backup") from err


def chain_pem(folder: Path, leaf: Certificate, authority: CertificateAuthority) -> bytes:
    """``leaf`` as it is shown; while its authority takes over from another, with what the other has said of it.

    So it leads to either of them, whichever the peer knows.
    """
    found = [leaf.pem()]
    for path in sorted((folder / ROTATION_FOLDER).glob(CROSS_SIGNED)):
        cross = x509_certificate.parse_pem(path.read_bytes())
        if cross.public_key.canonical_info == authority.certificate.public_key.canonical_info:
            found.append(cross.pem())
    return b"".join(found)


def ensure_authority(
    folder: Path,
    base_name: str,
    *,
    now: dt.datetime,
    algorithm: KeyAlgorithm = DEFAULT_ALGORITHM,
    validity: dt.timedelta = AUTHORITY_VALIDITY,
) -> CertificateAuthority:
    """The authority in ``folder``, made if neither of its files is there.

    Raises:
        CertsError: one file without the other, a pair that does not fit, or one that has ended.
    """
    pair = pair_at(folder, base_name)
    draft = _draft(pair)
    if pair.certificate.exists() and draft.exists() and not pair.key.exists():
        draft.replace(pair.key)
    there = (pair.certificate.exists(), pair.key.exists())
    if there == (True, True):
        authority = load_authority(pair)
        _verify_current(authority, pair, now)
        return authority
    if any(there):
        raise _missing(pair.key if there[0] else pair.certificate)
    key = keys.generate(algorithm)
    authority = create_authority(control_plane.AUTHORITIES[base_name], key, now=now, validity=validity)
    make_folder(pair.key.parent)
    write_atomically(draft, keys.to_pem(key), mode=PRIVATE)
    write_atomically(pair.certificate, certificate_pem(authority.certificate.contents), mode=PUBLIC)
    draft.replace(pair.key)
    sync_folder(pair.key.parent)
    return authority


def _draft(pair: Pair) -> Path:
    """The key waits here for its certificate, so that a creation that is cut short does not look like a loss."""
    return pair.key.with_name(f".{pair.key.name}.new")


def _missing(path: Path) -> CertsError:
    other = path.with_suffix(".crt" if path.suffix == ".key" else ".key")
    return CertsError(f"{path} is missing, expected it beside {other.name}", f"put it back, or {_ANEW}")


def read_key(path: Path) -> bytes:
    """A file with a private key.

    Raises:
        CertsError: somebody else may have put it there, or read it.
        OSError
    """
    try:
        return read_private(path)
    except UnsafeFileError as err:
        raise CertsError(f"{path} cannot be used: {err}", err.hint) from err


def load_authority(pair: Pair) -> CertificateAuthority:
    """The authority whose key is there; its certificate file may hold others beside it. Raises :class:`CertsError`."""
    try:
        key = read_key(pair.key)
        return CertificateAuthority.load(
            own_certificate(pair.certificate.read_bytes(), key),
            key,
            certificate_file=str(pair.certificate),
            key_file=str(pair.key),
        )
    except (PKIError, OSError) as err:
        raise CertsError(
            f"{pair.certificate} and {pair.key.name} cannot be used: {_reason(err)}",
            f"restore the pair from a backup, or {_ANEW}",
        ) from err


def _reason(err: BaseException) -> str:
    """Without the file name that the message has already."""
    return str(err.__cause__ or err) if isinstance(err, AuthorityError) else str(err)


def _verify_current(authority: CertificateAuthority, pair: Pair, now: dt.datetime) -> None:
    begins, ends = authority.certificate.not_before, authority.certificate.not_after
    if now < begins:
        raise CertsError(
            f"{pair.certificate} is valid from {begins:{_TIME}}, and this machine's clock says {now:{_TIME}}",
            "set the clock",
        )
    if now >= ends:
        raise CertsError(
            f"{pair.certificate} has ended at {ends:{_TIME}}, and this machine's clock says {now:{_TIME}}",
            f"set the clock if it is wrong, or {_ANEW}",
        )


def ensure_leaf(
    folder: Path,
    wanted: ControlPlaneCertificate,
    authority: CertificateAuthority,
    *,
    now: dt.datetime,
    algorithm: KeyAlgorithm = DEFAULT_ALGORITHM,
) -> Pair:
    """The pair for ``wanted``; one that is there is kept while it is valid, signed by the authority and names all.

    In its last third it is replaced, by one that has all its names: ``init`` or a person has put them there. Raises
    ``OSError``.
    """
    pair = pair_at(folder, wanted.base_name)
    spec = wanted.spec
    if pair.certificate.exists():
        reason = fault(pair, spec, authority.certificate, now)
        if not reason:
            return pair
        log.warning("certificate replaced", file=str(pair.certificate), reason=reason)
        spec = msgspec.structs.replace(spec, alt_names=spec.alt_names.and_those_of(_names_in(pair)))
    key = keys.generate(algorithm)
    leaf = issue_leaf(authority, spec, key, now=now)
    make_folder(pair.key.parent)
    write_atomically(pair.key, keys.to_pem(key), mode=PRIVATE)
    write_atomically(pair.certificate, chain_pem(folder, leaf, authority), mode=PUBLIC)
    return pair


def _names_in(pair: Pair) -> SubjectAltNames:
    """Of whatever certificate is there, also one that has ended or that another authority has signed."""
    try:
        return x509_certificate.parse_bundle(pair.certificate.read_bytes())[0].meaning.alt_names
    except PKIError:
        return SubjectAltNames()


def fault(pair: Pair, spec: LeafSpec, authority: Certificate, now: dt.datetime) -> str:
    """Why the pair cannot go on being used; empty if it can."""
    try:
        leaf, *intermediates = x509_certificate.parse_bundle(pair.certificate.read_bytes())
        key = keys.load_pem(read_private(pair.key))
        if leaf.public_key.canonical_info != keys.public_key_of(key).canonical_info:
            return "the key is another certificate's"
        anchors = TrustAnchors([authority])
        for purpose in spec.purposes:
            verify_chain(leaf, intermediates, anchors, now=now, usage=EXTENDED_KEY_USAGES[purpose])
    except (PKIError, OSError) as err:
        return str(err)
    if now >= renewal_time(leaf):
        return f"it ends soon, at {leaf.not_after:{_TIME}}"
    names = leaf.meaning.alt_names
    missing = {*spec.alt_names.dns_names, *spec.alt_names.ip_addresses} - {*names.dns_names, *names.ip_addresses}
    return f"it lacks {', '.join(sorted(map(str, missing)))}" if missing else ""


def renewal_time(leaf: Certificate) -> dt.datetime:
    """When the last third of a certificate's life begins."""
    return leaf.not_after - (leaf.not_after - leaf.not_before) / 3


def ensure_service_account_key(folder: Path, algorithm: KeyAlgorithm = KeyAlgorithm.ECDSA_P256) -> Pair:
    """``sa.key`` and ``sa.pub``: a bare key pair for service account tokens.

    Raises:
        CertsError: the key is there and cannot be used.
        OSError
    """
    private, public = folder / "sa.key", folder / "sa.pub"
    if not private.exists():
        key = keys.generate(algorithm)
        make_folder(folder)
        write_atomically(private, keys.to_pem(key), mode=PRIVATE)
    pair = Pair(public, private)
    if not public.exists():
        content = keys.public_to_pem(keys.public_key_of(load_service_account_key(pair)))
        write_atomically(public, content, mode=PRIVATE)
    return pair


def load_service_account_key(pair: Pair) -> PrivateKey:
    """The key that signs service account tokens. Raises :class:`CertsError`."""
    try:
        return keys.load_pem(read_key(pair.key))
    except (PKIError, OSError) as err:
        raise CertsError(
            f"{pair.key} cannot be used: {err}", "restore the key from a backup, or move it away to make a new one"
        ) from err


class ControlPlanePKI(msgspec.Struct, frozen=True):
    """What :func:`ensure_control_plane` leaves in ``pki/``.

    Args:
        signing: the CA and its key; None where it signs elsewhere.
        front_proxy: the CA of the front proxy, whose key may be elsewhere too.
    """

    folder: Path
    signing: CertificateAuthority | None
    front_proxy: Certificate
    apiserver: Pair
    service_account: Pair

    @property
    def authority(self) -> CertificateAuthority:
        """Raises :class:`CertsError` where the CA signs elsewhere."""
        if self.signing is None:
            raise _missing(pair_at(self.folder, CA).key)
        return self.signing

    @property
    def certificate(self) -> Certificate:
        """Of the CA that signs now."""
        if self.signing is not None:
            return self.signing.certificate
        return x509_certificate.parse_bundle(self.ca_certificate)[0]

    @property
    def ca_certificate(self) -> bytes:
        """What is published in PEM: the CA, during a rotation both. Raises :class:`CertsError`."""
        return read_bundle(self.folder)


def load_control_plane(folder: Path) -> ControlPlanePKI:
    """What :func:`ensure_control_plane` has left in ``pki/``, without the key of the CA. Raises :class:`CertsError`."""
    front_proxy = _first_certificate(pair_at(folder, FRONT_PROXY_CA))
    account = Pair(folder / "sa.pub", folder / "sa.key")
    return ControlPlanePKI(folder, None, front_proxy, pair_at(folder, "apiserver"), account)


def ensure_control_plane(
    folder: Path,
    names: ControlPlaneNames,
    *,
    now: dt.datetime,
    algorithm: KeyAlgorithm = DEFAULT_ALGORITHM,
    needs_key: bool = True,
) -> ControlPlanePKI:
    """Everything that a control plane without etcd has in ``pki/``.

    Args:
        needs_key: False: ``ca.key`` may be elsewhere, if every certificate is there.

    Raises:
        CertsError: a file is there and cannot be used, or lacks.
        OSError: the folder cannot be written.
    """
    authority = _unless_external(folder, CA, now=now, algorithm=algorithm, needs_key=needs_key)
    proxy = _unless_external(folder, FRONT_PROXY_CA, now=now, algorithm=algorithm, needs_key=False)
    front_proxy = _first_certificate(pair_at(folder, FRONT_PROXY_CA)) if proxy is None else proxy.certificate
    bundle = x509_certificate.parse_bundle(read_bundle(folder))
    verify_apart(folder, bundle, [front_proxy])
    signers = {CA: (authority, bundle), FRONT_PROXY_CA: (proxy, [front_proxy])}
    pairs = {}
    for wanted in control_plane.catalog(names, etcd=False):
        signer, anchors = signers[wanted.signed_by]
        if signer is None:
            pairs[wanted.base_name] = _verify_leaf(folder, wanted, anchors, now)
        else:
            pairs[wanted.base_name] = ensure_leaf(folder, wanted, signer, now=now, algorithm=algorithm)
    service_account = ensure_service_account_key(folder)
    return ControlPlanePKI(folder, authority, front_proxy, pairs["apiserver"], service_account)


def _unless_external(
    folder: Path, base_name: str, *, now: dt.datetime, algorithm: KeyAlgorithm, needs_key: bool
) -> CertificateAuthority | None:
    """None where only the certificate is there."""
    pair = pair_at(folder, base_name)
    if not needs_key and pair.certificate.exists() and not pair.key.exists() and not _draft(pair).exists():
        return None
    return ensure_authority(folder, base_name, now=now, algorithm=algorithm)


def _verify_leaf(
    folder: Path, wanted: ControlPlaneCertificate, anchors: Iterable[Certificate], now: dt.datetime
) -> Pair:
    """The pair that an authority elsewhere has signed, as it is; names that it lacks are its owner's to judge."""
    pair = pair_at(folder, wanted.base_name)
    spec = msgspec.structs.replace(wanted.spec, alt_names=SubjectAltNames())
    reasons = [fault(pair, spec, anchor, now) for anchor in anchors]
    if all(reasons):
        key = pair_at(folder, wanted.signed_by).key
        raise CertsError(
            f"{pair.certificate} cannot be used, and {key} is not here to sign it: {reasons[0]}", SIGN_ELSEWHERE
        )
    return pair


def _first_certificate(pair: Pair) -> Certificate:
    try:
        return x509_certificate.parse_bundle(pair.certificate.read_bytes())[0]
    except (PKIError, OSError) as err:
        raise CertsError(f"{pair.certificate} cannot be used: {_reason(err)}", "restore it from a backup") from err


def verify_apart(folder: Path, clients: Iterable[Certificate], proxies: Iterable[Certificate]) -> None:
    """Whoever the front-proxy CA signs may claim to be anyone: a client CA there would hand that to every client.

    Raises:
        CertsError
    """
    if control_plane.shares_key(clients, proxies):
        raise CertsError(
            f"{folder / FRONT_PROXY_CA}.crt has the key of the client CA {CA}.crt",
            f"move both {FRONT_PROXY_CA} files away; new ones are made the next time",
        )
