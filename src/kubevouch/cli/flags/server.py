"""kube-apiserver's flags for the server itself, for ``kubevouch up``."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kubevouch.cli.flags import together
from kubevouch.cli.flags.durations import DURATION
from kubevouch.cli.flags.etcd import not_negative
from kubevouch.cli.flags.tracing import tracing_flag
from kubevouch.server.edge import sni
from kubevouch.server.edge.sni import NamedFiles
from kubevouch.server.edge.tls import ServingFiles, TLSOptions, TLSOptionsError
from kubevouch.server.options import (
    DEFAULT_MUTATING_REQUESTS_INFLIGHT,
    DEFAULT_REQUESTS_INFLIGHT,
    DEFAULT_WATCH_CACHE_SIZE,
    ServerOptions,
)

if TYPE_CHECKING:
    from kubevouch.util.logs import Level

# What a gate keeps closed although --runtime-config asks for it. Others have nothing to keep closed here.
_GATES = {
    "ClusterTrustBundle": ("certificates.k8s.io/v1beta1/clustertrustbundles",),
    "PodCertificateRequest": (
        "certificates.k8s.io/v1beta1/podcertificaterequests",
        "certificates.k8s.io/v1/podcertificaterequests",
    ),
}
_FILE = click.Path(path_type=Path, dir_okay=False)
# Go's strconv.ParseBool.
_BOOLEANS = dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True) | dict.fromkeys(
    ("0", "f", "F", "false", "FALSE", "False"), False
)

# From here on kube-apiserver writes a line for each request, and one step further what helps to find errors.
_REQUESTS, _DEBUG = 3, 4


def _at_all(_ctx: click.Context, param: click.Parameter, value: dt.timedelta) -> dt.timedelta:
    if value <= dt.timedelta():
        raise click.BadParameter("got nothing, expected a duration such as 2s", param=param)
    return value


class _Verbosity(click.IntRange):
    """Also ``-v=3``, as Go's flags take it."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        bare: Any = value.removeprefix("=") if isinstance(value, str) else value
        return super().convert(bare, param, ctx)


def _facts(_ctx: click.Context, param: click.Parameter, value: str) -> tuple[str, ...]:
    from kubevouch.registry.certificates import derived_facts

    chosen = tuple(dict.fromkeys(_names(value)))
    for each in chosen:
        if each not in derived_facts.NAMES:
            known = ", ".join(derived_facts.NAMES)
            raise click.BadParameter(f"got {each!r}, expected some of {known}", param=param)
    return chosen


_FLAGS = (
    click.option(
        "--max-requests-inflight",
        type=click.IntRange(1),
        default=DEFAULT_REQUESTS_INFLIGHT,
        show_default=True,
        help="Requests at once; with the next flag the seats that all lanes share.",
    ),
    click.option(
        "--max-mutating-requests-inflight",
        type=click.IntRange(0),
        default=DEFAULT_MUTATING_REQUESTS_INFLIGHT,
        show_default=True,
        help="Added to the one above.",
    ),
    click.option(
        "--request-timeout",
        type=DURATION,
        default="1m",
        show_default=True,
        help="Time for a client to send a body or to take an answer; the most for everything shorter.",
    ),
    click.option("--tls-min-version", default="VersionTLS12", show_default=True, help="VersionTLS12 or VersionTLS13."),
    click.option(
        "--tls-cipher-suites", default="", help="Go's names of suites for TLS 1.2, by commas.  [default: OpenSSL's]"
    ),
    click.option(
        "--tls-cert-file", type=_FILE, help="Serve with this certificate and not with one of the cluster's CA."
    ),
    click.option("--tls-private-key-file", type=_FILE, help="Its key; both are read again when they change."),
    click.option(
        "--tls-sni-cert-key",
        multiple=True,
        metavar="CERT,KEY[:NAME,...]",
        help="Another pair, for clients that ask for NAME, *.NAME, or without any for the names of the certificate.",
    ),
    click.option(
        "--replace-cluster-ca",
        is_flag=True,
        help="Start although the store is of a cluster with another CA, whose machines are locked out by that.",
    ),
    click.option("--enable-admission-plugins", default="", help="Plug-ins to turn on; all of them are, without it."),
    click.option("--disable-admission-plugins", default="", help="Plug-ins to turn off, separated by commas."),
    click.option(
        "--feature-gates",
        default="",
        help="ClusterTrustBundle=BOOL, PodCertificateRequest=BOOL: what is asked for stays off with false.",
    ),
    click.option(
        "--default-watch-cache-size",
        type=click.IntRange(1),
        default=DEFAULT_WATCH_CACHE_SIZE,
        show_default=True,
        help="Events of each resource to remember, for watches and pages from an earlier version.",
    ),
    click.option(
        "--etcd-compaction-interval",
        "compaction_interval",
        type=DURATION,
        default="5m",
        show_default=True,
        help="How long the store keeps old states; 0 keeps them for ever.",
    ),
    click.option(
        "--etcd-healthcheck-timeout",
        type=DURATION,
        default="2s",
        show_default=True,
        callback=_at_all,
        help="How long the store may take to answer /livez.",
    ),
    click.option(
        "--etcd-readycheck-timeout",
        type=DURATION,
        default="2s",
        show_default=True,
        callback=_at_all,
        help="How long it may take to answer /readyz.",
    ),
    click.option(
        "--etcd-count-metric-poll-period",
        type=DURATION,
        default="1m",
        show_default=True,
        callback=not_negative,
        help="0 leaves the numbers of objects out of /metrics; otherwise they are counted whenever they are read.",
    ),
    click.option(
        "--event-ttl",
        type=DURATION,
        default="1h",
        show_default=True,
        callback=not_negative,
        help="How long Events are kept; 0 keeps them for ever.",
    ),
    click.option(
        "--record-invalid-csr-signatures",
        is_flag=True,
        help="Store requests that their own key has not signed, denied with the reason, 60 an hour at most. Kubernetes "
        "refuses them with 422.",
    ),
    click.option(
        "--csr-columns",
        default="",
        callback=_facts,
        help="More columns of kubectl get csr: subject, names, fingerprint, key, by commas.",
    ),
    click.option(
        "--csr-annotations",
        default="",
        callback=_facts,
        help="Annotations kubevouch.io/request-WORD of requests, which no client can change: the same words.",
    ),
    tracing_flag,
    click.option(
        "-v",
        "--v",
        "verbosity",
        type=_Verbosity(0, 10),
        default=0,
        help="klog's verbosity: 3 logs each request, 4 and more is --log-level debug.",
    ),
)


