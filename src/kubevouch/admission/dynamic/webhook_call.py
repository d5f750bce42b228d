"""Asks admission webhooks.

    CallFailed            a webhook gave no usable answer; its failure policy decides what follows

Source: k8s.io/apiserver/pkg/admission/plugin/webhook/{mutating,validating}/dispatcher.go (Kubernetes 1.36).
"""

from __future__ import annotations

import uuid
from typing import NamedTuple

import msgspec

from kubevouch.admission.audit_annotations import annotate
from kubevouch.admission.dynamic.review import (
    Denied,
    InvalidResponse,
    Shown,
    dry_run_unsupported,
    rejection,
    review_version,
    verify_response,
)
from kubevouch.admission.dynamic.webhook_source import Hook
from kubevouch.admission.interface import Request
from kubevouch.admission.observer import CALLING_ERROR, NO_ERROR, SERVER_ERROR
from kubevouch.api.admission_v1 import AdmissionResponse
from kubevouch.api.admissionregistration_v1.webhooks import (
    DEFAULT_TIMEOUT_SECONDS,
    HTTPS_PORT,
    WITHOUT_SIDE_EFFECTS,
    WebhookClientConfig,
)
from kubevouch.client.interface import ClientConfigurationError, TransportError
from kubevouch.client.webhook import Webhook, WebhookError, at_url, service_url
from kubevouch.machinery import errors
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.text.gotext import quote
from kubevouch.util.clock import Clock
from kubevouch.util.logger import get_logger

COMPONENT = "kube-apiserver-admission"

log = get_logger("admission.webhook")


class CallFailed(Exception):
    """``str()`` names the webhook and says what went wrong; ``code`` is for metrics."""

    def __init__(self, webhook: str, why: str, code: int = 503) -> None:
        super().__init__(f"failed calling webhook {quote(webhook)}: {why}")
        self.code = code

    def refusal(self) -> APIStatusError:
        """What the client hears when failures are not ignored."""
        return errors.internal(str(self))


class _Place(NamedTuple):
    url: str
    ca_bundle: bytes
    seconds: int


class _Connection:
    """The client of one place, closed when nobody uses it any more."""

    def __init__(self, webhook: Webhook) -> None:
        self.webhook = webhook
        self.users = 0
        self.kept = True


class WebhookCaller:
    """Asks webhooks, over connections that are kept until the configurations change."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._connections: dict[_Place, _Connection] = {}
        self._idle: list[Webhook] = []

    def forget(self) -> None:
        """Let go of all connections: places may have changed. Calls under way end first."""
        for connection in self._connections.values():
            connection.kept = False
            if not connection.users:
                self._idle.append(connection.webhook)
        self._connections = {}

    async def close(self) -> None:
        self.forget()
        await self._close_idle()

    async def _close_idle(self) -> None:
        idle, self._idle = self._idle, []
        for webhook in idle:
            await webhook.close()

    async def ask(self, hook: Hook, shown: Shown, *, mutating: bool) -> AdmissionResponse:
        """The response of a webhook that allows the request.

        Raises:
            CallFailed
            APIStatusError: it denies the request, or cannot take part in a dry run.
        """
        name, request = hook.webhook.name, shown.request
        if request.dry_run and hook.webhook.side_effects not in WITHOUT_SIDE_EFFECTS:
            raise dry_run_unsupported(name)
        uid = str(uuid.uuid4())
        try:
            version = review_version(hook.webhook.admission_review_versions or ())
        except InvalidResponse as err:
            raise CallFailed(name, f"could not create admission objects: {err}", 400) from err
        answer = await self._post(hook, shown.review(uid, version))
        try:
            response = verify_response(answer, uid, version, mutating=mutating)
            denial = None if response.allowed else rejection(name, response.refusal())
        except (InvalidResponse, msgspec.ValidationError) as err:
            raise CallFailed(name, f"received invalid webhook response: {err}") from err
        for key, value in (response.audit_annotations or {}).items():
            annotate(request, f"{name}/{key}", value)
        request.warnings.extend(response.warnings or ())
        if denial is not None:
            raise denial
        return response

    async def _post(self, hook: Hook, review: dict[str, object]) -> object:
        name, config = hook.webhook.name, hook.webhook.client_config
        seconds = hook.webhook.timeout_seconds or DEFAULT_TIMEOUT_SECONDS
        if config.service is not None:
            # No Service can be created here: the answer is kube-apiserver's for one that is not there.
            service = config.service
            at = service_url(service.namespace, service.name, service.port or HTTPS_PORT, service.path or "")
            asked = f"{at}?timeout={seconds}s"
            why = f'Post "{asked}": service {quote(config.service.name)} not found'
            raise CallFailed(name, f"failed to call webhook: {why}")
        try:
            connection = self._connection(config, seconds)
        except ClientConfigurationError as err:
            raise CallFailed(name, f"could not get REST client: {err}", 400) from err
        await self._close_idle()
        connection.users += 1
        try:
            return await connection.webhook.ask(review, (("timeout", f"{seconds}s"),), attempts=1)
        except WebhookError as err:
            asked = f'Post "{config.url}?timeout={seconds}s": ' if isinstance(err.__cause__, TransportError) else ""
            raise CallFailed(name, f"failed to call webhook: {asked}{err}", err.code) from err
        finally:
            connection.users -= 1
            if not connection.users and not connection.kept:
                await connection.webhook.close()

    def _connection(self, config: WebhookClientConfig, seconds: int) -> _Connection:
        assert config.url is not None  # validation wants one of the two, and a service is never asked
        place = _Place(config.url, config.ca_bundle, seconds)
        found = self._connections.get(place)
        if found is None:
            found = _Connection(
                at_url(config.url, config.ca_bundle, self._clock, component=COMPONENT, seconds=float(seconds))
            )
            self._connections[place] = found
        return found


def failed_open(hook: Hook, request: Request, kind: str, err: CallFailed) -> None:
    # What a webhook answers may quote the object, and a patch that does not fit does.
    quotes = request.resource.resource in ("secrets", "configmaps")
    told = type(err.__cause__ or err).__name__ if quotes else str(err)
    log.warning("failed calling webhook, failing open", webhook=hook.webhook.name, err=told)
    request.observer.webhook_failed_open(hook.webhook.name, kind)


def report(hook: Hook, request: Request, kind: str, begun: float, err: CallFailed | APIStatusError | None) -> None:
    """Tell the request's observer how a call that began at ``begun`` ended."""
    name, operation, observer = hook.webhook.name, str(request.operation), request.observer
    code, error, rejected = 200, NO_ERROR, err is not None
    if isinstance(err, CallFailed):
        code, error, rejected = err.code, CALLING_ERROR, not hook.ignores_failures
    elif isinstance(err, Denied):
        code = err.code
    elif err is not None:
        code, error = 0, SERVER_ERROR
    if rejected:
        observer.webhook_rejected(name, kind, operation, error, code)
    observer.webhook(name, kind, operation, observer.monotonic() - begun, code, rejected=rejected)
