"""authorization.k8s.io/v1: who may do what. Nothing of it is stored.

Source: k8s.io/api/authorization/v1, pkg/apis/authorization/validation (Kubernetes 1.36).
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from kubevouch.api.meta_v1 import validate_label_requirement
from kubevouch.machinery import field
from kubevouch.machinery.declaration import ExtraValue, Struct, always, named, null, wire
from kubevouch.machinery.field import FieldError
from kubevouch.machinery.meta import FieldSelectorRequirement, LabelSelectorRequirement, Object, ObjectMeta
from kubevouch.machinery.text.selectors import MAX_TERMS

GROUP = "authorization.k8s.io"


class FieldSelectorAttributes(Struct):
    """The field selector of a request, as text or in parts."""

    raw_selector: Annotated[str, wire(1, "The selector as it stands in the query.")] = ""
    requirements: Annotated[list[FieldSelectorRequirement], wire(2, "Its expressions.", list_type="atomic")] = []


class LabelSelectorAttributes(Struct):
    """The label selector of a request, as text or in parts."""

    raw_selector: Annotated[str, wire(1, "The selector as it stands in the query.")] = ""
    requirements: Annotated[list[LabelSelectorRequirement], wire(2, "Its expressions.", list_type="atomic")] = []


class ResourceAttributes(Struct):
    """A request about a resource."""

    namespace: Annotated[str, wire(1, "The namespace; empty means none, or all.")] = ""
    verb: Annotated[str, wire(2, "The verb; * is all.")] = ""
    group: Annotated[str, wire(3, "The group; * is all.")] = ""
    version: Annotated[str, wire(4, "The version; * is all.")] = ""
    resource: Annotated[str, wire(5, "The resource; * is all.")] = ""
    subresource: Annotated[str, wire(6, "The subresource, if one is meant.")] = ""
    name: Annotated[str, wire(7, "The object; empty means all.")] = ""
    field_selector: Annotated[FieldSelectorAttributes | None, wire(8, "Only objects with such fields.")] = None
    label_selector: Annotated[LabelSelectorAttributes | None, wire(9, "Only objects with such labels.")] = None


class NonResourceAttributes(Struct):
    """A request about a URL that is no resource."""

    path: Annotated[str, wire(1, "The path.")] = ""
    verb: Annotated[str, wire(2, "The HTTP method in lower case.")] = ""


class SubjectAccessReviewSpec(Struct):
    """Who wants to do what."""

    resource_attributes: Annotated[ResourceAttributes | None, wire(1, "A request about a resource.")] = None
    non_resource_attributes: Annotated[NonResourceAttributes | None, wire(2, "A request about another URL.")] = None
    user: Annotated[str, wire(3, "The user's name.")] = ""
    groups: Annotated[list[str], wire(4, "The user's groups.", list_type="atomic")] = []
    extra: Annotated[dict[str, ExtraValue], wire(5, "What else is known of the user.")] = {}
    uid: Annotated[str, wire(6, "The user's UID.")] = ""


class SubjectAccessReviewStatus(Struct):
    """Whether it is allowed."""

    allowed: Annotated[bool, wire(1, "True if it is allowed.", required=True)] = always(bool)
    denied: Annotated[bool, wire(4, "True if it is forbidden outright, whatever other authorizers say.")] = False
    reason: Annotated[str, wire(2, "Why.")] = ""
    evaluation_error: Annotated[str, wire(3, "What went wrong on the way to the answer.")] = ""


class SubjectAccessReview(Object):
    """Asks whether a user may do something."""

    spec: Annotated[SubjectAccessReviewSpec, wire(2, "Who wants to do what.", required=True)] = always(
        SubjectAccessReviewSpec
    )
    status: Annotated[SubjectAccessReviewStatus, wire(3, "Whether it is allowed.")] = always(SubjectAccessReviewStatus)


class LocalSubjectAccessReview(Object):
    """Asks whether a user may do something in one namespace."""

    spec: Annotated[SubjectAccessReviewSpec, wire(2, "Who wants to do what.", required=True)] = always(
        SubjectAccessReviewSpec
    )
    status: Annotated[SubjectAccessReviewStatus, wire(3, "Whether it is allowed.")] = always(SubjectAccessReviewStatus)


class SelfSubjectAccessReviewSpec(Struct):
    """What the asker wants to do."""

    resource_attributes: Annotated[ResourceAttributes | None, wire(1, "A request about a resource.")] = None
    non_resource_attributes: Annotated[NonResourceAttributes | None, wire(2, "A request about another URL.")] = None


class SelfSubjectAccessReview(Object):
    """Asks whether one may do something oneself."""

    spec: Annotated[SelfSubjectAccessReviewSpec, wire(2, "What the asker wants to do.", required=True)] = always(
        SelfSubjectAccessReviewSpec
    )
    status: Annotated[SubjectAccessReviewStatus, wire(3, "Whether it is allowed.")] = always(SubjectAccessReviewStatus)


class SelfSubjectRulesReviewSpec(Struct):
    """Where the asker wants to act."""

    namespace: Annotated[str, wire(1, "The namespace.")] = ""


class ResourceRule(Struct):
    """What may be done to which resources."""

    verbs: Annotated[list[str] | None, wire(1, "The verbs.", required=True, list_type="atomic")] = null()
    api_groups: Annotated[list[str], wire(2, "The groups.", list_type="atomic")] = []
    resources: Annotated[list[str], wire(3, "The resources.", list_type="atomic")] = []
    resource_names: Annotated[list[str], wire(4, "The objects; empty means all.", list_type="atomic")] = []


class NonResourceRule(Struct):
    """What may be done to which URLs."""

    verbs: Annotated[list[str] | None, wire(1, "The verbs.", required=True, list_type="atomic")] = null()
    non_resource_urls: Annotated[list[str], wire(2, "The paths.", list_type="atomic")] = named("nonResourceURLs", [])


class SubjectRulesReviewStatus(Struct):
    """All that the asker may do, as far as it is known."""

    resource_rules: Annotated[
        list[ResourceRule] | None, wire(1, "Rules about resources.", required=True, list_type="atomic")
    ] = null()
    non_resource_rules: Annotated[
        list[NonResourceRule] | None, wire(2, "Rules about other URLs.", required=True, list_type="atomic")
    ] = null()
    incomplete: Annotated[bool, wire(3, "True if there may be more.", required=True)] = always(bool)
    evaluation_error: Annotated[str, wire(4, "Why there may be more.")] = ""


class SelfSubjectRulesReview(Object):
    """Asks for all that one may do oneself in a namespace."""

    spec: Annotated[SelfSubjectRulesReviewSpec, wire(2, "Where.", required=True)] = always(SelfSubjectRulesReviewSpec)
    status: Annotated[SubjectRulesReviewStatus, wire(3, "What the asker may do.")] = always(SubjectRulesReviewStatus)


class _NonResourceAttributes(msgspec.Struct):
    """Kubernetes' internal type, whose Go field names stand in messages."""

    Path: str
    Verb: str


