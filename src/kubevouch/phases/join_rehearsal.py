"""A dry run of ``join``: everything up to the first change."""

from __future__ import annotations

import random as random_module
from pathlib import Path

from kubevouch.agent.interface import Observer
from kubevouch.client.interface import Client
from kubevouch.phases import control_plane_join, upload_certs, upload_config
from kubevouch.phases.certificates import control_plane_pki
from kubevouch.phases.certificates.control_plane_files import Layout
from kubevouch.phases.control_plane_join import ControlPlane
from kubevouch.phases.join import (
    BOOTSTRAP_CONF,
    CA_CERTIFICATE,
    CERTIFICATE_FOLDER,
    KUBELET_CONF,
    KUBELET_CONFIG,
    KUBELET_FLAGS,
    JoinOptions,
    check,
    client_of,
    find_cluster,
    verify_node_is_free,
)
from kubevouch.phases.join_phases import ASK_THE_CLUSTER, Phase
from kubevouch.util import backoff
from kubevouch.util.clock import Clock


async def rehearse(
    options: JoinOptions, clock: Clock, observer: Observer, random: backoff.Random = random_module.random
) -> list[Path]:
    """The files that a join would write.

    Raises:
        JoinError, PreflightError, AgentError, CertsError
    """
    check(options, observer)
    found: list[Path] = []
    if not options.phases & ASK_THE_CLUSTER:
        return found
    cluster = await find_cluster(options, clock, observer, random)
    if Phase.KUBELET_START in options.phases:
        found.append(CA_CERTIFICATE)
    if Phase.KUBELET_WAIT_BOOTSTRAP in options.phases:
        found += [CERTIFICATE_FOLDER / "kubelet-client-current.pem", KUBELET_CONF]
    else:
        found.append(BOOTSTRAP_CONF)
    async with client_of(cluster, options, clock, observer) as client:
        await verify_node_is_free(client, options.node_name)
        if Phase.KUBELET_START in options.phases and await upload_config.fetch_kubelet(client) is not None:
            found += [KUBELET_CONFIG, KUBELET_FLAGS]
        if options.control_plane is not None:
            found += await _planned(client, options.control_plane, options)
    return [options.root / path for path in found]


async def _planned(client: Client, wanted: ControlPlane, options: JoinOptions) -> list[Path]:
    """The files of a control plane."""
    settings = await control_plane_join.fetch_settings(client, wanted, options.node_name)
    layout = Layout(pki=Path(settings.cluster.certificates_dir)).below(Path())
    found: list[Path] = []
    if Phase.DOWNLOAD_CERTS in options.phases and wanted.certificate_key:
        found += upload_certs.files(layout, settings.cluster.etcd.external, rootfs=Path()).values()
    if Phase.CERTS in options.phases:
        found += [each.path(layout) for each in control_plane_pki.pairs(settings)]
    if Phase.KUBECONFIG in options.phases:
        found += [each.path(layout) for each in control_plane_pki.kubeconfigs(first=False)]
    return found
