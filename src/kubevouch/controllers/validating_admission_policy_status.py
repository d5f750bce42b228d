"""validatingadmissionpolicy-status-controller: says in a policy's status what is doubtful about its expressions.

Source: pkg/controller/validatingadmissionpolicystatus/controller.go (Kubernetes 1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from kubevouch import wellknown
from kubevouch.api.admissionregistration_v1.policies import TypeChecking, ValidatingAdmissionPolicy
from kubevouch.api.admissionregistration_v1.type_checking import warnings_for
from kubevouch.api.catalog import STORED, VALIDATING_ADMISSION_POLICIES
from kubevouch.client.cache.lister import Lister
from kubevouch.client.interface import Client
from kubevouch.controllers.controller import QueueController
from kubevouch.controllers.interface import DONE, Context, IgnorableError, Request, Result, request_of
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.scheme import Resource
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
        # Each expression is compiled for each of up to ten kinds.
        warnings = await elsewhere(lambda: warnings_for(policy.spec, self._served))
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


def _one(policy: ValidatingAdmissionPolicy) -> Iterable[Request]:
    return [request_of(policy)]


def build(context: Context) -> QueueController:
    client = context.connect(NAME)
    policies = context.informers.informer(VALIDATING_ADMISSION_POLICIES, client=client)
    checker = PolicyChecker(client, policies.lister, context.resources or STORED)
    controller = QueueController(NAME, checker, context.clock)
    controller.watch(policies, on_add=_one, on_update=_one)
    return controller
