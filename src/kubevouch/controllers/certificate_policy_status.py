"""certificaterequestpolicy-status-controller: says in a policy's status whether it can be evaluated, and why not."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from kubevouch import wellknown
from kubevouch.api.kubevouch_v1alpha1.catalog import CERTIFICATE_REQUEST_POLICIES
from kubevouch.api.kubevouch_v1alpha1.certificate_request_policies import (
    READY,
    CertificateRequestPolicy,
    CertificateRequestPolicyStatus,
)
from kubevouch.api.meta_v1 import Condition
from kubevouch.client.cache.lister import Lister
from kubevouch.client.interface import Client
from kubevouch.controllers.controller import QueueController
from kubevouch.controllers.interface import DONE, Context, IgnorableError, Request, Result, request_of
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.text.times import Time
from kubevouch.policy.certificate_policies import fault_of
from kubevouch.util.clock import Clock
from kubevouch.util.worker import elsewhere

NAME = wellknown.CERTIFICATE_POLICY_STATUS_CONTROLLER
_MAX_MESSAGE = 8 << 10


class PolicyStatus:
    """Looks at each generation of a policy once."""

    def __init__(self, client: Client, policies: Lister[CertificateRequestPolicy], clock: Clock) -> None:
        self._client = client
        self._policies = policies
        self._clock = clock

    async def reconcile(self, request: Request) -> Result:
        policy = self._policies.get(request.name)
        if policy is None or _is_told(policy):
            return DONE
        # Up to 32 expressions are compiled, and tried with a large request.
        reason, message = await elsewhere(lambda: fault_of(policy))
        status = CertificateRequestPolicyStatus(
            observed_generation=policy.metadata.generation,
            conditions=[_condition(policy, reason, message[:_MAX_MESSAGE], Time.of(self._clock.now()))],
        )
        told = msgspec.structs.replace(policy, status=status)
        try:
            await self._client.update(CERTIFICATE_REQUEST_POLICIES, told, subresource="status")
        except APIStatusError as err:
            if err.code in (404, 409):
                raise IgnorableError(str(err)) from err
            raise
        return DONE


def _is_told(policy: CertificateRequestPolicy) -> bool:
    generation = policy.metadata.generation
    return any(each.type == READY and each.observed_generation == generation for each in policy.status.conditions)


def _condition(policy: CertificateRequestPolicy, reason: str, message: str, now: Time) -> Condition:
    """The time stays that of the last change of the status."""
    status = wellknown.CONDITION_FALSE if reason else wellknown.CONDITION_TRUE
    former = next((each for each in policy.status.conditions if each.type == READY), None)
    since = now if former is None or former.status != status else former.last_transition_time
    return Condition(
        type=READY,
        status=status,
        observed_generation=policy.metadata.generation,
        last_transition_time=since,
        reason=reason or "Valid",
        message=message or "every rule can be evaluated",
    )


def _one(policy: CertificateRequestPolicy) -> Iterable[Request]:
    return (request_of(policy),)


def build(context: Context) -> QueueController:
    client = context.connect(NAME)
    policies = context.informers.informer(CERTIFICATE_REQUEST_POLICIES, client=client)
    controller = QueueController(NAME, PolicyStatus(client, policies.lister, context.clock), context.clock)
    controller.watch(policies, on_add=_one, on_update=_one)
    return controller
