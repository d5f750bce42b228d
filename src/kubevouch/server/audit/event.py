"""The audit events of one request, as JSON lines (k8s.io/apiserver/pkg/apis/audit/v1, Kubernetes 1.36)."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

import msgspec

from kubevouch.admission import audit_annotations
from kubevouch.authentication.interface import UserInfo
from kubevouch.machinery.codec import gojson, json_codec
from kubevouch.machinery.codec.object_codec import codec_of
from kubevouch.machinery.meta import Object, Status
from kubevouch.server import encoding, secrecy
from kubevouch.server.audit.options import API_VERSION
from kubevouch.server.audit.policy import AuditDecision, Level, Stage
from kubevouch.server.filters.authorization import ALLOWED, DECISION
from kubevouch.server.negotiation import Negotiated
from kubevouch.server.request import ListingResult, ObjectResult, PlainResult, Request, Result
from kubevouch.util.redact import redact_text
from kubevouch.util.worker import Share

MAX_USER_AGENT = 1024
_TRUNCATED = "...TRUNCATED"
# The loopback has no address; Kubernetes' own loopback connections show this one.
LOOPBACK_SOURCE = "::1"

METHOD = "authentication.kubevouch.io/method"
"""Annotation: how the user was established."""

CREDENTIAL = "authentication.kubevouch.io/credential"
"""Annotation: with which credential, by the ID of a token or the serial number of a certificate."""

_PATCH = f"{audit_annotations.PATCH}/"
_JSON = Negotiated("json")
_encode = msgspec.json.Encoder().encode

Tree = dict[str, Any]


class AuditRecord:
    """What is known of one request so far. Handlers tell it what was sent; the filter turns it into events."""

    __slots__ = ("_decision", "_request", "_sent", "_user", "body")

    def __init__(self, request: Request, decision: AuditDecision) -> None:
        self._request = request
        self._decision = decision
        self._user = request.authentication.user if request.authentication is not None else None
        self._sent: tuple[Object, str, str] | None = None
        self.body = b""

    def sent(self, obj: Any, api_version: str, kind: str) -> None:
        """The object in the request's body, as it was decoded."""
        self._sent = (obj, api_version, kind)

    @property
    def share(self) -> Share:
        """The request's part of the worker's time."""
        return self._request.share

    def wants(self, stage: Stage) -> bool:
        return str(stage) not in self._decision.omit_stages

    def event(
        self, stage: Stage, now: dt.datetime, status: Status | None = None, result: Result | None = None
    ) -> bytes:
        """One line, without its newline. ``status`` goes into responseStatus, ``result`` into responseObject."""
        request = self._request
        event: Tree = {
            "kind": "Event",
            "apiVersion": API_VERSION,
            "level": self._decision.level,
            "auditID": request.audit_id,
            "stage": stage,
            "requestURI": _uri(request),
            "verb": request.target.verb,
            "user": _user(self._user),
        }
        if self._user is not None and request.authentication is not None and request.user != self._user:
            event["impersonatedUser"] = _user(request.user)
        event["sourceIPs"] = source_addresses(request)
        if request.user_agent:
            event["userAgent"] = redact_text(_cut(request.user_agent))
        finished = stage is not Stage.REQUEST_RECEIVED
        if request.target.is_resource:
            event["objectRef"] = self._object_ref()
        level = self._decision.level
        if status is not None:
            event["responseStatus"] = _status(self._discreet(status))
        if finished and level.rank >= Level.REQUEST.rank and (sent := self._request_object()) is not None:
            event["requestObject"] = sent
        if finished and level is Level.REQUEST_RESPONSE and (answer := self._response(status, result)) is not None:
            event["responseObject"] = answer
        event["requestReceivedTimestamp"] = _micro(request.received)
        event["stageTimestamp"] = _micro(now)
        annotations = dict(request.annotations)
        if level.rank < Level.REQUEST.rank:
            annotations = {key: value for key, value in annotations.items() if not key.startswith(_PATCH)}
            if secrecy.is_discreet(request.target):
                annotations.pop(audit_annotations.VALIDATION_FAILURE, None)
        if request.authentication is not None:
            annotations[METHOD] = request.authentication.method
            if request.authentication.credential:
                annotations[CREDENTIAL] = request.authentication.credential
        if annotations:
            event["annotations"] = annotations
        return _encode(event)

    def _discreet(self, status: Status) -> Status:
        """``status`` without texts that only those may read who may read the body.

        Who is refused before that, by the authorizer say, is told nothing of the object.
        """
        request = self._request
        hidden = self._decision.level.rank < Level.REQUEST.rank and secrecy.is_discreet(request.target)
        if not hidden or not status.message or request.annotations.get(DECISION) != ALLOWED:
            return status
        return secrecy.recorded(status, request.target)

    def _object_ref(self) -> Tree:
        info = self._request.target
        sent = self._sent[0] if self._sent is not None else self._request.obj
        meta = getattr(sent, "metadata", None)
        parts = {
            "resource": info.resource,
            "namespace": info.namespace or getattr(meta, "namespace", ""),
            "name": info.name or getattr(meta, "name", ""),
            "uid": getattr(meta, "uid", ""),
            "apiGroup": info.group,
            "apiVersion": info.version,
            "resourceVersion": getattr(meta, "resource_version", ""),
            "subresource": info.subresource,
        }
        return {key: value for key, value in parts.items() if value}

    def _request_object(self) -> Any:
        request = self._request
        if self._sent is not None:
            obj, api_version, kind = self._sent
            return self._raw(encoding.plain(obj, api_version, kind, _JSON))
        if request.typed and request.obj is not None:
            return self._raw(codec_of(type(request.obj)).to_json(request.obj))
        # A patch, or a body that could not be decoded: worth recording as long as it is JSON.
        try:
            return self._raw(json_codec.encode(gojson.loads(self.body))) if self.body else None
        except gojson.JSONSyntaxError:
            return None

    def _response(self, status: Status | None, result: Result | None) -> Any:
        now = self._request.received
        if isinstance(result, ObjectResult | ListingResult):
            encoder = result.encoder
            if isinstance(result, ObjectResult):
                return self._raw(encoder.one(result.stored, _JSON, now))
            return self._raw(encoder.many(result.page, _JSON, now))
        if isinstance(result, PlainResult):
            return self._raw(encoding.plain(result.obj, result.api_version, result.kind, _JSON))
        if result is None and status is not None and status.status:
            return self._raw(encoding.status(status, _JSON))
        return None

    def _raw(self, body: bytes) -> Any:
        if not self._decision.omit_managed_fields or b'"managedFields"' not in body:
            return msgspec.Raw(body.rstrip(b"\n"))  # a newline in the middle would end the event's line
        tree = msgspec.json.decode(body)
        if isinstance(tree, dict):
            for each in (tree, *(tree.get("items") or ())):
                if isinstance(each, dict) and isinstance(each.get("metadata"), dict):
                    each["metadata"].pop("managedFields", None)
        return tree


