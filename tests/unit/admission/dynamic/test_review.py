from __future__ import annotations

from typing import Any

import pytest

from decisions import admission_request
from kubevouch.admission.dynamic.review import InvalidResponse, Shown, rejection, review_version, verify_response
from kubevouch.admission.interface import Operation
from kubevouch.api.catalog import CONFIG_MAPS
from kubevouch.api.core_v1 import ConfigMap
from kubevouch.api.meta_v1 import PatchOptions
from kubevouch.machinery.meta import ObjectMeta, Status

UID = "u"
KIND = "admission.k8s.io/v1, Kind=Admission"


def answer(version: str = "v1", **response: Any) -> dict[str, Any]:
    members = {"uid": UID, "allowed": True, **response}
    return {"apiVersion": f"admission.k8s.io/{version}", "kind": "AdmissionReview", "response": members}


@pytest.mark.parametrize(
    ("given", "mutating", "why"),
    [
        ({}, False, "webhook response was absent"),
        (answer(uid="x"), False, 'expected response.uid="u", got "x"'),
        (
            {**answer(), "kind": "Review"},
            False,
            f"expected webhook response of {KIND}Review, got admission.k8s.io/v1, Kind=Review",
        ),
        (answer(patch="e30="), False, "validating webhook may not return response.patch"),
        (answer(patchType="JSONPatch"), False, "validating webhook may not return response.patchType"),
        (answer(patch="e30="), True, "webhook returned response.patch but not response.patchType"),
        (answer(patchType="JSONPatch"), True, "webhook returned response.patchType but not response.patch"),
        (answer(patch="e30=", patchType=""), True, 'webhook returned invalid response.patchType of ""'),
    ],
)
def test_answers_that_are_none(given: Any, mutating: bool, why: str) -> None:
    with pytest.raises(InvalidResponse) as caught:
        verify_response(given, UID, "v1", mutating=mutating)
    assert str(caught.value) == why


@pytest.mark.parametrize("given", [[], {"response": []}, answer(allowed="yes"), answer(patch="?")])
def test_answers_of_other_types(given: Any) -> None:
    with pytest.raises(InvalidResponse):
        verify_response(given, UID, "v1", mutating=True)


def test_the_older_version_is_taken_at_its_word() -> None:
    response = verify_response(answer("v1beta1", uid="x", patch="W10="), UID, "v1beta1", mutating=True)
    assert (response.allowed, response.patch, response.patch_type) == (True, b"[]", "JSONPatch")


def test_the_first_version_that_is_known() -> None:
    assert review_version(["v2", "v1beta1", "v1"]) == "v1beta1"
    with pytest.raises(InvalidResponse, match=r"known AdmissionReview versions \(v1, v1beta1\)"):
        review_version(["v2"])


@pytest.mark.parametrize(
    ("status", "code", "message"),
    [
        (None, 400, 'admission webhook "w" denied the request without explanation'),
        (Status(status="Success", code=200), 400, 'admission webhook "w" denied the request without explanation'),
        (Status(reason="Gone", code=410), 410, 'admission webhook "w" denied the request: Gone'),
        (Status(reason="Gone", message="no"), 400, 'admission webhook "w" denied the request: no'),
    ],
)
def test_rejections(status: Status | None, code: int, message: str) -> None:
    found = rejection("w", status).status
    assert (found.status, found.code, found.message) == ("Failure", code, message)


def test_a_patch_is_shown_as_an_update() -> None:
    obj = ConfigMap(metadata=ObjectMeta(name="a", namespace="default"))
    request = admission_request(Operation.UPDATE, CONFIG_MAPS, obj, obj)
    request.options = PatchOptions(field_manager="me", force=True)
    shown = Shown(request, request.versions[0])
    expected = {"kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1", "fieldManager": "me"}
    assert shown.attributes["options"] == expected
    review = shown.review(UID, "v1beta1")
    assert (review["apiVersion"], review["request"]["uid"]) == ("admission.k8s.io/v1beta1", UID)
    assert review["request"]["oldObject"] == review["request"]["object"] == shown.object
