"""Random policies and requests, over few enough words that they often meet."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from kubevouch.api.rbac_v1 import (
    GROUP,
    ClusterRole,
    ClusterRoleBinding,
    PolicyRule,
    Role,
    RoleBinding,
    RoleRef,
    Subject,
)
from kubevouch.authentication.interface import UserInfo
from kubevouch.authorization.interface import Attributes
from kubevouch.machinery.meta import ObjectMeta

VERBS = ("get", "list", "create", "approve")
API_GROUPS = ("", "certificates.k8s.io")
RESOURCES = ("secrets", "nodes", "signers")
SUBRESOURCES = ("", "status", "token")
NAMES = ("", "a", "b", "example.com/*")
NAMESPACES = ("", "default", "kube-system")
URLS = ("/", "/api", "/apis", "/healthz", "/healthz/etcd", "/metrics")
USERS = ("alice", "bob", "system:serviceaccount:default:robot", "system:serviceaccount:kube-system:robot")
GROUPS = ("devs", "ops", "system:authenticated")
ROLE_NAMES = ("r1", "r2", "r3")
BINDING_NAMES = ("b1", "b2", "b3", "b4")


def some(words: Sequence[str], *, least: int = 1) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(words), min_size=least, max_size=3)


resource_rules = st.builds(
    PolicyRule,
    verbs=some((*VERBS, "*")),
    api_groups=some((*API_GROUPS, "*")),
    resources=some((*RESOURCES, "nodes/status", "secrets/token", "*/status", "nodes/*", "*")),
    resource_names=some(NAMES, least=0),
)
url_rules = st.builds(
    PolicyRule,
    verbs=some((*VERBS, "*")),
    non_resource_urls=some((*URLS, "*", "/api*", "/healthz/*", "/met**")),
)
rules = st.one_of(resource_rules, resource_rules, url_rules)
rule_lists = st.lists(rules, max_size=4)

cluster_roles = st.builds(
    lambda name, found: ClusterRole(metadata=ObjectMeta(name=name), rules=found),
    st.sampled_from(ROLE_NAMES),
    rule_lists,
)
roles = st.builds(
    lambda namespace, name, found: Role(metadata=ObjectMeta(namespace=namespace, name=name), rules=found),
    st.sampled_from(NAMESPACES[1:]),
    st.sampled_from(ROLE_NAMES),
    rule_lists,
)

subjects = st.one_of(
    st.builds(lambda name: Subject(kind="User", api_group=GROUP, name=name), st.sampled_from(USERS)),
    st.builds(lambda name: Subject(kind="Group", api_group=GROUP, name=name), st.sampled_from(GROUPS)),
    st.builds(
        lambda namespace: Subject(kind="ServiceAccount", name="robot", namespace=namespace), st.sampled_from(NAMESPACES)
    ),
)


def _refs(kinds: Sequence[str]) -> st.SearchStrategy[RoleRef]:
    return st.builds(
        lambda kind, name: RoleRef(api_group=GROUP, kind=kind, name=name),
        st.sampled_from(kinds),
        st.sampled_from((*ROLE_NAMES, "missing")),
    )


cluster_role_bindings = st.builds(
    lambda name, found, ref: ClusterRoleBinding(metadata=ObjectMeta(name=name), subjects=found, role_ref=ref),
    st.sampled_from(BINDING_NAMES),
    st.lists(subjects, max_size=3),
    _refs(("ClusterRole",)),
)
role_bindings = st.builds(
    lambda namespace, name, found, ref: RoleBinding(
        metadata=ObjectMeta(namespace=namespace, name=name), subjects=found, role_ref=ref
    ),
    st.sampled_from(NAMESPACES[1:]),
    st.sampled_from(BINDING_NAMES),
    st.lists(subjects, max_size=3),
    _refs(("ClusterRole", "Role")),
)

users = st.builds(
    lambda name, groups: UserInfo(name, groups=tuple(groups)), st.sampled_from(USERS), some(GROUPS, least=0)
)
resource_requests = st.builds(
    Attributes,
    user=users,
    verb=st.sampled_from(VERBS),
    group=st.sampled_from(API_GROUPS),
    resource=st.sampled_from(RESOURCES),
    subresource=st.sampled_from(SUBRESOURCES),
    namespace=st.sampled_from(NAMESPACES),
    name=st.sampled_from(NAMES),
)
url_requests = st.builds(Attributes, user=users, verb=st.sampled_from(VERBS), path=st.sampled_from(URLS))
requests = st.one_of(resource_requests, resource_requests, url_requests)


def rule_allows(rule: PolicyRule, asked: Attributes) -> bool:
    """The matching rules of RBAC, one list at a time."""
    if not {"*", asked.verb} & set(rule.verbs or ()):
        return False
    if asked.path:
        return any(
            url == asked.path or (url.endswith("*") and asked.path.startswith(url.rstrip("*")))
            for url in rule.non_resource_urls
        )
    if not {"*", asked.group} & set(rule.api_groups):
        return False
    if asked.subresource:
        accepted = {"*", f"{asked.resource}/{asked.subresource}", f"*/{asked.subresource}"}
    else:
        accepted = {"*", asked.resource}
    if not accepted & set(rule.resources):
        return False
    return not rule.resource_names or asked.name in rule.resource_names