def _uri(request: Request) -> str:
    return redact_text(f"{request.path}?{request.query.raw}" if request.query.raw else request.path)


def _user(user: UserInfo | None) -> Tree:
    if user is None:
        return {}
    found: Tree = {"username": user.name}
    if user.uid:
        found["uid"] = user.uid
    if user.groups:
        found["groups"] = user.groups
    if user.extra:
        found["extra"] = dict(user.extra)
    return found


def _status(status: Status) -> Tree:
    found: Tree = {"metadata": {}}
    for key, value in (("status", status.status), ("message", status.message), ("reason", status.reason)):
        if value:
            found[key] = value
    if status.details is not None:
        found["details"] = msgspec.Raw(json_codec.encode(status.details))
    found["code"] = status.code
    return found


def source_addresses(request: Request) -> Sequence[str]:
    """What proxies say of the client, then the connection's address (apimachinery util/net ``SourceIPs``).

    Only the last one is certain: whoever connects writes the headers before it.
    """
    if request.loopback:
        return [LOOPBACK_SOURCE]
    claimed = [part.strip() for part in request.headers.get("X-Forwarded-For", "").split(",")]
    found = [address for address in claimed if _is_address(address)]
    real = request.headers.get("X-Real-Ip", "").strip()
    if _is_address(real) and real not in found:
        found.append(real)
    source = request.credentials.source
    if source and (not found or found[-1] != source):
        found.append(source)
    return found


def _is_address(text: str) -> bool:
    return 0 < len(text) <= 45 and all(char in "0123456789abcdefABCDEF.:" for char in text)


def _cut(text: str) -> str:
    return text if len(text) <= MAX_USER_AGENT else text[: MAX_USER_AGENT - len(_TRUNCATED)] + _TRUNCATED


def _micro(when: dt.datetime) -> str:
    return f"{when:%Y-%m-%dT%H:%M:%S.%f}Z"
