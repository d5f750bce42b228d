"""machinery/object_meta.py: the rules of metadata that hold for every kind."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kubevouch.machinery import object_meta
from kubevouch.machinery.meta import DeleteOptions, ManagedFieldsEntry, ObjectMeta, OwnerReference
from kubevouch.machinery.text.names import path_segment_name, subdomain_name
from kubevouch.machinery.text.times import Time

GOOD = ObjectMeta(name="a", namespace="n", resource_version="1")
OWNER = OwnerReference(api_version="v1", kind="Node", name="n", uid="u")


def create(namespaced: bool = True, **changes: Any) -> list[str]:
    meta = msgspec.structs.replace(GOOD, **changes)
    return [str(error) for error in object_meta.validate_object_meta(meta, namespaced, path_segment_name)]


def update(old: dict[str, Any] | None = None, standard: bool = False, **changes: Any) -> list[str]:
    before = msgspec.structs.replace(GOOD, **(old or {}))
    after = msgspec.structs.replace(before, **changes)
    return [str(e) for e in object_meta.validate_object_meta_update(after, before, standard_finalizers=standard)]


def test_good_metadata() -> None:
    assert create() == []
    assert create(namespaced=False, namespace="") == []
    assert update() == []


KEY = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)


@pytest.mark.parametrize(
    ("changes", "errors"),
    [
        ({"name": ""}, ["metadata.name: Required value: name or generateName is required"]),
        ({"name": "a/b"}, ["metadata.name: Invalid value: \"a/b\": may not contain '/'"]),
        ({"generate_name": "%"}, ["metadata.generateName: Invalid value: \"%\": may not contain '%'"]),
        ({"namespace": ""}, ["metadata.namespace: Required value"]),
        ({"generation": -1}, ["metadata.generation: Invalid value: -1: must be greater than or equal to 0"]),
        ({"generation": 0}, []),
        ({"labels": {"a": "b", "example.com/A": ""}}, []),
        ({"labels": {"_": "b"}}, [f'metadata.labels: Invalid value: "_": name part {KEY}']),
        ({"annotations": {"UPPER.example.com/A": "any \n text"}}, []),
        ({"annotations": {"_": ""}}, [f'metadata.annotations: Invalid value: "_": name part {KEY}']),
        ({"annotations": {"k": "x" * (256 * 1024 - 1)}}, []),
        (
            {"annotations": {"k": "x" * (256 * 1024)}},
            ["metadata.annotations: Too long: may not be more than 262144 bytes"],
        ),
        (
            {"annotations": {"k": "ä" * (128 * 1024)}},
            ["metadata.annotations: Too long: may not be more than 262144 bytes"],
        ),
        ({"finalizers": ["example.com/a", "orphan"]}, []),
        (
            {"finalizers": ["mine"]},
            [
                (
                    'metadata.finalizers[0]: Invalid value: "mine": name is neither a standard finalizer name '
                    "nor is it "
                    "fully qualified"
                )
            ],
        ),
        (
            {"finalizers": ["orphan", "foregroundDeletion"]},
            [
                (
                    'metadata.finalizers: Invalid value: ["orphan","foregroundDeletion"]: finalizer orphan and '
                    "foregroundDeletion cannot be both set"
                )
            ],
        ),
        ({"owner_references": [OWNER]}, []),
        (
            {"owner_references": [OwnerReference(api_version="a/b/c", kind="", name="", uid="")]},
            [
                'metadata.ownerReferences.apiVersion: Invalid value: "a/b/c": version must not be empty',
                'metadata.ownerReferences.kind: Invalid value: "": must not be empty',
                'metadata.ownerReferences.name: Invalid value: "": must not be empty',
                'metadata.ownerReferences.uid: Invalid value: "": must not be empty',
            ],
        ),
        (
            {"managed_fields": [ManagedFieldsEntry(operation="Create", fields_type="V9", manager="m\x07")]},
            [
                'metadata.managedFields[0].operation: Invalid value: "Create": must be `Apply` or `Update`',
                'metadata.managedFields[0].fieldsType: Invalid value: "V9": must be `FieldsV1`',
                'metadata.managedFields[0].manager: Invalid value: "m\\a": invalid character U+0007 (at position 1)',
            ],
        ),
        (
            {"managed_fields": [ManagedFieldsEntry(operation="Apply", subresource="x" * 257, manager="m" * 129)]},
            [
                "metadata.managedFields[0].manager: Too long: may not be more than 128 bytes",
                "metadata.managedFields[0].subresource: Too long: may not be more than 256 bytes",
            ],
        ),
    ],
)
def test_creation(changes: dict[str, Any], errors: list[str]) -> None:
    assert create(**changes) == errors


def test_a_cluster_scoped_object_has_no_namespace() -> None:
    assert create(namespaced=False) == ["metadata.namespace: Forbidden: not allowed on this type"]


def test_events_own_nothing() -> None:
    [error] = create(owner_references=[msgspec.structs.replace(OWNER, kind="Event")])
    assert error.endswith("/v1, Kind=Event is disallowed from being an owner")


def test_there_is_one_controller() -> None:
    first = msgspec.structs.replace(OWNER, controller=True)
    second = msgspec.structs.replace(first, name="m", uid="v")
    assert create(owner_references=[first, msgspec.structs.replace(second, controller=False)]) == []
    [error] = create(owner_references=[first, second])
    assert error.endswith(
        'Only one reference can have Controller set to true. Found "true" in references for Node/n and Node/m'
    )


def test_a_name_has_to_fit_into_a_url() -> None:
    meta = msgspec.structs.replace(GOOD, name="..")
    [error] = object_meta.validate_path_segments(meta)
    assert str(error) == "metadata.name: Invalid value: \"..\": may not be '..'"
    assert object_meta.validate_object_meta(meta, True, subdomain_name) != []


THEN, NOW = Time.parse("2026-01-01T00:00:00Z"), Time.parse("2026-01-02T00:00:00Z")


@pytest.mark.parametrize(
    ("old", "changes", "errors"),
    [
        (
            {},
            {"resource_version": ""},
            ['metadata.resourceVersion: Invalid value: "": must be specified for an update'],
        ),
        ({"generation": 2}, {"generation": 1}, ["metadata.generation: Invalid value: 1: must not be decremented"]),
        ({"generation": 2}, {"generation": 3}, []),
        ({}, {"name": "b"}, ['metadata.name: Invalid value: "b": field is immutable']),
        ({}, {"namespace": "m"}, ['metadata.namespace: Invalid value: "m": field is immutable']),
        ({"uid": "u"}, {"uid": "v"}, ['metadata.uid: Invalid value: "v": field is immutable']),
        (
            {"creation_timestamp": THEN},
            {"creation_timestamp": NOW},
            ['metadata.creationTimestamp: Invalid value: "2026-01-02T00:00:00Z": field is immutable'],
        ),
        (
            {"deletion_grace_period_seconds": 0},
            {"deletion_grace_period_seconds": None},
            ["metadata.deletionGracePeriodSeconds: Invalid value: null: field is immutable"],
        ),
        (
            {"deletion_timestamp": THEN, "finalizers": ["a/b"]},
            {"finalizers": ["a/b", "c/e", "c/d"]},
            [
                (
                    "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being "
                    "deleted, found "
                    'new finalizers []string{"c/d", "c/e"}'
                )
            ],
        ),
        ({"deletion_timestamp": THEN, "finalizers": ["a/b"]}, {"finalizers": []}, []),
        ({}, {"finalizers": ["mine"]}, []),
    ],
)
def test_updates(old: dict[str, Any], changes: dict[str, Any], errors: list[str]) -> None:
    assert update(old, **changes) == errors


def test_kubernetes_own_kinds_look_at_finalizers_again() -> None:
    assert update(standard=True, finalizers=["mine"]) == [
        (
            'metadata.finalizers[0]: Invalid value: "mine": name is neither a standard finalizer name nor is it fully '
            "qualified"
        )
    ]


@pytest.mark.parametrize(
    ("manager", "errors"),
    [
        ("", []),
        ("kubectl client side", []),
        ("m" * 128, []),
        ("m" * 129, ["fieldManager: Too long: may not be more than 128 bytes"]),
        ("ä\t", ['fieldManager: Invalid value: "ä\\t": invalid character U+0009 (at position 2)']),
    ],
)
def test_field_managers(manager: str, errors: list[str]) -> None:
    assert [str(error) for error in object_meta.validate_field_manager(manager)] == errors


def test_equal_owners_collapse_with_a_warning() -> None:
    other = msgspec.structs.replace(OWNER, uid="v")
    warnings: list[str] = []
    assert object_meta.deduplicate_owner_references([OWNER, other], warnings) == [OWNER, other]
    assert warnings == []
    assert object_meta.deduplicate_owner_references([OWNER, other, OWNER], warnings) == [OWNER, other]
    assert warnings == [f"{object_meta.DUPLICATE_OWNERS_WARNING}u"]


@pytest.mark.parametrize(
    ("finalizers", "options", "wanted"),
    [
        ([], DeleteOptions(), []),
        (["a/b"], DeleteOptions(), ["a/b"]),
        (["orphan"], DeleteOptions(), ["orphan"]),
        (["orphan"], DeleteOptions(propagation_policy="Background"), []),
        (["a/b"], DeleteOptions(propagation_policy="Foreground"), ["a/b", "foregroundDeletion"]),
        (["orphan"], DeleteOptions(propagation_policy="Foreground"), ["foregroundDeletion"]),
        ([], DeleteOptions(propagation_policy="Orphan"), ["orphan"]),
        ([], DeleteOptions(orphan_dependents=True), ["orphan"]),
        (["orphan", "a/b"], DeleteOptions(orphan_dependents=False), ["a/b"]),
        (["orphan", "a/b"], DeleteOptions(propagation_policy="Orphan"), ["orphan", "a/b"]),
    ],
)
def test_finalizers_of_a_deletion(finalizers: list[str], options: DeleteOptions, wanted: list[str]) -> None:
    meta = msgspec.structs.replace(GOOD, finalizers=finalizers)
    assert object_meta.deletion_finalizers(meta, options) == wanted


def test_a_long_field_manager_is_not_told_for_each_of_its_characters() -> None:
    assert [str(fault) for fault in object_meta.validate_field_manager("\x01" * 100_000)] == [
        "fieldManager: Too long: may not be more than 128 bytes"
    ]
