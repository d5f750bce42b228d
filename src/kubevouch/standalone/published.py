"""What a cluster itself says of where it is reached, brought up to date at a start."""

from __future__ import annotations

from kubevouch.client.endpoint import Endpoint, EndpointError, endpoint_of_url
from kubevouch.phases import cluster_info, upload_config
from kubevouch.phases.cluster_settings import SettingsError, control_plane_endpoint
from kubevouch.records.cluster_info import ClusterInfo
from kubevouch.standalone import addresses
from kubevouch.standalone.kubeconfigs import Moved
from kubevouch.standalone.options import StandaloneOptions
from kubevouch.standalone.server import StandaloneServer

_MOST_SERVERS = 16
"""Beside the first one. A server that is started at another address each time makes no list grow."""


async def keep_endpoint(
    server: StandaloneServer, options: StandaloneOptions, here: Endpoint
) -> tuple[Endpoint | None, list[Moved]]:
    """The address that all control planes share, as a start was told it, and how that has changed."""
    given = control_plane_endpoint(options.control_plane_endpoint, here.port)
    kept = await upload_config.keep_endpoint(server.client, given.address if given else "")
    if kept is None:
        return given, []
    former, now = kept
    moved = [] if former == now else [Moved("kubeadm-config", former, now, "endpoint")]
    try:
        return control_plane_endpoint(now, here.port), moved
    except SettingsError:
        return None, moved


async def keep_cluster_info(
    server: StandaloneServer,
    options: StandaloneOptions,
    here: Endpoint,
    decided: Endpoint | None,
    *,
    replicated: bool = False,
) -> tuple[Endpoint | None, list[Moved]]:
    """Where it sends machines, None if nowhere, and how that has changed.

    Args:
        replicated: other servers are as good as this one, which is told beside them and takes nobody's place.
    """
    told = tuple(each.url for each in addresses.others(options, here))

    def servers(former: ClusterInfo) -> tuple[str, ...]:
        # Where all share an address, nobody has to know those behind it.
        if told or not replicated or decided is not None or here.url in (former.server, *former.servers):
            return told or former.servers
        return (*former.servers, here.url)[-_MOST_SERVERS:]

    def move(url: str) -> str:
        if replicated and not options.control_plane_endpoint:
            return url
        try:
            former = endpoint_of_url(url)
        except EndpointError:
            return url
        now = addresses.shared(options, here, former, decided)
        return url if now == former else now.url

    kept = await cluster_info.keep(
        server.client,
        server.pki.ca_certificate,
        move,
        cluster_id=await cluster_info.cluster_id(server.client),
        servers=servers,
    )
    if kept is None:
        return None, []
    former, info = kept
    moved = [] if former.server == info.server else [Moved("cluster-info", former.server, info.server)]
    if former.servers != info.servers:
        moved.append(Moved("cluster-info", ", ".join(former.servers), ", ".join(info.servers), "other servers"))
    try:
        return endpoint_of_url(info.server), moved
    except EndpointError:
        return None, moved
