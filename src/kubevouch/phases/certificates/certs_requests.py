"""``certs generate-csr`` and ``certs import``: certificates from an authority whose key is not on this machine.

kubeadm 1.36 makes the requests; it leaves to hand what comes back. Here it is checked before anything is replaced.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from pathlib import Path

from kubevouch.config import kubeconfig
from kubevouch.config.kubeconfig import Cluster, Context, Kubeconfig, KubeconfigError, User
from kubevouch.phases.certificates import control_plane_files
from kubevouch.phases.certificates.certs import (
    DEFAULT_ALGORITHM,
    CertsError,
    certificate_pem,
    pair_at,
    read_key,
    verify_apart,
)
from kubevouch.phases.certificates.control_plane_files import Credential, Layout
from kubevouch.phases.kubeconfig import CLUSTER_NAME
from kubevouch.pki import control_plane, keys
from kubevouch.pki.authority import LeafSpec
from kubevouch.pki.client_certificate import TrustAnchors, verify_chain
from kubevouch.pki.control_plane import CA, FRONT_PROXY_CA
from kubevouch.pki.errors import PKIError
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509 import x509_certificate, x509_request
from kubevouch.pki.x509.request_builder import build_request
from kubevouch.pki.x509.subject import Subject
from kubevouch.pki.x509.usages import EXTENDED_KEY_USAGES
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.pki.x509.x509_request import CertificateRequest
from kubevouch.util.files import PRIVATE, PUBLIC, make_folder, write_atomically
from kubevouch.util.logger import get_logger

log = get_logger("phases.certs")


def request_path(credential: Credential, layout: Layout) -> Path:
    """``apiserver.csr`` beside ``apiserver.key``; ``admin.conf.csr`` beside ``admin.conf``."""
    path = credential.path(layout)
    return path.with_name(f"{path.name}.csr") if credential.in_kubeconfig else path.with_suffix(".csr")


def generate(
    credential: Credential,
    spec: LeafSpec,
    layout: Layout,
    *,
    server: str,
    algorithm: KeyAlgorithm = DEFAULT_ALGORITHM,
) -> Path:
    """Make a key and a request for it. A kubeconfig is made whole but for its certificate.

    Args:
        server: URL of the API server, for kubeconfigs.

    Raises:
        CertsError: one of the files is there already; nothing was changed.
        OSError: a file cannot be written.
    """
    verify_absent([credential], layout)
    request, holder = request_path(credential, layout), key_path(credential, layout)
    key = keys.generate(algorithm)
    subject = Subject(common_name=spec.common_name, organizations=spec.organizations)
    text = build_request(key, subject, spec.alt_names)
    make_folder(holder.parent)
    if credential.in_kubeconfig:
        content = _kubeconfig(server, spec.common_name, layout, keys.to_pem(key)).encode()
    else:
        content = keys.to_pem(key)
    write_atomically(holder, content, mode=PRIVATE)
    write_atomically(request, text, mode=PRIVATE)
    return request


def verify_absent(credentials: Iterable[Credential], layout: Layout) -> None:
    """Raises :class:`CertsError` if a file would be overwritten."""
    for each in credentials:
        for path in (key_path(each, layout), request_path(each, layout)):
            if path.exists():
                raise CertsError(f"{path} exists", "move it away, or import the certificate that belongs to it")


def key_path(credential: Credential, layout: Layout) -> Path:
    """The file that holds the key."""
    path = credential.path(layout)
    return path if credential.in_kubeconfig else path.with_suffix(".key")


def _kubeconfig(server: str, user: str, layout: Layout, key: bytes) -> str:
    bundle = b"".join(each.pem() for each in control_plane_files.read_authorities(layout, control_plane.CA))
    context = f"{user}@{CLUSTER_NAME}"
    return kubeconfig.dump(
        Kubeconfig(
            clusters={CLUSTER_NAME: Cluster(server=server, certificate_authority_data=bundle)},
            users={user: User(client_key_data=key)},
            contexts={context: Context(cluster=CLUSTER_NAME, user=user)},
            current_context=context,
        )
    )


# ------------------------------------------------------------------ what comes back


def import_certificate(credential: Credential, text: bytes, layout: Layout, *, now: dt.datetime) -> Certificate:
    """Put a certificate beside the key that waits for it, once it is what was asked for.

    1. It parses, and is no authority's.
    2. Its key is the one on this machine.
    3. It is valid now, for its purposes, and leads to the authority on this machine.
    4. It has the subject and all names of the request, where that is still there.

    Raises:
        CertsError: one of these does not hold; nothing was changed.
        OSError: a file cannot be read or written.
    """
    purposes = _purposes(credential)
    try:
        leaf, *intermediates = x509_certificate.parse_bundle(text)
        key_text = _key_text(credential, layout)
        key = keys.load_pem(key_text)
        mine = keys.public_key_of(key)
    except (PKIError, KubeconfigError) as err:
        raise _refusal(credential, str(err)) from err
    if leaf.meaning.is_ca:
        raise _refusal(credential, "it is an authority's")
    if leaf.public_key.canonical_info != mine.canonical_info:
        raise _refusal(credential, f"its key is not the one in {key_path(credential, layout)}")
    authorities = control_plane_files.read_authorities(layout, credential.signed_by)
    if not authorities:
        missing = layout.authority(credential.signed_by).certificate
        raise _refusal(credential, f"{missing} is not there to check it against", "import the authority's first")
    try:
        for purpose in purposes:
            anchors = TrustAnchors(authorities)
            verify_chain(leaf, intermediates, anchors, now=now, usage=EXTENDED_KEY_USAGES[purpose])
    except PKIError as err:
        raise _refusal(credential, str(err)) from err
    request = _request(credential, layout)
    if request is not None:
        _verify_as_asked(credential, leaf, request)
    bundle = b"".join(certificate_pem(each.contents) for each in (leaf, *intermediates))
    if credential.in_kubeconfig:
        control_plane_files.replace_user(credential.path(layout), bundle, key_text)
    else:
        write_atomically(credential.path(layout), bundle, mode=PUBLIC)
    request_path(credential, layout).unlink(missing_ok=True)
    return leaf


def import_authority(base_name: str, text: bytes, layout: Layout, *, now: dt.datetime) -> Certificate:
    """Put the certificate of an external authority in its place, with others beside it that are to be trusted, too.

    What is there already has to be among them. Returns the first.

    Raises:
        CertsError: one is no valid authority, or another one is there; nothing was changed.
        OSError: a file cannot be read or written.
    """
    name = control_plane_files.display_name(base_name)
    try:
        found = x509_certificate.parse_bundle(text)
    except PKIError as err:
        raise CertsError(f"the certificate of {name} cannot be imported: {err}") from err
    for each in found:
        if not each.meaning.is_ca:
            raise CertsError(f"the certificate of {name} cannot be imported: it is no authority's")
        if not each.not_before <= now <= each.not_after:
            raise CertsError(
                f"the certificate of {name} cannot be imported: it is not valid now", "check the clock, too"
            )
    given = {each.contents for each in found}
    if any(each.contents not in given for each in control_plane_files.read_authorities(layout, base_name)):
        path = layout.authority(base_name).certificate
        raise CertsError(
            f"{path} is another authority's",
            "import both in one file if one takes over from the other; move it away if this machine changes clusters",
        )
    if base_name in (CA, FRONT_PROXY_CA):
        given_and_there = {
            name: found if name == base_name else control_plane_files.read_authorities(layout, name)
            for name in (CA, FRONT_PROXY_CA)
        }
        verify_apart(layout.pki, given_and_there[CA], given_and_there[FRONT_PROXY_CA])
    pair = pair_at(layout.pki, base_name)
    make_folder(pair.certificate.parent)
    write_atomically(pair.certificate, b"".join(each.pem() for each in found), mode=PUBLIC)
    return found[0]


def waiting(layout: Layout) -> list[Credential]:
    """The credentials whose request is there."""
    known = (*control_plane_files.CREDENTIALS, control_plane_files.KUBELET_CONF)
    return [each for each in known if request_path(each, layout).exists()]


def _purposes(credential: Credential) -> tuple[str, ...]:
    names = control_plane.ControlPlaneNames(node_name="any", advertise_address="")
    return control_plane_files.wanted_specs(names)[credential.name].purposes


def _key_text(credential: Credential, layout: Layout) -> bytes:
    content = read_key(key_path(credential, layout))
    if not credential.in_kubeconfig:
        return content
    return control_plane_files.current_user(kubeconfig.load(content))[1].client_key_data


def _request(credential: Credential, layout: Layout) -> CertificateRequest | None:
    path = request_path(credential, layout)
    try:
        return x509_request.parse_pem(path.read_bytes())
    except FileNotFoundError:
        return None
    except PKIError as err:
        raise CertsError(f"{path} cannot be used: {err}", "move it away to go without it") from err


def _verify_as_asked(credential: Credential, leaf: Certificate, request: CertificateRequest) -> None:
    got, asked = leaf.subject, request.subject
    if (got.common_name, set(got.organizations)) != (asked.common_name, set(asked.organizations)):
        raise _refusal(
            credential,
            f"got the subject CN={got.common_name} O={','.join(got.organizations)}, "
            f"expected CN={asked.common_name} O={','.join(asked.organizations)}",
        )
    names = leaf.meaning.alt_names
    wanted = {*request.alt_names.dns_names, *request.alt_names.ip_addresses}
    missing = wanted - {*names.dns_names, *names.ip_addresses}
    if missing:
        raise _refusal(credential, f"it lacks {', '.join(sorted(map(str, missing)))}")
    if not wanted and names:
        log.warning("certificate has names nobody asked for", name=credential.name)


def _refusal(credential: Credential, why: str, hint: str = "have it signed again from its request") -> CertsError:
    return CertsError(f"the certificate for {credential.name} cannot be imported: {why}", hint)
