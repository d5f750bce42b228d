"""``kubevouch recovery``, as it is typed."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterator

import msgspec
import pytest

import aio
from kubevouch.api import catalog
from kubevouch.api.core_v1 import ConfigMap
from kubevouch.cli.main import run
from kubevouch.client.rest_config import rest_config
from kubevouch.doctor.cluster import examine
from kubevouch.doctor.findings import Code
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.records import node_recovery
from kubevouch.records.node_recovery import Record, RecoveryPolicy, Use
from kubevouch.testing.cluster import Cluster
from kubevouch.util.clock import SystemClock

Capture = pytest.CaptureFixture[str]
NOW = SystemClock().now().replace(microsecond=0)
DAY = dt.timedelta(days=1)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    with Cluster(https=True, real_time=True, recovery=RecoveryPolicy()) as cluster:
        monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
        fresh = Record(node="fresh", key="0f" * 32, changed=NOW - 2 * DAY)
        wanted = Use("0f" * 32, "1f" * 32, "2f" * 32)
        used = node_recovery.use(fresh, wanted, RecoveryPolicy(), now=NOW - DAY)
        for name, record in (("fresh", fresh), ("used", used), ("locked", node_recovery.lock(used, "why", now=NOW))):
            stored = node_recovery.config_map(msgspec.structs.replace(record, node=name))
            cluster.run(cluster.client().create(catalog.CONFIG_MAPS, stored))
        yield cluster


def _records(cluster: Cluster) -> dict[str, Record]:
    found = cluster.run(cluster.client().list(catalog.CONFIG_MAPS, node_recovery.NAMESPACE))
    records = [node_recovery.record_of(each) for each in found.items if node_recovery.is_record(each)]
    return {record.node: record for record in records}


def test_list(cluster: Cluster, capsys: Capture) -> None:
    broken = ConfigMap(metadata=ObjectMeta(name="node-recovery.broken", namespace=node_recovery.NAMESPACE))
    cluster.run(cluster.client().create(catalog.CONFIG_MAPS, broken))
    assert run(["recovery", "list"]) == 0
    shown = capsys.readouterr()
    assert [re.split(" {2,}", line) for line in shown.out.splitlines()[:2]] == [
        ["NODE", "KEY", "CHANGED", "USES", "LAST USE", "STATE"],
        ["fresh", "0f0f0f0f0f0f0f0f", "2d ago", "0", "<never>", "ready"],
    ]
    assert [line.split()[0] for line in shown.out.splitlines()] == ["NODE", "fresh", "locked", "used"]
    assert "locked: why" in shown.out and "warning: node-recovery.broken holds no recovery record" in shown.err
    assert run(["recovery", "list", "-o", "json"]) == 0
    trees = {each["node"]: each for each in json.loads(capsys.readouterr().out)}
    assert trees["locked"]["locked"] == "why" and trees["locked"]["formerKeys"] == 1
    assert trees["used"]["uses"] == [(NOW - DAY).strftime("%Y-%m-%dT%H:%M:%SZ")]


def test_allow_revoke_and_forget(cluster: Cluster, capsys: Capture) -> None:
    assert run(["recovery", "allow", "locked"]) == 0
    assert not _records(cluster)["locked"].locked
    assert run(["recovery", "revoke", "used"]) == 0
    assert _records(cluster)["used"].locked == "an operator has revoked it"
    assert run(["recovery", "forget", "fresh"]) == 0
    assert set(_records(cluster)) == {"locked", "used"}
    capsys.readouterr()
    for words in (["allow", "fresh"], ["revoke", "fresh"], ["forget", "fresh"]):
        assert run(["recovery", *words]) == 1
        assert capsys.readouterr().err.splitlines() == [
            "error: no recovery key is registered for node 'fresh'",
            "hint: kubevouch recovery list shows those that are",
        ]


def test_the_doctor_and_the_metrics_tell_of_a_lock(cluster: Cluster) -> None:
    report = aio.run(examine(rest_config(cluster.kubeconfig), SystemClock()))
    found = [each for each in report.findings if each.code is Code.RECOVERY_LOCKED]
    assert [(each.cause, each.fix) for each in found] == [("node locked: why", "kubevouch recovery list")]
    metrics = cluster.run(cluster.client().raw("GET", "/metrics")).body.decode()
    assert "kubevouch_node_recovery_locked 1.0" in metrics
    assert 'kubevouch_node_recovery_sessions_total{result="opened"} 0.0' in metrics


def test_a_cluster_without_recovery(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    with Cluster(https=True, real_time=True) as cluster:
        monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
        assert run(["recovery", "list"]) == 0
        assert capsys.readouterr().out == "no node has registered a recovery key\n"
