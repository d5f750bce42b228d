from __future__ import annotations

from typing import Any

import pytest

from kubevouch.api.authorization_v1 import (
    FieldSelectorAttributes,
    LabelSelectorAttributes,
    LocalSubjectAccessReview,
    NonResourceAttributes,
    ResourceAttributes,
    SelfSubjectAccessReview,
    SelfSubjectAccessReviewSpec,
    SelfSubjectRulesReview,
    SubjectAccessReview,
    SubjectAccessReviewSpec,
    validate_local_subject_access_review,
    validate_self_subject_access_review,
    validate_subject_access_review,
)
from kubevouch.machinery.codec import json_codec
from kubevouch.machinery.field import FieldError
from kubevouch.machinery.meta import (
    FieldSelectorRequirement,
    LabelSelectorRequirement,
    ManagedFieldsEntry,
    ObjectMeta,
)

RESOURCE = ResourceAttributes(verb="get", resource="pods")
URL = NonResourceAttributes(path="/x", verb="get")
NEITHER = (
    "spec.resourceAttributes: Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be "
    "specified"
)
BOTH = (
    'spec.nonResourceAttributes: Invalid value: {"Path":"/x","Verb":"get"}: cannot be specified in combination with '
    "resourceAttributes"
)
NOBODY = 'spec.user: Invalid value: "": at least one of user or group must be specified'


def texts(problems: list[FieldError]) -> list[str]:
    return [str(problem) for problem in problems]


def test_empty_kinds_print_as_in_go() -> None:
    assert json_codec.encode(SubjectAccessReview()) == b'{"metadata":{},"spec":{},"status":{"allowed":false}}'
    assert json_codec.encode(SelfSubjectRulesReview()) == (
        b'{"metadata":{},"spec":{},"status":{"resourceRules":null,"nonResourceRules":null,"incomplete":false}}'
    )


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"resource_attributes": RESOURCE, "user": "u"}, []),
        ({"non_resource_attributes": URL, "groups": ["g"]}, []),
        ({}, [NEITHER, NOBODY]),
        ({"resource_attributes": RESOURCE, "non_resource_attributes": URL, "user": "u"}, [BOTH]),
    ],
)
def test_exactly_one_thing_is_asked_about_somebody(spec: dict[str, Any], expected: list[str]) -> None:
    review = SubjectAccessReview(spec=SubjectAccessReviewSpec(**spec))
    assert texts(validate_subject_access_review(review)) == expected


def test_metadata_is_empty_but_for_managed_fields() -> None:
    spec = SubjectAccessReviewSpec(resource_attributes=RESOURCE, user="u")
    managed = ObjectMeta(managed_fields=[ManagedFieldsEntry(manager="m")])
    assert validate_subject_access_review(SubjectAccessReview(metadata=managed, spec=spec)) == []
    named = SubjectAccessReview(metadata=ObjectMeta(name="n"), spec=spec)
    assert texts(validate_subject_access_review(named)) == ['metadata: Invalid value: {"name":"n"}: must be empty']


def test_self_reviews_name_nobody() -> None:
    good = SelfSubjectAccessReview(spec=SelfSubjectAccessReviewSpec(non_resource_attributes=URL))
    assert validate_self_subject_access_review(good) == []
    assert texts(validate_self_subject_access_review(SelfSubjectAccessReview())) == [NEITHER]


def test_local_reviews_stay_in_their_namespace() -> None:
    def local(namespace: str, **spec: Any) -> list[str]:
        review = LocalSubjectAccessReview(
            metadata=ObjectMeta(namespace="default"),
            spec=SubjectAccessReviewSpec(user="u", resource_attributes=ResourceAttributes(namespace=namespace), **spec),
        )
        return texts(validate_local_subject_access_review(review))

    assert local("default") == []
    # Answered so by a running kube-apiserver 1.36.2 (srv-lsar-namespace-mismatch).
    assert local("kube-system") == [
        'spec.resourceAttributes.namespace: Invalid value: "kube-system": must match metadata.namespace'
    ]
    assert local("default", non_resource_attributes=URL) == [
        BOTH,
        'spec.nonResourceAttributes: Invalid value: {"Path":"/x","Verb":"get"}: disallowed on this kind of request',
    ]
    named = LocalSubjectAccessReview(
        metadata=ObjectMeta(name="n", namespace="d"),
        spec=SubjectAccessReviewSpec(user="u", resource_attributes=ResourceAttributes(namespace="d")),
    )
    assert texts(validate_local_subject_access_review(named)) == [
        'metadata: Invalid value: {"name":"n","namespace":"d"}: must be empty except for namespace'
    ]


def with_selectors(**selectors: Any) -> list[str]:
    attributes = ResourceAttributes(verb="list", resource="pods", **selectors)
    spec = SubjectAccessReviewSpec(user="u", resource_attributes=attributes)
    return texts(validate_subject_access_review(SubjectAccessReview(spec=spec)))


def test_selectors_are_text_or_parts() -> None:
    requirement = FieldSelectorRequirement(key="spec.nodeName", operator="In", values=["n"])
    assert with_selectors(field_selector=FieldSelectorAttributes(raw_selector="a=b")) == []
    assert with_selectors(field_selector=FieldSelectorAttributes(requirements=[requirement])) == []
    both = FieldSelectorAttributes(raw_selector="a=b", requirements=[requirement])
    path = "spec.resourceAttributes.fieldSelector"
    assert with_selectors(field_selector=both) == [
        f'{path}.rawSelector: Invalid value: "a=b": may not specified at the same time as requirements'
    ]
    assert with_selectors(field_selector=FieldSelectorAttributes()) == [
        f"{path}.requirements: Required value: when {path} is specified, requirements or rawSelector is required"
    ]


def test_requirements_with_operators_that_nobody_knows_pass() -> None:
    unknown = LabelSelectorAttributes(requirements=[LabelSelectorRequirement(key="k", operator="Near")])
    assert with_selectors(label_selector=unknown) == []
    bad = LabelSelectorAttributes(requirements=[LabelSelectorRequirement(key="k", operator="In")])
    assert with_selectors(label_selector=bad) == [
        (
            "spec.resourceAttributes.labelSelector.requirements[0].values: Required value: must be specified when "
            "`operator` is 'In' or 'NotIn'"
        )
    ]


def test_field_requirements() -> None:
    requirements = [
        FieldSelectorRequirement(key="", operator="In"),
        FieldSelectorRequirement(key="k", operator="Exists", values=["v"]),
        FieldSelectorRequirement(key="k", operator="Near"),
    ]
    path = "spec.resourceAttributes.fieldSelector.requirements"
    assert with_selectors(field_selector=FieldSelectorAttributes(requirements=requirements)) == [
        f"{path}[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
        f"{path}[0].key: Required value: must be specified",
        f"{path}[1].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
    ]
