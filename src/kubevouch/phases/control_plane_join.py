"""The control-plane-prepare phase of ``join``: the files of one more control plane (kubeadm 1.36).

What all control planes share comes encrypted from the cluster, or was copied here; the rest is made here.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec

from kubevouch.client.interface import Client
from kubevouch.config.config_file import ConfigFileError
from kubevouch.config.kubeadm_v1beta4 import APIEndpoint, InitConfiguration
from kubevouch.phases import cluster_settings, upload_certs, upload_config
from kubevouch.phases.certificates import control_plane_pki
from kubevouch.phases.certificates.certs import CertsError
from kubevouch.phases.certificates.control_plane_files import Layout
from kubevouch.phases.cluster_settings import ClusterSettings, SettingsError
from kubevouch.phases.join_phases import PREPARE, Phase
from kubevouch.pki import certificate_key
from kubevouch.pki.control_plane import CA
from kubevouch.pki.errors import ParseError
from kubevouch.pki.x509 import x509_certificate
from kubevouch.util.clock import Clock

_NOT_PUBLISHED = "kubevouch init phase upload-config on the first control plane publishes it"


class ControlPlane(msgspec.Struct, frozen=True):
    """What the machine becomes besides a node.

    Args:
        certificate_key: 64 hexadecimal digits; empty if the shared files were copied here.
        bind_port: of its API server.
    """

    advertise_address: str
    certificate_key: str = ""
    bind_port: int = 0


async def fetch_settings(client: Client, wanted: ControlPlane, node_name: str) -> ClusterSettings:
    """How the other control planes are set up, with this machine's name and address.

    Raises:
        CertsError: it is not published, or has no address that control planes can share.
        APIStatusError, TransportError
    """
    try:
        cluster = await upload_config.fetch_cluster(client)
        if cluster is None:
            raise CertsError("there is no ConfigMap kube-system/kubeadm-config to be read", _NOT_PUBLISHED)
        if not cluster.control_plane_endpoint:
            raise CertsError(
                "unable to add a new control plane instance to a cluster that doesn't have a stable "
                "controlPlaneEndpoint address",
                "kubevouch init phase upload-config --control-plane-endpoint HOST:PORT names one",
            )
        endpoint = APIEndpoint(advertise_address=wanted.advertise_address, bind_port=wanted.bind_port)
        return cluster_settings.complete(
            cluster,
            InitConfiguration(local_api_endpoint=endpoint),
            host_name=node_name,
            address=wanted.advertise_address,
            version=cluster.kubernetes_version,
        )
    except (ConfigFileError, SettingsError) as err:
        raise CertsError(f"the ConfigMap kube-system/kubeadm-config cannot be used: {err}", _NOT_PUBLISHED) from err


async def prepare(
    client: Client,
    wanted: ControlPlane,
    node_name: str,
    *,
    rootfs: Path | None,
    proven: bytes,
    clock: Clock,
    phases: frozenset[Phase] = PREPARE,
) -> list[Path]:
    """Put everything below ``/etc/kubernetes`` that a control plane has. Returns the files that were made.

    Args:
        proven: the CA in PEM that discovery has proven; what is shared has to be the same.
        phases: those of control-plane-prepare that run.

    Raises:
        CertsError: the shared files cannot be had, or are another cluster's; nothing was changed.
        APIStatusError, TransportError, OSError
    """
    settings = await fetch_settings(client, wanted, node_name)
    layout = Layout(pki=Path(settings.cluster.certificates_dir)).below(rootfs)
    shared = upload_certs.files(layout, settings.cluster.etcd.external, rootfs=rootfs)
    made: list[Path] = []
    if wanted.certificate_key and Phase.DOWNLOAD_CERTS in phases:
        contents = await upload_certs.download(client, list(shared), certificate_key.parse(wanted.certificate_key))
        _verify_authority(contents.get("ca.crt", b""), proven)
        made += await asyncio.to_thread(upload_certs.write, contents, shared)
    elif phases & {Phase.CERTS, Phase.KUBECONFIG}:
        missing = [str(path) for name, path in shared.items() if not path.exists() and not name.endswith("ca.key")]
        if missing:
            raise CertsError(
                f"one or more required certificates or keys are missing: {', '.join(missing)}",
                "give the --certificate-key of kubevouch init phase upload-certs --upload-certs, or copy them here",
            )
        _verify_authority(layout.authority(CA).certificate.read_bytes(), proven)
    # Keys take a while to make, files to reach the disk.
    if Phase.CERTS in phases:
        made += await asyncio.to_thread(control_plane_pki.ensure_certificates, settings, layout, now=clock.now())
    if Phase.KUBECONFIG in phases:
        made += await asyncio.to_thread(
            control_plane_pki.ensure_kubeconfigs, settings, layout, now=clock.now(), first=False
        )
    return made


def _verify_authority(text: bytes, proven: bytes) -> None:
    known = {each.contents for each in x509_certificate.parse_bundle(proven)}
    try:
        same = all(each.contents in known for each in x509_certificate.parse_bundle(text))
    except ParseError as err:
        raise CertsError(f"the shared ca.crt cannot be used: {err}") from err
    if not same:
        raise CertsError(
            "the shared ca.crt is not the CA that discovery has proven", "check the hash; these may be two clusters"
        )
