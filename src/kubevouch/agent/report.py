"""What the agent tells of itself: status as facts and in plain words, and metrics under kubelet's names."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric, UnknownMetricFamily
from prometheus_client.registry import Collector

from kubevouch.agent.certificate_store import StoredPair
from kubevouch.agent.manager_interface import Manager, Standing
from kubevouch.agent.recovery_keys import RecoveryKeys
from kubevouch.machinery.text.gotext import human_duration
from kubevouch.machinery.text.times import Time
from kubevouch.pki import rotation
from kubevouch.util.clock import Clock

CLIENT, SERVING = "client", "serving"
_BUCKETS = (60, 3600, 14400, 86400, 604800, 2592000, 7776000, 15552000, 31104000, 124416000)


# ------------------------------------------------------------------ status


def facts(standing: Standing, now: dt.datetime) -> dict[str, Any]:
    """One certificate for ``-o json``; times in RFC 3339, empty where there is none."""
    return {
        "name": standing.name,
        "state": state(standing, now),
        "path": standing.path,
        "subject": standing.subject,
        "serial": standing.serial,
        "notBefore": _time(standing.not_before),
        "notAfter": _time(standing.not_after),
        "nextRotation": _time(standing.next_rotation),
        "orderedRenewal": _time(standing.ordered_renewal),
        "waitsFor": standing.waits_for,
        "asking": standing.asking,
        "rotations": standing.rotations,
        "lastRotation": _time(standing.last_rotation),
        "failures": standing.failures,
        "lastError": standing.last_error,
        "lastErrorTime": _time(standing.last_error_at),
        "hint": standing.hint,
        "serverAnswers": standing.server_answers,
        "refused": standing.refused,
        "hooks": list(standing.hooks),
    }


def _time(moment: dt.datetime | None) -> str:
    return "" if moment is None else str(Time.of(moment))


def state(standing: Standing, now: dt.datetime) -> str:
    """``good``, ``rotating``, ``expired`` or ``missing``."""
    if standing.not_after is None:
        return "missing"
    if now > standing.not_after:
        return "expired"
    return "rotating" if standing.asking or standing.last_error else "good"


def recovery(keys: RecoveryKeys | None, *, allowed: bool | None, ended: bool = False) -> str:
    """What happens once the machine was off for too long, or what happens now that it was, in plain words.

    Args:
        allowed: what cluster-info says; None while it was not read.
        ended: there was a certificate, and it has ended.
    """
    unknown = "it is not known yet whether the cluster allows recovery"
    kept = keys is not None and keys.present
    if ended and keys is not None and kept:
        if allowed is False:
            return f"{keys.path} is kept, and the cluster does not allow recovery: this machine has to join again"
        return f"{keys.path} is shown to the cluster by itself" + ("" if allowed else f"; {unknown}")
    if ended:
        return "none: this machine has to join again"
    if keys is None:
        return "off: after its certificate has ended, this machine has to join again"
    if keys.present and allowed is False:
        return f"{keys.path} is kept, and the cluster does not allow recovery: this machine would have to join again"
    if keys.present and allowed is None:
        return f"{keys.path} is kept; {unknown}"
    if keys.present:
        return f"{keys.path} is kept: after its certificate has ended, this machine gets another one by itself"
    if allowed:
        return "a recovery key is made and registered with the next renewal"
    why = "it is not known yet whether the cluster allows it" if allowed is None else "the cluster does not allow it"
    return f"none: {why}; after its certificate has ended, this machine has to join again"


def headline(status: dict[str, Any]) -> tuple[str, bool]:
    """How the node stands, in one line, and whether that is well.

    A certificate that has not ended is worth nothing where the cluster accepts it no more.
    """
    node = f"node {status['nodeName']}"
    if not status["healthy"]:
        return f"{node} is not well: {status['health']}", False
    # An agent that was not restarted after an update says nothing of it.
    refused = [each for each in status["certificates"] if each["name"] == CLIENT and each.get("refused")]
    if refused:
        return f"{node}: the cluster does not accept it: {refused[0]['lastError']}", False
    return f"{node} is well", True


def words(certificate: dict[str, Any], now: dt.datetime) -> list[str]:
    """One certificate of :func:`facts` in plain words, most important first."""
    name, until = certificate["name"], certificate["notAfter"]
    lines = []
    match certificate["state"]:
        case "missing":
            lines.append(f"{name}: there is no certificate yet")
        case "expired":
            lines.append(f"{name}: the certificate of {certificate['subject']} has expired, at {until}")
        case _:
            lines.append(f"{name}: {certificate['subject']} until {until} ({_until(until, now)} left)")
    if certificate["nextRotation"] and certificate["state"] == "good":
        lines.append(
            f"  next rotation at {certificate['nextRotation']}, by itself; that it comes well before the end is normal"
        )
    # An agent that was not restarted after an update says nothing of it.
    if certificate.get("orderedRenewal") and certificate["state"] == "good":
        lines.append(
            f"  the cluster wants it from another CA: at {certificate['orderedRenewal']}, by itself, not within an hour"
            " of the last one; kubevouch agent rotate does it now"
        )
    if certificate["asking"]:
        lines.append(f"  a certificate is being asked for: {certificate['asking']}")
    if certificate["waitsFor"]:
        lines.append(f"  waits for {certificate['waitsFor']}")
    if certificate["lastError"]:
        lines.append(f"  last error at {certificate['lastErrorTime']}: {certificate['lastError']}")
        lines.append(f"  {certificate['hint'] or 'it is tried again by itself'}")
    lines += [f"  hook failed: {text}" for text in certificate["hooks"]]
    return lines


def _until(text: str, now: dt.datetime) -> str:
    return human_duration((dt.datetime.fromisoformat(text) - now).total_seconds())


# ------------------------------------------------------------------ metrics


class Metrics:
    """A registry of its own. The counters bear kubelet's names, which lack the suffix of counters: hence untyped."""

    def __init__(self, managers: Sequence[Manager], clock: Clock) -> None:
        self.registry = CollectorRegistry()
        self._clock = clock
        self._age = Histogram(
            "kubelet_certificate_manager_server_rotation_seconds",
            "Seconds that the former serving certificate was in use when it was rotated.",
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self.registry.register(_AtScrape(managers, clock))

    async def renewed(self, manager: Manager, former: StoredPair | None, /) -> None:
        if manager.name == SERVING and former is not None:
            self._age.observe((self._clock.now() - former.leaf.not_before).total_seconds())

    def failed(self, _manager: Manager, /) -> None:
        """Counted in the manager's standing."""


class _AtScrape(Collector):
    def __init__(self, managers: Sequence[Manager], clock: Clock) -> None:
        self._managers = managers
        self._clock = clock

    def describe(self) -> Iterable[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        by_name = {manager.name: manager for manager in self._managers}
        for name, gauge, counter in (
            (CLIENT, "kubelet_certificate_manager_client_ttl_seconds",
             "kubelet_certificate_manager_client_expiration_renew_errors"),
            (SERVING, "kubelet_certificate_manager_server_ttl_seconds", "kubelet_server_expiration_renew_errors"),
        ):  # fmt: skip
            if name in by_name:
                yield GaugeMetricFamily(
                    gauge, "Seconds to the end of the certificate, +Inf without one.", self._left(by_name[name])
                )
                yield UnknownMetricFamily(counter, "Attempts that failed.", float(by_name[name].standing.failures))
        left = GaugeMetricFamily(
            "kubevouch_agent_certificate_ttl_seconds", "Seconds to the end of each certificate.", labels=["name"]
        )
        for manager in self._managers:
            left.add_metric([manager.name], self._left(manager))
        yield left

    def _left(self, manager: Manager) -> float:
        end = None if manager.pair is None else manager.pair.leaf.not_after
        return rotation.seconds_to_expiry(end, now=self._clock.now())
