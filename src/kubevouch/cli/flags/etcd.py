"""kube-apiserver's flags for its store, and those for etcd's own users, which it has not."""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path
from typing import Any

import click

from kubevouch.cli.flags import together
from kubevouch.cli.flags.durations import DURATION
from kubevouch.storage.etcd.options import (
    DB_POLL_SECONDS,
    DEFAULT_PREFIX,
    HOST,
    LEASE_REUSE_SECONDS,
    PREFIX,
    EtcdOptions,
)

DEFAULT_STORE = "sqlite:"
_BY_FLAGS = "etcd:"
_URL = re.compile(rf"https?://{HOST.pattern}/?")
_FILE = click.Path(path_type=Path, dir_okay=False)
_PROTOBUF = "application/vnd.kubernetes.protobuf"


def _urls(_ctx: click.Context, param: click.Parameter, value: str) -> tuple[str, ...]:
    urls = tuple(filter(None, (url.strip() for url in value.split(","))))
    for url in urls:
        if not _URL.fullmatch(url):
            raise click.BadParameter(f"got {url!r}, expected a URL such as https://10.0.0.1:2379", param=param)
    if len({url.partition("://")[0] for url in urls}) > 1:
        raise click.BadParameter("got http and https, expected one of them for all servers", param=param)
    return tuple(url.rstrip("/") for url in urls)


def _prefix(_ctx: click.Context, param: click.Parameter, value: str) -> str:
    # kube-apiserver takes it with and without a slash in front.
    found = "/" + value.strip("/")
    if not PREFIX.fullmatch(found):
        raise click.BadParameter(f"got {value!r}, expected a path such as {DEFAULT_PREFIX}", param=param)
    return found


def _known(expected: str) -> Any:
    def check(_ctx: click.Context, param: click.Parameter, value: str) -> str:
        if value not in ("", expected):
            raise click.BadParameter(f"got {value!r}, expected {expected}, which is what is written", param=param)
        return value

    return check


def not_negative(_ctx: click.Context, param: click.Parameter, value: dt.timedelta) -> dt.timedelta:
    if value < dt.timedelta():
        raise click.BadParameter("got less than nothing, expected a duration such as 1h, or 0", param=param)
    return value


_ACCESS = (
    click.option("--etcd-cafile", type=_FILE, help="Authority of etcd's serving certificates."),
    click.option("--etcd-certfile", type=_FILE, help="Certificate that is shown to etcd."),
    click.option("--etcd-keyfile", type=_FILE, help="Its key."),
    click.option("--etcd-user", default="", help="User of etcd's own authentication, with --etcd-password-file."),
    click.option("--etcd-password-file", type=_FILE, help="File whose first line is that user's password."),
)
etcd_access_flags = together(*_ACCESS)
"""How to get into the etcd that an argument names."""

etcd_flags = together(
    click.option(
        "--etcd-servers",
        default="",
        callback=_urls,
        help="URLs of etcd's members, by commas: the store, instead of --store.",
    ),
    click.option(
        "--etcd-prefix",
        default=DEFAULT_PREFIX,
        show_default=True,
        callback=_prefix,
        help="What all keys of this cluster begin with in etcd.",
    ),
    *_ACCESS,
    click.option(
        "--etcd-db-metric-poll-interval",
        type=DURATION,
        default=f"{DB_POLL_SECONDS:g}s",
        show_default=True,
        callback=not_negative,
        help="Between two questions for the size of etcd's database; 0 asks none.",
    ),
    click.option(
        "--lease-reuse-duration-seconds",
        type=click.IntRange(0),
        default=LEASE_REUSE_SECONDS,
        show_default=True,
        help="How much longer Events may stay in etcd, so that they share leases.",
    ),
    click.option("--storage-backend", default="", callback=_known("etcd3"), help="etcd3, or nothing."),
    click.option(
        "--storage-media-type",
        default=_PROTOBUF,
        show_default=True,
        callback=_known(_PROTOBUF),
        help="How objects are stored.",
    ),
)


def take_etcd(flags: dict[str, Any]) -> EtcdOptions:
    """What the flags say of etcd; takes them out of ``flags``, whose ``store`` then says that it is etcd by flags.

    Raises:
        click.UsageError: they do not go together.
    """
    options = EtcdOptions(
        endpoints=flags.pop("etcd_servers"),
        prefix=flags.pop("etcd_prefix"),
        **_access(flags),
        lease_reuse_seconds=flags.pop("lease_reuse_duration_seconds"),
        db_poll_seconds=flags.pop("etcd_db_metric_poll_interval").total_seconds(),
    )
    for name in ("storage_backend", "storage_media_type"):
        del flags[name]
    store: str = flags["store"]
    if options.endpoints:
        if store != DEFAULT_STORE:
            raise click.UsageError(f"got --store {store} and --etcd-servers, expected one of them")
        if options.uses_tls and options.endpoints[0].startswith("http:"):
            raise click.UsageError("got files for TLS and --etcd-servers with http, expected https")
        flags["store"] = _BY_FLAGS
    elif not store.startswith("etcd:") and (options.uses_tls or options.user or options.password_file):
        raise click.UsageError("got how to reach etcd and no etcd, expected --etcd-servers or --store etcd://HOST:PORT")
    _expect_pairs(options)
    return options


def take_etcd_access(flags: dict[str, Any]) -> EtcdOptions:
    """As :func:`take_etcd`, of :data:`etcd_access_flags`."""
    options = EtcdOptions(**_access(flags))
    _expect_pairs(options)
    return options


def _access(flags: dict[str, Any]) -> dict[str, Any]:
    return {name: flags.pop(f"etcd_{name}") for name in ("cafile", "certfile", "keyfile", "user", "password_file")}


def _expect_pairs(options: EtcdOptions) -> None:
    if (options.certfile is None) != (options.keyfile is None):
        raise click.UsageError("got one of --etcd-certfile and --etcd-keyfile, expected both")
    if bool(options.user) != (options.password_file is not None):
        raise click.UsageError("got one of --etcd-user and --etcd-password-file, expected both")
