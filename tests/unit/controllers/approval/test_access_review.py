from __future__ import annotations

from typing import Any

import msgspec
import pytest

from asynctest import async_test
from decisions import csr
from kubevouch.api.authorization_v1 import (
    ResourceAttributes,
    SubjectAccessReview,
    SubjectAccessReviewSpec,
    SubjectAccessReviewStatus,
)
from kubevouch.api.catalog import SUBJECT_ACCESS_REVIEWS
from kubevouch.controllers.approval.access_review import may_create


class Answers:
    """The side of an API server that answers reviews."""

    def __init__(self, allowed: bool) -> None:
        self.allowed = allowed
        self.asked: list[tuple[Any, SubjectAccessReviewSpec]] = []

    async def create(self, resource: Any, review: SubjectAccessReview) -> SubjectAccessReview:
        self.asked.append((resource, review.spec))
        return msgspec.structs.replace(review, status=SubjectAccessReviewStatus(allowed=self.allowed))


@pytest.mark.parametrize("allowed", [True, False])
@async_test
async def test_everything_about_the_requester_is_told(allowed: bool) -> None:
    requester: dict[str, Any] = {"username": "jane", "uid": "u", "groups": ["a"], "extra": {"k": ["v"]}}
    server: Any = Answers(allowed)
    spec = msgspec.structs.replace(csr("example.com/a").spec, **requester)
    assert await may_create(server, spec, "nodeclient") is allowed
    attributes = ResourceAttributes(
        verb="create",
        group="certificates.k8s.io",
        version="*",
        resource="certificatesigningrequests",
        subresource="nodeclient",
    )
    wanted = SubjectAccessReviewSpec(
        user="jane", uid="u", groups=["a"], extra={"k": ["v"]}, resource_attributes=attributes
    )
    assert server.asked == [(SUBJECT_ACCESS_REVIEWS, wanted)]
