"""Roles that multiply: a few kilobytes of verbs, groups, resources and names grant a hundred million rights."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from kubevouch.api.rbac_v1 import MAX_COMBINATIONS
from kubevouch.machinery.errors import APIStatusError
from kubevouch.testing.cluster import Cluster
from kubevouch.testing.verbs import Verbs
from stalls import no_stalls

RBAC = "rbac.authorization.k8s.io"
OWN = "team"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        running.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OWN}})
        for number in range(40):
            everything = {"verbs": ["*"], "apiGroups": [f"g{number}"], "resources": ["*"]}
            writes = {"verbs": ["create"], "apiGroups": [RBAC], "resources": ["roles"]}
            running.create(_role(f"held-{number}", [everything, writes]))
            running.create(_binding(f"held-{number}"))
        yield running


@pytest.fixture
def administrator(cluster: Cluster) -> Verbs:
    """Of one namespace, who may write roles and does not hold all that there is."""
    return cluster.as_user("jane", ())


def _role(name: str, rules: list[dict[str, Any]]) -> dict[str, Any]:
    meta = {"name": name, "namespace": OWN}
    return {"apiVersion": f"{RBAC}/v1", "kind": "Role", "metadata": meta, "rules": rules}


def _binding(role: str) -> dict[str, Any]:
    return {
        "apiVersion": f"{RBAC}/v1", "kind": "RoleBinding", "metadata": {"name": role, "namespace": OWN},
        "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": role},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": "jane"}],
    }  # fmt: skip


def _wide(each: int) -> list[dict[str, Any]]:
    parts = {"verbs": "v", "apiGroups": "h", "resources": "r", "resourceNames": "n"}
    return [{part: [f"{letter}{number}" for number in range(each)] for part, letter in parts.items()}]


def _refusal(who: Verbs | Cluster, rules: list[dict[str, Any]]) -> APIStatusError:
    with no_stalls(), pytest.raises(APIStatusError) as refused:
        who.create(_role("wide", rules))
    return refused.value


def test_a_small_role_does_not_grant_millions_of_rights(cluster: Cluster, administrator: Verbs) -> None:
    rules = _wide(100)
    assert len(json.dumps(rules)) < 4096
    for who in (administrator, cluster):
        refused = _refusal(who, rules)
        assert refused.code == 422
        assert "Too many" in refused.status.message


def test_as_many_rights_as_may_be_are_compared_beside_the_loop(administrator: Verbs) -> None:
    rules = _wide(int(MAX_COMBINATIONS**0.25))
    refused = _refusal(administrator, rules)
    assert refused.code == 403
    assert len(refused.status.message) < 100_000
