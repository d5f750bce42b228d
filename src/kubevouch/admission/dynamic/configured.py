"""Admission that objects configure: webhooks and policies."""

from __future__ import annotations

from kubevouch.admission.dynamic import mutating_admission_policy, validating_admission_policy
from kubevouch.admission.dynamic.matching import NamespaceGetter
from kubevouch.admission.dynamic.mutating_admission_policy import MutatingAdmissionPolicyPlugin
from kubevouch.admission.dynamic.mutating_webhook import MutatingAdmissionWebhook
from kubevouch.admission.dynamic.policy_source import ObjectsOf
from kubevouch.admission.dynamic.validating_admission_policy import ValidatingAdmissionPolicyPlugin
from kubevouch.admission.dynamic.validating_webhook import ValidatingAdmissionWebhook
from kubevouch.admission.dynamic.webhook_call import WebhookCaller
from kubevouch.admission.dynamic.webhook_source import HookSource
from kubevouch.authorization.interface import Authorizer
from kubevouch.util.clock import Clock


class ConfiguredAdmission:
    """What is configured, kept up to date by whoever made it, and the plug-ins that go by it.

    Args:
        namespace_named: a namespace from the watch cache, or None.
        authorizer: what expressions ask.
        objects_of: the objects of a kind, for policies' parameters; None for a kind that is not served.
    """

    def __init__(
        self, clock: Clock, namespace_named: NamespaceGetter, objects_of: ObjectsOf, authorizer: Authorizer
    ) -> None:
        self._caller = WebhookCaller(clock)
        self.mutating = HookSource(self._caller.forget)
        self.validating = HookSource(self._caller.forget)
        self.policies = validating_admission_policy.policies()
        self.mutating_policies = mutating_admission_policy.policies()
        self.mutating_webhook = MutatingAdmissionWebhook(self.mutating, self._caller, namespace_named, authorizer)
        self.validating_webhook = ValidatingAdmissionWebhook(self.validating, self._caller, namespace_named, authorizer)
        self.mutating_policy = MutatingAdmissionPolicyPlugin(
            self.mutating_policies, namespace_named, objects_of, authorizer
        )
        self.validating_policy = ValidatingAdmissionPolicyPlugin(self.policies, namespace_named, objects_of, authorizer)

    async def close(self) -> None:
        """Close the connections to webhooks."""
        await self._caller.close()
