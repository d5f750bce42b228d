"""A request that is decided late is decided by what is true then, and not by what was stamped on it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Awaitable, Callable

import msgspec
import pytest

from asynctest import async_test
from controller_world import World, world
from decisions import request_pem
from kubevouch import wellknown
from kubevouch.api.catalog import CERTIFICATE_SIGNING_REQUESTS, CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, EVENTS, SECRETS
from kubevouch.api.certificates_v1 import CertificateSigningRequest, CertificateSigningRequestSpec
from kubevouch.api.rbac_v1 import PolicyRule
from kubevouch.authorization.policy import cluster_role, cluster_role_binding, group
from kubevouch.controllers import csr_approving
from kubevouch.controllers.approval.late_requests import LATE
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.records.bootstrap_tokens import BootstrapToken, Token, to_secret

TOKEN = Token("abcdef", "0123456789abcdef")
GROUPS = (wellknown.BOOTSTRAPPERS_GROUP, "system:bootstrappers:rack")
MAY_JOIN = PolicyRule(
    verbs=["create"],
    api_groups=["certificates.k8s.io"],
    resources=["certificatesigningrequests", "certificatesigningrequests/nodeclient"],
)


async def stands(at: World) -> list[str]:
    await at.settle()
    csr = await at.client.get(CERTIFICATE_SIGNING_REQUESTS, "n1")
    return [each.type for each in csr.status.conditions]


async def asked_before_the_right_was_there(at: World, **bounds: dt.datetime) -> None:
    """A token and its request, which waits: nobody has given the group of the token the right yet."""
    until = at.clock.now() + dt.timedelta(hours=1)
    made = BootstrapToken(token=TOKEN, usages=("authentication",), groups=GROUPS[1:], expires=until)
    await at.client.create(SECRETS, to_secret(msgspec.structs.replace(made, **bounds)))
    posts = cluster_role("posts", msgspec.structs.replace(MAY_JOIN, resources=["certificatesigningrequests"]))
    await at.client.create(CLUSTER_ROLES, posts)
    await at.client.create(CLUSTER_ROLE_BINDINGS, cluster_role_binding("posts", group(GROUPS[0])))
    spec = CertificateSigningRequestSpec(
        request=request_pem("system:node:n1", "system:nodes"),
        signer_name=wellknown.KUBE_APISERVER_CLIENT_KUBELET_SIGNER,
        usages=["digital signature", "client auth"],
    )
    csr = CertificateSigningRequest(metadata=ObjectMeta(name="n1"), spec=spec)
    await at.as_user(TOKEN.user, *GROUPS).create(CERTIFICATE_SIGNING_REQUESTS, csr)
    await at.run(csr_approving.NAME)
    assert await stands(at) == []


async def give_the_right(at: World) -> None:
    await at.client.create(CLUSTER_ROLES, cluster_role("join", MAY_JOIN))
    await at.client.create(CLUSTER_ROLE_BINDINGS, cluster_role_binding("join", group(GROUPS[1])))
    await at.clock.run(1100)
    await at.settle()


async def delete(at: World) -> None:
    await at.client.delete(SECRETS, TOKEN.secret_name, wellknown.KUBE_SYSTEM_NAMESPACE)


async def take_the_group_away(at: World) -> None:
    await change(at, "auth-extra-groups", b"system:bootstrappers:others")


async def turn_off(at: World) -> None:
    await change(at, "usage-bootstrap-authentication", b"false")


async def change(at: World, key: str, value: bytes) -> None:
    secret = await at.client.get(SECRETS, TOKEN.secret_name, wellknown.KUBE_SYSTEM_NAMESPACE)
    await at.client.update(SECRETS, msgspec.structs.replace(secret, data={**secret.data, key: value}))


async def wait_for_its_end(at: World) -> None:
    at.clock.advance(7200)


@pytest.mark.parametrize("taken", [delete, take_the_group_away, turn_off, wait_for_its_end])
@async_test
async def test_what_was_taken_from_a_token_its_requests_have_no_more(taken: Callable[[World], Awaitable[None]]) -> None:
    async with world() as at:
        await asked_before_the_right_was_there(at)
        at.clock.advance(LATE.total_seconds())
        await taken(at)
        await give_the_right(at)
        assert await stands(at) == []
        told = [each.message for each in (await at.client.list(EVENTS, "default")).items]
        assert any("minutes ago, and its bootstrap token" in each for each in told)


@async_test
async def test_a_token_that_is_still_there_lets_its_machine_in_late() -> None:
    async with world() as at:
        await asked_before_the_right_was_there(at)
        at.clock.advance(LATE.total_seconds())
        await give_the_right(at)
        assert await stands(at) == ["Approved"]


@async_test
async def test_a_token_may_end_while_its_machine_is_let_in() -> None:
    async with world() as at:
        await asked_before_the_right_was_there(at)
        await delete(at)
        await at.client.create(CLUSTER_ROLES, cluster_role("join", MAY_JOIN))
        await at.client.create(CLUSTER_ROLE_BINDINGS, cluster_role_binding("join", group(GROUPS[1])))
        await at.clock.run(60)
        assert await stands(at) == ["Approved"]
