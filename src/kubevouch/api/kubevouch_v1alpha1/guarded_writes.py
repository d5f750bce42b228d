"""Which writes of a kind an admission policy looks at."""

from __future__ import annotations

from typing import Any

from kubevouch.api.admissionregistration_v1.matching import MatchResources, NamedRuleWithOperations
from kubevouch.machinery.scheme import Resource


def about(resource: Resource[Any], *operations: str) -> MatchResources:
    """Those operations on objects of the resource, in every version of it; not on its subresources."""
    rule = NamedRuleWithOperations(
        operations=list(operations), api_groups=[resource.group], api_versions=["*"], resources=[resource.plural]
    )
    return MatchResources(resource_rules=[rule])
