"""The one place where wire ``Status`` objects for failures are made.

    APIStatusError            any failure that a client sees as a Status
    └── (told apart by ``reason``; see :class:`Reason`)

Texts and codes: k8s.io/apimachinery/pkg/api/errors/errors.go (Kubernetes 1.36), most of them observed on a running
kube-apiserver 1.36.2.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum

from kubevouch.machinery import field
from kubevouch.machinery.meta import ListMeta, Status, StatusCause, StatusDetails
from kubevouch.machinery.scheme import GroupResource, GroupVersionKind
from kubevouch.machinery.text import gotext

MAX_FAULTS = 1000
MAX_FAULT_TEXT = 256 << 10
# What is wrong with a body of 3 MiB may be as long as the body; nobody reads more than this.
MAX_MESSAGE = 64 * 1024
# Of unreadable objects, as in Kubernetes.
MAX_NAMED_KEYS = 100


class Reason(StrEnum):
    """``Status.reason``."""

    UNKNOWN = ""
    UNAUTHORIZED = "Unauthorized"
    FORBIDDEN = "Forbidden"
    NOT_FOUND = "NotFound"
    ALREADY_EXISTS = "AlreadyExists"
    CONFLICT = "Conflict"
    GONE = "Gone"
    INVALID = "Invalid"
    SERVER_TIMEOUT = "ServerTimeout"
    TIMEOUT = "Timeout"
    TOO_MANY_REQUESTS = "TooManyRequests"
    BAD_REQUEST = "BadRequest"
    METHOD_NOT_ALLOWED = "MethodNotAllowed"
    NOT_ACCEPTABLE = "NotAcceptable"
    REQUEST_ENTITY_TOO_LARGE = "RequestEntityTooLarge"
    UNSUPPORTED_MEDIA_TYPE = "UnsupportedMediaType"
    INTERNAL_ERROR = "InternalError"
    EXPIRED = "Expired"
    SERVICE_UNAVAILABLE = "ServiceUnavailable"
    STORE_READ_ERROR = "StorageReadError"


class APIStatusError(Exception):
    """A failure with the Status that tells a client about it."""

    def __init__(self, status: Status) -> None:
        super().__init__(status.message)
        self.status = status

    @property
    def brief(self) -> str:
        """Code and reason, such as ``409 Conflict``."""
        return f"{self.status.code} {self.status.reason}".rstrip()

    @property
    def reason(self) -> str:
        return self.status.reason

    @property
    def code(self) -> int:
        return self.status.code


def _failure(
    code: int,
    reason: Reason,
    message: str,
    details: StatusDetails | None = None,
    *,
    metadata: ListMeta | None = None,
) -> APIStatusError:
    return APIStatusError(
        Status(
            status="Failure",
            message=message if len(message) <= MAX_MESSAGE else f"{message[:MAX_MESSAGE]}...",
            reason=str(reason),
            details=details,
            code=code,
            metadata=metadata or ListMeta(),
        )
    )


def _about(resource: GroupResource, name: str) -> StatusDetails:
    return StatusDetails(name=name, group=resource.group, kind=resource.resource)


def bad_request(message: str) -> APIStatusError:
    return _failure(400, Reason.BAD_REQUEST, message)


def unauthorized(message: str = "Unauthorized") -> APIStatusError:
    return _failure(401, Reason.UNAUTHORIZED, message)


def forbidden(resource: GroupResource, name: str, why: str) -> APIStatusError:
    """Admission's and authorization's refusal of a request about a resource."""
    subject = f"{resource} {gotext.quote(name)}" if name else str(resource)
    return _failure(403, Reason.FORBIDDEN, f"{subject} is forbidden: {why}", _about(resource, name))


def forbidden_path(message: str) -> APIStatusError:
    """Authorization's refusal of a request about a URL that is no resource."""
    return _failure(403, Reason.FORBIDDEN, f"forbidden: {message}", StatusDetails())


def not_found(resource: GroupResource, name: str) -> APIStatusError:
    return _failure(404, Reason.NOT_FOUND, f"{resource} {gotext.quote(name)} not found", _about(resource, name))


def unknown_resource() -> APIStatusError:
    """A path under a served group version that names nothing."""
    return _failure(404, Reason.NOT_FOUND, "the server could not find the requested resource", StatusDetails())


