"""A set of roles and bindings that ships with the program, and the words in which it is written down."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import msgspec

from kubevouch.api.rbac_v1 import (
    CLUSTER_ROLE_KIND,
    GROUP,
    GROUP_KIND,
    ROLE_KIND,
    SERVICE_ACCOUNT_KIND,
    USER_KIND,
    AggregationRule,
    ClusterRole,
    ClusterRoleBinding,
    PolicyRule,
    Role,
    RoleBinding,
    RoleRef,
    Subject,
)
from kubevouch.machinery.meta import LabelSelector, Object, ObjectMeta, replace_metadata
from kubevouch.wellknown import (
    AUTOUPDATE_ANNOTATION,
    BOOTSTRAPPING_LABEL,
    KUBE_SYSTEM_NAMESPACE,
    RBAC_DEFAULTS,
)

T = TypeVar("T", bound=Object)


class Policy(msgspec.Struct, frozen=True):
    """Roles and bindings. Each object is what is to be created where it does not exist yet."""

    cluster_roles: tuple[ClusterRole, ...] = ()
    cluster_role_bindings: tuple[ClusterRoleBinding, ...] = ()
    roles: tuple[Role, ...] = ()
    role_bindings: tuple[RoleBinding, ...] = ()

    def __add__(self, other: Policy) -> Policy:
        return Policy(
            self.cluster_roles + other.cluster_roles,
            self.cluster_role_bindings + other.cluster_role_bindings,
            self.roles + other.roles,
            self.role_bindings + other.role_bindings,
        )

    @property
    def every_role(self) -> tuple[Role | ClusterRole, ...]:
        return (*self.cluster_roles, *self.roles)

    @property
    def every_binding(self) -> tuple[RoleBinding | ClusterRoleBinding, ...]:
        return (*self.cluster_role_bindings, *self.role_bindings)

    def unmarked(self) -> Policy:
        """Without the label and the annotation of the objects that the API server keeps complete."""
        return Policy(
            _unmarked(self.cluster_roles),
            _unmarked(self.cluster_role_bindings),
            _unmarked(self.roles),
            _unmarked(self.role_bindings),
        )


def _unmarked(objects: tuple[T, ...]) -> tuple[T, ...]:
    return tuple(replace_metadata(obj, labels={}, annotations={}) for obj in objects)


# ------------------------------------------------------------------ rules


def rule(verbs: str, group: str, resources: str, names: Iterable[str] = ()) -> PolicyRule:
    """Verbs and resources stand apart by blanks, the core group is an empty text. All are sorted, as in Kubernetes."""
    return PolicyRule(
        verbs=sorted(verbs.split()),
        api_groups=[group],
        resources=sorted(resources.split()),
        resource_names=sorted(names),
    )


def path_rule(urls: str) -> PolicyRule:
    """Reading of URL paths, given apart by blanks."""
    return PolicyRule(verbs=["get"], non_resource_urls=sorted(urls.split()))


EVENTS = PolicyRule(verbs=["create", "patch", "update"], api_groups=["", "events.k8s.io"], resources=["events"])
"""To write events, in both of their groups."""


# ------------------------------------------------------------------ subjects


def user(name: str) -> Subject:
    return Subject(kind=USER_KIND, api_group=GROUP, name=name)


def group(name: str) -> Subject:
    return Subject(kind=GROUP_KIND, api_group=GROUP, name=name)


def service_account(name: str) -> Subject:
    """A service account of ``kube-system``."""
    return Subject(kind=SERVICE_ACCOUNT_KIND, name=name, namespace=KUBE_SYSTEM_NAMESPACE)


# ------------------------------------------------------------------ objects that the server keeps complete


def _metadata(name: str, namespace: str = "", labels: dict[str, str] | None = None) -> ObjectMeta:
    return ObjectMeta(
        name=name,
        namespace=namespace,
        labels={BOOTSTRAPPING_LABEL: RBAC_DEFAULTS} | (labels or {}),
        annotations={AUTOUPDATE_ANNOTATION: "true"},
    )


def cluster_role(name: str, *rules: PolicyRule, labels: dict[str, str] | None = None) -> ClusterRole:
    return ClusterRole(metadata=_metadata(name, labels=labels), rules=list(rules))


def aggregated_cluster_role(name: str, label: str, labels: dict[str, str] | None = None) -> ClusterRole:
    """A ClusterRole that a controller makes of those that carry ``label``."""
    selector = LabelSelector(match_labels={label: "true"})
    return ClusterRole(
        metadata=_metadata(name, labels=labels),
        aggregation_rule=AggregationRule(cluster_role_selectors=[selector]),
    )


def cluster_role_binding(name: str, *subjects: Subject, role: str = "") -> ClusterRoleBinding:
    """Binds the ClusterRole of the same name unless ``role`` names another."""
    ref = RoleRef(api_group=GROUP, kind=CLUSTER_ROLE_KIND, name=role or name)
    return ClusterRoleBinding(metadata=_metadata(name), subjects=list(subjects), role_ref=ref)


def namespaced_role(namespace: str, name: str, *rules: PolicyRule) -> Role:
    return Role(metadata=_metadata(name, namespace), rules=list(rules))


def role_binding(namespace: str, name: str, *subjects: Subject, role: str = "") -> RoleBinding:
    """Binds the Role of the same name in the same namespace unless ``role`` names another."""
    ref = RoleRef(api_group=GROUP, kind=ROLE_KIND, name=role or name)
    return RoleBinding(metadata=_metadata(name, namespace), subjects=list(subjects), role_ref=ref)
