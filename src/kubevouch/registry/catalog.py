"""Which stored resources exist, in discovery's order of groups."""

from __future__ import annotations

from typing import Any

from kubevouch.authorization.interface import Authorizer
from kubevouch.authorization.param_access import ParamAccess
from kubevouch.authorization.rbac_escalation import EscalationGuard
from kubevouch.registry import empty_kinds
from kubevouch.registry.admissionregistration import (
    mutatingadmissionpolicies,
    policybindings,
    validatingadmissionpolicies,
    webhookconfigurations,
)
from kubevouch.registry.apiextensions import customresourcedefinitions
from kubevouch.registry.certificates import certificatesigningrequests, clustertrustbundles, podcertificaterequests
from kubevouch.registry.coordination import leases
from kubevouch.registry.core import (
    configmaps,
    endpoints,
    events,
    namespaces,
    nodes,
    pods,
    quotas,
    secrets,
    serviceaccounts,
    services,
)
from kubevouch.registry.discovery import endpointslices
from kubevouch.registry.interface import Definition
from kubevouch.registry.node import runtimeclasses
from kubevouch.registry.rbac import bindings, roles
from kubevouch.registry.resource import claims, resourceslices
from kubevouch.registry.storage import csidrivers, csinodes


def definitions(
    guard: EscalationGuard,
    access: ParamAccess,
    authorizer: Authorizer,
    requests: Definition[Any] = certificatesigningrequests.DEFINITION,
    happenings: Definition[Any] = events.DEFINITION,
) -> list[Definition[Any]]:
    """All resources; ``guard`` checks writes of RBAC objects, ``access`` those of admission policies.

    Args:
        authorizer: who may sign for a signer of pods' certificates.
        requests: CertificateSigningRequests, as options have them.
        happenings: Events, likewise.
    """
    return [
        configmaps.DEFINITION,
        endpoints.DEFINITION,
        happenings,
        namespaces.DEFINITION,
        nodes.DEFINITION,
        pods.DEFINITION,
        quotas.LIMIT_RANGES,
        quotas.QUOTAS,
        secrets.DEFINITION,
        serviceaccounts.DEFINITION,
        services.DEFINITION,
        requests,
        clustertrustbundles.DEFINITION,
        podcertificaterequests.definition(authorizer),
        bindings.cluster_role_binding_definition(guard),
        roles.cluster_role_definition(guard),
        bindings.role_binding_definition(guard),
        roles.role_definition(guard),
        csidrivers.DEFINITION,
        csinodes.DEFINITION,
        mutatingadmissionpolicies.definition(access),
        policybindings.mutating(access),
        webhookconfigurations.MUTATING,
        validatingadmissionpolicies.definition(access),
        policybindings.validating(access),
        webhookconfigurations.VALIDATING,
        customresourcedefinitions.DEFINITION,
        leases.DEFINITION,
        runtimeclasses.DEFINITION,
        endpointslices.DEFINITION,
        claims.DEVICE_CLASSES,
        claims.RESOURCE_CLAIMS,
        claims.RESOURCE_CLAIM_TEMPLATES,
        resourceslices.DEFINITION,
        *empty_kinds.DEFINITIONS,
    ]
