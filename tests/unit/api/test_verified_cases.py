"""The validation cases that a running kube-apiserver 1.36.2 answered, decided here without a server.

An object is read, defaulted and validated as the registry does it: shared metadata rules, then the kind's own.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kubevouch.api import authentication_v1, catalog, certificates_v1, core_v1, rbac_v1
from kubevouch.api.core_v1.events import validate_event
from kubevouch.machinery import errors, object_meta
from kubevouch.machinery.codec import gojson, json_codec
from kubevouch.machinery.field import FieldError
from kubevouch.machinery.scheme import GroupVersionKind, Resource
from kubevouch.machinery.text import names
from kubevouch.machinery.text.names import NameRule

VECTORS = Path(__file__).parents[2] / "vectors"
FIXTURES = VECTORS / "fixtures-server"


def any_name(_name: str, _prefix: bool) -> list[str]:
    return []


@dataclass(frozen=True)
class Rules:
    resource: Resource[Any]
    name_rule: NameRule
    create: Callable[[Any], list[FieldError]]
    updates: dict[str, Callable[[Any, Any], list[FieldError]]]


RULES = {
    "certificatesigningrequests": Rules(
        catalog.CERTIFICATE_SIGNING_REQUESTS,
        any_name,
        certificates_v1.validate_certificate_signing_request,
        {
            "": certificates_v1.validate_certificate_signing_request_update,
            "approval": certificates_v1.validate_certificate_signing_request_approval_update,
            "status": certificates_v1.validate_certificate_signing_request_status_update,
        },
    ),
    "secrets": Rules(
        catalog.SECRETS, names.subdomain_name, core_v1.validate_secret, {"": core_v1.validate_secret_update}
    ),
    "configmaps": Rules(
        catalog.CONFIG_MAPS,
        names.subdomain_name,
        core_v1.validate_config_map,
        {"": core_v1.validate_config_map_update},
    ),
    "namespaces": Rules(
        catalog.NAMESPACES,
        names.dns_label_name,
        core_v1.validate_namespace,
        {"": core_v1.validate_namespace_update},
    ),
    "nodes": Rules(catalog.NODES, names.subdomain_name, core_v1.validate_node, {"": core_v1.validate_node_update}),
    "events": Rules(catalog.EVENTS, any_name, validate_event, {}),
    "clusterroles": Rules(
        catalog.CLUSTER_ROLES,
        names.path_segment_name,
        rbac_v1.validate_cluster_role,
        {"": rbac_v1.validate_cluster_role_update},
    ),
    "clusterrolebindings": Rules(
        catalog.CLUSTER_ROLE_BINDINGS,
        names.path_segment_name,
        rbac_v1.validate_cluster_role_binding,
        {"": rbac_v1.validate_cluster_role_binding_update},
    ),
}


def concrete(value: Any) -> Any:
    """A body of the case file with its markers replaced by what they stand for."""
    if isinstance(value, list):
        return [concrete(item) for item in value]
    if not isinstance(value, dict):
        return value
    match value:
        case {"$base64file": name}:
            return base64.b64encode((FIXTURES / name).read_bytes()).decode()
        case {"$repeat": [text, count]}:
            return text * count
        case {"$repeat_list": [item, count]}:
            return [concrete(item)] * count
    return {key: concrete(item) for key, item in value.items()}


def merged(stored: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    copy: dict[str, Any] = json.loads(json.dumps(stored))
    for path, value in changes.items():
        *parents, last = path.split(".")
        place = copy
        for parent in parents:
            place = place.setdefault(parent, {})
        place[last] = concrete(value)
    return copy


def load_cases(area: str) -> list[dict[str, Any]]:
    lines = (VECTORS / "server.jsonl").read_text().splitlines()
    return [case for case in map(json.loads, lines) if case["area"] == area]


PATH = re.compile(r".*/v1(?:/namespaces/(?P<ns>[^/]+))?/(?P<resource>[a-z]+)(?:/(?P<name>[^/]+))?(?:/(?P<sub>[a-z]+))?")


def target(case: dict[str, Any]) -> tuple[str, str, str]:
    """Resource, namespace and subresource of a case; ``/api/v1/namespaces`` is itself a resource."""
    path = case["when"]["path"]
    if path == "/api/v1/namespaces":
        return "namespaces", "", ""
    match = PATH.fullmatch(path)
    assert match is not None
    return match["resource"], match["ns"] or "", match["sub"] or ""


def read(rules: Rules, tree: Any, namespace: str) -> Any:
    obj = json_codec.from_tree(gojson.loads(json.dumps(tree).encode()), rules.resource.type).value
    metadata = obj.metadata
    if rules.resource.namespaced and not metadata.namespace:
        metadata = msgspec.structs.replace(metadata, namespace=namespace)
    if metadata.generate_name and not metadata.name:
        metadata = msgspec.structs.replace(metadata, name=f"{metadata.generate_name}abcde")
    return catalog.SCHEME.default(msgspec.structs.replace(obj, metadata=metadata))


def faults_of(case: dict[str, Any]) -> tuple[Rules, Any, list[FieldError]]:
    resource, namespace, subresource = target(case)
    rules = RULES[resource]
    body = case["when"]["body"]
    if case["when"]["method"] == "POST":
        obj = read(rules, concrete(body), namespace)
        problems = object_meta.validate_object_meta(obj.metadata, rules.resource.namespaced, rules.name_rule)
        problems += rules.create(obj)
        return rules, obj, problems or object_meta.validate_path_segments(obj.metadata)
    stored_tree = concrete(case["given"]["objects"][0])
    stored_tree["metadata"] |= {"resourceVersion": "7", "uid": "u"}
    old = read(rules, stored_tree, namespace)
    new = read(rules, merged(stored_tree, body["$merge"]), namespace)
    problems = object_meta.validate_object_meta_update(new.metadata, old.metadata)
    return rules, new, problems + rules.updates[subresource](new, old)


VALIDATION = [case for case in load_cases("validation") if case["id"] != "srv-tokenrequest-too-short"]
# Cases of other areas that are decided by validation alone.
OTHERS = [
    case
    for area in ("errors", "strategy", "authz")
    for case in load_cases(area)
    if case["id"]
    in {
        "srv-secret-immutable-unset", "srv-secret-tls-missing-key", "srv-finalizer-bad-name", "srv-owner-core-event",
        "srv-owner-two-controllers", "srv-node-name-upper", "srv-event-bad-type", "srv-rbac-roleref-immutable",
        "srv-secret-default-type", "srv-secret-stringdata",
    }
]  # fmt: skip


def test_the_case_file_is_what_this_file_expects() -> None:
    assert len(VALIDATION) == 64
    assert len(OTHERS) == 10


@pytest.mark.parametrize("case", VALIDATION + OTHERS, ids=lambda case: str(case["id"]))
def test_verified_case(case: dict[str, Any]) -> None:
    rules, obj, problems = faults_of(case)
    expected = case["then"]
    if expected["status"] in (200, 201):
        assert problems == []
        return
    status = errors.invalid(rules.resource.gvk, obj.metadata.name, problems).status
    assert status.code == expected["status"]
    if "message_exact" in expected:
        assert status.message == expected["message_exact"]
    if "body_contains" in expected:
        assert expected["body_contains"] in json_codec.encode(status.message).decode()
    if "seen" in expected and "…" not in expected["seen"]:
        assert status.message == expected["seen"].replace("tt7sp", "abcde")
    if "causes" in expected:
        assert status.details is not None
        assert [[cause.reason, cause.field] for cause in status.details.causes] == expected["causes"]


def test_verified_token_request() -> None:
    [case] = [case for case in load_cases("validation") if case["id"] == "srv-tokenrequest-too-short"]
    request = json_codec.from_tree(case["when"]["body"], authentication_v1.TokenRequest).value
    problems = authentication_v1.validate_token_request(authentication_v1.default_token_request(request))
    kind = GroupVersionKind(authentication_v1.GROUP, "v1", "TokenRequest")
    assert errors.invalid(kind, "", problems).status.message == case["then"]["message_exact"]


def test_stringdata_is_merged_and_gone() -> None:
    [case] = [case for case in OTHERS if case["id"] == "srv-secret-stringdata"]
    _, secret, _ = faults_of(case)
    tree = json_codec.to_builtins(secret)
    assert tree["data"] == case["then"]["fields"]["data"]
    assert "stringData" not in tree
    assert secret.type == "Opaque"
