"""The webhooks that are configured, in the order in which they are asked.

Source: k8s.io/apiserver/pkg/admission/configuration, plugin/webhook/generic/webhook.go (Kubernetes 1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from kubevouch.admission.dynamic.match_conditions import ConditionError, MatchConditions
from kubevouch.admission.dynamic.matching import Matcher, NamespaceGetter
from kubevouch.admission.dynamic.questions import Interview
from kubevouch.admission.dynamic.review import Shown
from kubevouch.admission.interface import Request
from kubevouch.api.admissionregistration_v1 import GROUP
from kubevouch.api.admissionregistration_v1.matching import EQUIVALENT, IGNORE
from kubevouch.api.admissionregistration_v1.webhooks import WebhookConfiguration, WebhookDefinition, webhooks_of
from kubevouch.machinery import errors
from kubevouch.machinery.scheme import GroupResource


class Hook(msgspec.Struct, frozen=True):
    """One webhook of a configuration; ``uid`` tells it apart from all others."""

    configuration: str
    uid: str
    webhook: WebhookDefinition
    matcher: Matcher
    conditions: MatchConditions

    @property
    def ignores_failures(self) -> bool:
        return self.webhook.failure_policy == IGNORE

    async def show(self, request: Request, namespace_named: NamespaceGetter, interview: Interview) -> Shown | None:
        """The request as the webhook wants to see it, or None when it is not to be asked.

        Raises:
            APIStatusError: that cannot be said.
        """
        version = self.matcher.match(request, namespace_named)
        if version is None:
            return None
        shown = await Shown(request, version).converted()
        if self.conditions:
            try:
                if not await interview.settle(self.conditions.hold(shown.variables())):
                    return None
            except ConditionError as err:
                raise errors.forbidden(request.resource, request.name, str(err)) from err
        return shown


class HookSource:
    """The hooks of all configurations of one kind, sorted by the configurations' names.

    Args:
        forget: told of every change, so that connections can go.
    """

    def __init__(self, forget: Callable[[], None]) -> None:
        self._configurations: dict[str, WebhookConfiguration] = {}
        self._forget = forget
        self.hooks: tuple[Hook, ...] = ()

    def load(self, configurations: Iterable[WebhookConfiguration]) -> None:
        """Replace all."""
        self._configurations = {config.metadata.name: config for config in configurations}
        self._rebuild()

    def changed(self, name: str, configuration: WebhookConfiguration | None) -> None:
        """A configuration was written, or None: it has gone."""
        if configuration is None:
            self._configurations.pop(name, None)
        else:
            self._configurations[name] = configuration
        self._rebuild()

    def _rebuild(self) -> None:
        self.hooks = tuple(hook for _, config in sorted(self._configurations.items()) for hook in _hooks(config))
        self._forget()


def _hooks(config: WebhookConfiguration) -> Iterable[Hook]:
    counts: dict[str, int] = {}
    for webhook in webhooks_of(config):
        count = counts[webhook.name] = counts.get(webhook.name, -1) + 1
        yield Hook(
            config.metadata.name,
            f"{config.metadata.name}/{webhook.name}/{count}",
            webhook,
            Matcher(
                webhook.rules,
                (),
                webhook.match_policy == EQUIVALENT,
                webhook.namespace_selector,
                webhook.object_selector,
            ),
            MatchConditions(webhook.match_conditions, webhook.failure_policy),
        )


def is_exempt(resource: GroupResource) -> bool:
    """What configures admission is not its subject: else a bad configuration could not be taken back."""
    return resource.group == GROUP
