"""The guards for servers that fill nothing in: they ask for the record that others would have made."""

from __future__ import annotations

import pytest

from kubevouch.api.catalog import MUTATING_ADMISSION_POLICIES, VALIDATING_ADMISSION_POLICIES
from kubevouch.api.kubevouch_v1alpha1.guard_versions import GuardVersion, guards_for, version_for
from kubevouch.api.kubevouch_v1alpha1.guards import GUARDS


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ((1, 29), GuardVersion.NONE),
        ((1, 30), GuardVersion.VALIDATING),
        ((1, 35), GuardVersion.VALIDATING),
        ((1, 36), GuardVersion.MUTATING),
        ((2, 0), GuardVersion.MUTATING),
    ],
)
def test_by_the_version_of_the_server(version: tuple[int, int], expected: GuardVersion) -> None:
    assert version_for(*version) is expected


def test_those_of_v1beta1_are_those_of_v1() -> None:
    beta = guards_for(GuardVersion.MUTATING_BETA)
    assert [obj for _, obj in beta] == [obj for _, obj in GUARDS]
    versions = {resource.plural: resource.version for resource, _ in beta}
    assert versions == {
        "mutatingadmissionpolicies": "v1beta1", "mutatingadmissionpolicybindings": "v1beta1",
        "validatingadmissionpolicies": "v1", "validatingadmissionpolicybindings": "v1",
    }  # fmt: skip


def test_each_policy_that_changes_has_one_that_asks_in_its_place() -> None:
    found = guards_for(GuardVersion.VALIDATING)
    assert {resource.version for resource, _ in found} == {"v1"}
    changing = {obj.metadata.name for resource, obj in GUARDS if resource is MUTATING_ADMISSION_POLICIES}
    asking = {obj.metadata.name for resource, obj in found if resource is VALIDATING_ADMISSION_POLICIES}
    assert {f"records.{each}" for each in changing} <= asking
    assert asking >= {obj.metadata.name for resource, obj in GUARDS if resource is VALIDATING_ADMISSION_POLICIES}
    assert len(found) == len(GUARDS)
    assert guards_for(GuardVersion.NONE) == ()