def method_not_allowed() -> APIStatusError:
    return _failure(
        405,
        Reason.METHOD_NOT_ALLOWED,
        "the server does not allow this method on the requested resource",
        StatusDetails(),
    )


def method_not_supported(resource: GroupResource, action: str, why: str = "") -> APIStatusError:
    """``why`` is ours: Kubernetes gives no reason."""
    text = f"{action} is not supported on resources of kind {gotext.quote(str(resource))}"
    return _failure(
        405,
        Reason.METHOD_NOT_ALLOWED,
        f"{text}: {why}" if why else text,
        StatusDetails(group=resource.group, kind=resource.resource),
    )


def not_acceptable(message: str, *, routed: bool = False) -> APIStatusError:
    """``routed``: refused before a handler was found, which adds empty details."""
    return _failure(406, Reason.NOT_ACCEPTABLE, message, StatusDetails() if routed else None)


def unsupported_media_type(message: str, *, routed: bool = False) -> APIStatusError:
    return _failure(415, Reason.UNSUPPORTED_MEDIA_TYPE, message, StatusDetails() if routed else None)


def already_exists(resource: GroupResource, name: str, *, being_deleted: bool = False) -> APIStatusError:
    message = f"{resource} {gotext.quote(name)} already exists"
    if being_deleted:
        message = f"object is being deleted: {message}"
    return _failure(409, Reason.ALREADY_EXISTS, message, _about(resource, name))


def generate_name_conflict(resource: GroupResource, name: str) -> APIStatusError:
    return _failure(
        409,
        Reason.ALREADY_EXISTS,
        f"{resource} {gotext.quote(name)} already exists, the server was not able to generate a unique name for the "
        "object",
        StatusDetails(name=name, group=resource.group, kind=resource.resource, retry_after_seconds=1),
    )


STALE_OBJECT = "the object has been modified; please apply your changes to the latest version and try again"


def conflict(resource: GroupResource, name: str, why: str = STALE_OBJECT) -> APIStatusError:
    return _failure(
        409,
        Reason.CONFLICT,
        f"Operation cannot be fulfilled on {resource} {gotext.quote(name)}: {why}",
        _about(resource, name),
    )


def precondition_failed(kind: GroupVersionKind, name: str, why: str) -> APIStatusError:
    """A deletion whose preconditions do not hold; message and details name the kind, not the resource."""
    subject = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
    return _failure(
        409,
        Reason.CONFLICT,
        f"Operation cannot be fulfilled on {subject} {gotext.quote(name)}: {why}",
        StatusDetails(name=name, group=kind.group, kind=kind.kind),
    )


def apply_conflict(message: str, causes: list[StatusCause]) -> APIStatusError:
    return _failure(409, Reason.CONFLICT, message, StatusDetails(causes=causes))


def expired(message: str, *, continue_token: str = "") -> APIStatusError:
    return _failure(410, Reason.EXPIRED, message, metadata=ListMeta(continue_=continue_token))


def request_entity_too_large(message: str) -> APIStatusError:
    return _failure(413, Reason.REQUEST_ENTITY_TOO_LARGE, f"Request entity too large: {message}")


def _told(errors: list[field.FieldError]) -> list[field.FieldError]:
    """As many of the first as an answer has room for; there is room for one."""
    told: list[field.FieldError] = []
    size = 0
    for error in errors[:MAX_FAULTS]:
        size += len(error.path) + len(error.body)
        if told and size > MAX_FAULT_TEXT:
            break
        told.append(error)
    return told


def invalid(kind: GroupVersionKind, name: str, errors: list[field.FieldError]) -> APIStatusError:
    """422. Repeated texts are left out of the message and kept in the causes, as in Kubernetes.

    Unlike there, faults beyond the first thousand are only counted: an answer is not much longer than the request.
    """
    told = _told(errors)
    others = len(errors) - len(told)
    more = f", and {others} more" if others > 0 else ""
    subject = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
    return _failure(
        422,
        Reason.INVALID,
        f"{subject} {gotext.quote(name)} is invalid: {field.aggregate(told)}{more}",
        StatusDetails(
            name=name,
            group=kind.group,
            kind=kind.kind,
            causes=[StatusCause(reason=e.type.reason, message=e.body, field=e.path) for e in told],
        ),
    )


