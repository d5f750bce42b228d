from __future__ import annotations

import datetime as dt
from pathlib import Path

from prometheus_client import generate_latest

from agent_world import Network, managed, pass_time, running
from asynctest import async_test
from kubevouch.agent import report
from kubevouch.agent.manager_interface import Standing
from kubevouch.agent.recovery_keys import RecoveryKeys
from kubevouch.agent.report import Metrics, facts, state, words
from kubevouch.testing.cluster import Cluster

NOW = dt.datetime(2031, 3, 1, 12, tzinfo=dt.UTC)
DAY = dt.timedelta(days=1)


def test_states() -> None:
    standing = Standing("client", "/pki/current.pem")
    assert state(standing, NOW) == "missing"
    standing.not_after = NOW + DAY
    assert state(standing, NOW) == "good"
    assert state(standing, NOW + 2 * DAY) == "expired"
    standing.last_error = "no"
    assert state(standing, NOW) == "rotating"


def test_words_say_what_happens_next_and_what_to_do() -> None:
    standing = Standing("client", "/pki/current.pem", subject="system:node:a", not_after=NOW + DAY)
    standing.next_rotation = NOW + DAY / 2
    assert words(facts(standing, NOW), NOW) == [
        "client: system:node:a until 2031-03-02T12:00:00Z (24h left)",
        "  next rotation at 2031-03-02T00:00:00Z, by itself; that it comes well before the end is normal",
    ]
    standing.last_error, standing.last_error_at, standing.hint = "refused", NOW, "do this"
    standing.waits_for, standing.hooks = "the clock to be set", ["/bin/false: it ended with status 1: "]
    assert words(facts(standing, NOW), NOW)[1:] == [
        "  waits for the clock to be set",
        "  last error at 2031-03-01T12:00:00Z: refused",
        "  do this",
        "  hook failed: /bin/false: it ended with status 1: ",
    ]


def test_a_renewal_that_the_cluster_wants_is_told_with_its_moment() -> None:
    standing = Standing("client", "/pki/current.pem", not_after=NOW + DAY, ordered_renewal=NOW + DAY / 24)
    (_, told) = words(facts(standing, NOW), NOW)
    assert "from another CA: at 2031-03-01T13:00:00Z" in told and "kubevouch agent rotate does it now" in told
    standing.ordered_renewal = None
    assert len(words(facts(standing, NOW), NOW)) == 1


def test_the_headline_says_whether_the_cluster_accepts_the_node() -> None:
    client = Standing("client", "/pki/current.pem", not_after=NOW + DAY, last_error="the attempt was late")
    serving = Standing("serving", "/pki/serving.pem", refused=True, last_error="no")
    status = {"nodeName": "a", "healthy": True, "health": ""}

    def shown(**more: object) -> tuple[str, bool]:
        return report.headline(status | {"certificates": [facts(each, NOW) for each in (client, serving)]} | more)

    assert shown() == ("node a is well", True)
    client.refused, client.last_error = True, "banned: cloned disk"
    assert shown() == ("node a: the cluster does not accept it: banned: cloned disk", False)
    assert shown(healthy=False, health="it has expired") == ("node a is not well: it has expired", False)
    # Of an agent of a former version.
    assert shown(certificates=[{"name": "client", "lastError": "no"}]) == ("node a is well", True)


@async_test
async def test_metrics_under_kubelets_names(tmp_path: Path) -> None:
    async with Cluster(now=NOW, controllers=("*",)) as cluster:
        network = Network(cluster)
        it = managed(network, tmp_path)
        metrics = Metrics([it.manager], cluster.clock)
        gauge = "kubelet_certificate_manager_client_ttl_seconds"
        assert f"\n{gauge} +Inf\n" in generate_latest(metrics.registry).decode()
        network.token = False
        async with running(it):
            await pass_time(cluster, 2, step=1)
            network.token = True
            await pass_time(cluster, 60)
            text = generate_latest(metrics.registry).decode()
            left = float(text.partition(f"\n{gauge} ")[2].split()[0])
            assert 86000 < left < 86400 and left == int(left)
            errors = float(
                text.partition("\nkubelet_certificate_manager_client_expiration_renew_errors ")[2].split()[0]
            )
            assert errors == it.manager.standing.failures > 0
            cluster.clock.set(NOW + 2 * DAY)
            assert f"\n{gauge} +Inf\n" in generate_latest(metrics.registry).decode()


def test_recovery_in_plain_words(tmp_path: Path) -> None:
    kept = RecoveryKeys(tmp_path)
    assert report.recovery(None, allowed=True).startswith("off:")
    assert "not known yet" in report.recovery(kept, allowed=None)
    assert "does not allow it" in report.recovery(kept, allowed=False)
    assert "with the next renewal" in report.recovery(kept, allowed=True)
    kept.ensure()
    for allowed, what in ((None, "not known yet"), (True, "by itself"), (False, "would have to join again")):
        shown = report.recovery(kept, allowed=allowed)
        assert str(kept.path) in shown and what in shown
    # Once the certificate has ended, what was to happen then happens now.
    for allowed, what in ((None, "not known yet"), (True, "by itself"), (False, "has to join again")):
        shown = report.recovery(kept, allowed=allowed, ended=True)
        assert what in shown and "after its certificate" not in shown
    for none in (None, RecoveryKeys(tmp_path / "none")):
        assert report.recovery(none, allowed=True, ended=True) == "none: this machine has to join again"
