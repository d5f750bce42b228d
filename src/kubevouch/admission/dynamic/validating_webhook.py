"""ValidatingAdmissionWebhook: webhooks, all at once, accept or refuse.

Source: k8s.io/apiserver/pkg/admission/plugin/webhook/validating (Kubernetes 1.36).
"""

from __future__ import annotations

import asyncio

from kubevouch.admission.audit_annotations import annotate
from kubevouch.admission.dynamic.questions import Interview
from kubevouch.admission.dynamic.review import Shown
from kubevouch.admission.dynamic.webhook_call import CallFailed, failed_open, report
from kubevouch.admission.dynamic.webhook_plugin import WebhookPlugin
from kubevouch.admission.dynamic.webhook_source import Hook
from kubevouch.admission.interface import Request
from kubevouch.admission.observer import VALIDATING
from kubevouch.machinery.errors import APIStatusError

_FAILED_OPEN = "failed-open.validating.webhook.admission.k8s.io"


class ValidatingAdmissionWebhook(WebhookPlugin):
    """A validating plug-in."""

    name = "ValidatingAdmissionWebhook"

    async def validate(self, request: Request) -> None:
        hooks = self._source.hooks
        if not hooks:
            return
        interview = Interview(self._authorizer, request.user)
        relevant: list[tuple[Hook, Shown]] = []
        for hook in hooks:
            shown = await hook.show(request, self._namespace_named, interview)
            if shown is not None:
                # Those that want to see the same version share its trees.
                same = next((known for _, known in relevant if known.version is shown.version), shown)
                relevant.append((hook, same))
        calls = (self._ask(hook, shown, index) for index, (hook, shown) in enumerate(relevant))
        for refusal in await asyncio.gather(*calls):
            if refusal is not None:
                raise refusal

    async def _ask(self, hook: Hook, shown: Shown, index: int) -> APIStatusError | None:
        """What stands against the request."""
        request, begun = shown.request, shown.request.observer.monotonic()
        failure: CallFailed | APIStatusError | None = None
        try:
            await self._caller.ask(hook, shown, mutating=False)
        except (CallFailed, APIStatusError) as err:
            failure = err
        report(hook, request, VALIDATING, begun, failure)
        if not isinstance(failure, CallFailed):
            return failure
        if not hook.ignores_failures:
            return failure.refusal()
        failed_open(hook, request, VALIDATING, failure)
        annotate(request, f"{_FAILED_OPEN}/round_0_index_{index}", hook.webhook.name)
        return None
