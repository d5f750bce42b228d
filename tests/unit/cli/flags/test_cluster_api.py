"""The flags about Cluster API: what can be meant, and what is said of the rest."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

from kubevouch.cli.exit_codes import ExitCode
from kubevouch.cli.flags.cluster_api import take_cluster_api
from kubevouch.cli.ui import CLIError
from kubevouch.client.kubeconfig import KubeconfigError
from kubevouch.standalone.cluster_api_options import DEFAULT_TOKEN_TTL, ClusterAPIOptions


def given(**flags: Any) -> dict[str, Any]:
    usual = {
        "cluster_api": None, "management_kubeconfig": None, "bootstrap_token_ttl": DEFAULT_TOKEN_TTL,
        "replace_bootstrap_tokens": False,
    }  # fmt: skip
    return {**usual, **flags}


def test_without_a_cluster_there_is_nothing() -> None:
    flags = given(other=1)
    assert take_cluster_api(flags) is None
    assert flags == {"other": 1}


def test_a_cluster_here() -> None:
    found = take_cluster_api(given(cluster_api="fleet/prod.eu", bootstrap_token_ttl=dt.timedelta(hours=1)))
    assert found == ClusterAPIOptions("fleet", "prod.eu", None, dt.timedelta(hours=1))


@pytest.mark.parametrize("name", ["prod", "/prod", "fleet/", "Fleet/prod", "a/b/c", "fleet/prod ", "a.b/prod"])
def test_what_is_no_cluster(name: str) -> None:
    with pytest.raises(CLIError, match="expected NAMESPACE/NAME") as caught:
        take_cluster_api(given(cluster_api=name))
    assert caught.value.code is ExitCode.INVALID


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        ({"management_kubeconfig": Path("m.conf")}, "--management-kubeconfig is about Cluster API"),
        ({"replace_bootstrap_tokens": True}, "--replace-bootstrap-tokens is about Cluster API"),
        ({"cluster_api": "a/b", "bootstrap_token_ttl": dt.timedelta(seconds=1)}, "expected 0:01:00 to 7 days"),
        ({"cluster_api": "a/b", "bootstrap_token_ttl": dt.timedelta(days=8)}, "expected 0:01:00 to 7 days"),
    ],
)
def test_what_cannot_be_meant(flags: dict[str, Any], why: str) -> None:
    with pytest.raises(CLIError, match=why):
        take_cluster_api(given(**flags))


def test_the_account_of_a_pod_and_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(KubeconfigError, match="this is not a pod"):
        take_cluster_api(given(cluster_api="a/b", management_kubeconfig=Path("in-cluster")))
    with pytest.raises(KubeconfigError, match="cannot be read"):
        take_cluster_api(given(cluster_api="a/b", management_kubeconfig=tmp_path / "none"))
