"""Which certificates a control plane has, under which names kubeadm lists them, and where they lie (kubeadm 1.36)."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import msgspec

from kubevouch.config import kubeconfig
from kubevouch.config.kubeconfig import Kubeconfig, KubeconfigError, User
from kubevouch.phases.certificates.certs import CertsError, Pair, load_authority, pair_at
from kubevouch.pki import control_plane
from kubevouch.pki.authority import CertificateAuthority, LeafSpec
from kubevouch.pki.control_plane import CA, ETCD_CA, FRONT_PROXY_CA
from kubevouch.pki.errors import PKIError
from kubevouch.pki.x509 import x509_certificate
from kubevouch.pki.x509.usages import EXTENDED_KEY_USAGES
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.util.files import PRIVATE, PUBLIC, make_folder, write_atomically
from kubevouch.util.nearest import meant

KUBERNETES_FOLDER = Path("/etc/kubernetes")
PKI_FOLDER = KUBERNETES_FOLDER / "pki"


class Layout(msgspec.Struct, frozen=True):
    """Where a control plane's files lie."""

    pki: Path = PKI_FOLDER
    kubeconfigs: Path = KUBERNETES_FOLDER

    def below(self, rootfs: Path | None) -> Layout:
        """The same files in the tree ``rootfs``."""
        if rootfs is None:
            return self
        return Layout(*(rootfs / folder.relative_to(folder.anchor) for folder in (self.pki, self.kubeconfigs)))

    def authority(self, base_name: str) -> Pair:
        return pair_at(self.pki, base_name)


class Credential(msgspec.Struct, frozen=True):
    """A certificate with its key: a pair of files, or inside a kubeconfig.

    Args:
        name: what kubeadm calls it.
        words: what kubeadm says it is for.
        base_name: of the pair below the certificate folder; empty for a kubeconfig, whose file is ``name``.
    """

    name: str
    words: str
    signed_by: str
    base_name: str = ""

    @property
    def in_kubeconfig(self) -> bool:
        return not self.base_name

    def path(self, layout: Layout) -> Path:
        """The file with the certificate."""
        if self.in_kubeconfig:
            return layout.kubeconfigs / self.name
        return pair_at(layout.pki, self.base_name).certificate


def display_name(base_name: str) -> str:
    """``etcd/ca`` is ``etcd-ca``: in lists and as a key of the Secret ``kubeadm-certs``."""
    return base_name.replace("/", "-")


_EMBEDDED = "certificate embedded in the kubeconfig file for"
KUBELET_CONF = Credential("kubelet.conf", f"{_EMBEDDED} the kubelet to use", CA)
CREDENTIALS: tuple[Credential, ...] = (
    Credential("admin.conf", f"{_EMBEDDED} the admin to use and for kubeadm itself", CA),
    Credential("apiserver", "certificate for serving the Kubernetes API", CA, "apiserver"),
    Credential(
        "apiserver-etcd-client", "certificate the apiserver uses to access etcd", ETCD_CA, "apiserver-etcd-client"
    ),
    Credential(
        "apiserver-kubelet-client",
        "certificate for the API server to connect to kubelet",
        CA,
        "apiserver-kubelet-client",
    ),
    Credential("controller-manager.conf", f"{_EMBEDDED} the controller manager to use", CA),
    Credential(
        "etcd-healthcheck-client",
        "certificate for liveness probes to healthcheck etcd",
        ETCD_CA,
        "etcd/healthcheck-client",
    ),
    Credential("etcd-peer", "certificate for etcd nodes to communicate with each other", ETCD_CA, "etcd/peer"),
    Credential("etcd-server", "certificate for serving etcd", ETCD_CA, "etcd/server"),
    Credential("front-proxy-client", "certificate for the front proxy client", FRONT_PROXY_CA, "front-proxy-client"),
    Credential("scheduler.conf", f"{_EMBEDDED} the scheduler manager to use", CA),
    Credential("super-admin.conf", f"{_EMBEDDED} the super-admin", CA),
)
"""In the order of their names. Without ``kubelet.conf``, which the kubelet renews by itself."""

AUTHORITIES: tuple[str, ...] = (CA, ETCD_CA, FRONT_PROXY_CA)


def credential(name: str) -> Credential:
    """Raises :class:`CertsError` for a name that none has."""
    for each in (*CREDENTIALS, KUBELET_CONF):
        if each.name == name:
            return each
    known = [each.name for each in CREDENTIALS]
    raise CertsError(f"there is no certificate {name}", meant(name, known, f"the names are {', '.join(known)}"))


def listed(layout: Layout) -> tuple[Credential, ...]:
    """The credentials that belong on this machine: those of etcd only where etcd's authority is."""
    with_etcd = layout.authority(ETCD_CA).certificate.exists()
    return tuple(each for each in CREDENTIALS if with_etcd or each.signed_by != ETCD_CA)


