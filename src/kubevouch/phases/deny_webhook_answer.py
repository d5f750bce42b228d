"""Asking the webhook before an API server is told to ask it: a wrong address would cut everybody off.

WebhookAddressError    the address is none that a kube-apiserver could ask; ``hint`` says what to do
WebhookAnswerError     what is at the address does not answer as the webhook does; ``hint`` says what to do

The question and the answer are those of kube-apiserver: a SubjectAccessReview of authorization.k8s.io/v1
(k8s.io/apiserver/plugin/pkg/authorizer/webhook, Kubernetes 1.36).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from kubevouch.api.catalog import SUBJECT_ACCESS_REVIEWS
from kubevouch.client.interface import ClientConfigurationError
from kubevouch.client.kubeconfig import merge
from kubevouch.client.rest_config import resolve
from kubevouch.client.webhook import Webhook, WebhookError
from kubevouch.config import kubeconfig as stanzas
from kubevouch.util.clock import Clock
from kubevouch.util.printable import escaped
from kubevouch.wellknown import CREDENTIAL_ID_EXTRA

PATH = "/authorize"
_SECONDS = 3.0
"""As long as the API server waits for it (``timeout`` of the configuration)."""
# A fingerprint that no certificate has: about it, the webhook has nothing to say.
_NOBODY = f"X509SHA256={'0' * 64}"


class WebhookAddressError(Exception):
    """The address is none that a kube-apiserver could ask; ``hint`` says what to do."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


class WebhookAnswerError(Exception):
    """What is at the address does not answer as the webhook does; ``hint`` says what to do."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


def verify_address(server: str) -> None:
    """Raises :class:`WebhookAddressError` for anything but an https URL with a host and a path."""
    try:
        parts = urlsplit(server)
        whole = parts.scheme == "https" and bool(parts.hostname) and parts.port != 0
    except ValueError:
        whole = False
    if not whole:
        raise WebhookAddressError(
            f"got --server {escaped(server[:200])}, expected an https URL such as https://127.0.0.1:10268{PATH}",
            "kubevouch revoke webhook prints its URL when it starts",
        )
    if parts.path in ("", "/"):
        raise WebhookAddressError(
            f"got --server {escaped(server)} without a path, expected one: the webhook answers at {PATH} alone, and"
            " every request with a certificate would fail",
            f"--server {escaped(server).rstrip('/')}{PATH}",
        )


def question() -> dict[str, Any]:
    """The review of a request with a certificate that nobody has."""
    return {
        "apiVersion": SUBJECT_ACCESS_REVIEWS.api_version,
        "kind": SUBJECT_ACCESS_REVIEWS.kind,
        "spec": {
            "user": "kubevouch:webhook-config",
            "extra": {CREDENTIAL_ID_EXTRA: [_NOBODY]},
            "nonResourceAttributes": {"path": "/version", "verb": "get"},
        },
    }


def verify_answer(answer: Any) -> None:
    """Raises :class:`WebhookAnswerError` unless the webhook has no objection and grants nothing."""
    found = answer if isinstance(answer, dict) else {}
    kind = found.get("apiVersion"), found.get("kind")
    if kind != (SUBJECT_ACCESS_REVIEWS.api_version, SUBJECT_ACCESS_REVIEWS.kind):
        told = " ".join(escaped(str(each)[:80]) for each in kind if each) or "something else"
        raise WebhookAnswerError(
            f"got {told} as its answer, expected a {SUBJECT_ACCESS_REVIEWS.kind} of"
            f" {SUBJECT_ACCESS_REVIEWS.api_version}",
            "--server is the URL that kubevouch revoke webhook prints when it starts",
        )
    status = found.get("status")
    verdict = status if isinstance(status, dict) else {}
    if verdict.get("allowed") is not False or verdict.get("denied", False) is not False:
        raise WebhookAnswerError(
            f"got allowed={verdict.get('allowed')!r}, denied={verdict.get('denied', False)!r} for a certificate that"
            " nobody has, expected neither: the webhook grants nothing, and denies only what is revoked",
            "another webhook answers there: --server is the URL that kubevouch revoke webhook prints when it starts",
        )


async def verify_webhook(kubeconfig: str, clock: Clock) -> None:
    """Ask the webhook as the API server will: at the address, with the CA and the certificate of ``kubeconfig``.

    Raises:
        WebhookAnswerError: it cannot be reached, is not trusted, refuses, or answers something else.
    """
    try:
        webhook = Webhook(
            resolve(merge([(Path(), stanzas.load(kubeconfig))])), clock, component="kubevouch", seconds=_SECONDS
        )
    except (ClientConfigurationError, stanzas.KubeconfigError) as err:
        raise WebhookAnswerError(str(err), "look at --ca-file, --client-certificate and --client-key") from err
    try:
        answer = await webhook.ask(question(), attempts=1)
    except WebhookError as err:
        raise WebhookAnswerError(
            str(err), "start it with kubevouch revoke webhook; --skip-check writes the files unasked"
        ) from err
    finally:
        await webhook.close()
    verify_answer(answer)