def _printed(attributes: NonResourceAttributes | None) -> _NonResourceAttributes | None:
    return None if attributes is None else _NonResourceAttributes(attributes.path, attributes.verb)


def validate_subject_access_review(review: SubjectAccessReview) -> list[FieldError]:
    """What is wrong with a SubjectAccessReview, its metadata included."""
    return _user_spec_errors(review.spec) + _metadata_errors(review.metadata, "must be empty")


def validate_self_subject_access_review(review: SelfSubjectAccessReview) -> list[FieldError]:
    """What is wrong with a SelfSubjectAccessReview, its metadata included."""
    spec = review.spec
    return (
        _exclusion_errors(spec)
        + _resource_errors(spec.resource_attributes)
        + _metadata_errors(review.metadata, "must be empty")
    )


def validate_local_subject_access_review(review: LocalSubjectAccessReview) -> list[FieldError]:
    """What is wrong with a LocalSubjectAccessReview, its metadata included."""
    spec, metadata = review.spec, review.metadata
    errors = _user_spec_errors(spec)
    if _is_set(msgspec.structs.replace(metadata, namespace="")):
        errors.append(field.invalid("metadata", metadata, "must be empty except for namespace"))
    attributes = spec.resource_attributes
    if attributes is not None and attributes.namespace != metadata.namespace:
        errors.append(
            field.invalid("spec.resourceAttributes.namespace", attributes.namespace, "must match metadata.namespace")
        )
    if spec.non_resource_attributes is not None:
        errors.append(
            field.invalid(
                "spec.nonResourceAttributes",
                _printed(spec.non_resource_attributes),
                "disallowed on this kind of request",
            )
        )
    return errors


