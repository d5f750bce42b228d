from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kubevouch.api.apiextensions_v1.definitions import CustomResourceDefinition, default_definition
from kubevouch.api.catalog import CUSTOM_RESOURCE_DEFINITIONS
from kubevouch.api.kubevouch_v1alpha1.catalog import CERTIFICATE_REVOCATION_KIND, OWN_KINDS
from kubevouch.api.kubevouch_v1alpha1.own_kind import definition_of
from kubevouch.doctor.definitions import judge
from kubevouch.machinery.meta import replace_metadata
from kubevouch.machinery.text.times import Time

NAME = CERTIFICATE_REVOCATION_KIND.definition_name
CODEC = CUSTOM_RESOURCE_DEFINITIONS.codec


def installed(definition: CustomResourceDefinition) -> CustomResourceDefinition:
    tree = CODEC.to_tree(definition)
    tree["status"] = {"conditions": [{"type": "Established", "status": "True"}]}
    made: CustomResourceDefinition = CODEC.from_tree(tree).value
    return made


def all_of_them() -> dict[str, Any]:
    return {kind.definition_name: installed(default_definition(definition_of(kind))) for kind in OWN_KINDS}


def changed(change: str) -> CustomResourceDefinition:
    found = all_of_them()[NAME]
    if change == "going":
        going: CustomResourceDefinition = replace_metadata(found, deletion_timestamp=Time(0))
        return going
    if change == "not established":
        bare: CustomResourceDefinition = msgspec.structs.replace(found, status=type(found.status)())
        return bare
    tree = CODEC.to_tree(found)
    version = tree["spec"]["versions"][0]
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    if change == "not served":
        version["served"] = False
    elif change == "not stored":
        version["storage"] = False
    elif change == "pruned":
        del spec["properties"]["revoked"]["properties"]["keys"]
    elif change == "without rules":
        del spec["properties"]["revoked"]["x-kubernetes-validations"]
    elif change == "without status":
        del version["subresources"]
    made: CustomResourceDefinition = CODEC.from_tree(tree).value
    return made


def test_what_is_installed_is_good() -> None:
    assert list(judge(all_of_them())) == []


def test_where_nobody_has_installed_them_nothing_is_missing() -> None:
    assert list(judge(dict.fromkeys(all_of_them()))) == []


def test_a_later_version_may_have_more() -> None:
    tree = CODEC.to_tree(all_of_them()[NAME])
    tree["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["more"] = {"type": "string"}
    assert list(judge({**all_of_them(), NAME: CODEC.from_tree(tree).value})) == []


@pytest.mark.parametrize(
    "change", ["going", "not established", "not served", "not stored", "pruned", "without rules", "without status"]
)
def test_one_that_serves_less(change: str) -> None:
    (finding,) = judge({**all_of_them(), NAME: changed(change)})
    assert finding.cause.startswith(NAME)


def test_one_that_is_gone() -> None:
    (finding,) = judge({**all_of_them(), NAME: None})
    assert finding.cause == f"{NAME} is not there"