def read_chain(credential: Credential, layout: Layout) -> list[Certificate] | None:
    """The certificate, its intermediates behind it; None if the file is not there or has no certificate yet.

    Raises:
        CertsError: it is there and cannot be used.
    """
    path = credential.path(layout)
    try:
        text = path.read_bytes()
        if credential.in_kubeconfig:
            _, user = current_user(kubeconfig.load(text))
            text = user.client_certificate_data
            if not text and not user.client_certificate:
                return None
            if not text:
                text = (path.parent / user.client_certificate).read_bytes()
        return x509_certificate.parse_bundle(text)
    except FileNotFoundError:
        return None
    except (OSError, PKIError, KubeconfigError) as err:
        raise CertsError(f"{path} cannot be used: {err}", "restore it from a backup, or make it anew") from err


def current_user(config: Kubeconfig) -> tuple[str, User]:
    """The user of the current context, with its name. Raises :class:`KubeconfigError`."""
    context = config.contexts.get(config.current_context)
    if context is None or context.user not in config.users:
        raise KubeconfigError("its current context names no user")
    return context.user, config.users[context.user]


def read_authority(layout: Layout, base_name: str) -> Certificate | None:
    """The first certificate of an authority, None if it is not there. Raises :class:`CertsError`."""
    return next(iter(read_authorities(layout, base_name)), None)


def read_authorities(layout: Layout, base_name: str) -> list[Certificate]:
    """All certificates in the file of an authority: several while one takes over from another; empty without a file.

    Raises:
        CertsError: it is there and cannot be used.
    """
    path = layout.authority(base_name).certificate
    try:
        return x509_certificate.parse_bundle(path.read_bytes())
    except FileNotFoundError:
        return []
    except (OSError, PKIError) as err:
        raise CertsError(f"{path} cannot be used: {err}", "restore it from a backup") from err


def is_external(layout: Layout, base_name: str) -> bool:
    """Whether the authority signs elsewhere: its certificate is here and its key is not."""
    pair = layout.authority(base_name)
    return pair.certificate.exists() and not pair.key.exists()


def signing_authority(layout: Layout, base_name: str) -> CertificateAuthority:
    """Raises :class:`CertsError`."""
    return load_authority(layout.authority(base_name))


def spec_of(leaf: Certificate, validity: dt.timedelta) -> LeafSpec:
    """What ``leaf`` says, to be said again for ``validity``."""
    purposes = {oid: purpose for purpose, oid in reversed(EXTENDED_KEY_USAGES.items())}
    return LeafSpec(
        common_name=leaf.subject.common_name,
        organizations=leaf.subject.organizations,
        purposes=tuple(purposes[oid] for oid in leaf.meaning.extended_key_usages if oid in purposes),
        alt_names=leaf.meaning.alt_names,
        validity=validity,
    )


def write_credential(credential: Credential, layout: Layout, certificate: bytes, key: bytes) -> None:
    """Put a new pair in place of the one that is there. Raises ``OSError``, :class:`CertsError`."""
    path = credential.path(layout)
    if credential.in_kubeconfig:
        replace_user(path, certificate, key)
        return
    make_folder(path.parent)
    write_atomically(path.with_suffix(".key"), key, mode=PRIVATE)
    write_atomically(path, certificate, mode=PUBLIC)


def replace_user(path: Path, certificate: bytes, key: bytes) -> None:
    """Change the current user's pair in a kubeconfig, and nothing else. Raises ``OSError``, :class:`CertsError`."""
    try:
        config = kubeconfig.load(path.read_bytes())
        name, user = current_user(config)
    except KubeconfigError as err:
        raise CertsError(f"{path} cannot be used: {err}", "restore it from a backup, or make it anew") from err
    fresh = msgspec.structs.replace(
        user, client_certificate="", client_key="", client_certificate_data=certificate, client_key_data=key
    )
    users = {**config.users, name: fresh}
    write_atomically(path, kubeconfig.dump(msgspec.structs.replace(config, users=users)).encode(), mode=PRIVATE)


def wanted_specs(names: control_plane.ControlPlaneNames) -> dict[str, LeafSpec]:
    """What kubeadm would ask for, by the name of each credential."""
    pairs = {each.base_name: each.spec for each in control_plane.catalog(names)}
    specs = {each.name: pairs[each.base_name] for each in CREDENTIALS if each.base_name}
    return specs | {
        "admin.conf": control_plane.ADMIN,
        "super-admin.conf": control_plane.SUPER_ADMIN,
        "controller-manager.conf": control_plane.CONTROLLER_MANAGER,
        "scheduler.conf": control_plane.SCHEDULER,
        KUBELET_CONF.name: control_plane.kubelet(names.node_name),
    }
