"""Rules of custom resources that cost as much as they may keep nobody waiting, and end.

Whether anybody waits is said by the fixture ``no_stalls``, which is part of every test.
"""

from __future__ import annotations

import json
from typing import Any

from asynctest import async_test
from custom_world import WIDGETS_PATH, ask, definition, put, version, widget
from kubevouch.testing import Cluster

ITEMS = {"type": "array", "items": {"type": "integer"}}
# Loops in a loop over a small object: a million steps.
DEAR = "self.n.all(a, self.n.all(b, self.n.all(c, a + b + c >= 0)))"
# 300,000 steps, in bounds.
LONG = "self.n.all(a, self.n.all(b, a + b >= 0))"


def _definition(*rules: dict[str, Any]) -> Any:
    spec = {"type": "object", "properties": {"n": ITEMS}, "x-kubernetes-validations": list(rules)}
    return definition(version(schema={"type": "object", "properties": {"spec": spec}}))


@async_test
async def test_a_rule_at_its_limit() -> None:
    async with Cluster() as cluster:
        client = cluster.client()
        await put(cluster.server, _definition({"rule": DEAR}))
        answer = await ask(client, "POST", WIDGETS_PATH, widget(spec={"n": list(range(200))}))
        assert answer.status == 422
        assert "no further validation rules will be run due to call cost exceeds limit" in answer.body.decode()


@async_test
async def test_many_long_rules() -> None:
    async with Cluster() as cluster:
        client = cluster.client()
        await put(cluster.server, _definition(*({"rule": LONG} for _ in range(5))))
        made = await ask(client, "POST", WIDGETS_PATH, widget(spec={"n": list(range(200))}))
        assert made.status == 201
        patch = {"spec": {"n": list(range(190))}}
        changed = await ask(client, "PATCH", f"{WIDGETS_PATH}/w", patch, "application/merge-patch+json")
        assert changed.status == 200


@async_test
async def test_what_was_said_before_work_gave_way_is_said_once() -> None:
    async with Cluster() as cluster:
        client = cluster.client()
        await put(cluster.server, _definition({"rule": LONG}))
        tree = widget(spec={"n": list(range(200))})
        tree["metadata"]["ownerReferences"] = [{"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "u"}] * 2
        made = await ask(client, "POST", WIDGETS_PATH, tree)
        assert made.status == 201
        assert json.dumps(made.headers).count("ownerReferences") == 1
