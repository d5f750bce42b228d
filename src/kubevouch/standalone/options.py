"""The settings of a standalone server."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from kubevouch.api.core_v1.nodes import NODE_MONITOR_GRACE_PERIOD
from kubevouch.phases.certificates.certs import DEFAULT_ALGORITHM
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.policy import DEFAULT_SIGNING_DURATION
from kubevouch.pki.profile import Profile
from kubevouch.records.node_recovery import RecoveryPolicy
from kubevouch.server.audit.options import AuditOptions
from kubevouch.server.options import ServerOptions
from kubevouch.signers.catalog import PairFiles
from kubevouch.signers.keys import KeyOptions
from kubevouch.standalone.access_options import AccessOptions
from kubevouch.standalone.approval_options import ApprovalOptions
from kubevouch.standalone.cluster_api_options import ClusterAPIOptions
from kubevouch.standalone.encryption_options import EncryptionOptions
from kubevouch.standalone.service_account_options import ServiceAccountOptions
from kubevouch.storage.etcd.options import EtcdOptions

DEFAULT_PORT = 6443
# kubeadm's; programs in pods use its first address.
DEFAULT_SERVICE_CLUSTER_IP_RANGE = "10.96.0.0/12"
DEFAULT_TOKEN_TTL = dt.timedelta(hours=24)
ROOT_DATA_DIR = Path("/var/lib/kubevouch")


def default_data_dir() -> Path:
    """``/var/lib/kubevouch`` for root, else ``$XDG_STATE_HOME/kubevouch`` (``~/.local/state/kubevouch``)."""
    if os.geteuid() == 0:
        return ROOT_DATA_DIR
    state = os.environ.get("XDG_STATE_HOME", "")
    # The specification has relative paths ignored.
    base = Path(state) if state.startswith("/") else Path.home() / ".local" / "state"
    return base / "kubevouch"


class IdentityOptions(msgspec.Struct, frozen=True):
    """What machines' identities are worth.

    Args:
        signing_profile: how much more than Kubernetes' signers the signers refuse.
        allow_name_takeover: a bootstrap token gives any node's name, also one that another machine has.
        lock_out_deleted_nodes: the certificates of a deleted Node count no more; None is as the cluster has it.
    """

    signing_profile: Profile = Profile.STRICT
    allow_name_takeover: bool = False
    lock_out_deleted_nodes: bool | None = None


class ClusterSigning(msgspec.Struct, frozen=True):
    """kube-controller-manager's ``--cluster-signing-*`` flags.

    Args:
        default: signs for all signers; empty, with no ``pairs``, is the CA of the data directory.
        pairs: by signer name; then only these sign.
        duration: of certificates, unless a shorter one is asked for.
        keys: what opens the keys of ``default`` and ``pairs``.
        named: the directory of the CAs that CertificateSigners may name; None is ``signers`` beside the cluster's CA.
        durations: by signer name, where it is another one.
        post_quantum: ML-DSA keys are signed, too.
        socket: of the signing process that has the key of ``default``, or of the CA of the data directory.
        outside: a SigningConfiguration.
    """

    default: PairFiles = msgspec.field(default_factory=PairFiles)
    pairs: Mapping[str, PairFiles] = msgspec.field(default_factory=dict)
    duration: dt.timedelta = DEFAULT_SIGNING_DURATION
    keys: KeyOptions = msgspec.field(default_factory=KeyOptions)
    named: Path | None = None
    durations: Mapping[str, dt.timedelta] = msgspec.field(default_factory=dict)
    post_quantum: bool = False
    socket: Path | None = None
    outside: Path | None = None

    @property
    def is_elsewhere(self) -> bool:
        """Whether the key of the data directory's CA signs nothing."""
        return bool(self.default or self.pairs or self.socket)


class StandaloneOptions(msgspec.Struct, frozen=True):
    """What ``kubevouch up`` and ``kubevouch serve`` can be told.

    Args:
        bind_address: the address to listen on; ``::`` and ``0.0.0.0`` mean all.
        advertise_address: the address or name under which clients reach this server; empty finds one.
        control_plane_endpoint: the address that all control planes share, which kubeconfigs and cluster-info name.
            Empty, with an empty ``advertise_address``, leaves what they name.
        secure_port: 0 lets the system pick one.
        workers: processes that serve; with 1 the process with the store and the controllers serves, too.
        store: as ``storage.options.parse_store`` reads it.
        etcd: what ``store`` does not say of etcd.
        other_servers: more addresses of the cluster; empty leaves those that cluster-info names.
        token_ttl: life of the first bootstrap token; zero makes none that expires. None makes no token.
        runtime_config: kube-apiserver's list of API versions and resources to turn on or off: ``key=true,key=false``.
        controllers: kube-controller-manager's list: ``*``, names, names with ``-`` in front.
        access: who and may: authentication and authorization by flags and files.
        service_accounts: who signs their tokens, and whose are accepted.
        disabled_admission: plug-ins to leave out.
        audit: which requests are recorded, and where.
        recovery: what is allowed to nodes whose certificate has ended; None is nothing.
        identity: what machines' identities are worth.
        service_cluster_ip_range: the addresses of Services, one range or one of each family; the first of the first is
            that of ``default/kubernetes``.
        node_monitor_grace_period: how long a node may be silent before nobody knows how it is.
        signing: which CAs sign, and for how long.
        approval: what decides about requests for certificates.
        cluster_api: where Cluster API's objects are; None without it.
        encryption: what is stored encrypted, and with which keys.
        server: how many requests run at once, and what is told of them.
        certificate_key: 64 hexadecimal digits, under which the files that servers share are in the store; empty if they
            are in the data directory.
        extra_names: more names and addresses for the serving certificate.
    """

    data_dir: Path
    bind_address: str = "0.0.0.0"  # noqa: S104 - nodes are on other machines
    advertise_address: str = ""
    control_plane_endpoint: str = ""
    other_servers: tuple[str, ...] = ()
    secure_port: int = DEFAULT_PORT
    workers: int = 1
    store: str = "sqlite:"
    etcd: EtcdOptions = msgspec.field(default_factory=EtcdOptions)
    token_ttl: dt.timedelta | None = DEFAULT_TOKEN_TTL
    controllers: tuple[str, ...] = ("*",)
    runtime_config: str = ""
    access: AccessOptions = msgspec.field(default_factory=AccessOptions)
    service_accounts: ServiceAccountOptions = msgspec.field(default_factory=ServiceAccountOptions)
    disabled_admission: tuple[str, ...] = ()
    audit: AuditOptions = msgspec.field(default_factory=AuditOptions)
    server: ServerOptions = msgspec.field(default_factory=ServerOptions)
    recovery: RecoveryPolicy | None = None
    identity: IdentityOptions = msgspec.field(default_factory=IdentityOptions)
    service_cluster_ip_range: str = DEFAULT_SERVICE_CLUSTER_IP_RANGE
    node_monitor_grace_period: dt.timedelta = NODE_MONITOR_GRACE_PERIOD
    signing: ClusterSigning = msgspec.field(default_factory=ClusterSigning)
    approval: ApprovalOptions = msgspec.field(default_factory=ApprovalOptions)
    cluster_api: ClusterAPIOptions | None = None
    encryption: EncryptionOptions = msgspec.field(default_factory=EncryptionOptions)
    key_algorithm: KeyAlgorithm = DEFAULT_ALGORITHM
    certificate_key: str = ""
    extra_names: tuple[str, ...] = msgspec.field(default=())
