"""The certs and kubeconfig phases of ``init``: all that kubeadm puts below ``/etc/kubernetes`` (1.36).

What is there and good is kept. An authority without its key here signs elsewhere: then every certificate has to be
there already.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from pathlib import Path

import msgspec

from kubevouch.config import kubeconfig as stanzas
from kubevouch.phases import kubeconfig
from kubevouch.phases.certificates import certs, control_plane_files
from kubevouch.phases.certificates.certs import SIGN_ELSEWHERE, CertsError, Pair, pair_at
from kubevouch.phases.certificates.control_plane_files import AUTHORITIES, CREDENTIALS, KUBELET_CONF, Credential, Layout
from kubevouch.phases.cluster_settings import ClusterSettings
from kubevouch.pki.authority import LeafSpec
from kubevouch.pki.control_plane import CA, ETCD_CA, FRONT_PROXY_CA, ControlPlaneCertificate

LOCAL_CONFS = frozenset({"controller-manager.conf", "scheduler.conf"})
"""Kubeconfigs of programs on this machine, which use the API server of this machine."""


def pairs(settings: ClusterSettings) -> tuple[Credential, ...]:
    """The certificates of the certs phase."""
    with_etcd = settings.local_etcd is not None
    return tuple(each for each in CREDENTIALS if each.base_name and (with_etcd or each.signed_by != ETCD_CA))


def kubeconfigs(*, first: bool = True) -> tuple[Credential, ...]:
    """The files of the kubeconfig phase. The one without limits is made on the first control plane only."""
    found = [each for each in CREDENTIALS if each.in_kubeconfig and (first or each.name != "super-admin.conf")]
    return (*found, KUBELET_CONF) if first else tuple(found)


def authorities(settings: ClusterSettings) -> tuple[str, ...]:
    return tuple(each for each in AUTHORITIES if each != ETCD_CA or settings.local_etcd is not None)


def ensure_certificates(settings: ClusterSettings, layout: Layout, *, now: dt.datetime) -> list[Path]:
    """The certs phase. Returns the certificates that were made; the rest was there.

    Raises:
        CertsError: a file is there and cannot be used, or lacks and can only be signed elsewhere.
        OSError
    """
    before = _stamps(_certificate_files(settings, layout))
    for base_name in authorities(settings):
        if not control_plane_files.is_external(layout, base_name):
            certs.ensure_authority(
                layout.pki, base_name, now=now, algorithm=settings.algorithm, validity=settings.authority_validity
            )
    clients, proxies = (control_plane_files.read_authorities(layout, name) for name in (CA, FRONT_PROXY_CA))
    certs.verify_apart(layout.pki, clients, proxies)
    specs = _specs(settings)
    for credential in pairs(settings):
        _ensure_pair(credential, specs[credential.name], settings, layout, now)
    certs.ensure_service_account_key(layout.pki, settings.algorithm)
    after = _stamps(_certificate_files(settings, layout))
    return [path for path, stamp in after.items() if stamp != before[path]]


def _ensure_pair(
    credential: Credential, spec: LeafSpec, settings: ClusterSettings, layout: Layout, now: dt.datetime
) -> Pair:
    if not control_plane_files.is_external(layout, credential.signed_by):
        authority = control_plane_files.signing_authority(layout, credential.signed_by)
        wanted = ControlPlaneCertificate(credential.base_name, credential.signed_by, spec)
        return certs.ensure_leaf(layout.pki, wanted, authority, now=now, algorithm=settings.algorithm)
    pair = pair_at(layout.pki, credential.base_name)
    anchors = control_plane_files.read_authorities(layout, credential.signed_by)
    reasons = [certs.fault(pair, spec, anchor, now) for anchor in anchors]
    if all(reasons):
        reason, key = reasons[0], layout.authority(credential.signed_by).key
        raise CertsError(
            f"{pair.certificate} cannot be used, and {key} is not here to sign it: {reason}", SIGN_ELSEWHERE
        )
    return pair


def ensure_kubeconfigs(
    settings: ClusterSettings, layout: Layout, *, now: dt.datetime, first: bool = True
) -> list[Path]:
    """The kubeconfig phase. Returns the files that were made or replaced.

    Raises:
        CertsError: one lacks and can only be signed elsewhere.
        OSError
    """
    wanted = [each for each in kubeconfigs(first=first) if not _keeps(each, layout)]
    before = _stamps(each.path(layout) for each in wanted)
    specs = _specs(settings)
    for credential in wanted:
        path = credential.path(layout)
        server = (settings.local if credential.name in LOCAL_CONFS else settings.shared).url
        if control_plane_files.is_external(layout, CA):
            if control_plane_files.read_chain(credential, layout) is None:
                raise CertsError(f"{path} has no certificate, and the authority signs elsewhere", SIGN_ELSEWHERE)
            continue
        authority = control_plane_files.signing_authority(layout, CA)
        kubeconfig.ensure(
            path,
            server,
            authority,
            specs[credential.name],
            now=now,
            algorithm=settings.algorithm,
            cluster_name=settings.cluster.cluster_name,
            bundle=certs.read_bundle(layout.pki),
        )
    after = _stamps(before)
    return [path for path, stamp in after.items() if stamp != before[path]]


def _keeps(credential: Credential, layout: Layout) -> bool:
    """A kubelet that renews its own certificate has a kubeconfig that points at it; that is not touched."""
    if credential.name != KUBELET_CONF.name:
        return False
    try:
        config = stanzas.load(credential.path(layout).read_bytes())
        return bool(control_plane_files.current_user(config)[1].client_certificate)
    except (OSError, stanzas.KubeconfigError):
        return False


def _specs(settings: ClusterSettings) -> dict[str, LeafSpec]:
    wanted = control_plane_files.wanted_specs(settings.names)
    return {name: msgspec.structs.replace(spec, validity=settings.leaf_validity) for name, spec in wanted.items()}


def _certificate_files(settings: ClusterSettings, layout: Layout) -> list[Path]:
    found = [layout.authority(each).certificate for each in authorities(settings)]
    return [*found, *(each.path(layout) for each in pairs(settings)), layout.pki / "sa.pub"]


def _stamps(paths: Iterable[Path]) -> dict[Path, bytes | None]:
    return {path: path.read_bytes() if path.exists() else None for path in paths}
