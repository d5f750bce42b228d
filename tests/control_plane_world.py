"""A control plane's files in a folder, made once for a test run and copied."""

from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from kubevouch.config.kubeadm_v1beta4 import APIEndpoint, ClusterConfiguration, InitConfiguration
from kubevouch.phases import cluster_settings
from kubevouch.phases.certificates import control_plane_pki
from kubevouch.phases.certificates.control_plane_files import Layout
from kubevouch.phases.cluster_settings import ClusterSettings
from kubevouch.util.clock import SystemClock

NOW = SystemClock().now()


def settings(cluster: ClusterConfiguration | None = None, *, port: int = 6443) -> ClusterSettings:
    return cluster_settings.complete(
        cluster or ClusterConfiguration(),
        InitConfiguration(local_api_endpoint=APIEndpoint(advertise_address="127.0.0.1", bind_port=port)),
        host_name="cp-1",
        address="127.0.0.1",
        version="v1.36.2",
    )


@cache
def _made() -> Path:
    folder = Path(mkdtemp())
    layout = Layout(folder / "pki", folder)
    control_plane_pki.ensure_certificates(settings(), layout, now=NOW)
    control_plane_pki.ensure_kubeconfigs(settings(), layout, now=NOW)
    return folder


def control_plane_files(folder: Path) -> Layout:
    """A whole control plane in ``folder``."""
    shutil.copytree(_made(), folder, dirs_exist_ok=True)
    return Layout(folder / "pki", folder)
