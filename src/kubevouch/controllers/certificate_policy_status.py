"""certificaterequestpolicy-status-controller: says in a policy's status whether it can be evaluated and may approve."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from kubevouch import wellknown
from kubevouch.api.core_v1.references import ObjectReference
from kubevouch.api.kubevouch_v1alpha1.catalog import CERTIFICATE_REQUEST_POLICIES
from kubevouch.api.kubevouch_v1alpha1.certificate_request_policies import (
    AUTHORIZED,
    READY,
    CertificateRequestPolicy,
    CertificateRequestPolicyStatus,
)
from kubevouch.api.kubevouch_v1alpha1.writer_guards import WRITER_ANNOTATION
from kubevouch.api.meta_v1 import Condition
from kubevouch.client.cache.lister import Lister
from kubevouch.client.interface import Client
from kubevouch.controllers.approval.policy_writers import PolicyWriters
from kubevouch.controllers.controller import QueueController
from kubevouch.controllers.event_recorder import EventRecorder
from kubevouch.controllers.interface import DONE, Context, IgnorableError, Request, Result, request_of
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.text.times import Time
from kubevouch.policy.certificate_policies import compile_policy, fault_of
from kubevouch.policy.verdict import StepResult
from kubevouch.util.clock import Clock
from kubevouch.util.logger import get_logger
from kubevouch.util.worker import elsewhere, give_way_to_loop

log = get_logger("controllers.certificate_policy_status")

NAME = wellknown.CERTIFICATE_POLICY_STATUS_CONTROLLER
LOOK_AGAIN_SECONDS = 600.0
AFTER_REFUSAL_SECONDS = 30.0
"""How often the rights of a policy's writer are looked at again for its status; an approval asks at once."""
_MAX_MESSAGE = 8 << 10


class PolicyStatus:
    """Evaluates each generation of a policy once, and looks again and again at what its writer may."""

    def __init__(
        self,
        client: Client,
        policies: Lister[CertificateRequestPolicy],
        clock: Clock,
        writers: PolicyWriters,
        recorder: EventRecorder,
    ) -> None:
        self._client = client
        self._policies = policies
        self._clock = clock
        self._writers = writers
        self._recorder = recorder

    async def reconcile(self, request: Request) -> Result:
        policy = self._policies.get(request.name)
        if policy is None:
            return DONE
        conditions = [await self._ready(policy)]
        authorized = await self._authorized(policy)
        if authorized is not None:
            conditions.append(authorized)
        await self._tell(policy, conditions)
        # No event tells of a right that is given or taken.
        if authorized is None:
            return DONE
        is_off = authorized.status == wellknown.CONDITION_FALSE
        return Result(AFTER_REFUSAL_SECONDS if is_off else LOOK_AGAIN_SECONDS)

    async def _ready(self, policy: CertificateRequestPolicy) -> Condition:
        former = _former(policy, READY)
        if former is not None and former.observed_generation == policy.metadata.generation:
            return former
        # Up to 32 expressions are compiled, and tried with a large request.
        reason, message = await elsewhere(lambda: fault_of(policy, give_way_to_loop))
        status = wellknown.CONDITION_FALSE if reason else wellknown.CONDITION_TRUE
        return self._condition(policy, READY, status, reason or "Valid", message or "every rule can be evaluated")

    async def _authorized(self, policy: CertificateRequestPolicy) -> Condition | None:
        """None for a policy that approves nothing."""
        compiled = await elsewhere(lambda: compile_policy(policy))
        if not compiled.may_approve or compiled.is_audit:
            return None
        step = await self._writers.look(compiled, policy.spec.selector.signer_names)
        if step.result != StepResult.MET:
            message = f"it approves nothing: got {step.got}, expected {step.expected}"
            reason = "WriterMayNotApprove" if compiled.writer is not None else "NoWriter"
            return self._condition(policy, AUTHORIZED, wellknown.CONDITION_FALSE, reason, message)
        if compiled.writer is None:
            message = (
                "its writer is not recorded, as it was written before this server recorded writers; it stays in force. "
                "Whoever may approve for its signers takes it over: kubectl annotate --overwrite "
                f"certificaterequestpolicy {policy.metadata.name} {WRITER_ANNOTATION}=me"
            )
            return self._condition(policy, AUTHORIZED, wellknown.CONDITION_UNKNOWN, "WriterNotRecorded", message)
        message = f"{step.got} may approve for every signer that it selects"
        return self._condition(policy, AUTHORIZED, wellknown.CONDITION_TRUE, "WriterMayApprove", message)

    def _condition(
        self, policy: CertificateRequestPolicy, kind: str, status: str, reason: str, message: str
    ) -> Condition:
        """The time stays that of the last change of the status."""
        former, now = _former(policy, kind), Time.of(self._clock.now())
        since = now if former is None or former.status != status else former.last_transition_time
        return Condition(
            type=kind,
            status=status,
            observed_generation=policy.metadata.generation,
            last_transition_time=since,
            reason=reason,
            message=message[:_MAX_MESSAGE],
        )

    async def _tell(self, policy: CertificateRequestPolicy, conditions: list[Condition]) -> None:
        if conditions == policy.status.conditions:
            return
        status = CertificateRequestPolicyStatus(observed_generation=policy.metadata.generation, conditions=conditions)
        told = msgspec.structs.replace(policy, status=status)
        try:
            await self._client.update(CERTIFICATE_REQUEST_POLICIES, told, subresource="status")
        except APIStatusError as err:
            if err.code in (404, 409):
                raise IgnorableError(str(err)) from err
            raise
        for each in conditions:
            former = _former(policy, each.type)
            if each.type == AUTHORIZED and each.status != wellknown.CONDITION_TRUE and each != former:
                log.warning("a policy's writer may not approve", policy=policy.metadata.name, why=each.message)
                await self._recorder.record(_reference(policy), "Warning", each.reason, each.message)


def _former(policy: CertificateRequestPolicy, kind: str) -> Condition | None:
    return next((each for each in policy.status.conditions if each.type == kind), None)


def _reference(policy: CertificateRequestPolicy) -> ObjectReference:
    resource, meta = CERTIFICATE_REQUEST_POLICIES, policy.metadata
    return ObjectReference(api_version=resource.api_version, kind=resource.kind, name=meta.name, uid=meta.uid)


def _one(policy: CertificateRequestPolicy) -> Iterable[Request]:
    return (request_of(policy),)


def build(context: Context) -> QueueController:
    client = context.connect(NAME)
    policies = context.informers.informer(CERTIFICATE_REQUEST_POLICIES, client=client)
    writers = PolicyWriters(client, context.clock, is_own_server=context.is_own_server)
    recorder = EventRecorder(client, context.clock, NAME)
    status = PolicyStatus(client, policies.lister, context.clock, writers, recorder)
    controller = QueueController(NAME, status, context.clock)
    controller.watch(policies, on_add=_one, on_update=_one)
    return controller
