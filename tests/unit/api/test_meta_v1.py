from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kubevouch.api.meta_v1 import (
    Condition,
    CreateOptions,
    ListOptions,
    PatchOptions,
    UpdateOptions,
    validate_conditions,
    validate_create_options,
    validate_delete_options,
    validate_label_requirement,
    validate_label_selector,
    validate_list_options,
    validate_patch_options,
    validate_update_options,
)
from kubevouch.machinery import errors
from kubevouch.machinery.codec import json_codec
from kubevouch.machinery.field import FieldError
from kubevouch.machinery.meta import DeleteOptions, LabelSelector, LabelSelectorRequirement
from kubevouch.machinery.scheme import GroupVersionKind
from kubevouch.machinery.text.times import Time


def texts(problems: list[FieldError]) -> list[str]:
    return [str(problem) for problem in problems]


# The texts of these were answered by a running kube-apiserver 1.36.2 (tests/vectors/server.jsonl).


def status_message(kind: str, problems: list[FieldError]) -> str:
    return errors.invalid(GroupVersionKind("meta.k8s.io", "v1", kind), "", problems).status.message


def test_verified_create_options() -> None:
    assert status_message("CreateOptions", validate_create_options(CreateOptions(field_validation="Maybe"))) == (
        'CreateOptions.meta.k8s.io "" is invalid: fieldValidation: Unsupported value: "Maybe": supported values: "", '
        '"Ignore", "Strict", "Warn"'
    )
    assert status_message("CreateOptions", validate_create_options(CreateOptions(dry_run=["yes"]))) == (
        'CreateOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["yes"]: supported values: "All"'
    )


def test_verified_delete_options() -> None:
    assert status_message("DeleteOptions", validate_delete_options(DeleteOptions(propagation_policy="Sideways"))) == (
        'DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Unsupported value: "Sideways": supported values: '
        '"Foreground", "Background", "Orphan", "nil"'
    )
    both = DeleteOptions(propagation_policy="Background", orphan_dependents=True)
    assert status_message("DeleteOptions", validate_delete_options(both)) == (
        'DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Invalid value: "Background": orphanDependents and '
        "deletionPropagation cannot be both set"
    )


def test_verified_patch_options() -> None:
    assert status_message("PatchOptions", validate_patch_options(PatchOptions(), apply=True)) == (
        'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch'
    )


def test_patch_options() -> None:
    forced = PatchOptions(force=False, field_manager="m")
    assert texts(validate_patch_options(forced, apply=False)) == [
        "force: Forbidden: may not be specified for non-apply patch"
    ]
    assert validate_patch_options(forced, apply=True) == []
    assert validate_patch_options(PatchOptions(), apply=False) == []


@pytest.mark.parametrize("validate", [validate_create_options, validate_update_options])
def test_good_write_options(validate: Any) -> None:
    options = CreateOptions if validate is validate_create_options else UpdateOptions
    assert validate(options()) == []
    assert validate(options(dry_run=["All", "All"], field_manager="kubectl", field_validation="Strict")) == []


@pytest.mark.parametrize(
    ("manager", "expected"),
    [
        ("m" * 128, []),
        ("ä" * 65, ["fieldManager: Too long: may not be more than 128 bytes"]),
        ("a\a", ['fieldManager: Invalid value: "a\\a": invalid character U+0007 (at position 1)']),
        (
            "ä\u2028",
            ['fieldManager: Invalid value: "ä\\u2028": invalid character U+2028 (at position 2)'],
        ),
        ("two words", []),
    ],
)
def test_field_manager(manager: str, expected: list[str]) -> None:
    assert texts(validate_update_options(UpdateOptions(field_manager=manager))) == expected


def test_all_faults_of_delete_options_are_told() -> None:
    options = DeleteOptions(propagation_policy="<", orphan_dependents=False, dry_run=["no"])
    assert texts(validate_delete_options(options)) == [
        'propagationPolicy: Invalid value: "\\u003c": orphanDependents and deletionPropagation cannot be both set',
        (
            'propagationPolicy: Unsupported value: "\\u003c": supported values: "Foreground", "Background", "Orphan", '
            '"nil"'
        ),
        'dryRun: Unsupported value: ["no"]: supported values: "All"',
    ]
    assert validate_delete_options(DeleteOptions(propagation_policy="Orphan", dry_run=["All"])) == []
    assert validate_delete_options(DeleteOptions(orphan_dependents=True)) == []


