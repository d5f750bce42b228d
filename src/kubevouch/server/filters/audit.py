"""Records requests by the audit policy (apiserver endpoints/filters/audit.go, apis/audit/v1/types.go; 1.36)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from kubevouch.authentication.bearer import bearer_token_of
from kubevouch.authentication.interface import UserInfo
from kubevouch.authorization.interface import Attributes
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import Status
from kubevouch.server.audit.event import AuditRecord
from kubevouch.server.audit.interface import AuditBackend
from kubevouch.server.audit.policy import Level, Policy, Stage, decide
from kubevouch.server.filters.authorization import attributes_of
from kubevouch.server.metrics.catalog import Metrics
from kubevouch.server.request import Filter, Handler, PlainResult, Request, Result, WatchResult, plain_text
from kubevouch.util.clock import Clock

_NOBODY = UserInfo("")
_GONE = "Connection closed early"
_NOT_KEPT = "failed to store audit event"


class Audit:
    """The policy and its backends, as two filters: one before authentication, one behind it."""

    def __init__(self, policy: Policy, backends: Sequence[AuditBackend], clock: Clock, metrics: Metrics) -> None:
        self._policy = policy
        self._backends = tuple(backends)
        self._clock = clock
        self._metrics = metrics

    async def close(self) -> None:
        """Deliver what the backends hold."""
        for backend in self._backends:
            await backend.close()

    # -------------------------------------------------------------- filters

    @property
    def of_failed_authentication(self) -> Filter:
        """Stands before authentication and records whom it refuses."""

        async def watch_for_refusals(request: Request, following: Handler) -> Result:
            try:
                return await following(request)
            except APIStatusError as err:
                if request.authentication is None:
                    status = Status(status="Failure", message=attempted(request), reason=err.reason, code=err.code)
                    await self._record_refusal(request, status)
                raise

        return watch_for_refusals

    @property
    def of_requests(self) -> Filter:
        """Stands behind authentication and before impersonation, so that events show both users."""

        async def audit(request: Request, following: Handler) -> Result:
            decision = decide(self._policy, attributes_of(request))
            self._metrics.audit_level(decision.level)
            if decision.level is Level.NONE:
                return await following(request)
            record = AuditRecord(request, decision)
            request.audit = record
            if not await self._kept(record, Stage.REQUEST_RECEIVED):
                self._metrics.audit_rejected()
                text = f'Internal Server Error: "{request.path}": {_NOT_KEPT}\n'
                return plain_text(text, 500)
            return await self._followed(record, request, following)

        return audit

    async def _followed(self, record: AuditRecord, request: Request, following: Handler) -> Result:
        try:
            result = await following(request)
        except APIStatusError as err:
            await self._kept(record, Stage.RESPONSE_COMPLETE, err.status)
            raise
        except asyncio.CancelledError:
            # Kubernetes' own guess: what was asked for may well have happened.
            self._emit(record, Stage.RESPONSE_COMPLETE, Status(status="Success", message=_GONE, code=200))
            raise
        except Exception as err:  # recorded and passed on to the request boundary
            text = f"APIServer panic'd: {type(err).__name__}"
            failure = Status(status="Failure", message=text, reason="InternalError", code=500)
            await self._kept(record, Stage.PANIC, failure)
            raise
        status = Status(code=result.status)
        if isinstance(result, PlainResult) and isinstance(result.obj, Status):
            status = msgspec.structs.replace(result.obj, code=result.status)
        if isinstance(result, WatchResult):
            await self._kept(record, Stage.RESPONSE_STARTED, status)
            result.ended.append(lambda: self._end(record, status))
        else:
            await self._kept(record, Stage.RESPONSE_COMPLETE, status, result)
        return result

    # -------------------------------------------------------------- recording

    async def _kept(
        self, record: AuditRecord, stage: Stage, status: Status | None = None, result: Result | None = None
    ) -> bool:
        """Record an event and wait for it, if a backend's mode says so; False if the request must not go on."""
        return all([await each for each in await self._emit_large(record, stage, status, result)])

    async def _emit_large(
        self, record: AuditRecord, stage: Stage, status: Status | None, result: Result | None
    ) -> list[asyncio.Future[bool]]:
        """As :meth:`_emit`; what a large request sent and got is written by the worker."""
        if not record.wants(stage):
            return []
        event = await record.share.compute(record.event, stage, self._clock.now(), status, result)
        return self._send(event)

    def _emit(
        self, record: AuditRecord, stage: Stage, status: Status | None = None, result: Result | None = None
    ) -> list[asyncio.Future[bool]]:
        if not record.wants(stage):
            return []
        return self._send(record.event(stage, self._clock.now(), status, result))

    def _send(self, event: bytes) -> list[asyncio.Future[bool]]:
        self._metrics.audit_event()
        return [waited for backend in self._backends if (waited := backend.record(event)) is not None]

    def _end(self, record: AuditRecord, status: Status) -> None:
        """The end of a watch, which nothing waits for."""
        self._emit(record, Stage.RESPONSE_COMPLETE, status)

    async def _record_refusal(self, request: Request, status: Status) -> None:
        info = request.target
        nobody = Attributes(
            user=_NOBODY,
            verb=info.verb,
            group=info.group,
            api_version=info.version,
            resource=info.resource,
            subresource=info.subresource,
            namespace=info.namespace,
            name=info.name,
            path="" if info.is_resource else info.path,
        )
        decision = decide(self._policy, nobody)
        self._metrics.audit_level(decision.level)
        if decision.level is not Level.NONE:
            await self._kept(AuditRecord(request, decision), Stage.RESPONSE_STARTED, status)


def attempted(request: Request) -> str:
    """What a refused client had tried, in Kubernetes' words."""
    scheme = (request.credentials.authorization or "").strip().partition(" ")[0].lower()
    methods = []
    if scheme == "basic":
        methods.append("basic")
    if bearer_token_of(request.credentials.authorization):
        methods.append("bearer")
    if request.query.get("access_token"):
        methods.append("access_token")
    if request.credentials.peer_chain:
        methods.append("x509")
    if not methods:
        return "Authentication failed, no credentials provided"
    return f"Authentication failed, attempted: {', '.join(methods)}"
