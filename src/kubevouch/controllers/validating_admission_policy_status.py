"""validatingadmissionpolicy-status-controller: says in a policy's status what is doubtful about its expressions.

Source: pkg/controller/validatingadmissionpolicystatus/controller.go (Kubernetes 1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from http import HTTPStatus
from typing import Any

import msgspec

from kubevouch import wellknown
from kubevouch.api.admissionregistration_v1.policies import (
    TypeChecking,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicySpec,
)
from kubevouch.api.admissionregistration_v1.type_checking import (
    MAX_TYPES,
    CustomKind,
    custom_kind,
    versions_in_question,
    warnings_for,
)
from kubevouch.api.catalog import STORED, VALIDATING_ADMISSION_POLICIES
from kubevouch.client.cache.lister import Lister
from kubevouch.client.interface import Client
from kubevouch.controllers.controller import QueueController
from kubevouch.controllers.interface import DONE, Context, IgnorableError, Request, Result, request_of
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.scheme import GroupVersion, GroupVersionKind, Resource
from kubevouch.util.worker import elsewhere

NAME = wellknown.VALIDATING_ADMISSION_POLICY_STATUS_CONTROLLER


class PolicyChecker:
    """Looks at each generation of a policy once."""

    def __init__(
        self, client: Client, policies: Lister[ValidatingAdmissionPolicy], served: Sequence[Resource[Any]]
    ) -> None:
        self._client = client
        self._policies = policies
        self._served = served

    async def reconcile(self, request: Request) -> Result:
        policy = self._policies.get(request.name)
        if policy is None or policy.metadata.generation <= policy.status.observed_generation:
            return DONE
        custom = await self._custom_kinds(policy.spec)
        # Each expression is compiled for each of up to ten kinds.
        warnings = await elsewhere(lambda: warnings_for(policy.spec, [*self._served, *custom]))
        status = msgspec.structs.replace(
            policy.status,
            observed_generation=policy.metadata.generation,
            type_checking=TypeChecking(expression_warnings=warnings),
        )
        checked = msgspec.structs.replace(policy, status=status)
        try:
            await self._client.update(VALIDATING_ADMISSION_POLICIES, checked, subresource="status")
        except APIStatusError as err:
            if err.code in (404, 409):
                raise IgnorableError(str(err)) from err
            raise
        return DONE

    async def _custom_kinds(self, spec: ValidatingAdmissionPolicySpec) -> list[CustomKind]:
        """Those that the policy names and the server describes."""
        built_in = {GroupVersion(each.group, each.version) for each in self._served}
        found: list[CustomKind] = []
        for version in [each for each in versions_in_question(spec) if each not in built_in][:MAX_TYPES]:
            listed = await self._client.raw("GET", f"/apis/{version.group}/{version.version}")
            described = await self._client.raw("GET", f"/openapi/v3/apis/{version.group}/{version.version}")
            if listed.status == described.status == HTTPStatus.OK:
                found += await elsewhere(partial(_kinds, version, listed.body, described.body))
        return found


def _kinds(version: GroupVersion, listed: bytes, described: bytes) -> list[CustomKind]:
    """The kinds of a version of a group, by its discovery and its OpenAPI document."""
    schemas = msgspec.json.decode(described)["components"]["schemas"].values()
    found = []
    for each in msgspec.json.decode(listed)["resources"]:
        gvk = GroupVersionKind(version.group, version.version, each["kind"])
        marks = [{"group": gvk.group, "version": gvk.version, "kind": gvk.kind}]
        tree = next((tree for tree in schemas if tree.get("x-kubernetes-group-version-kind") == marks), None)
        if tree is not None and "/" not in each["name"]:
            found.append(custom_kind(gvk, each["name"], tree))
    return found


def _one(policy: ValidatingAdmissionPolicy) -> Iterable[Request]:
    return [request_of(policy)]


def build(context: Context) -> QueueController:
    client = context.connect(NAME)
    policies = context.informers.informer(VALIDATING_ADMISSION_POLICIES, client=client)
    checker = PolicyChecker(client, policies.lister, context.resources or STORED)
    controller = QueueController(NAME, checker, context.clock)
    controller.watch(policies, on_add=_one, on_update=_one)
    return controller
