"""rbac.authorization.k8s.io/v1: roles and their bindings.

Source: k8s.io/api/rbac/v1, pkg/apis/rbac/validation, pkg/apis/rbac/v1/defaults.go (Kubernetes 1.36).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, TypeVar

import msgspec

from kubevouch.api.meta_v1 import validate_label_selector
from kubevouch.machinery import field
from kubevouch.machinery.declaration import Struct, always, named, null, whole, wire
from kubevouch.machinery.field import FieldError
from kubevouch.machinery.meta import LabelSelector, Object
from kubevouch.machinery.text import names

GROUP = "rbac.authorization.k8s.io"

SERVICE_ACCOUNT_KIND = "ServiceAccount"
USER_KIND = "User"
GROUP_KIND = "Group"
ROLE_KIND = "Role"
CLUSTER_ROLE_KIND = "ClusterRole"

ALL = "*"


class PolicyRule(Struct):
    """What may be done to which resources or URLs."""

    verbs: Annotated[
        list[str] | None, wire(1, "The verbs that are allowed; * is all.", required=True, list_type="atomic")
    ] = null()
    api_groups: Annotated[list[str], wire(2, "Groups of the resources; * is all.", list_type="atomic")] = []
    resources: Annotated[list[str], wire(3, "Resources, or resource/subresource; * is all.", list_type="atomic")] = []
    resource_names: Annotated[
        list[str], wire(4, "Names of the objects; an empty list allows all.", list_type="atomic")
    ] = []
    non_resource_urls: Annotated[
        list[str],
        wire(5, "URL paths that are no resources; a final * stands for any rest.", list_type="atomic"),
    ] = named("nonResourceURLs", [])


class AggregationRule(Struct):
    """Of which other roles a ClusterRole is made."""

    cluster_role_selectors: Annotated[
        list[LabelSelector], wire(1, "Roles that match any of these are taken in.", list_type="atomic")
    ] = []


class Role(Object):
    """Rules that a RoleBinding of the same namespace can grant."""

    rules: Annotated[list[PolicyRule] | None, wire(2, "What the role allows.", list_type="atomic")] = null()


class ClusterRole(Object):
    """Rules that any binding can grant."""

    rules: Annotated[list[PolicyRule] | None, wire(2, "What the role allows.", list_type="atomic")] = null()
    aggregation_rule: Annotated[
        AggregationRule | None, wire(3, "If set, a controller writes the rules of other roles here.")
    ] = None


@whole
class Subject(Struct):
    """A user, a group or a service account."""

    kind: Annotated[str, wire(1, "User, Group or ServiceAccount.", required=True)] = always(str)
    api_group: Annotated[str, wire(2, "Group of the kind; filled in when it is left out.")] = ""
    name: Annotated[str, wire(3, "Its name.", required=True)] = always(str)
    namespace: Annotated[str, wire(4, "Namespace of a service account.")] = ""


@whole
class RoleRef(Struct):
    """The role that a binding grants."""

    api_group: Annotated[str, wire(1, "Group of the role.", required=True)] = always(str)
    kind: Annotated[str, wire(2, "Role or ClusterRole.", required=True)] = always(str)
    name: Annotated[str, wire(3, "Name of the role.", required=True)] = always(str)


class RoleBinding(Object):
    """Grants a role to subjects within one namespace."""

    subjects: Annotated[list[Subject], wire(2, "Who gets the role.", list_type="atomic")] = []
    role_ref: Annotated[RoleRef, wire(3, "The role; cannot change.", required=True)] = always(RoleRef)


class ClusterRoleBinding(Object):
    """Grants a ClusterRole to subjects everywhere."""

    subjects: Annotated[list[Subject], wire(2, "Who gets the role.", list_type="atomic")] = []
    role_ref: Annotated[RoleRef, wire(3, "The role; cannot change.", required=True)] = always(RoleRef)


B = TypeVar("B", RoleBinding, ClusterRoleBinding)


class _RoleRef(msgspec.Struct):
    """Kubernetes' internal type, whose Go field names stand in messages."""

    APIGroup: str
    Kind: str
    Name: str


