"""The two paths by which a node whose certificate has ended proves that it is that node."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import msgspec
from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from kubevouch.authentication.node_recovery import NodeRecovery
from kubevouch.machinery import errors
from kubevouch.machinery.codec import json_codec
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.scheme import GroupResource
from kubevouch.machinery.text import names
from kubevouch.pki.errors import RecoveryProofError
from kubevouch.pki.recovery_proof import Answer
from kubevouch.records.node_recovery import (
    CHALLENGE_PATH,
    SESSION_PATH,
    KeyReplacedError,
    RecoveryBudgetError,
    RecoveryRefusedError,
)
from kubevouch.server.metrics.catalog import gauge
from kubevouch.server.metrics.series import Counter
from kubevouch.server.request import BytesResult, Handler, Request, Result
from kubevouch.util.logger import get_logger

log = get_logger("server.node_recovery")

# Five certificates with their largest keys and signatures, in PEM, and the rest.
MAX_BODY = 256 * 1024
_RECOVERIES = GroupResource("", "recoveries")


T = TypeVar("T")


class RecoveryMetrics(Collector):
    """Sessions by result, and how many nodes are locked: counted at a scrape by ``locked``."""

    def __init__(self, registry: CollectorRegistry, locked: Callable[[], int]) -> None:
        self._locked = locked
        self.sessions = Counter(
            "kubevouch_node_recovery_sessions",
            "Answers to recovery challenges, by what became of them.",
            ("result",),
            registry=registry,
        )
        for result in ("opened", "unproven", "refused", "budget", "replaced"):
            self.sessions.labels(result)
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        yield gauge(
            "kubevouch_node_recovery_locked", "Nodes that nobody may recover as.", (), {(): float(self._locked())}
        )


class _Asked(msgspec.Struct, frozen=True, rename="camel"):
    node_name: str


class RecoveryPaths:
    """Handlers by path. The only answer that changes anything is the approving controller's, later."""

    def __init__(self, recovery: NodeRecovery, metrics: RecoveryMetrics) -> None:
        self._recovery = recovery
        self._metrics = metrics

    @property
    def handlers(self) -> dict[str, Handler]:
        return {CHALLENGE_PATH: self._challenge, SESSION_PATH: self._session}

    async def _challenge(self, request: Request) -> Result:
        asked = await _body(request, _Asked)
        if names.subdomain(asked.node_name):
            raise errors.bad_request(f"no node can be called {asked.node_name[:253]!r}")
        try:
            return _reply({"challenge": self._recovery.challenge(asked.node_name)})
        except RecoveryProofError as err:
            raise errors.service_unavailable(str(err)) from err

    async def _session(self, request: Request) -> Result:
        answer = await _body(request, Answer)
        try:
            token = self._recovery.session(answer)
        except RecoveryProofError as err:
            raise self._told("unproven", answer, err, errors.forbidden_path(str(err))) from err
        except RecoveryBudgetError as err:
            later = max(int(err.retry_after.total_seconds()), 1)
            raise self._told("budget", answer, err, errors.too_many_requests(str(err), later)) from err
        except KeyReplacedError as err:
            refusal = errors.conflict(_RECOVERIES, answer.node_name, str(err))
            raise self._told("replaced", answer, err, refusal) from err
        except RecoveryRefusedError as err:
            raise self._told("refused", answer, err, errors.forbidden_path(str(err))) from err
        self._metrics.sessions.labels("opened").inc()
        log.warning("a recovery session is opened", node=answer.node_name)
        return _reply({"token": token})

    def _told(self, result: str, answer: Answer, why: Exception, refusal: APIStatusError) -> APIStatusError:
        self._metrics.sessions.labels(result).inc()
        log.warning("a recovery is refused", node=answer.node_name[:253], result=result, reason=str(why))
        return refusal


async def _body(request: Request, kind: type[T]) -> T:
    if request.method != "POST":
        raise errors.method_not_allowed()
    try:
        return msgspec.json.decode(await request.read_body(MAX_BODY), type=kind)
    except (msgspec.MsgspecError, ValueError, RecursionError) as err:
        raise errors.bad_request(f"the body cannot be read: {err}") from err


def _reply(tree: dict[str, str]) -> Result:
    return BytesResult(json_codec.encode(tree), "application/json", 201, {"Cache-Control": "no-store"})
