"""MutatingAdmissionWebhook: webhooks, one after the other, may change the object.

Source: k8s.io/apiserver/pkg/admission/plugin/webhook/mutating (Kubernetes 1.36).
"""

from __future__ import annotations

from typing import Any

import msgspec

from kubevouch.admission.audit_annotations import PATCH, annotate
from kubevouch.admission.dynamic.questions import Interview
from kubevouch.admission.dynamic.review import Shown
from kubevouch.admission.dynamic.webhook_call import CallFailed, failed_open, report
from kubevouch.admission.dynamic.webhook_plugin import WebhookPlugin
from kubevouch.admission.dynamic.webhook_source import Hook
from kubevouch.admission.interface import Invoked, Request
from kubevouch.admission.observer import ADMIT
from kubevouch.api.admission_v1 import JSON_PATCH, AdmissionResponse
from kubevouch.api.admissionregistration_v1.webhooks import IF_NEEDED, MutatingWebhook
from kubevouch.api.catalog import SCHEME
from kubevouch.machinery import errors
from kubevouch.machinery.codec import json_codec
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.text.gotext import quote
from kubevouch.machinery.writing import json_patch

_MUTATION = "mutation.webhook.admission.k8s.io"


class MutatingAdmissionWebhook(WebhookPlugin):
    """A mutating plug-in."""

    name = "MutatingAdmissionWebhook"

    async def admit(self, request: Request) -> Any:
        hooks = self._source.hooks
        if not hooks:
            return request.obj
        again, state = request.reinvocation.again, request.reinvocation.invoked(self.name, request.obj)
        interview = Interview(self._authorizer, request.user)
        for index, hook in enumerate(hooks):
            shown = await hook.show(request, self._namespace_named, interview)
            # Whoever was not asked in the first round is not asked in the second.
            if shown is not None and (not again or hook.uid in state.due):
                request.obj = await self._ask(hook, shown, state, index)
        state.output = request.obj
        return request.obj

    async def _ask(self, hook: Hook, shown: Shown, state: Invoked, index: int) -> Any:
        """The object as the webhook leaves it."""
        request = shown.request
        place = f"round_{int(request.reinvocation.again)}_index_{index}"
        obj, begun = request.obj, request.observer.monotonic()
        failure: CallFailed | APIStatusError | None = None
        try:
            response = await self._caller.ask(hook, shown, mutating=True)
            obj = await _patched(hook, shown, response)
            if obj is not request.obj:
                annotate(request, f"{PATCH}/{place}", _patch(hook, response))
        except (CallFailed, APIStatusError) as err:
            failure = err
        mutated = obj is not request.obj and obj != request.obj
        annotate(request, f"{_MUTATION}/{place}", _mutation(hook, mutated))
        report(hook, request, ADMIT, begun, failure)
        if mutated:
            state.changed()
            request.reinvocation.wanted = True
        if isinstance(hook.webhook, MutatingWebhook) and hook.webhook.reinvocation_policy == IF_NEEDED:
            state.before.add(hook.uid)
        if isinstance(failure, APIStatusError):
            raise failure
        if failure is not None:
            if not hook.ignores_failures:
                raise failure.refusal() from failure
            failed_open(hook, request, ADMIT, failure)
            annotate(request, f"failed-open.{_MUTATION}/{place}", hook.webhook.name)
        return obj


def _mutation(hook: Hook, mutated: bool) -> str:
    value = {"configuration": hook.configuration, "webhook": hook.webhook.name, "mutated": mutated}
    return json_codec.encode_in_order(value).decode()


def _patch(hook: Hook, response: AdmissionResponse) -> str:
    # Go writes the members of an operation sorted, and their values as they came.
    operations = [dict(sorted(each.items())) for each in msgspec.json.decode(response.patch or b"[]")]
    value = {
        "configuration": hook.configuration,
        "webhook": hook.webhook.name,
        "patch": operations,
        "patchType": response.patch_type,
    }
    return json_codec.encode_in_order(value).decode()


async def _patched(hook: Hook, shown: Shown, response: AdmissionResponse) -> Any:
    """The stored form of the object after the response's patch.

    Raises:
        CallFailed: the patch is none.
        APIStatusError: 500, it does not apply or leaves no object.
    """
    name, obj = hook.webhook.name, shown.request.obj
    if not response.patch:
        return obj
    try:
        patch = json_patch.decode(response.patch, strict=False)
    except APIStatusError as err:
        raise CallFailed(name, f"received undecodable patch in webhook response: {err}") from err
    if not patch.operations:
        return obj
    tree = shown.object
    if tree is None:
        why = "attempted to modify the object, which is not supported for this operation"
        raise errors.internal(f"admission webhook {quote(name)} {why}")
    if response.patch_type != JSON_PATCH:
        raise CallFailed(name, f"unsupported patch type {quote(response.patch_type or '')}")
    try:
        changed = json_patch.apply(tree, patch)
        codec = shown.version.resource.codec
        decoded = codec.from_tree(changed).value
    except APIStatusError as err:
        raise errors.internal(f"the patch of admission webhook {quote(name)} does not apply: {err}") from err
    except json_codec.UnmarshalError as err:
        raise errors.internal(str(err)) from err
    return await shown.version.taken(shown.version.to_storage(SCHEME.default(codec.bare(decoded))))
