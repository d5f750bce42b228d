"""kube-apiserver's flags for the server itself."""

from __future__ import annotations

import datetime as dt
from typing import Any

import click
import pytest
from click.testing import CliRunner

from kubevouch.cli.flags.server import (
    apply_feature_gates,
    server_flags,
    take_disabled_admission,
    take_server,
    verbose,
)
from kubevouch.server.edge.tls import TLSOptions
from kubevouch.server.options import ServerOptions
from kubevouch.util.logs import Level


def parsed(*arguments: str) -> ServerOptions:
    found: list[ServerOptions] = []

    @click.command()
    @server_flags
    def command(**flags: Any) -> None:
        found.append(take_server(flags))
        assert take_disabled_admission(flags) == ()
        apply_feature_gates(flags)
        assert flags == {}

    result = CliRunner().invoke(command, arguments)
    if result.exit_code:
        raise ValueError(result.output)
    return found[0]


def test_the_defaults_are_kube_apiservers() -> None:
    assert parsed() == ServerOptions(400, 200, logs_requests=False, compaction_interval=dt.timedelta(minutes=5))
    assert parsed().seats == 600


def test_all_flags() -> None:
    more = ("--default-watch-cache-size=5", "--etcd-compaction-interval=0")
    options = parsed("--max-requests-inflight=7", "--max-mutating-requests-inflight=0", "-v=3", *more)
    assert options == ServerOptions(7, 0, logs_requests=True, watch_cache_size=5)


@pytest.mark.parametrize("flag", ["--max-requests-inflight=0", "--max-mutating-requests-inflight=-1", "-v=-1"])
def test_what_cannot_be_meant(flag: str) -> None:
    with pytest.raises(ValueError, match="is not in the range"):
        parsed(flag)


@pytest.mark.parametrize(
    ("level", "verbosity", "counts"),
    [
        ("warning", 0, "warning"),
        ("warning", 2, "warning"),
        ("warning", 3, "info"),
        ("error", 3, "info"),
        ("debug", 3, "debug"),
        ("warning", 4, "debug"),
    ],
)
def test_the_level_that_counts(level: Level, verbosity: int, counts: Level) -> None:
    assert verbose(level, verbosity) == counts


def test_how_long_the_store_may_take_and_keep() -> None:
    options = parsed(
        "--etcd-healthcheck-timeout=3s", "--etcd-readycheck-timeout=4s", "--etcd-count-metric-poll-period=0",
        "--event-ttl=2h",
    )  # fmt: skip
    assert (options.store_health_seconds, options.store_ready_seconds, options.counts_objects) == (3, 4, False)
    assert options.event_ttl == dt.timedelta(hours=2)
    for wrong in ("--etcd-healthcheck-timeout=0", "--etcd-readycheck-timeout=-1s", "--event-ttl=-1s"):
        with pytest.raises(ValueError, match="expected a duration"):
            parsed(wrong)


def test_versions_and_suites_of_tls() -> None:
    suite = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"
    found = parsed("--tls-min-version=VersionTLS13", f"--tls-cipher-suites={suite}, TLS_AES_128_GCM_SHA256")
    assert found.tls == TLSOptions("VersionTLS13", (suite, "TLS_AES_128_GCM_SHA256"))
    with pytest.raises(ValueError, match=r"Cipher suite TLS_RSA_WITH_RC4_128_SHA not supported or doesn't exist"):
        parsed("--tls-cipher-suites=TLS_RSA_WITH_RC4_128_SHA")


@pytest.mark.parametrize(
    ("enabled", "disabled", "found"),
    [
        ("NodeRestriction", "", ()),
        ("", "TaintNodesByCondition,CertificateSigning", ("TaintNodesByCondition", "CertificateSigning")),
        ("PodSecurity", "", 'enable-admission-plugins plugin "PodSecurity" is unknown'),
        ("", "LimitRanger", 'disable-admission-plugins plugin "LimitRanger" is unknown'),
        (
            "NodeRestriction",
            "NodeRestriction",
            "[NodeRestriction] in enable-admission-plugins and disable-admission-plugins overlapped",
        ),
    ],
)
def test_plugins(enabled: str, disabled: str, found: tuple[str, ...] | str) -> None:
    flags = {
        "enable_admission_plugins": enabled,
        "disable_admission_plugins": disabled,
    }
    if isinstance(found, tuple):
        assert take_disabled_admission(flags) == found
        return
    with pytest.raises(click.UsageError) as caught:
        take_disabled_admission(flags)
    assert caught.value.message == found


@pytest.mark.parametrize(
    ("gates", "settings"),
    [
        ("", "a=1"),
        ("PodCertificateRequest=true, ClusterTrustBundle=T", "a=1"),
        ("ClusterTrustBundle=false", "a=1,certificates.k8s.io/v1beta1/clustertrustbundles=false"),
        (
            "ClusterTrustBundle=1,PodCertificateRequest=0",
            (
                "a=1,certificates.k8s.io/v1beta1/podcertificaterequests=false,"
                "certificates.k8s.io/v1/podcertificaterequests=false"
            ),
        ),
    ],
)
def test_a_gate_keeps_closed_what_is_asked_for(gates: str, settings: str) -> None:
    flags = {"feature_gates": gates, "runtime_config": "a=1"}
    apply_feature_gates(flags)
    assert flags == {"runtime_config": settings}


@pytest.mark.parametrize(
    ("gates", "text"),
    [
        ("AllAlpha=true", "unrecognized feature gate: AllAlpha"),
        ("PodCertificateRequest", "missing bool value for PodCertificateRequest"),
        (
            "PodCertificateRequest=yes",
            'invalid value of PodCertificateRequest=yes, err: strconv.ParseBool: parsing "yes": invalid syntax',
        ),
    ],
)
def test_gates_that_there_are_not(gates: str, text: str) -> None:
    with pytest.raises(click.UsageError) as caught:
        apply_feature_gates({"feature_gates": gates, "runtime_config": ""})
    assert caught.value.message == text
