"""Where a cluster is reached: by flags, else as kubeconfigs and cluster-info already say."""

from __future__ import annotations

from collections.abc import Callable
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


def shared(
    options: StandaloneOptions, here: Endpoint, recorded: Endpoint | None, decided: Endpoint | None = None
) -> Endpoint:
    """What kubeconfigs and cluster-info name as the server. Raises :class:`SettingsError` if a flag cannot be meant.

    Args:
        here: this server.
        recorded: what they name now. It may be a balancer's name, which nothing but a flag changes.
        decided: the endpoint of all control planes as an earlier start was told it: another address of this server
            changes nothing about it.
    """
    given = control_plane_endpoint(options.control_plane_endpoint, here.port)
    if given is not None:
        return given
    if recorded is not None and (decided is not None or not options.advertise_address):
        return recorded
    return decided or here


def is_out_of_reach(shared: Endpoint, here: Endpoint, bound: str, is_ours: Callable[[str], bool]) -> bool:
    """Whether machines that are sent to ``shared`` are sent to this very machine, to where they find no server.

    Args:
        here: this server, with the port that it listens on.
        bound: the address that it listens on.
        is_ours: whether an address or a name is this machine's own; of a name that may be a balancer's it is not known.
    """
    if not is_ours(shared.host):
        return False
    if shared.port != here.port:
        return True
    if network.is_wildcard(bound):
        # For others it is their own machine.
        return network.is_loopback(shared.host) and not network.is_loopback(here.host)
    return shared.host != bound and not (network.is_loopback(shared.host) and network.is_loopback(bound))


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
