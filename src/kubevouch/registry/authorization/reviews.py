"""SubjectAccessReview and its kin: answered, never stored (pkg/registry/authorization; Kubernetes 1.36)."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from kubevouch.api import authorization_v1 as v1
from kubevouch.authentication.interface import UserInfo
from kubevouch.authorization.interface import Attributes, Authorizer, Decision, RuleResolver, Rules
from kubevouch.machinery import errors
from kubevouch.machinery.field import FieldError
from kubevouch.machinery.scheme import GroupVersionKind
from kubevouch.registry.interface import Context, Validate

# Kubernetes really leaves the kind out of these two kinds' messages (observed on 1.36.2).
_NAMELESS = GroupVersionKind(v1.GROUP, "v1", "")


Answerable = TypeVar("Answerable", v1.SubjectAccessReview, v1.LocalSubjectAccessReview, v1.SelfSubjectAccessReview)


class Reviews:
    """The four reviews over one authorizer."""

    def __init__(self, authorizer: Authorizer, resolver: RuleResolver) -> None:
        self._authorizer = authorizer
        self._resolver = resolver

    async def subject_access(
        self, _ctx: Context, _namespace: str, _name: str, review: v1.SubjectAccessReview, validate: Validate
    ) -> v1.SubjectAccessReview:
        _refuse(v1.validate_subject_access_review(review), _NAMELESS)
        await validate(review)
        return await self._answered(review, _user_of(review.spec))

    async def local_subject_access(
        self, _ctx: Context, namespace: str, _name: str, review: v1.LocalSubjectAccessReview, validate: Validate
    ) -> v1.LocalSubjectAccessReview:
        _refuse(v1.validate_local_subject_access_review(review), _NAMELESS)
        if review.metadata.namespace != namespace:
            raise errors.bad_request(f"namespace mismatch: {namespace}, {review.metadata.namespace}")
        await validate(review)
        return await self._answered(review, _user_of(review.spec))

    async def self_subject_access(
        self, ctx: Context, _namespace: str, _name: str, review: v1.SelfSubjectAccessReview, validate: Validate
    ) -> v1.SelfSubjectAccessReview:
        kind = GroupVersionKind(v1.GROUP, "v1", "SelfSubjectAccessReview")
        _refuse(v1.validate_self_subject_access_review(review), kind)
        await validate(review)
        return await self._answered(review, ctx.user)

    async def _answered(self, review: Answerable, user: UserInfo) -> Answerable:
        verdict = await self._authorizer.authorize(attributes_of(review.spec, user))
        status = v1.SubjectAccessReviewStatus(
            allowed=verdict.decision is Decision.ALLOW,
            denied=verdict.decision is Decision.DENY,
            reason=verdict.reason,
            evaluation_error=verdict.error,
        )
        return msgspec.structs.replace(review, status=status)

    async def self_subject_rules(
        self, ctx: Context, _namespace: str, _name: str, review: v1.SelfSubjectRulesReview, validate: Validate
    ) -> v1.SelfSubjectRulesReview:
        namespace = review.spec.namespace
        if not namespace:
            raise errors.bad_request("no namespace on request")
        await validate(review)
        found = await self._resolver.rules_for(ctx.user, namespace)
        return msgspec.structs.replace(review, status=_rules_status(found))


def _refuse(problems: list[FieldError], kind: GroupVersionKind) -> None:
    if problems:
        raise errors.invalid(kind, "", problems)


def _user_of(spec: v1.SubjectAccessReviewSpec) -> UserInfo:
    return UserInfo(spec.user, spec.uid, tuple(spec.groups), {key: tuple(values) for key, values in spec.extra.items()})


def attributes_of(spec: Any, user: UserInfo) -> Attributes:
    """What a review's spec asks, as ``user``."""
    resource: v1.ResourceAttributes | None = spec.resource_attributes
    if resource is not None:
        return Attributes(
            user=user,
            verb=resource.verb,
            group=resource.group,
            api_version=resource.version,
            resource=resource.resource,
            subresource=resource.subresource,
            namespace=resource.namespace,
            name=resource.name,
            field_selector=resource.field_selector.raw_selector if resource.field_selector is not None else "",
            label_selector=resource.label_selector.raw_selector if resource.label_selector is not None else "",
        )
    other: v1.NonResourceAttributes = spec.non_resource_attributes
    return Attributes(user=user, verb=other.verb, path=other.path or "/")


def _rules_status(found: Rules) -> v1.SubjectRulesReviewStatus:
    resource_rules, other_rules = [], []
    for rule in found.rules:
        if rule.non_resource_urls:
            other_rules.append(
                v1.NonResourceRule(verbs=list(rule.verbs), non_resource_urls=list(rule.non_resource_urls))
            )
        else:
            resource_rules.append(
                v1.ResourceRule(
                    verbs=list(rule.verbs),
                    api_groups=list(rule.api_groups),
                    resources=list(rule.resources),
                    resource_names=list(rule.resource_names),
                )
            )
    return v1.SubjectRulesReviewStatus(
        resource_rules=resource_rules,
        non_resource_rules=other_rules,
        incomplete=found.incomplete,
        evaluation_error=found.error,
    )
