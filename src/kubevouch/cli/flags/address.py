"""The flags of ``kubevouch up`` that say where it is reached."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from typing import Any

import click

_WILDCARD = "*."


def _name(text: str, param: click.Parameter | None) -> str:
    """An address or a DNS name in its canonical form. Raises :class:`click.BadParameter`."""
    from kubevouch.client.endpoint import EndpointError, parse_endpoint

    try:
        return parse_endpoint(f"[{text}]:1" if ":" in text else f"{text}:1").host
    except EndpointError as err:
        raise click.BadParameter(f"got {text!r}, expected an IP address or a DNS name", param=param) from err


def _advertised(_ctx: click.Context, param: click.Parameter, value: str) -> str:
    if not value:
        return ""
    host = _name(value, param)
    try:
        unspecified = ipaddress.ip_address(host).is_unspecified
    except ValueError:
        unspecified = False
    if unspecified:
        raise click.BadParameter(f"got {value!r}, expected an address at which machines reach this server", param=param)
    return host


def _endpoints(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(_endpoint(ctx, param, each) for each in values)


def _endpoint(_ctx: click.Context, param: click.Parameter, value: str) -> str:
    if value:
        from kubevouch.phases.cluster_settings import SettingsError, control_plane_endpoint

        try:
            control_plane_endpoint(value, 1)
        except SettingsError as err:
            raise click.BadParameter(f"got {value!r}, expected HOST or HOST:PORT", param=param) from err
    return value


def _names(_ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    # A wildcard is one whole label, the first.
    return tuple(
        _WILDCARD + _name(each.removeprefix(_WILDCARD), param) if each.startswith(_WILDCARD) else _name(each, param)
        for each in values
    )


_FLAGS = (
    click.option(
        "--advertise-address",
        default="",
        callback=_advertised,
        help="Address or name at which machines reach this server.  [default: the one of the default route]",
    ),
    click.option(
        "--control-plane-endpoint",
        default="",
        metavar="HOST[:PORT]",
        callback=_endpoint,
        help="What kubeconfigs and cluster-info name as the server, such as a balancer; kept until it is given again.",
    ),
    click.option(
        "--other-server",
        "other_servers",
        multiple=True,
        metavar="HOST[:PORT]",
        callback=_endpoints,
        help="Another address of the cluster for cluster-info, which machines try too; several times. Kept as above.",
    ),
    click.option(
        "--tls-san",
        "extra_names",
        multiple=True,
        metavar="NAME",
        callback=_names,
        help="Another name or address for the serving certificate; several times. Those it has stay.",
    ),
)


def address_flags(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the flags to a command."""
    for flag in reversed(_FLAGS):
        command = flag(command)
    return command