# ------------------------------------------------------------------ defaults


def default_binding(binding: B) -> B:
    """The groups of the role and of its subjects are this API group where they are left out."""
    if not binding.role_ref.api_group:
        binding = msgspec.structs.replace(binding, role_ref=msgspec.structs.replace(binding.role_ref, api_group=GROUP))
    if any(_lacks_group(subject) for subject in binding.subjects):
        subjects = [
            msgspec.structs.replace(subject, api_group=GROUP) if _lacks_group(subject) else subject
            for subject in binding.subjects
        ]
        binding = msgspec.structs.replace(binding, subjects=subjects)
    return binding


def _lacks_group(subject: Subject) -> bool:
    return not subject.api_group and subject.kind in (USER_KIND, GROUP_KIND)


# ------------------------------------------------------------------ validation

# Of a role. Kubernetes' largest, admin, grants a thousand; one that is made of two hundred others has ten thousand.
MAX_COMBINATIONS = 50_000


def validate_role(role: Role) -> list[FieldError]:
    """What is wrong with a Role, metadata apart."""
    return _rules_errors(role.rules or [], namespaced=True)


def validate_role_update(new: Role, _old: Role) -> list[FieldError]:
    """What is wrong with a change of a Role, metadata apart."""
    return validate_role(new)


def validate_cluster_role(role: ClusterRole) -> list[FieldError]:
    """What is wrong with a ClusterRole, metadata apart."""
    return _cluster_role_errors(role, tolerate_label_values=False)


def validate_cluster_role_update(new: ClusterRole, old: ClusterRole) -> list[FieldError]:
    """What is wrong with a change of a ClusterRole, metadata apart. Bad label values may stay where they are stored."""
    stored = old.aggregation_rule.cluster_role_selectors if old.aggregation_rule else []
    tolerate = any(
        names.label_value(value)
        for selector in stored
        for requirement in selector.match_expressions
        for value in requirement.values
    )
    return _cluster_role_errors(new, tolerate_label_values=tolerate)


def _cluster_role_errors(role: ClusterRole, *, tolerate_label_values: bool) -> list[FieldError]:
    errors = _rules_errors(role.rules or [], namespaced=False)
    if role.aggregation_rule is None:
        return errors
    path = "aggregationRule.clusterRoleSelectors"
    selectors = role.aggregation_rule.cluster_role_selectors
    if not selectors:
        errors.append(field.required(path, "at least one clusterRoleSelector required if aggregationRule is non-nil"))
    for index, selector in enumerate(selectors):
        errors += validate_label_selector(selector, f"{path}[{index}]", tolerate_label_values=tolerate_label_values)
    return errors


def combinations(rules: Iterable[PolicyRule]) -> int:
    """How many single rights the rules grant: of one verb on one resource, name or URL each."""
    return sum(
        len(rule.verbs or ())
        * (len(rule.api_groups) * len(rule.resources) * max(len(rule.resource_names), 1) + len(rule.non_resource_urls))
        for rule in rules
    )


def combination_errors(rules: Iterable[PolicyRule]) -> list[FieldError]:
    """The bound is our own: a body of 2 KB has room for a hundred million rights, each of which is compared."""
    found = combinations(rules)
    return [field.too_many("rules", found, MAX_COMBINATIONS)] if found > MAX_COMBINATIONS else []


def _rules_errors(rules: list[PolicyRule], *, namespaced: bool) -> list[FieldError]:
    too_many = combination_errors(rules)
    if too_many:
        return too_many
    return [error for index, rule in enumerate(rules) for error in _rule_errors(rule, f"rules[{index}]", namespaced)]


