"""What webhooks and policies have in common: which requests they are about."""

from __future__ import annotations

from typing import Annotated, TypeVar

import msgspec

from kubevouch.machinery.declaration import Struct, always, whole, wire
from kubevouch.machinery.meta import LabelSelector

ANY = "*"
CLUSTER, NAMESPACED = "Cluster", "Namespaced"
SCOPES = (ANY, CLUSTER, NAMESPACED)
OPERATIONS = (ANY, "CONNECT", "CREATE", "DELETE", "UPDATE")
FAIL, IGNORE = "Fail", "Ignore"
FAILURE_POLICIES = (FAIL, IGNORE)
EQUIVALENT, EXACT = "Equivalent", "Exact"
MATCH_POLICIES = (EQUIVALENT, EXACT)
MAX_MATCH_CONDITIONS = 64

T = TypeVar("T")

_GROUPS = "API groups; * is all."
_VERSIONS = "API versions; * is all."
_RESOURCES = "Resources: pods, pods/log, pods/*, */log, * without subresources, */* with them."
_SCOPE = "Cluster, Namespaced or * for both."
_OPERATIONS = "CREATE, UPDATE, DELETE, CONNECT, or * for all."


class RuleWithOperations(Struct):
    """Requests, by what they do and to which resources."""

    operations: Annotated[list[str], wire(1, _OPERATIONS, list_type="atomic", enum=OPERATIONS)] = []
    api_groups: Annotated[list[str], wire(1, _GROUPS, list_type="atomic", inside=(2,))] = []
    api_versions: Annotated[list[str], wire(2, _VERSIONS, list_type="atomic", inside=(2,))] = []
    resources: Annotated[list[str], wire(3, _RESOURCES, list_type="atomic", inside=(2,))] = []
    scope: Annotated[str | None, wire(4, _SCOPE, inside=(2,), enum=SCOPES)] = None


@whole
class NamedRuleWithOperations(Struct):
    """Requests, by what they do, to which resources and to objects of which names."""

    resource_names: Annotated[list[str], wire(1, "Names of objects; empty is all.", list_type="atomic")] = []
    operations: Annotated[list[str], wire(1, _OPERATIONS, list_type="atomic", inside=(2,), enum=OPERATIONS)] = []
    api_groups: Annotated[list[str], wire(1, _GROUPS, list_type="atomic", inside=(2, 2))] = []
    api_versions: Annotated[list[str], wire(2, _VERSIONS, list_type="atomic", inside=(2, 2))] = []
    resources: Annotated[list[str], wire(3, _RESOURCES, list_type="atomic", inside=(2, 2))] = []
    scope: Annotated[str | None, wire(4, _SCOPE, inside=(2, 2), enum=SCOPES)] = None


Rule = RuleWithOperations | NamedRuleWithOperations


class MatchCondition(Struct):
    """An expression that must hold."""

    name: Annotated[str, wire(1, "Names it in logs.", required=True)] = always(str)
    expression: Annotated[
        str, wire(2, "CEL over object, oldObject, request, namespaceObject; a policy's may use params.", required=True)
    ] = always(str)


@whole
class MatchResources(Struct):
    """Requests that a policy or a binding is about."""

    namespace_selector: Annotated[
        LabelSelector | None, wire(1, "Labels of the object's namespace, or of the object if it is one.")
    ] = None
    object_selector: Annotated[LabelSelector | None, wire(2, "Labels of the object, before or after.")] = None
    resource_rules: Annotated[list[NamedRuleWithOperations], wire(3, "One must match.", list_type="atomic")] = []
    exclude_resource_rules: Annotated[
        list[NamedRuleWithOperations], wire(4, "None may match.", list_type="atomic")
    ] = []
    match_policy: Annotated[
        str | None, wire(7, "Exact, or Equivalent: whatever the version of the request.", enum=MATCH_POLICIES)
    ] = None


# ------------------------------------------------------------------ defaults


def default_rule(rule: RuleWithOperations) -> RuleWithOperations:
    return rule if rule.scope is not None else msgspec.structs.replace(rule, scope=ANY)


def default_match_resources(match: MatchResources | None) -> MatchResources | None:
    if match is None:
        return None
    return msgspec.structs.replace(
        match,
        namespace_selector=or_else(match.namespace_selector, LabelSelector()),
        object_selector=or_else(match.object_selector, LabelSelector()),
        resource_rules=[_default_named_rule(rule) for rule in match.resource_rules],
        exclude_resource_rules=[_default_named_rule(rule) for rule in match.exclude_resource_rules],
        match_policy=or_else(match.match_policy, EQUIVALENT),
    )


def _default_named_rule(rule: NamedRuleWithOperations) -> NamedRuleWithOperations:
    return rule if rule.scope is not None else msgspec.structs.replace(rule, scope=ANY)


def or_else(value: T | None, default: T) -> T:
    """A pointer's value, or what it stands for when it is not set."""
    return default if value is None else value
