"""What the garbage collector may do with custom objects, and nobody else."""

from __future__ import annotations

import pytest
from msgspec import structs

from asynctest import async_test
from kubevouch.authentication.interface import UserInfo
from kubevouch.authorization.custom_kinds import CustomKindCollectorAuthorizer
from kubevouch.authorization.interface import Attributes, Decision

COLLECTOR = UserInfo("system:serviceaccount:kube-system:garbage-collector-controller")
ASKED = Attributes(COLLECTOR, "delete", group="demo.example.com", resource="widgets", namespace="n", name="w")


@async_test
async def test_it_may_take_custom_objects_away() -> None:
    for verb in ("delete", "get", "list", "patch", "watch"):
        verdict = await CustomKindCollectorAuthorizer().authorize(structs.replace(ASKED, verb=verb))
        assert verdict.decision is Decision.ALLOW


@pytest.mark.parametrize(
    "asked",
    [
        structs.replace(ASKED, user=UserInfo("alice")),
        structs.replace(ASKED, user=UserInfo("system:serviceaccount:default:garbage-collector-controller")),
        structs.replace(ASKED, subresource="status"),
        structs.replace(ASKED, verb="create"),
        structs.replace(ASKED, verb="update"),
        structs.replace(ASKED, verb="deletecollection"),
        structs.replace(ASKED, group=""),
        structs.replace(ASKED, group="*"),
        structs.replace(ASKED, group="authorization.k8s.io"),
        structs.replace(ASKED, group="certificates.k8s.io", resource="certificatesigningrequests"),
        structs.replace(ASKED, path="/healthz"),
    ],
)
@async_test
async def test_nothing_else_is_decided(asked: Attributes) -> None:
    assert (await CustomKindCollectorAuthorizer().authorize(asked)).decision is Decision.NO_OPINION
