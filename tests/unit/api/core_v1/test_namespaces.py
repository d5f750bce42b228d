from __future__ import annotations

import pytest

from kubevouch.api.core_v1 import (
    Namespace,
    NamespaceCondition,
    NamespaceSpec,
    NamespaceStatus,
    default_namespace,
    validate_namespace,
    validate_namespace_finalize_update,
    validate_namespace_status_update,
    validate_namespace_update,
)
from kubevouch.machinery.codec import json_codec
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.machinery.text.times import Time

NOT_STANDARD = "name is neither a standard finalizer name nor is it fully qualified"


def test_json_shows_empty_spec_and_status() -> None:
    assert json_codec.encode(Namespace()) == b'{"metadata":{},"spec":{},"status":{}}'
    condition = NamespaceCondition(type="t", status="True")
    assert json_codec.encode(condition) == b'{"type":"t","status":"True","lastTransitionTime":null}'


def test_defaults_name_label_and_phase() -> None:
    namespace = default_namespace(Namespace(metadata=ObjectMeta(name="n", labels={"a": "b"})))
    assert namespace.metadata.labels == {"a": "b", "kubernetes.io/metadata.name": "n"}
    assert namespace.status.phase == "Active"
    assert default_namespace(namespace) is namespace


def test_a_forged_name_label_is_put_right() -> None:
    forged = Namespace(metadata=ObjectMeta(name="n", labels={"kubernetes.io/metadata.name": "kube-system"}))
    assert default_namespace(forged).metadata.labels == {"kubernetes.io/metadata.name": "n"}


def test_a_namespace_without_a_name_yet_gets_no_label() -> None:
    assert default_namespace(Namespace(metadata=ObjectMeta(generate_name="n-"))).metadata.labels == {}


def test_finalizers() -> None:
    def with_finalizers(*finalizers: str) -> Namespace:
        return Namespace(spec=NamespaceSpec(finalizers=list(finalizers)))

    assert validate_namespace(with_finalizers("kubernetes", "orphan", "foregroundDeletion", "example.com/x")) == []
    assert [str(error) for error in validate_namespace(with_finalizers("kubernetes", "x"))] == [
        f'spec.finalizers: Invalid value: "x": {NOT_STANDARD}'
    ]
    problems = validate_namespace_finalize_update(with_finalizers("kubernetes", "x"), Namespace())
    assert [str(error) for error in problems] == [f'spec.finalizers[1]: Invalid value: "x": {NOT_STANDARD}']
    assert validate_namespace_update(with_finalizers("x"), Namespace()) == []


@pytest.mark.parametrize(
    ("phase", "deleting", "texts"),
    [
        ("Active", False, []),
        ("Terminating", True, []),
        (
            "Terminating",
            False,
            [
                "status.Phase: Invalid value: \"Terminating\": may only be 'Active' if `deletionTimestamp` is empty",
            ],
        ),
        (
            "Active",
            True,
            [
                (
                    "status.Phase: Invalid value: \"Active\": may only be 'Terminating' if "
                    "`deletionTimestamp` is not empty"
                )
            ],
        ),
    ],
)
def test_phase_goes_with_deletion(phase: str, deleting: bool, texts: list[str]) -> None:
    metadata = ObjectMeta(deletion_timestamp=Time(0) if deleting else None)
    new = Namespace(metadata=metadata, status=NamespaceStatus(phase=phase))
    assert [str(error) for error in validate_namespace_status_update(new, Namespace())] == texts
