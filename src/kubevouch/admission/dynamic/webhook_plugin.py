"""What the two plug-ins that ask webhooks have in common."""

from __future__ import annotations

from kubevouch.admission.dynamic.matching import NamespaceGetter
from kubevouch.admission.dynamic.webhook_call import WebhookCaller
from kubevouch.admission.dynamic.webhook_source import HookSource, is_exempt
from kubevouch.admission.interface import Operation
from kubevouch.authorization.interface import Authorizer
from kubevouch.machinery.scheme import GroupResource


class WebhookPlugin:
    """Which webhooks there are, and what it takes to ask them."""

    def __init__(
        self, source: HookSource, caller: WebhookCaller, namespace_named: NamespaceGetter, authorizer: Authorizer
    ) -> None:
        self._source = source
        self._caller = caller
        self._namespace_named = namespace_named
        self._authorizer = authorizer

    def handles(self, operation: Operation, resource: GroupResource, subresource: str) -> bool:  # noqa: ARG002
        return not is_exempt(resource)
