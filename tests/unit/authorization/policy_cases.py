"""What the cases of tests/vectors/server.jsonl say in shorthand: users, roles, requests."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

from decisions import rbac_policy
from kubevouch.api import rbac_v1
from kubevouch.api.rbac_v1 import ClusterRole, ClusterRoleBinding, Role, RoleBinding
from kubevouch.authentication.interface import UserInfo
from kubevouch.authorization.bootstrap_policy import bootstrap_policy, node_rules
from kubevouch.authorization.interface import Attributes
from kubevouch.authorization.node import NodeAuthorizer
from kubevouch.authorization.policy import Policy
from kubevouch.authorization.privileged_group import PrivilegedGroupAuthorizer
from kubevouch.authorization.rbac import RBACAuthorizer, RBACPolicy
from kubevouch.authorization.union import UnionAuthorizer
from kubevouch.machinery.codec import json_codec
from kubevouch.server.query import Query
from kubevouch.server.request_info import parse

VECTORS = Path(__file__).parents[2] / "vectors"

_GROUPS = {
    "clusterroles": rbac_v1.GROUP,
    "clusterrolebindings": rbac_v1.GROUP,
    "roles": rbac_v1.GROUP,
    "rolebindings": rbac_v1.GROUP,
    "leases": "coordination.k8s.io",
    "uids": "authentication.k8s.io",
    "userextras": "authentication.k8s.io",
    **dict.fromkeys(("configmaps", "secrets", "nodes", "namespaces", "serviceaccounts", "users", "groups"), ""),
}
_SHORTHAND = re.compile(r"(\S+) ([^\s,]+)(?: in (\S+))?(?:, no resourceNames| names \[(.*)\]| (\S+))?", re.ASCII)


@cache
def cases(*areas: str) -> tuple[dict[str, Any], ...]:
    lines = (VECTORS / "server.jsonl").read_text().splitlines()
    return tuple(case for case in map(json.loads, lines) if case["area"] in areas)


def case_named(case_id: str) -> dict[str, Any]:
    lines = (VECTORS / "server.jsonl").read_text().splitlines()
    return next(case for line in lines if (case := json.loads(line))["id"] == case_id)


def user_of(user: dict[str, Any]) -> UserInfo:
    return UserInfo(user["name"], user.get("uid", ""), tuple(user.get("groups", ())))


def rule_of(text: str) -> rbac_v1.PolicyRule:
    """``VERBS RESOURCE[ in GROUP][ NAME | names [A,B] | , no resourceNames]``; csr is certificatesigningrequests."""
    match = _SHORTHAND.fullmatch(text)
    assert match is not None, text
    verbs, resource, group, names, name = match.groups()
    resource = re.sub(r"^csr(?=/|$)", "certificatesigningrequests", resource)
    group = _GROUPS.get(resource.split("/")[0], "certificates.k8s.io") if group is None else group
    listed = [each.strip(' "') for each in names.split(",")] if names else [name] if name else []
    return rbac_v1.PolicyRule(verbs=verbs.split(","), api_groups=[group], resources=[resource], resource_names=listed)


def policy_of(entries: list[Any], user_name: str) -> Policy:
    """The roles and bindings of ``given.rbac``."""
    policy = Policy()
    for index, entry in enumerate(entries):
        if isinstance(entry, dict):
            policy += whole(entry)
        elif entry != "Node authorizer":
            policy += _shorthand(entry, f"case-$TAG-{index}", user_name)
    return policy


def _shorthand(entry: str, name: str, user_name: str) -> Policy:
    roles: list[dict[str, Any]] = []
    role, subject = name, {"kind": "User", "apiGroup": rbac_v1.GROUP, "name": user_name}
    if match := re.fullmatch(r"role\{(.*)\}", entry):
        roles = [{"kind": "ClusterRole", "metadata": {"name": name}, "rules": [json_tree(rule_of(match[1]))]}]
    else:
        match = re.fullmatch(r"(\S+) to group (\S+)", entry)
        assert match is not None, entry
        role, subject = match[1], {"kind": "Group", "apiGroup": rbac_v1.GROUP, "name": match[2]}
    ref = {"apiGroup": rbac_v1.GROUP, "kind": "ClusterRole", "name": role}
    binding: dict[str, Any] = {
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "subjects": [subject],
        "roleRef": ref,
    }
    policy = Policy()
    for tree in (*roles, binding):
        policy += whole(tree)
    return policy


def json_tree(obj: Any) -> Any:
    return json_codec.to_builtins(obj)


def whole(tree: dict[str, Any]) -> Policy:
    """One object, with its defaults."""
    match tree["kind"]:
        case "ClusterRole":
            return Policy(cluster_roles=(json_codec.from_tree(tree, ClusterRole).value,))
        case "Role":
            return Policy(roles=(json_codec.from_tree(tree, Role).value,))
        case "ClusterRoleBinding":
            binding = json_codec.from_tree(tree, ClusterRoleBinding).value
            return Policy(cluster_role_bindings=(rbac_v1.default_binding(binding),))
        case _:
            binding = json_codec.from_tree(tree, RoleBinding).value
            return Policy(role_bindings=(rbac_v1.default_binding(binding),))


def authorizer_of(indexed: RBACPolicy) -> UnionAuthorizer:
    """As kubeadm configures it: Node, RBAC, and before both the privileged group."""
    rbac = RBACAuthorizer(indexed)
    node = NodeAuthorizer(node_rules())
    return UnionAuthorizer([PrivilegedGroupAuthorizer(), node, rbac], [node, rbac])


def authorizer_for(case: dict[str, Any]) -> UnionAuthorizer:
    return authorizer_of(indexed_for(case))


def indexed_for(case: dict[str, Any]) -> RBACPolicy:
    given = case["given"]
    name = given.get("user", {}).get("name", "")
    return rbac_policy(bootstrap_policy() + policy_of(given.get("rbac", []), name))


def attributes_of(user: UserInfo, when: dict[str, Any]) -> Attributes:
    """What the server asks the authorizer for a request."""
    info = parse(when["method"], when["path"], Query(when.get("query", "")))
    if not info.is_resource:
        return Attributes(user, info.verb, path=info.path)
    return Attributes(
        user, info.verb, info.group, info.version, info.resource, info.subresource, info.namespace, info.name,
        field_selector=info.field_selector, label_selector=info.label_selector,
    )  # fmt: skip
