"""admission/dynamic/mutations.py: what mutations make of an object; what a server does with them is in
tests/integration/test_mutating_admission_policies.py."""

from __future__ import annotations

from typing import Any

import pytest

from kubevouch.admission.dynamic.mutations import MutationRules, NotMutated
from kubevouch.admission.dynamic.questions import Work
from kubevouch.admission.interface import Version
from kubevouch.api.admissionregistration_v1.mutating_policies import MutatingAdmissionPolicySpec
from kubevouch.api.catalog import CONFIG_MAPS, RESOURCE_CLAIMS, RUNTIME_CLASSES
from kubevouch.machinery.codec import json_codec
from kubevouch.machinery.scheme import Resource

NO_JSON = "JSONPath valueExpression evaluated to a type that could not marshal to JSON"
TREE = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"n": "3"}}


def mutated(mutation: dict[str, Any], tree: Any = TREE, resource: Resource[Any] = CONFIG_MAPS, **spec: Any) -> Any:
    """The tree of the object after the mutation."""
    rules = MutationRules(json_codec.from_tree({"mutations": [mutation], **spec}, MutatingAdmissionPolicySpec).value)
    asking = rules.mutate(0, {"object": tree}, Version(resource))
    while True:
        try:
            work = asking.send(None)
        except StopIteration as done:
            return resource.codec.to_tree(done.value)
        assert isinstance(work, Work)
        work.run()


def applied(expression: str) -> dict[str, Any]:
    return {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}


def patched(value: str, op: str = "add", path: str = "/data/x") -> dict[str, Any]:
    expression = f"[JSONPatch{{op: '{op}', path: '{path}', value: {value}}}]"
    return {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("string(1)", "1"),
        ("9007199254740993", "9007199254740993"),
        ("duration('1h')", "3600s"),
        ("timestamp('2026-01-01T00:00:00Z')", "2026-01-01T00:00:00Z"),
        ("b'x'", "eA=="),
    ],
)
def test_values_of_a_json_patch(value: str, wanted: str) -> None:
    assert mutated(patched(value))["data"] == {"n": "3", "x": wanted}


@pytest.mark.parametrize(
    ("mutation", "error", "text"),
    [
        (applied("Object{data: {'x': object.data.none}}"), "invalid_error",
         "expression 'Object{data: {'x': object.data.none}}' resulted in error: no such key: none"),
        (applied("nope"), "compile_error", "compilation error: compilation failed: ERROR: <input>:1:1: undeclared"),
        (applied("Object{data: {1: 'x'}}"), "invalid_error", "invalid return type: *dynamic.ObjectVal"),
        (patched("{1: 'x'}"), "invalid_error", f'{NO_JSON}: map key "1" is no string'),
        (patched("'x'", op="turn"), "invalid_error", "JSONPath: Unexpected kind: turn"),
    ],
)  # fmt: skip
def test_what_cannot_be_carried_out(mutation: dict[str, Any], error: str, text: str) -> None:
    with pytest.raises(NotMutated) as caught:
        mutated(mutation)
    assert caught.value.error == error
    assert str(caught.value).startswith(text)


def test_documents_inside_objects_are_kept() -> None:
    parameters = {"driver": "d.example.com", "parameters": {"a": {"b": [1]}}}
    claim = {
        "apiVersion": RESOURCE_CLAIMS.api_version, "kind": "ResourceClaim", "metadata": {"name": "a"},
        "spec": {"devices": {"config": [{"opaque": parameters}]}},
    }  # fmt: skip
    made = mutated(applied("Object{metadata: Object.metadata{labels: {'a': 'b'}}}"), claim, RESOURCE_CLAIMS)
    assert made["spec"]["devices"]["config"] == [{"opaque": parameters}]
    assert made["metadata"]["labels"] == {"a": "b"}


def test_atomic_maps_are_not_touched() -> None:
    runtime = {"apiVersion": RUNTIME_CLASSES.api_version, "kind": "RuntimeClass", "metadata": {}, "handler": "a"}
    selector = "Object{scheduling: Object.scheduling{nodeSelector: {'a': 'b'}}}"
    with pytest.raises(NotMutated, match=r"atomic arrays, maps or structs: \.scheduling\.nodeSelector$"):
        mutated(applied(selector), runtime, RUNTIME_CLASSES)
    taints = "Object{scheduling: Object.scheduling{tolerations: [Object.scheduling.tolerations{key: 'a'}]}}"
    with pytest.raises(NotMutated, match=r"structs: \.scheduling\.tolerations$"):
        mutated(applied(taints), runtime, RUNTIME_CLASSES)
    assert mutated(applied("Object{overhead: Object.overhead{podFixed: {'cpu': '1'}}}"), runtime, RUNTIME_CLASSES)