MATCH = "resourceVersionMatch: Forbidden: "


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, []),
        ({"continue_": "t"}, []),
        ({"resource_version": "5", "resource_version_match": "Exact"}, []),
        ({"resource_version": "0", "resource_version_match": "NotOlderThan"}, []),
        (
            {"resource_version_match": "NotOlderThan", "continue_": "t"},
            [
                f"{MATCH}resourceVersionMatch is forbidden unless resourceVersion is provided",
                f"{MATCH}resourceVersionMatch is forbidden when continue is provided",
            ],
        ),
        (
            {"resource_version": "5", "resource_version_match": "About"},
            [('resourceVersionMatch: Unsupported value: "About": supported values: "Exact", "NotOlderThan", ""')],
        ),
        (
            {"resource_version": "0", "resource_version_match": "Exact"},
            [f'{MATCH}resourceVersionMatch "exact" is forbidden for resourceVersion "0"'],
        ),
        (
            {"send_initial_events": False},
            ["sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list"],
        ),
    ],
)
def test_list_options(options: dict[str, Any], expected: list[str]) -> None:
    assert texts(validate_list_options(ListOptions(**options))) == expected


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, []),
        ({"send_initial_events": True, "resource_version_match": "NotOlderThan"}, []),
        (
            {"send_initial_events": True},
            [f"{MATCH}sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"],
        ),
        (
            {"resource_version_match": "NotOlderThan"},
            [f"{MATCH}resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"],
        ),
        (
            {"send_initial_events": True, "resource_version_match": "Exact", "continue_": "t"},
            [
                f"{MATCH}sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
                'resourceVersionMatch: Unsupported value: "Exact": supported values: "NotOlderThan"',
                f"{MATCH}resourceVersionMatch is forbidden when continue is provided",
            ],
        ),
    ],
)
def test_watch_options(options: dict[str, Any], expected: list[str]) -> None:
    assert texts(validate_list_options(ListOptions(watch=True, **options))) == expected


def requirement(operator: str, *values: str, key: str = "k") -> LabelSelectorRequirement:
    return LabelSelectorRequirement(key=key, operator=operator, values=list(values))


def test_label_requirements() -> None:
    assert texts(validate_label_requirement(requirement("In"), "p")) == [
        "p.values: Required value: must be specified when `operator` is 'In' or 'NotIn'"
    ]
    assert texts(validate_label_requirement(requirement("Exists", "v"), "p")) == [
        "p.values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
    ]
    for good in (requirement("NotIn", "v"), requirement("DoesNotExist")):
        assert validate_label_requirement(good, "p") == []
    unknown = requirement("Near", "v")
    assert texts(validate_label_requirement(unknown, "p")) == [
        'p.operator: Invalid value: "Near": not a valid selector operator'
    ]
    assert validate_label_requirement(unknown, "p", tolerate_operators=True) == []
    [bad_key, bad_value] = texts(validate_label_requirement(requirement("In", "ok", "b d", key="a/"), "p"))[-2:]
    assert bad_key.startswith('p.key: Invalid value: "a/": name part')
    assert bad_value.startswith('p.values[1]: Invalid value: "b d": a valid label must be')


def test_label_selector() -> None:
    selector = LabelSelector(match_labels={"k": "a b"}, match_expressions=[requirement("In", "a b")])
    assert [text.partition(":")[0] for text in texts(validate_label_selector(selector, "s"))] == [
        "s.matchLabels",
        "s.matchExpressions[0].values[0]",
    ]
    assert [
        text.partition(":")[0] for text in texts(validate_label_selector(selector, "s", tolerate_label_values=True))
    ] == ["s.matchLabels"]


def test_continue_is_spelled_so_on_the_wire() -> None:
    assert json_codec.encode(ListOptions(continue_="t", limit=2)) == b'{"limit":2,"continue":"t"}'


def test_conditions() -> None:
    good = Condition(type="a/B", status="True", reason="Because", last_transition_time=Time(1))
    assert validate_conditions([good, msgspec.structs.replace(good, type="C")], "status.conditions") == []
    bad = Condition(type="a/B", status="Sideways", observed_generation=-1, reason="9", message="m" * 32769)
    errors = [str(each) for each in validate_conditions([good, bad, Condition()], "c")]
    assert errors[:2] == [
        'c[1].type: Duplicate value: "a/B"',
        'c[1].status: Unsupported value: "Sideways": supported values: "False", "True", "Unknown"',
    ]
    assert errors[2:4] == [
        "c[1].observedGeneration: Invalid value: -1: must be greater than or equal to zero",
        "c[1].lastTransitionTime: Required value",
    ]
    assert errors[4].startswith('c[1].reason: Invalid value: "9": a condition reason must start with')
    assert errors[5] == "c[1].message: Too long: may not be more than 32768 bytes"
    assert [each.partition(":")[0] for each in errors[6:]] == [
        "c[2].type", "c[2].type", "c[2].status", "c[2].lastTransitionTime", "c[2].reason",
    ]  # fmt: skip
    long = msgspec.structs.replace(good, reason="R" * 1025)
    assert [str(each) for each in validate_conditions([long], "c")] == [
        "c[0].reason: Too long: may not be more than 1024 bytes"
    ]