def _rule_errors(rule: PolicyRule, path: str, namespaced: bool) -> list[FieldError]:
    errors = []
    if not rule.verbs:
        errors.append(field.required(f"{path}.verbs", "verbs must contain at least one value"))
    if rule.non_resource_urls:
        urls_path = f"{path}.nonResourceURLs"
        if namespaced:
            errors.append(
                field.invalid(urls_path, rule.non_resource_urls, "namespaced rules cannot apply to non-resource URLs")
            )
        if rule.api_groups or rule.resources or rule.resource_names:
            errors.append(
                field.invalid(
                    urls_path,
                    rule.non_resource_urls,
                    "rules cannot apply to both regular resources and non-resource URLs",
                )
            )
        return errors
    if not rule.api_groups:
        errors.append(field.required(f"{path}.apiGroups", "resource rules must supply at least one api group"))
    if not rule.resources:
        errors.append(field.required(f"{path}.resources", "resource rules must supply at least one resource"))
    return errors


def validate_role_binding(binding: RoleBinding) -> list[FieldError]:
    """What is wrong with a RoleBinding, metadata apart."""
    return _binding_errors(binding, (ROLE_KIND, CLUSTER_ROLE_KIND), namespaced=True)


def validate_cluster_role_binding(binding: ClusterRoleBinding) -> list[FieldError]:
    """What is wrong with a ClusterRoleBinding, metadata apart."""
    return _binding_errors(binding, (CLUSTER_ROLE_KIND,), namespaced=False)


def _binding_errors(
    binding: RoleBinding | ClusterRoleBinding, kinds: tuple[str, ...], *, namespaced: bool
) -> list[FieldError]:
    role = binding.role_ref
    errors = []
    if role.api_group != GROUP:
        errors.append(field.not_supported("roleRef.apiGroup", role.api_group, (GROUP,)))
    if role.kind not in kinds:
        errors.append(field.not_supported("roleRef.kind", role.kind, kinds))
    if role.name:
        errors += (
            field.invalid("roleRef.name", role.name, message) for message in names.path_segment_name(role.name, False)
        )
    else:
        errors.append(field.required("roleRef.name"))
    for index, subject in enumerate(binding.subjects):
        errors += _subject_errors(subject, f"subjects[{index}]", namespaced)
    return errors


def _subject_errors(subject: Subject, path: str, namespaced: bool) -> list[FieldError]:
    errors = [] if subject.name else [field.required(f"{path}.name")]
    if subject.kind == SERVICE_ACCOUNT_KIND:
        if subject.name:
            errors += (
                field.invalid(f"{path}.name", subject.name, message) for message in names.subdomain(subject.name)
            )
        if subject.api_group:
            errors.append(field.not_supported(f"{path}.apiGroup", subject.api_group, ("",)))
        if not namespaced and not subject.namespace:
            errors.append(field.required(f"{path}.namespace"))
    elif subject.kind in (USER_KIND, GROUP_KIND):
        if subject.api_group != GROUP:
            errors.append(field.not_supported(f"{path}.apiGroup", subject.api_group, (GROUP,)))
    else:
        kinds = (SERVICE_ACCOUNT_KIND, USER_KIND, GROUP_KIND)
        errors.append(field.not_supported(f"{path}.kind", subject.kind, kinds))
    return errors


def validate_role_binding_update(new: RoleBinding, old: RoleBinding) -> list[FieldError]:
    """What is wrong with a change of a RoleBinding, metadata apart."""
    return validate_role_binding(new) + _frozen_role_errors(new, old)


def validate_cluster_role_binding_update(new: ClusterRoleBinding, old: ClusterRoleBinding) -> list[FieldError]:
    """What is wrong with a change of a ClusterRoleBinding, metadata apart."""
    return validate_cluster_role_binding(new) + _frozen_role_errors(new, old)


def _frozen_role_errors(new: B, old: B) -> list[FieldError]:
    if new.role_ref == old.role_ref:
        return []
    shown = _RoleRef(new.role_ref.api_group, new.role_ref.kind, new.role_ref.name)
    return [field.invalid("roleRef", shown, "cannot change roleRef")]