def unprocessable() -> APIStatusError:
    """A JSON patch whose ``test`` fails or whose path is missing."""
    return _failure(
        422, Reason.INVALID, "the server rejected our request due to an error in our request", StatusDetails()
    )


def too_many_requests(message: str, retry_after_seconds: int) -> APIStatusError:
    return _failure(429, Reason.TOO_MANY_REQUESTS, message, StatusDetails(retry_after_seconds=retry_after_seconds))


def internal(message: str) -> APIStatusError:
    return _failure(
        500,
        Reason.INTERNAL_ERROR,
        f"Internal error occurred: {message}",
        StatusDetails(causes=[StatusCause(message=message)]),
    )


def untyped(message: str) -> APIStatusError:
    """An error of no known kind: Kubernetes answers 500 without a reason."""
    return _failure(500, Reason.UNKNOWN, message)


def corrupt_object(key: str, why: str) -> APIStatusError:
    """A stored value of which no object can be made (apiserver storage/errors.go, Kubernetes 1.36)."""
    return untyped(f"StorageError: corrupt object, Code: 7, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: {why}")


def unreadable_objects(resource: GroupResource, found: Sequence[tuple[str, str]]) -> APIStatusError:
    """Objects of a list that cannot be read; ``found`` has their keys and reasons.

    Kubernetes names them in the causes only, which nobody prints.
    """
    causes = [
        StatusCause(reason="UnexpectedServerResponse", message=why, field=key) for key, why in found[:MAX_NAMED_KEYS]
    ]
    more = f" and {len(found) - 1} more" if len(found) > 1 else ""
    return _failure(
        500,
        Reason.STORE_READ_ERROR,
        f"failed to read one or more {resource} from the storage: {found[0][0]}{more}",
        StatusDetails(group=resource.group, kind=resource.resource, causes=causes),
    )


def service_unavailable(message: str, retry_after_seconds: int = 1) -> APIStatusError:
    return _failure(503, Reason.SERVICE_UNAVAILABLE, message, StatusDetails(retry_after_seconds=retry_after_seconds))


def timeout(message: str, retry_after_seconds: int = 0, causes: list[StatusCause] | None = None) -> APIStatusError:
    return _failure(
        504,
        Reason.TIMEOUT,
        f"Timeout: {message}",
        StatusDetails(retry_after_seconds=retry_after_seconds, causes=causes or []),
    )


def too_large_resource_version(wanted: int, current: int) -> APIStatusError:
    return timeout(
        f"Too large resource version: {wanted}, current: {current}",
        1,
        [StatusCause(reason="ResourceVersionTooLarge", message="Too large resource version")],
    )


# Kinds whose objects hold credentials, as a Status names them.
_DISCREET_KINDS = frozenset({"secrets", "Secret", "configmaps", "ConfigMap"})


_REFUSED = re.compile(
    r'is forbidden: User "[^"]{0,512}" cannot (?P<verb>[a-z]{1,32}) resource "(?P<resource>[a-z0-9./-]{1,128})" in API '
    r'group "[a-z0-9.-]{0,253}"(?: in the namespace "(?P<namespace>[a-z0-9-]{1,63})")?',
    re.ASCII,
)


def loggable(err: BaseException) -> str:
    """The text of an error as a log may have it: of a failure about a Secret or a ConfigMap only code and reason.

    Kubernetes' texts print the values that are wrong, and webhooks and policies write what they like.
    """
    failure = err if isinstance(err, APIStatusError) else err.__cause__
    if not isinstance(failure, APIStatusError):
        return str(err)
    details = failure.status.details
    if (refused := _REFUSED.search(failure.status.message)) and failure.code == 403 and details is not None:
        # By an authorizer, whose text quotes nothing of the object.
        about = f"{refused['resource']} {details.name}".rstrip()
        where = f" in the namespace {refused['namespace']}" if refused["namespace"] else ""
        return f"{type(err).__name__}: {failure.brief}: cannot {refused['verb']} {about}{where}"
    quotes = failure.code not in (401, 404, 409) if details is None else details.kind in _DISCREET_KINDS
    return f"{type(err).__name__}: {failure.brief}" if quotes else str(err)
