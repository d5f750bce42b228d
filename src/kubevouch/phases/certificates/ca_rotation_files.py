"""The files of a CA rotation. Whatever is begun here can be done again from the start, wherever it was cut off.

While it lasts, ``pki/ca-rotation/`` holds both pairs and what each says of the other:

    former.crt former.key next.crt next.key former-by-next.crt next-by-former.crt

``ca.crt`` is what clients and servers are verified with, and may hold both. ``ca.key`` says which of them signs, so
that one rename moves signing from one to the other.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable
from pathlib import Path

from kubevouch.agent import trust_bundle
from kubevouch.agent.trust_bundle import TrustBundleError
from kubevouch.phases.certificates import certs_renewal, control_plane_files
from kubevouch.phases.certificates.certs import (
    ROTATION_FOLDER,
    CertsError,
    Pair,
    chain_pem,
    load_authority,
    pair_at,
    read_key,
)
from kubevouch.phases.certificates.control_plane_files import Layout
from kubevouch.pki import keys
from kubevouch.pki.authority import AUTHORITY_VALIDITY, CertificateAuthority, create_authority, cross_sign
from kubevouch.pki.client_certificate import is_issued_by
from kubevouch.pki.control_plane import CA
from kubevouch.pki.errors import PKIError
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509 import x509_certificate
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.records.ca_rotation import STATE_CONFIGMAP
from kubevouch.util.files import (
    PRIVATE,
    PRIVATE_FOLDER,
    PUBLIC,
    make_folder,
    read_private,
    sync_folder,
    write_atomically,
)
from kubevouch.util.logger import get_logger

log = get_logger("phases.ca_rotation")

FORMER, NEXT = "former", "next"
SIGNING = "ca-signing.crt"
"""The certificate that belongs to ``ca.key``, alone: kube-controller-manager signs nothing with a bundle."""
CONTROLLER_MANAGER = Path("manifests/kube-controller-manager.yaml")
_SIGNING_FLAG = re.compile(r"--cluster-signing-cert-file=([^\s\"']+)")


def folder_of(layout: Layout) -> Path:
    return layout.pki / ROTATION_FOLDER


def pair_of(layout: Layout, name: str) -> Pair:
    return pair_at(folder_of(layout), name)


# ------------------------------------------------------------------ making


def prepare(
    layout: Layout,
    *,
    now: dt.datetime,
    algorithm: KeyAlgorithm | None = None,
    validity: dt.timedelta = AUTHORITY_VALIDITY,
) -> tuple[Certificate, Certificate]:
    """The former and the next CA in ``ca-rotation/``. Nobody else's file changes.

    Args:
        algorithm: of the next CA's key; None takes that of the former one.

    Raises:
        CertsError: the CA signs elsewhere, or a file cannot be used.
        OSError
    """
    if control_plane_files.is_external(layout, CA):
        raise CertsError(
            f"{layout.authority(CA).key} is not here: this CA signs elsewhere, and is rotated there",
            "run it on the machine with the key, or distribute both CA certificates by hand",
        )
    authority = control_plane_files.signing_authority(layout, CA)
    make_folder(folder_of(layout), PRIVATE_FOLDER)
    former = pair_of(layout, FORMER)
    _write(former.key, keys.to_pem(authority.key), PRIVATE)
    _write(former.certificate, authority.certificate.pem(), PUBLIC)
    following = _ensure_next(layout, authority, now, algorithm, validity)
    _ensure_cross(layout, f"{NEXT}-by-{FORMER}", authority, following.certificate, now)
    _ensure_cross(layout, f"{FORMER}-by-{NEXT}", following, authority.certificate, now)
    return authority.certificate, following.certificate


def _ensure_next(
    layout: Layout,
    former: CertificateAuthority,
    now: dt.datetime,
    algorithm: KeyAlgorithm | None,
    validity: dt.timedelta,
) -> CertificateAuthority:
    pair = pair_of(layout, NEXT)
    if not pair.key.exists():
        key = keys.generate(algorithm or KeyAlgorithm.parse(former.certificate.public_key.name))
        write_atomically(pair.key, keys.to_pem(key), mode=PRIVATE)
    if not pair.certificate.exists():
        name = next_name(former.certificate.subject.common_name, now)
        made = create_authority(name, keys.load_pem(read_key(pair.key)), now=now, validity=validity)
        write_atomically(pair.certificate, made.certificate.pem(), mode=PUBLIC)
    return load_authority(pair)


def next_name(former: str, now: dt.datetime) -> str:
    """Another name than the former one's.

    Two authorities of one name are told apart by key identifiers only, which Go leaves out of what one of them signs
    for the other, and which not every library looks at.
    """
    base = re.sub(r"-[0-9]{8}(-[0-9]{6})?\Z", "", former) or "kubernetes"
    name = f"{base}-{now:%Y%m%d}"
    return name if name != former else f"{base}-{now:%Y%m%d-%H%M%S}"


def _ensure_cross(
    layout: Layout, name: str, authority: CertificateAuthority, other: Certificate, now: dt.datetime
) -> None:
    path = pair_of(layout, name).certificate
    if not path.exists():
        write_atomically(path, cross_sign(authority, other, now=now).pem(), mode=PUBLIC)


def _write(path: Path, content: bytes, mode: int) -> None:
    """Nothing that is right already is written again."""
    if not path.exists() or path.read_bytes() != content:
        write_atomically(path, content, mode=mode)


# ------------------------------------------------------------------ trusting


def verify_controller_manager(layout: Layout) -> None:
    """Raises :class:`CertsError` while kube-controller-manager would sign with the file that is to become a bundle."""
    manifest = layout.kubeconfigs / CONTROLLER_MANAGER
    if not manifest.exists():
        return
    _write(layout.pki / SIGNING, control_plane_files.signing_authority(layout, CA).certificate.pem(), PUBLIC)
    for flag in _SIGNING_FLAG.findall(manifest.read_text()):
        if Path(flag).name == f"{CA}.crt":
            own = Path(flag).with_name(SIGNING)
            raise CertsError(
                f"{manifest} has --cluster-signing-cert-file={flag}, which is about to hold two certificates: "
                "kube-controller-manager then signs nothing",
                f"sed -i 's#--cluster-signing-cert-file=.*#--cluster-signing-cert-file={own}#' {manifest}, and go on",
            )


def verify_own(layout: Layout, bundle: Iterable[Certificate]) -> None:
    """Whether each CA is one of this control plane's files: whoever writes ConfigMaps could name any other.

    Raises:
        CertsError, OSError
    """
    there = (path for name in (FORMER, NEXT) if (path := pair_of(layout, name).certificate).exists())
    known = (
        *trust_bundle.parse(layout.authority(CA).certificate.read_bytes(), "ca.crt"),
        *(x509_certificate.parse_pem(path.read_bytes()) for path in there),
    )
    contents = {each.contents for each in known}
    foreign = next((each for each in bundle if each.contents not in contents), None)
    if foreign is not None:
        raise CertsError(
            f"the state of the CA rotation names a CA that is in no file here: {foreign.subject.common_name!r}, "
            f"expected one of {layout.authority(CA).certificate} and {folder_of(layout)}",
            f"find out who changed the ConfigMap {STATE_CONFIGMAP} in kube-system, and delete it; the files say how "
            "far the rotation is",
        )


def publish(layout: Layout, bundle: Iterable[Certificate], *, linked: bool) -> None:
    """Have everything here trust ``bundle``, the CA that signs first.

    Args:
        linked: the serving certificate leads to both CAs.

    Raises:
        CertsError, OSError
    """
    trusted = tuple(bundle)
    signing = layout.pki / SIGNING
    if signing.exists():
        _write(signing, control_plane_files.signing_authority(layout, CA).certificate.pem(), PUBLIC)
    known = trust_bundle.parse(layout.authority(CA).certificate.read_bytes(), "ca.crt")
    _write(layout.authority(CA).certificate, trust_bundle.to_pem(trusted), PUBLIC)
    for path in kubeconfigs(layout):
        _trust_in(path, (*known, *trusted), trusted)
    serving = pair_at(layout.pki, "apiserver").certificate
    chain = control_plane_files.read_chain(control_plane_files.credential("apiserver"), layout)
    if chain:
        authority = control_plane_files.signing_authority(layout, CA)
        here = is_issued_by(chain[0], authority.certificate)
        _write(serving, chain_pem(layout.pki, chain[0], authority) if linked and here else chain[0].pem(), PUBLIC)


def kubeconfigs(layout: Layout) -> list[Path]:
    return sorted(path for path in layout.kubeconfigs.glob("*.conf") if path.is_file())


def _trust_in(path: Path, ours: tuple[Certificate, ...], wanted: tuple[Certificate, ...]) -> None:
    """Files that know none of our CAs belong to another cluster, or are no kubeconfigs."""
    try:
        there = trust_bundle.load(path)
    except (TrustBundleError, OSError) as err:
        log.warning("the CA in a file was not changed", path=str(path), reason=str(err))
        return
    contents = {each.contents for each in ours}
    if there != wanted and any(each.contents in contents for each in there):
        trust_bundle.store(path, wanted)


# ------------------------------------------------------------------ signing


def switch(layout: Layout, name: str, *, now: dt.datetime) -> list[str]:
    """Have the CA ``name`` sign, and this control plane's own certificates come from it. Returns what was renewed.

    Raises:
        CertsError, OSError
    """
    coming = load_authority(pair_of(layout, name))
    _write(layout.authority(CA).key, keys.to_pem(coming.key), PRIVATE)
    signing = layout.pki / SIGNING
    if signing.exists():
        _write(signing, coming.certificate.pem(), PUBLIC)
    renewed = []
    for each in control_plane_files.listed(layout):
        if each.signed_by != CA:
            continue
        chain = control_plane_files.read_chain(each, layout)
        if chain is not None and (not is_issued_by(chain[0], coming.certificate) or not _fits(layout, each)):
            certs_renewal.renew(each, layout, now=now)
            renewed.append(each.name)
    return renewed


def _fits(layout: Layout, credential: control_plane_files.Credential) -> bool:
    """Whether a pair of files is one; a kubeconfig is always written whole."""
    if credential.in_kubeconfig:
        return True
    path = credential.path(layout)
    try:
        key = keys.public_key_of(keys.load_pem(read_private(path.with_suffix(".key"))))
        return key.canonical_info == x509_certificate.parse_pem(path.read_bytes()).public_key.canonical_info
    except (PKIError, OSError):
        return False


def own_certificates(layout: Layout) -> dict[str, Certificate]:
    """What the CA has issued for this control plane, by name. Raises :class:`CertsError`."""
    found = {}
    for each in control_plane_files.listed(layout):
        chain = control_plane_files.read_chain(each, layout) if each.signed_by == CA else None
        if chain:
            found[each.name] = chain[0]
    return found


# ------------------------------------------------------------------ ending


def underway(layout: Layout) -> tuple[Certificate, Certificate, bool] | None:
    """The former and the next CA, and whether the next one signs, as far as the files are beyond being prepared.

    Raises:
        CertsError, OSError
    """
    paths = [pair_of(layout, name).certificate for name in (FORMER, NEXT)]
    if not all(path.exists() for path in paths):
        return None
    former, following = (x509_certificate.parse_pem(path.read_bytes()) for path in paths)
    there = trust_bundle.parse(layout.authority(CA).certificate.read_bytes(), "ca.crt")
    if {former.contents, following.contents} - {each.contents for each in there}:
        return None
    signing = control_plane_files.signing_authority(layout, CA).certificate
    return former, following, signing.contents == following.contents


def clear(layout: Layout) -> None:
    """Remove ``ca-rotation/``, keys first. Raises ``OSError``."""
    folder = folder_of(layout)
    if not folder.exists():
        return
    for path in sorted(folder.iterdir(), key=lambda each: (each.suffix != ".key", each.name)):
        path.unlink()
    folder.rmdir()
    sync_folder(layout.pki)


def restarts(layout: Layout) -> list[str]:
    """What has to be restarted after a change, and why; nothing where ``kubevouch up`` runs, which looks by itself."""
    if not (layout.kubeconfigs / CONTROLLER_MANAGER).exists():
        return []
    return [
        "kube-controller-manager: it reads ca.crt for kube-root-ca.crt, and its kubeconfig, only when it starts",
        "kube-scheduler: it reads its kubeconfig only when it starts",
        "the kubelet on each machine: most versions read clientCAFile only when they start",
    ]
