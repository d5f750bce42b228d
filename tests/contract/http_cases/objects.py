"""Where objects go, and the shorthand in which cases give roles."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

Tree = dict[str, Any]

RBAC_GROUP = "rbac.authorization.k8s.io"
CERTIFICATES_GROUP = "certificates.k8s.io"

_RBAC = f"{RBAC_GROUP}/v1"
_ADMISSION = "admissionregistration.k8s.io/v1"
Place = tuple[str, str, bool]
# kind -> apiVersion, plural, whether it is namespaced
KINDS: dict[str, Place] = {
    "CertificateSigningRequest": (f"{CERTIFICATES_GROUP}/v1", "certificatesigningrequests", False),
    "Namespace": ("v1", "namespaces", False),
    "Node": ("v1", "nodes", False),
    "Secret": ("v1", "secrets", True),
    "ConfigMap": ("v1", "configmaps", True),
    "Event": ("v1", "events", True),
    "ServiceAccount": ("v1", "serviceaccounts", True),
    "Pod": ("v1", "pods", True),
    "Service": ("v1", "services", True),
    "Lease": ("coordination.k8s.io/v1", "leases", True),
    "Role": (_RBAC, "roles", True),
    "RoleBinding": (_RBAC, "rolebindings", True),
    "ClusterRole": (_RBAC, "clusterroles", False),
    "ClusterRoleBinding": (_RBAC, "clusterrolebindings", False),
    "CustomResourceDefinition": ("apiextensions.k8s.io/v1", "customresourcedefinitions", False),
    "ValidatingAdmissionPolicy": (_ADMISSION, "validatingadmissionpolicies", False),
    "ValidatingAdmissionPolicyBinding": (_ADMISSION, "validatingadmissionpolicybindings", False),
    "MutatingAdmissionPolicy": (_ADMISSION, "mutatingadmissionpolicies", False),
    "MutatingAdmissionPolicyBinding": (_ADMISSION, "mutatingadmissionpolicybindings", False),
}

_GROUPS = {
    **dict.fromkeys(("clusterroles", "clusterrolebindings", "roles", "rolebindings"), RBAC_GROUP),
    **dict.fromkeys(("configmaps", "secrets", "nodes", "namespaces", "serviceaccounts", "users", "groups"), ""),
    **dict.fromkeys(("uids", "userextras"), "authentication.k8s.io"),
    "leases": "coordination.k8s.io",
}
_RULE = re.compile(r"(\S+) ([^\s,]+)(?: in (\S+))?(?:, no resourceNames| names \[(.*)\]| (\S+))?")


def place(obj: Tree, own: Mapping[str, Place]) -> tuple[str, str]:
    """The paths of the object's collection and of the object, which may be of a kind of the case's ``own``."""
    version, plural, namespaced = KINDS.get(obj["kind"]) or own[obj["kind"]]
    version = obj.get("apiVersion", version)
    root = ("/apis/" if "/" in version else "/api/") + version
    if namespaced:
        root += "/namespaces/" + obj["metadata"].get("namespace", "default")
    return f"{root}/{plural}", f"{root}/{plural}/{quote(obj['metadata'].get('name', ''), safe='')}"


def role_rule(text: str) -> Tree:
    """``VERBS RESOURCE[ in GROUP][ NAME | names [A,B] | , no resourceNames]``; csr is certificatesigningrequests."""
    found = _RULE.fullmatch(text)
    if found is None:
        raise ValueError(f"unknown rule shorthand {text!r}")
    verbs, resource, group, listed, name = found.groups()
    resource = re.sub(r"^csr(?=/|$)", "certificatesigningrequests", resource)
    group = group if group is not None else _GROUPS.get(resource.split("/")[0], CERTIFICATES_GROUP)
    rule: Tree = {"apiGroups": [group], "resources": [resource], "verbs": verbs.split(",")}
    names = [each.strip(' "') for each in listed.split(",")] if listed else [name] if name else []
    return {**rule, "resourceNames": names} if names else rule


def rbac_objects(entries: list[Any], user: Tree | None, tag: str) -> list[Tree]:
    """``given.rbac`` as objects: whole ones as they are, ``role{…}`` for the user, ``ROLE to group G``."""
    objects: list[Tree] = []
    for number, entry in enumerate(entries):
        if isinstance(entry, dict):
            objects.append(entry)
            continue
        if entry == "Node authorizer":  # a setting of the server
            continue
        name = f"case-{tag}-{number}"
        role, subject = name, {"kind": "User", "apiGroup": RBAC_GROUP, "name": (user or {}).get("name", "")}
        if found := re.fullmatch(r"role\{(.*)\}", entry):
            objects.append({"kind": "ClusterRole", "metadata": {"name": name}, "rules": [role_rule(found.group(1))]})
        elif found := re.fullmatch(r"(\S+) to group (\S+)", entry):
            role, subject = found.group(1), {"kind": "Group", "apiGroup": RBAC_GROUP, "name": found.group(2)}
        else:
            raise ValueError(f"unknown rbac shorthand {entry!r}")
        objects.append(binding("ClusterRole", role, name, subject))
    return objects


def binding(role_kind: str, role: str, name: str, subject: Tree) -> Tree:
    return {
        "kind": f"{role_kind}Binding",
        "metadata": {"name": name},
        "subjects": [subject],
        "roleRef": {"apiGroup": RBAC_GROUP, "kind": role_kind, "name": role},
    }