def _user_spec_errors(spec: SubjectAccessReviewSpec) -> list[FieldError]:
    errors = _exclusion_errors(spec)
    if not spec.user and not spec.groups:
        errors.append(field.invalid("spec.user", spec.user, "at least one of user or group must be specified"))
    return errors + _resource_errors(spec.resource_attributes)


def _exclusion_errors(spec: SubjectAccessReviewSpec | SelfSubjectAccessReviewSpec) -> list[FieldError]:
    of_resource, of_url = spec.resource_attributes, spec.non_resource_attributes
    if of_resource is not None and of_url is not None:
        return [
            field.invalid(
                "spec.nonResourceAttributes",
                _printed(of_url),
                "cannot be specified in combination with resourceAttributes",
            )
        ]
    if of_resource is None and of_url is None:
        return [
            field.invalid(
                "spec.resourceAttributes",
                None,
                "exactly one of nonResourceAttributes or resourceAttributes must be specified",
            )
        ]
    return []


def _metadata_errors(metadata: ObjectMeta, message: str) -> list[FieldError]:
    return [field.invalid("metadata", metadata, message)] if _is_set(metadata) else []


def _is_set(metadata: ObjectMeta) -> bool:
    return msgspec.structs.replace(metadata, managed_fields=[]) != ObjectMeta()


def _resource_errors(attributes: ResourceAttributes | None) -> list[FieldError]:
    if attributes is None:
        return []
    path = "spec.resourceAttributes"
    errors: list[FieldError] = []
    for selector, name in ((attributes.field_selector, "fieldSelector"), (attributes.label_selector, "labelSelector")):
        terms = 0 if selector is None else sum(1 + len(each.values) for each in selector.requirements)
        if terms > MAX_TERMS:
            errors.append(field.too_many(f"{path}.{name}.requirements", terms, MAX_TERMS))
    if errors:
        return errors
    if attributes.field_selector is not None:
        errors += _field_selector_errors(attributes.field_selector, f"{path}.fieldSelector")
    if attributes.label_selector is not None:
        errors += _selector_errors(attributes.label_selector, f"{path}.labelSelector")
        for index, requirement in enumerate(attributes.label_selector.requirements):
            errors += validate_label_requirement(
                requirement, f"{path}.labelSelector.requirements[{index}]", tolerate_operators=True
            )
    return errors


def _selector_errors(selector: FieldSelectorAttributes | LabelSelectorAttributes, path: str) -> list[FieldError]:
    if selector.raw_selector and selector.requirements:
        # Sic: Kubernetes' sentence lacks a word.
        return [
            field.invalid(
                f"{path}.rawSelector", selector.raw_selector, "may not specified at the same time as requirements"
            )
        ]
    if not selector.raw_selector and not selector.requirements:
        why = f"when {path} is specified, requirements or rawSelector is required"
        return [field.required(f"{path}.requirements", why)]
    return []


def _field_selector_errors(selector: FieldSelectorAttributes, path: str) -> list[FieldError]:
    errors = _selector_errors(selector, path)
    for index, requirement in enumerate(selector.requirements):
        place = f"{path}.requirements[{index}]"
        # Operators that are not known here pass, as in access reviews of newer clients.
        if requirement.operator in ("In", "NotIn") and not requirement.values:
            errors.append(field.required(f"{place}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
        if requirement.operator in ("Exists", "DoesNotExist") and requirement.values:
            errors.append(
                field.forbidden(f"{place}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
            )
        if not requirement.key:
            errors.append(field.required(f"{place}.key", "must be specified"))
    return errors
