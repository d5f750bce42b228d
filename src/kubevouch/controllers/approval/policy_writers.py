"""Whether a policy may approve: the rights of its writer, and those that its certificate would give.

The approver acts with rights of its own for whoever wrote a policy. So it asks the API server, right before an
approval, whether that writer may approve for the signer (docs/adr/0047-a-writer-needs-the-rights-of-what-follows.md).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kubevouch.api.authorization_v1 import ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec
from kubevouch.api.catalog import (
    MUTATING_ADMISSION_POLICIES,
    MUTATING_ADMISSION_POLICY_BINDINGS,
    SUBJECT_ACCESS_REVIEWS,
    VALIDATING_ADMISSION_POLICIES,
    VALIDATING_ADMISSION_POLICY_BINDINGS,
)
from kubevouch.api.certificates_v1 import GROUP
from kubevouch.api.kubevouch_v1alpha1.guard_versions import (
    MUTATING_BETA,
    MUTATING_BINDINGS_BETA,
)
from kubevouch.api.kubevouch_v1alpha1.writer_guards import (
    WRITER_ANNOTATION,
    WRITER_RECORDS,
    WRITERS,
    Writer,
    is_writer_stamp,
)
from kubevouch.client.interface import Client
from kubevouch.client.stored import find
from kubevouch.controllers.guards import GUARD_SECONDS as GUARD_SECONDS
from kubevouch.controllers.guards import Guards
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import Object
from kubevouch.machinery.text.times import Time
from kubevouch.pki.node_user import node_name_of
from kubevouch.policy.certificate_policies import ANY_SIGNER, SUBJECT_RULE, WRITER_RULE, CompiledPolicy
from kubevouch.policy.constraints import is_reserved
from kubevouch.policy.facts import RequestFacts
from kubevouch.policy.verdict import Step, StepResult
from kubevouch.util.clock import Clock
from kubevouch.wellknown import AUTHENTICATED_GROUP, NODES_GROUP

GUARDED = (
    "the guards for what this API server serves (deploy/crds/guards.yaml, or one of deploy/guards), and the policy "
    "created after them"
)
BEFORE_RECORDS = "nobody, as it was written before this server recorded writers"


class _Guard(msgspec.Struct, frozen=True):
    """Since when writers are recorded, or why they are not."""

    since: Time | None = None
    fault: str = ""


class PolicyWriters:
    """Asks the API server.

    Args:
        is_own_server: the API server is ours: its admission refuses forged records, whatever becomes of the guard.
    """

    def __init__(self, client: Client, clock: Clock, *, is_own_server: bool) -> None:
        self._client = client
        self._clock = clock
        self._is_own_server = is_own_server
        self._guards = Guards(client, clock, is_own_server=False)
        self._guard = _Guard()
        self._guard_until = float("-inf")

    async def look(self, policy: CompiledPolicy, signer_names: Sequence[str]) -> Step:
        """Whether the policy's writer may approve for all of these signers. Raises APIStatusError, TransportError."""
        expected, writer = "a writer who may approve for the signer", policy.writer
        guard = _Guard() if self._is_own_server and writer is not None else await self._guarded()
        if writer is None:
            if self._is_own_server and _is_older(policy, guard):
                return Step(WRITER_RULE, StepResult.MET, BEFORE_RECORDS, expected)
            got = f"no {WRITER_ANNOTATION}" + (f", and {guard.fault}" if guard.fault else "")
            return Step(WRITER_RULE, StepResult.UNMET, got, "a record of the writer: create the policy again")
        if not self._is_own_server and (guard.fault or _is_older(policy, guard, strictly=False)):
            got = guard.fault or "a policy older than the admission policy that records writers"
            return Step(WRITER_RULE, StepResult.UNMET, got, GUARDED)
        for name in signer_names:
            if not await self._may_approve(writer, name):
                return Step(WRITER_RULE, StepResult.UNMET, writer.name, f"the right to approve for {name}")
        return Step(WRITER_RULE, StepResult.MET, writer.name, expected)

    async def look_at_subject(self, policy: CompiledPolicy, facts: RequestFacts) -> Step | None:
        """Whether a wildcard covers an administrator; None if there is nothing to ask. Raises as :meth:`look`."""
        # A record in a policy that is older than the guard may have been sent by anybody, and stayed.
        is_old = self._is_own_server and (policy.writer is None or _is_older(policy, await self._guarded()))
        if is_old:
            # Nodes are what such policies were for.
            named = (facts.subject.common_name, *facts.subject.organizations)
            parts = next((each for each in named if is_reserved(each) and not _is_of_nodes(each)), "")
            if parts:
                return Step(
                    SUBJECT_RULE, StepResult.UNMET, parts, "a policy that was created after writers were recorded"
                )
        user, groups = policy.covered_subject(facts, is_old=is_old)
        if not user and not groups:
            return None
        everything = ResourceAttributes(group="*", version="*", resource="*", verb="*")
        if await self._is_allowed(Writer(user, groups), everything):
            shown = ", ".join(each for each in (user, *groups) if each)
            return Step(SUBJECT_RULE, StepResult.UNMET, shown, "a pattern that writes an administrator out")
        return Step(SUBJECT_RULE, StepResult.MET)

    async def _may_approve(self, writer: Writer, signer_name: str) -> bool:
        """As admission asks (:mod:`kubevouch.admission.signer_permission`); no name asks for every signer."""
        domain = signer_name.partition("/")[0]
        names = ("",) if signer_name == ANY_SIGNER else dict.fromkeys((signer_name, f"{domain}/*"))
        for name in names:
            asked = ResourceAttributes(group=GROUP, version="*", resource="signers", name=name, verb="approve")
            if await self._is_allowed(writer, asked):
                return True
        return False

    async def _is_allowed(self, who: Writer, asked: ResourceAttributes) -> bool:
        # Whoever has a certificate or a token is in it, and rights may be bound to it.
        groups = list(dict.fromkeys((*who.groups, AUTHENTICATED_GROUP)))
        review = SubjectAccessReviewSpec(user=who.name, groups=groups, resource_attributes=asked)
        answer = await self._client.create(SUBJECT_ACCESS_REVIEWS, SubjectAccessReview(spec=review))
        return answer.status.allowed

    async def _guarded(self) -> _Guard:
        if self._clock.monotonic() >= self._guard_until:
            self._guard = await self._look_at_guard()
            self._guard_until = self._clock.monotonic() + GUARD_SECONDS
        return self._guard

    async def _look_at_guard(self) -> _Guard:
        try:
            # Older servers know the kinds by another version, and their objects are the same.
            policy = await find(self._client, MUTATING_ADMISSION_POLICIES, WRITERS)
            policy = policy or await find(self._client, MUTATING_BETA, WRITERS)
            binding = await find(self._client, MUTATING_ADMISSION_POLICY_BINDINGS, WRITERS)
            binding = binding or await find(self._client, MUTATING_BINDINGS_BETA, WRITERS)
        except APIStatusError as err:
            if err.code != 403:
                raise
            return _Guard(fault=f"no right to read the MutatingAdmissionPolicy {WRITERS} and its binding")
        if policy is None or binding is None or binding.spec.policy_name != WRITERS:
            return await self._look_at_records()
        if not is_writer_stamp(policy):
            return _Guard(fault=f"a MutatingAdmissionPolicy {WRITERS} of another version")
        return _since(policy, binding)

    async def _look_at_records(self) -> _Guard:
        """Where the server fills in nothing: whether it refuses what is not filled in. Raises APIStatusError."""
        if fault := await self._guards.fault(WRITER_RECORDS):
            return _Guard(fault=f"no MutatingAdmissionPolicy {WRITERS} with its binding, and {fault}")
        policy = await self._client.get(VALIDATING_ADMISSION_POLICIES, WRITER_RECORDS)
        binding = await self._client.get(VALIDATING_ADMISSION_POLICY_BINDINGS, WRITER_RECORDS)
        return _since(policy, binding)


def _since(policy: Object, binding: Object) -> _Guard:
    """It holds from when the later of the two was there."""
    made = [each.metadata.creation_timestamp for each in (policy, binding)]
    times = [each for each in made if each is not None]
    return _Guard(since=max(times, key=lambda each: each.seconds, default=None))


def _is_of_nodes(name: str) -> bool:
    return name == NODES_GROUP or node_name_of(name) != ""


def _is_older(policy: CompiledPolicy, guard: _Guard, *, strictly: bool = True) -> bool:
    """Times are whole seconds: what has the guard's own may have come before it."""
    if guard.since is None or policy.created is None:
        return False
    return policy.created.seconds < guard.since.seconds + (0 if strictly else 1)
