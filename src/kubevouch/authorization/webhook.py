"""Decisions of another service, asked by SubjectAccessReview.

Source: k8s.io/apiserver/plugin/pkg/authorizer/webhook/webhook.go, pkg/authorization/cel (Kubernetes 1.36).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from kubevouch.api.authorization_v1 import GROUP
from kubevouch.authentication.aggregate import aggregate
from kubevouch.authentication.interface import UserInfo
from kubevouch.authorization.interface import Attributes, Decision, Rules, Verdict
from kubevouch.cel.environment import TURN, EvaluationError, Program, Turn, TurnOver
from kubevouch.client.webhook import Webhook, WebhookError
from kubevouch.machinery.codec import json_codec
from kubevouch.machinery.text.gotext import quote
from kubevouch.machinery.text.selectors import Operator, SelectorError, parse_field_selector, parse_label_selector
from kubevouch.util.clock import Clock
from kubevouch.util.expiring_cache import ExpiringCache
from kubevouch.util.logger import get_logger
from kubevouch.util.worker import elsewhere

CACHE_SIZE = 8192
# Longer attributes are the requester's doing, and are not kept.
MAX_CACHED = 10_000
REQUEST = "request"

log = get_logger("authorization.webhook")

_OPERATORS = {
    Operator.IN: "In", Operator.EQUALS: "In", Operator.DOUBLE_EQUALS: "In", Operator.NOT_IN: "NotIn",
    Operator.NOT_EQUALS: "NotIn", Operator.EXISTS: "Exists", Operator.DOES_NOT_EXIST: "DoesNotExist",
}  # fmt: skip


class WebhookSettings(msgspec.Struct, frozen=True):
    """How a webhook is asked.

    Args:
        version: of the SubjectAccessReview.
        authorized_ttl, unauthorized_ttl: seconds for which an answer is remembered.
        on_error: what to say when it cannot be asked, or a condition cannot be evaluated.
        conditions: ask only when all are true.
    """

    name: str
    version: str = "v1"
    authorized_ttl: float = 300.0
    unauthorized_ttl: float = 30.0
    on_error: Decision = Decision.NO_OPINION
    conditions: tuple[Program, ...] = ()


class _Status(msgspec.Struct):
    allowed: bool = False
    denied: bool = False
    reason: str = ""


class _Review(msgspec.Struct):
    status: _Status = msgspec.field(default_factory=_Status)


class WebhookAuthorizer:
    """Allows, denies or abstains as the webhook says."""

    def __init__(self, webhook: Webhook, settings: WebhookSettings, clock: Clock) -> None:
        self._webhook = webhook
        self._settings = settings
        self._cache: ExpiringCache[bytes, _Status] = ExpiringCache(CACHE_SIZE, clock)

    async def close(self) -> None:
        await self._webhook.close()

    async def authorize(self, attributes: Attributes) -> Verdict:
        spec = review_spec(attributes)
        skip = await self._skipped(spec)
        if skip is not None:
            return skip
        key = json_codec.encode(spec)
        status = self._cache.get(key)
        if status is None:
            try:
                status = await self._ask(spec)
            except (WebhookError, msgspec.ValidationError) as err:
                log.error("failed to make webhook authorizer request", webhook=self._settings.name, err=str(err))
                return Verdict(self._settings.on_error, error=str(err))
            if _size(attributes) < MAX_CACHED:
                settings = self._settings
                self._cache.put(key, status, settings.authorized_ttl if status.allowed else settings.unauthorized_ttl)
        if status.denied and status.allowed:
            error = "webhook subject access review returned both allow and deny response"
            return Verdict(Decision.DENY, status.reason, error)
        if status.denied:
            return Verdict(Decision.DENY, status.reason)
        return Verdict(Decision.ALLOW if status.allowed else Decision.NO_OPINION, status.reason)

    async def rules_for(self, user: UserInfo, namespace: str) -> Rules:  # noqa: ARG002 - the interface's
        return Rules((), incomplete=True, error="webhook authorizer does not support user rule resolution")

    async def _skipped(self, spec: dict[str, Any]) -> Verdict | None:
        """The verdict without asking: one false condition skips the webhook, whatever the others come to."""
        errors = []
        turn = Turn(TURN)
        for program in self._settings.conditions:
            try:
                if not await _holds(program, {REQUEST: spec}, turn):
                    return Verdict(Decision.NO_OPINION)
            except EvaluationError as err:
                errors.append(f"cel evaluation error: expression {quote(program.source)} resulted in error: {err}")
        if not errors:
            return None
        text = aggregate(errors)
        log.warning("a match condition could not be evaluated", webhook=self._settings.name, err=text)
        denied = self._settings.on_error is Decision.DENY
        return Verdict(self._settings.on_error, error=text if denied else "")

    async def _ask(self, spec: dict[str, Any]) -> _Status:
        version = self._settings.version
        if version == "v1beta1" and "groups" in spec:
            # Its JSON name for the same field.
            spec = {**spec, "group": spec["groups"]}
            del spec["groups"]
        document = {"kind": "SubjectAccessReview", "apiVersion": f"{GROUP}/{version}", "metadata": {}, "spec": spec}
        return msgspec.convert(await self._webhook.ask(document), _Review).status


async def _holds(program: Program, variables: dict[str, Any], turn: Turn) -> bool:
    try:
        return program.holds(variables, turn=turn)
    except TurnOver:
        return await elsewhere(lambda: program.holds(variables))


def review_spec(attributes: Attributes) -> dict[str, Any]:
    """The ``spec`` of the review for what is asked, as JSON: what is empty is left out."""
    user = attributes.user
    spec: dict[str, Any] = {}
    if attributes.is_resource_request:
        spec["resourceAttributes"] = _filled(
            namespace=attributes.namespace,
            verb=attributes.verb,
            group=attributes.group,
            version=attributes.api_version,
            resource=attributes.resource,
            subresource=attributes.subresource,
            name=attributes.name,
            fieldSelector=_field_requirements(attributes.field_selector),
            labelSelector=_label_requirements(attributes.label_selector),
        )
    else:
        spec["nonResourceAttributes"] = _filled(path=attributes.path, verb=attributes.verb)
    extra = {key: list(values) for key, values in user.extra.items()}
    return spec | _filled(user=user.name, groups=list(user.groups), extra=extra, uid=user.uid)


def _filled(**members: Any) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value}


def _field_requirements(text: str) -> dict[str, Any]:
    try:
        terms = parse_field_selector(text).terms
    except SelectorError:
        return {}
    return _filled(
        requirements=[
            {"key": term.field, "operator": "NotIn" if term.negated else "In", "values": [term.value]} for term in terms
        ]
    )


def _label_requirements(text: str) -> dict[str, Any]:
    try:
        requirements = parse_label_selector(text).requirements
    except SelectorError:
        return {}
    return _filled(
        requirements=[
            {"key": one.key, "operator": _OPERATORS[one.operator], **_filled(values=list(one.values))}
            for one in requirements
            if one.operator in _OPERATORS
        ]
    )


def _size(attributes: Attributes) -> int:
    texts: Sequence[str] = (
        attributes.namespace,
        attributes.verb,
        attributes.group,
        attributes.api_version,
        attributes.resource,
        attributes.subresource,
        attributes.name,
        attributes.path,
        attributes.field_selector,
        attributes.label_selector,
    )
    return sum(map(len, texts))
