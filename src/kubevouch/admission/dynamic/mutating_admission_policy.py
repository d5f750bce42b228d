"""MutatingAdmissionPolicy: changes in expressions, in force where bindings say so.

The schema of a kind is known here from the moment the kind is served, so nothing has to wait for it.

Source: k8s.io/apiserver/pkg/admission/plugin/policy/{generic,mutating} (Kubernetes 1.36).
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec

from kubevouch.admission.dynamic.match_conditions import ConditionError
from kubevouch.admission.dynamic.matching import NamespaceGetter, namespace_of
from kubevouch.admission.dynamic.mutations import MutationRules, NotMutated
from kubevouch.admission.dynamic.policy_source import (
    EXEMPT,
    Misconfigured,
    ObjectsOf,
    PolicyHook,
    PolicySource,
    collect,
    namespace_tree,
    params_of,
)
from kubevouch.admission.dynamic.questions import Interview
from kubevouch.admission.dynamic.review import Shown, Tree
from kubevouch.admission.interface import Invoked, Operation, Request, Version
from kubevouch.admission.observer import NO_ERROR
from kubevouch.admission.refusal import refused
from kubevouch.api.admissionregistration_v1.mutating_policies import (
    MutatingAdmissionPolicy,
    MutatingAdmissionPolicyBinding,
)
from kubevouch.api.admissionregistration_v1.webhooks import IF_NEEDED
from kubevouch.authorization.interface import Authorizer
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import StatusCause
from kubevouch.machinery.scheme import GroupResource
from kubevouch.util.worker import compute

Policies = PolicySource[MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding, MutationRules]
_Hook = PolicyHook[MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding, MutationRules]

_INVALID = "Invalid"


def policies() -> Policies:
    """None yet."""
    return PolicySource(lambda policy: MutationRules(policy.spec))


class _Invocation(msgspec.Struct, frozen=True):
    """A policy with one of its bindings and one set of parameters."""

    policy: str
    binding: str
    rules: MutationRules
    version: Version
    params: Tree | None

    @property
    def uid(self) -> str:
        metadata = (self.params or {}).get("metadata", {})
        return f"{self.policy}/{self.binding}/{metadata.get('namespace', '')}/{metadata.get('name', '')}"


class _Failure(msgspec.Struct, frozen=True):
    """Why a policy refuses; ``reason`` stands for Forbidden when it is empty."""

    policy: str
    binding: str
    message: str
    reason: str = ""

    def __str__(self) -> str:
        bound = f" with binding '{self.binding}'" if self.binding else ""
        return f"policy '{self.policy}'{bound} denied request: {self.message}"


class MutatingAdmissionPolicyPlugin:
    """A mutating plug-in."""

    name = "MutatingAdmissionPolicy"

    def __init__(
        self, source: Policies, namespace_named: NamespaceGetter, objects_of: ObjectsOf, authorizer: Authorizer
    ) -> None:
        self._source = source
        self._namespace_named = namespace_named
        self._objects_of = objects_of
        self._authorizer = authorizer

    def handles(self, operation: Operation, resource: GroupResource, subresource: str) -> bool:  # noqa: ARG002
        return operation is not Operation.DELETE and resource not in EXEMPT

    async def admit(self, request: Request) -> Any:
        hooks = self._source.hooks(request)
        if not hooks:
            return request.obj
        failures: list[_Failure] = []
        # All are chosen by the object as it comes, before the first one changes it.
        invocations = [each for hook in hooks async for each in self._invocations(hook, request, failures)]
        if invocations:
            namespace = namespace_tree(request, self._namespace_named)
            state = request.reinvocation.invoked(self.name, request.obj)
            interview = Interview(self._authorizer, request.user)
            for invocation in invocations:
                await self._invoke(invocation, request, namespace, state, interview, failures)
            state.output = request.obj
        if failures:
            raise _refusal(request, failures)
        return request.obj

    async def _invocations(self, hook: _Hook, request: Request, failures: list[_Failure]) -> AsyncIterator[_Invocation]:
        policy, rules = hook.policy.metadata.name, hook.rules
        try:
            version = hook.matcher.match(request, self._namespace_named)
            if version is None:
                return
            objects = await params_of(hook.policy, self._objects_of)
        except (APIStatusError, Misconfigured) as err:
            if not rules.ignores_errors:
                failures.append(_Failure(policy, "", f"failed to configure policy: {err}"))
            return
        for bound in hook.bindings:
            binding = bound.binding.metadata.name
            try:
                if bound.matcher is not None and bound.matcher.match(request, self._namespace_named) is None:
                    continue
                found = await collect(objects, bound.binding.spec.param_ref, namespace_of(request))
            except (APIStatusError, Misconfigured) as err:
                if not rules.ignores_errors:
                    failures.append(_Failure(policy, binding, f"failed to configure binding: {err}"))
                continue
            for params in found:
                yield _Invocation(policy, binding, rules, version, params)

    async def _invoke(
        self,
        invocation: _Invocation,
        request: Request,
        namespace: Tree | None,
        state: Invoked,
        interview: Interview,
        failures: list[_Failure],
    ) -> None:
        rules, again = invocation.rules, request.reinvocation.again
        if rules.conditions:
            variables = await _variables(invocation, request, namespace)
            try:
                if not await interview.settle(rules.conditions.hold(variables)):
                    return
            except ConditionError as err:
                failures.append(_Failure(invocation.policy, invocation.binding, str(err), _INVALID))
                return
        if again and invocation.uid not in state.due:
            return
        before = request.obj
        for index in range(len(rules.spec.mutations)):
            if request.obj is not None:
                await self._mutate(invocation, index, request, namespace, interview, failures)
        if request.obj is not before and request.obj != before:
            state.changed()
            request.reinvocation.wanted = True
        if rules.spec.reinvocation_policy == IF_NEEDED:
            state.before.add(invocation.uid)

    async def _mutate(
        self,
        invocation: _Invocation,
        index: int,
        request: Request,
        namespace: Tree | None,
        interview: Interview,
        failures: list[_Failure],
    ) -> None:
        """Changes the object of the request."""
        observer, rules = request.observer, invocation.rules
        begun, error = observer.monotonic(), NO_ERROR
        variables = await _variables(invocation, request, namespace)
        try:
            made = await interview.settle(rules.mutate(index, variables, invocation.version))
            request.obj = await invocation.version.taken(made)
        except NotMutated as err:
            error = err.error
            if not rules.ignores_errors:
                failures.append(_Failure(invocation.policy, invocation.binding, str(err), _INVALID))
        observer.mutation(invocation.policy, invocation.binding, error, observer.monotonic() - begun)


async def _variables(invocation: _Invocation, request: Request, namespace: Tree | None) -> Tree:
    shown = await Shown(request, invocation.version).converted()
    return invocation.rules.with_params(await compute(shown.variables, namespace), invocation.params)


def _refusal(request: Request, failures: list[_Failure]) -> APIStatusError:
    """A 403 whose reason and message are those of the first; the causes are all of them."""
    status, first = refused(request, "").status, failures[0]
    details = status.details
    assert details is not None  # errors.forbidden always says what it is about
    causes = [StatusCause(message=str(each)) for each in failures]
    return APIStatusError(
        msgspec.structs.replace(
            status,
            message=str(first),
            reason=first.reason or status.reason,
            details=msgspec.structs.replace(details, causes=[*details.causes, *causes]),
        )
    )
