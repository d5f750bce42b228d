"""kube-apiserver's flags for etcd, as the options of a store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from kubevouch.cli.flags.etcd import etcd_flags, take_etcd
from kubevouch.storage.etcd.options import EtcdOptions
from kubevouch.storage.options import parse_store


def _taken(*arguments: str) -> tuple[str, EtcdOptions]:
    """What ``--store`` is afterwards, and the options."""
    found: list[tuple[str, EtcdOptions]] = []

    @click.command()
    @click.option("--store", default="sqlite:")
    @etcd_flags
    def command(**flags: Any) -> None:
        options = take_etcd(flags)
        assert set(flags) == {"store"}
        found.append((flags["store"], options))

    done = CliRunner().invoke(command, arguments, standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    return found[0]


def test_without_flags_the_store_is_the_usual_one() -> None:
    assert _taken() == ("sqlite:", EtcdOptions())


def test_flags_of_kube_apiserver_are_a_store() -> None:
    store, options = _taken(
        "--etcd-servers", "https://10.0.0.1:2379, https://[::1]:2379/", "--etcd-prefix", "registry/two",
        "--etcd-cafile", "ca.crt", "--etcd-certfile", "a.crt", "--etcd-keyfile", "a.key", "--etcd-user", "root",
        "--etcd-password-file", "password", "--lease-reuse-duration-seconds", "5",
        "--etcd-db-metric-poll-interval", "0",
        "--storage-backend", "etcd3",
    )  # fmt: skip
    assert options == EtcdOptions(
        ("https://10.0.0.1:2379", "https://[::1]:2379"), "/registry/two", Path("ca.crt"), Path("a.crt"), Path("a.key"),
        "root", Path("password"), 5, db_poll_seconds=0,
    )  # fmt: skip
    assert str(parse_store(store, Path("/data"), options)) == "etcd://10.0.0.1:2379,[::1]:2379/registry/two"


def test_the_rest_goes_with_a_store_of_its_own() -> None:
    store, options = _taken("--store", "etcd://a:1/two", "--etcd-cafile", "ca.crt")
    assert parse_store(store, Path("/data"), options) == parse_store(
        "etcd:", Path("/data"), EtcdOptions(("https://a:1",), "/two", Path("ca.crt"))
    )


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--etcd-servers", "10.0.0.1:2379"], "got '10.0.0.1:2379', expected a URL such as https://10.0.0.1:2379"),
        (["--etcd-servers", "http://a:1/b"], "expected a URL"),
        (["--etcd-servers", "unix:///run/etcd"], "expected a URL"),
        (["--etcd-servers", "http://a:1,https://b:1"], "expected one of them"),
        (["--etcd-servers", "http://a:1", "--store", "memory:"], "expected one of them"),
        (["--etcd-servers", "http://a:1", "--etcd-cafile", "ca.crt"], "expected https"),
        (["--etcd-cafile", "ca.crt"], "expected --etcd-servers or --store"),
        (["--etcd-user", "root", "--etcd-password-file", "p"], "expected --etcd-servers or --store"),
        (["--etcd-servers", "https://a:1", "--etcd-certfile", "a.crt"], "expected both"),
        (["--etcd-servers", "https://a:1", "--etcd-user", "root"], "expected both"),
        (["--etcd-prefix", "/a//b"], "expected a path"),
        (["--etcd-prefix", "/"], "expected a path"),
        (["--storage-backend", "etcd2"], "expected etcd3"),
        (["--storage-media-type", "application/json"], "expected application/vnd.kubernetes.protobuf"),
        (["--etcd-db-metric-poll-interval", "-1s"], "or 0"),
    ],
)
def test_what_does_not_go_together_is_said(arguments: list[str], error: str) -> None:
    with pytest.raises(click.UsageError) as caught:
        _taken(*arguments)
    assert error in caught.value.message
