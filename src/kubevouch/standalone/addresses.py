"""Where a cluster is reached: by flags, else as kubeconfigs and cluster-info already say."""

from __future__ import annotations

from pathlib import Path

from kubevouch.client.endpoint import Endpoint, EndpointError, endpoint_of_url
from kubevouch.config import kubeconfig
from kubevouch.config.kubeconfig import KubeconfigError
from kubevouch.phases.cluster_settings import control_plane_endpoint
from kubevouch.standalone import network
from kubevouch.standalone.options import StandaloneOptions


def local(options: StandaloneOptions, port: int) -> Endpoint:
    """This server, listening on ``port``."""
    if options.advertise_address:
        return Endpoint(options.advertise_address, port)
    if not network.is_wildcard(options.bind_address):
        return Endpoint(options.bind_address, port)
    return Endpoint(network.default_address(), port)


def shared(options: StandaloneOptions, here: Endpoint, recorded: Endpoint | None) -> Endpoint:
    """What kubeconfigs and cluster-info name as the server. Raises :class:`SettingsError` if a flag cannot be meant.

    Args:
        here: this server.
        recorded: what they name now. It may be a balancer's name, which nothing but a flag changes.
    """
    given = control_plane_endpoint(options.control_plane_endpoint, here.port)
    if given is not None:
        return given
    if options.advertise_address or recorded is None:
        return here
    # A port that is picked anew at each start is a flag, too.
    return here if options.secure_port == 0 and recorded.host == here.host else recorded


def recorded(path: Path) -> Endpoint | None:
    """The server that a kubeconfig names; None where there is none that can be used."""
    try:
        config = kubeconfig.load(path.read_bytes())
        return endpoint_of_url(config.clusters[config.contexts[config.current_context].cluster].server)
    except (OSError, KeyError, KubeconfigError, EndpointError):
        return None


def others(options: StandaloneOptions, here: Endpoint) -> tuple[Endpoint, ...]:
    """More addresses of the cluster, each with the port of this server unless it has one of its own.

    Raises:
        SettingsError: a flag cannot be meant.
    """
    found = (control_plane_endpoint(each, here.port) for each in options.other_servers)
    return tuple(each for each in found if each is not None)
