"""Definitions and custom objects that are up to no good.

Whether anybody waits for them is said by the fixture ``no_stalls``, which is part of every test.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from asynctest import async_test
from custom_world import ask, version
from definition_world import PATH, create, is_settled, read, until
from kubevouch.client.interface import Client
from kubevouch.testing import Cluster

PLAIN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def _definition(group: str, plural: str, kind: str, schema: Any = PLAIN) -> Any:
    names = {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.{group}",
            "annotations": {"api-approved.kubernetes.io": "unapproved, a test"},
        },
        "spec": {"group": group, "scope": "Cluster", "names": names, "versions": [version(schema=schema)]},
    }


async def _tree(client: Client, path: str) -> Any:
    answer = await ask(client, "GET", path)
    return json.loads(answer.body) if answer.status == 200 else answer.body


# ------------------------------------------------------------------ names


@pytest.mark.parametrize(
    ("group", "plural", "kind"),
    [
        ("certificates.k8s.io", "certificatesigningrequests", "CertificateSigningRequest"),
        ("apiextensions.k8s.io", "customresourcedefinitions", "CustomResourceDefinition"),
        ("authorization.k8s.io", "subjectaccessreviews", "SubjectAccessReview"),
        ("rbac.authorization.k8s.io", "gadgets", "Gadget"),
    ],
)
@async_test
async def test_a_definition_takes_nothing_from_a_built_in_group(group: str, plural: str, kind: str) -> None:
    async with Cluster() as cluster:
        client = cluster.client()
        paths = (f"/apis/{group}/v1", f"/apis/{group}", f"/apis/{group}/v1/{plural}", f"/apis/{group}/v7/{plural}")
        before = [await _tree(client, path) for path in paths[:2]]
        manifest = _definition(group, plural, kind)
        manifest["spec"]["versions"].append(version("v7", PLAIN, storage=False))
        name = manifest["metadata"]["name"]
        await create(client, manifest)
        await until(client, is_settled, name)
        assert [await _tree(client, path) for path in paths[:2]] == before
        listed = await ask(client, "GET", paths[2])
        assert (listed.status == 200) == (plural in ("certificatesigningrequests", "customresourcedefinitions"))
        assert (await ask(client, "GET", paths[3])).status == 404
        other = _definition("demo.example.com", "widgets", "Widget")
        await create(client, other)
        assert (await ask(client, "DELETE", f"{PATH}/{name}")).status == 200
        await until(client, lambda found: found is None, name)
        assert await read(client, other["metadata"]["name"]) is not None
        assert (await ask(client, "GET", paths[2])).status == listed.status
        assert [await _tree(client, path) for path in paths[:2]] == before
