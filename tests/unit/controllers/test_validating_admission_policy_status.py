"""controllers/validating_admission_policy_status.py"""

from __future__ import annotations

from typing import Any

import msgspec

import custom_world
from asynctest import async_test
from controller_world import world
from kubevouch.api.admissionregistration_v1.policies import ValidatingAdmissionPolicy
from kubevouch.api.catalog import VALIDATING_ADMISSION_POLICIES
from kubevouch.controllers import validating_admission_policy_status
from kubevouch.machinery.codec import json_codec


def policy(expression: str, **spec: Any) -> ValidatingAdmissionPolicy:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    tree = {
        "metadata": {"name": "p"},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}, "resourceRules": [rule],
            },
            "validations": [{"expression": expression}],
            **spec,
        },
    }  # fmt: skip
    found: ValidatingAdmissionPolicy = json_codec.from_tree(tree, ValidatingAdmissionPolicy).value
    return found


@async_test
async def test_each_generation_is_checked_once() -> None:
    async with world() as at:
        running = await at.run(validating_admission_policy_status.NAME)
        await at.client.create(VALIDATING_ADMISSION_POLICIES, policy("object.nope == 1"))
        await running.settle()
        stored = await at.client.get(VALIDATING_ADMISSION_POLICIES, "p")
        assert stored.status.observed_generation == 1
        assert stored.status.type_checking is not None
        (warning,) = stored.status.type_checking.expression_warnings
        assert warning.field_ref == "spec.validations[0].expression"
        text = "/v1, Kind=ConfigMap: ERROR: <input>:1:7: undefined field 'nope'\n | object.nope == 1\n | ......^\n"
        assert warning.warning == text

        good = msgspec.structs.replace(stored, spec=policy("has(object.data)").spec)
        await at.client.update(VALIDATING_ADMISSION_POLICIES, good)
        await running.settle()
        stored = await at.client.get(VALIDATING_ADMISSION_POLICIES, "p")
        assert stored.status.observed_generation == 2
        assert stored.status.type_checking is not None
        assert stored.status.type_checking.expression_warnings == []
        at.calls.clear()
        await running.settle()
        assert at.calls == []


@async_test
async def test_custom_kinds_are_checked_by_their_schemas() -> None:
    async with world() as at:
        await custom_world.put(at.server, custom_world.definition())
        running = await at.run(validating_admission_policy_status.NAME)
        rule = {
            "apiGroups": [custom_world.GROUP, "none.example.com"], "apiVersions": ["v1"], "operations": ["CREATE"],
            "resources": ["widgets"],
        }  # fmt: skip
        match = {
            "matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}, "resourceRules": [rule],
        }  # fmt: skip
        params = {"apiVersion": f"{custom_world.GROUP}/v1", "kind": "Widget"}
        sources = (
            "object.spec.size < 5 && object.metadata.name == params.spec.color",
            "object.spec.sise < 5",
            "params.spec.size == 'x'",
        )
        written = policy("true", matchConstraints=match, paramKind=params,
                         validations=[{"expression": source} for source in sources])  # fmt: skip
        await at.client.create(VALIDATING_ADMISSION_POLICIES, written)
        await running.settle()
        stored = await at.client.get(VALIDATING_ADMISSION_POLICIES, "p")
        assert stored.status.type_checking is not None
        found = [(each.field_ref, each.warning) for each in stored.status.type_checking.expression_warnings]
        where = f"{custom_world.GROUP}/v1, Kind=Widget: ERROR: <input>:1:"
        assert [field for field, _ in found] == ["spec.validations[1].expression", "spec.validations[2].expression"]
        assert found[0][1].startswith(f"{where}12: undefined field 'sise'")
        assert found[1][1].startswith(f"{where}18: found no matching overload for '_==_' applied to '(int, string)'")
