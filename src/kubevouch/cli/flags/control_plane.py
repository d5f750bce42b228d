"""Flags that say where a control plane's files lie, and what is in them: kubeadm's, for ``init`` and ``certs``."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kubevouch.cli import ui
from kubevouch.cli.exit_codes import ExitCode
from kubevouch.cli.flags import kubeadm_config, together
from kubevouch.cli.flags.durations import DURATION
from kubevouch.cli.flags.paths import FOLDER

if TYPE_CHECKING:
    from kubevouch.config.kubeadm_v1beta4 import ClusterConfiguration, InitConfiguration
    from kubevouch.phases.certificates.control_plane_files import Layout
    from kubevouch.phases.cluster_settings import ClusterSettings

_LAYOUT = (
    click.option("--cert-dir", type=FOLDER, help="Folder of the certificates.  [default: /etc/kubernetes/pki]"),
    click.option("--kubeconfig-dir", type=FOLDER, help="Folder of the kubeconfigs.  [default: /etc/kubernetes]"),
    click.option("--rootfs", type=FOLDER, help="Folder that stands before every path."),
)
_SETTINGS = (
    kubeadm_config.config_option,
    click.option("--node-name", default="", help="Name of the node.  [default: this machine's host name]"),
    click.option(
        "--apiserver-advertise-address",
        default="",
        help="Address of this machine's API server.  [default: the one of the default route]",
    ),
    click.option("--apiserver-bind-port", type=click.IntRange(0, 65535), default=0, help="Its port.  [default: 6443]"),
    click.option("--apiserver-cert-extra-sans", default="", help="More names for its serving certificate, by commas."),
    click.option("--control-plane-endpoint", default="", help="HOST or HOST:PORT that all control planes share."),
    click.option("--service-cidr", default="", help="Addresses of services.  [default: 10.96.0.0/12]"),
    click.option("--service-dns-domain", default="", help="Domain of services.  [default: cluster.local]"),
    click.option("--pod-network-cidr", default="", help="Addresses of pods."),
    click.option("--kubernetes-version", default="", help="Version of the control plane."),
    click.option("--key-algorithm", default="", help="RSA-2048, RSA-3072, RSA-4096, ECDSA-P256 or ECDSA-P384."),
)


layout_flags = together(*_LAYOUT)
settings_flags = together(*_SETTINGS)
ttl_option = click.option("--token-ttl", type=DURATION, default=None, help="Life of the token.  [default: 24h]")


def take_layout(flags: dict[str, Any], certificates_dir: str = "") -> Layout:
    """Takes the flags out of ``flags``; ``rootfs`` stays.

    Args:
        certificates_dir: that of a configuration file; the flag beats it.
    """
    from kubevouch.phases.certificates.control_plane_files import Layout

    rootfs: Path | None = flags["rootfs"]
    standard = Layout()
    pki, kubeconfigs = flags.pop("cert_dir"), flags.pop("kubeconfig_dir")
    configured = Path(certificates_dir) if certificates_dir else standard.pki
    below = Layout(configured, standard.kubeconfigs).below(rootfs)
    # A folder that is named is meant as it stands, unless a root is named, too.
    return Layout(
        _placed(pki, rootfs) if pki else below.pki, _placed(kubeconfigs, rootfs) if kubeconfigs else below.kubeconfigs
    )


def _placed(folder: Path, rootfs: Path | None) -> Path:
    folder = folder.absolute()
    return folder if rootfs is None else rootfs / folder.relative_to("/")


def take_settings(
    ctx: click.Context, flags: dict[str, Any], *, token: str = "", ttl: dt.timedelta | None = None
) -> ClusterSettings:
    """The settings that file or flags say; takes them out of ``flags``. Raises :class:`CLIError`.

    ``--cert-dir`` is where this machine has its certificates, which says nothing of those that join: what is published
    for them names kubeadm's folder.
    """
    from kubevouch.config import kubeadm_v1beta4 as kubeadm
    from kubevouch.machinery.text.gotext import format_duration

    path: Path | None = flags.pop("config")
    given = {name: flags.pop(name) for name in _NAMES}
    if path is not None:
        documents = kubeadm_config.read(ctx, path)
        cluster = documents.cluster or kubeadm.ClusterConfiguration()
        init = documents.init or kubeadm.InitConfiguration()
        return _completed(cluster, init, given["node_name"], documents.kubelet)
    sans = [part.strip() for part in given["apiserver_cert_extra_sans"].split(",") if part.strip()]
    cluster = kubeadm.ClusterConfiguration(
        networking=kubeadm.Networking(
            service_subnet=given["service_cidr"],
            pod_subnet=given["pod_network_cidr"],
            dns_domain=given["service_dns_domain"],
        ),
        kubernetes_version=given["kubernetes_version"],
        control_plane_endpoint=given["control_plane_endpoint"],
        api_server=kubeadm.APIServerComponent(cert_sans=sans),
        encryption_algorithm=given["key_algorithm"],
    )
    tokens = []
    if token or ttl is not None:
        tokens = [kubeadm.BootstrapTokenSettings(token=token, ttl="" if ttl is None else format_duration(ttl))]
    init = kubeadm.InitConfiguration(
        bootstrap_tokens=tokens,
        local_api_endpoint=kubeadm.APIEndpoint(
            advertise_address=given["apiserver_advertise_address"], bind_port=given["apiserver_bind_port"]
        ),
    )
    return _completed(cluster, init, given["node_name"], None)


_NAMES = (
    "node_name", "apiserver_advertise_address", "apiserver_bind_port", "apiserver_cert_extra_sans",
    "control_plane_endpoint", "service_cidr", "service_dns_domain", "pod_network_cidr", "kubernetes_version",
    "key_algorithm",
)  # fmt: skip


def _completed(
    cluster: ClusterConfiguration, init: InitConfiguration, node_name: str, kubelet: dict[str, Any] | None
) -> ClusterSettings:
    import socket

    from kubevouch.phases.cluster_settings import SettingsError, complete
    from kubevouch.server.version import MAJOR, MINOR, PATCH
    from kubevouch.standalone.network import default_address

    try:
        return complete(
            cluster,
            init,
            host_name=socket.gethostname(),
            address=default_address(),
            version=f"v{MAJOR}.{MINOR}.{PATCH}",
            kubelet=kubelet,
            node_name=node_name,
        )
    except SettingsError as err:
        raise ui.CLIError(str(err), hint=err.hint, code=ExitCode.INVALID) from err