server_flags = together(*_FLAGS)


def take_server(flags: dict[str, Any]) -> ServerOptions:
    """The options that the flags say; takes them out of ``flags``."""
    return ServerOptions(
        max_requests_inflight=flags.pop("max_requests_inflight"),
        max_mutating_requests_inflight=flags.pop("max_mutating_requests_inflight"),
        request_timeout=_positive(flags.pop("request_timeout")),
        tracing_config_file=flags.pop("tracing_config_file"),
        logs_requests=flags.pop("verbosity") >= _REQUESTS,
        watch_cache_size=flags.pop("default_watch_cache_size"),
        compaction_interval=flags.pop("compaction_interval"),
        store_health_seconds=flags.pop("etcd_healthcheck_timeout").total_seconds(),
        store_ready_seconds=flags.pop("etcd_readycheck_timeout").total_seconds(),
        counts_objects=bool(flags.pop("etcd_count_metric_poll_period")),
        event_ttl=flags.pop("event_ttl"),
        csr_columns=flags.pop("csr_columns"),
        csr_annotations=flags.pop("csr_annotations"),
        record_invalid_csr_signatures=flags.pop("record_invalid_csr_signatures"),
        tls=_tls(flags.pop("tls_min_version"), _names(flags.pop("tls_cipher_suites"))),
        serving=_serving(flags.pop("tls_cert_file"), flags.pop("tls_private_key_file")),
        named=_named(flags.pop("tls_sni_cert_key")),
        replaces_ca=flags.pop("replace_cluster_ca"),
    )


def _names(text: str) -> tuple[str, ...]:
    return tuple(each.strip() for each in text.split(",") if each.strip())


def _tls(version: str, suites: tuple[str, ...]) -> TLSOptions:
    try:
        return TLSOptions(version, suites)
    except TLSOptionsError as err:
        raise click.UsageError(str(err)) from err


def _serving(certificate: Path | None, key: Path | None) -> ServingFiles | None:
    if (certificate is None) != (key is None):
        raise click.UsageError("got one of --tls-cert-file and --tls-private-key-file, expected both or none")
    return None if certificate is None or key is None else ServingFiles(certificate, key)


def _named(texts: tuple[str, ...]) -> tuple[NamedFiles, ...]:
    try:
        return tuple(sni.parse(text) for text in texts)
    except TLSOptionsError as err:
        raise click.UsageError(f"--tls-sni-cert-key: {err}") from err


def apply_feature_gates(flags: dict[str, Any]) -> None:
    """Takes the gates out of ``flags``; what they keep closed is turned off in its ``runtime_config``.

    Raises:
        click.UsageError: in Kubernetes' words.
    """
    settings: list[str] = []
    for gate in _names(flags.pop("feature_gates")):
        name, given, value = (part.strip() for part in gate.partition("="))
        if not given:
            raise click.UsageError(f"missing bool value for {name}")
        if value not in _BOOLEANS:
            why = f'strconv.ParseBool: parsing "{value}": invalid syntax'
            raise click.UsageError(f"invalid value of {name}={value}, err: {why}")
        if name not in _GATES:
            raise click.UsageError(f"unrecognized feature gate: {name}")
        if not _BOOLEANS[value]:
            settings += (f"{resource}=false" for resource in _GATES[name])
    if settings:
        flags["runtime_config"] = ",".join((*_names(flags["runtime_config"]), *settings))


def take_disabled_admission(flags: dict[str, Any]) -> tuple[str, ...]:
    """The plug-ins to leave out; takes them out of ``flags``.

    Raises:
        click.UsageError: in Kubernetes' words.
    """
    from kubevouch.admission.catalog import MUTATING, VALIDATING

    enabled, disabled = _names(flags.pop("enable_admission_plugins")), _names(flags.pop("disable_admission_plugins"))
    for flag, plugins in (("enable", enabled), ("disable", disabled)):
        for plugin in plugins:
            if plugin not in (*MUTATING, *VALIDATING):
                raise click.UsageError(f'{flag}-admission-plugins plugin "{plugin}" is unknown')
    if both := [plugin for plugin in enabled if plugin in disabled]:
        raise click.UsageError(
            f"[{' '.join(both)}] in enable-admission-plugins and disable-admission-plugins overlapped"
        )
    return disabled


def _positive(timeout: dt.timedelta) -> dt.timedelta:
    """Raises :class:`click.BadParameter`."""
    if timeout <= dt.timedelta():
        raise click.BadParameter("got nothing, expected a duration such as 1m", param_hint="'--request-timeout'")
    return timeout


def verbose(level: Level, verbosity: int) -> Level:
    """``--log-level``, or more where ``-v`` asks for it."""
    if verbosity >= _DEBUG:
        return "debug"
    return "info" if verbosity >= _REQUESTS and level in ("warning", "error") else level
