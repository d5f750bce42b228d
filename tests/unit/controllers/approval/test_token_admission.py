"""What a token's bounds keep from being approved; how bounds are made and matched is in the tests of records."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from asynctest import async_test
from controller_world import answer
from decisions import request_pem
from kubevouch import wellknown
from kubevouch.api.catalog import SECRETS
from kubevouch.api.certificates_v1 import CertificateSigningRequest, CertificateSigningRequestSpec
from kubevouch.api.core_v1 import Secret
from kubevouch.client.cache.indexer import Indexer
from kubevouch.client.cache.lister import Lister
from kubevouch.controllers.approval.token_admission import TokenAdmission, WaitingForUseError
from kubevouch.controllers.interface import IgnorableError, ReconcileError
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import ObjectMeta, replace_metadata
from kubevouch.records import token_record
from kubevouch.records.token_bounds import TOKEN_UID_EXTRA, TokenBoundError
from kubevouch.records.token_record import State, UsesTakenError

PREFIX = "bootstrap-token.kubevouch.io/"
USES = f"{PREFIX}uses"


def token(uid: str = "t-1", kind: str = wellknown.BOOTSTRAP_TOKEN_SECRET, **bounds: str) -> Secret:
    annotations = {f"{PREFIX}{key.replace('_', '-')}": value for key, value in bounds.items()}
    metadata = ObjectMeta(
        name="bootstrap-token-abcdef", namespace="kube-system", uid=uid, resource_version="1", annotations=annotations
    )
    return Secret(metadata=metadata, type=kind)


def request(
    node: str = "n1", *, uid: str = "c-1", token_uid: str = "", username: str = "system:bootstrap:abcdef"
) -> CertificateSigningRequest:
    spec = CertificateSigningRequestSpec(
        request=request_pem(f"system:node:{node}", "system:nodes"),
        signer_name=wellknown.KUBE_APISERVER_CLIENT_KUBELET_SIGNER,
        username=username,
        extra={TOKEN_UID_EXTRA: [token_uid]} if token_uid else {},
    )
    return CertificateSigningRequest(metadata=ObjectMeta(name=f"csr-{uid}", uid=uid), spec=spec)


class Server:
    """One Secret, with compare-and-swap; ``failures`` are what the next calls answer."""

    def __init__(self, secret: Secret | None, *failures: APIStatusError) -> None:
        self.secret = secret
        self.failures = list(failures)
        self.reads = self.writes = 0

    async def get(self, resource: Any, name: str, namespace: str) -> Secret:
        assert (resource, name, namespace) == (SECRETS, "bootstrap-token-abcdef", "kube-system")
        self.reads += 1
        if self.secret is None:
            raise answer(404)
        return self.secret

    async def update(self, resource: Any, secret: Secret) -> Secret:
        assert resource is SECRETS and self.secret is not None
        if self.failures:
            raise self.failures.pop(0)
        assert secret.metadata.resource_version == self.secret.metadata.resource_version
        self.writes += 1
        self.secret = replace_metadata(secret, resource_version=f"{self.writes + 1}")
        return secret


def admission(server: Server, cached: Secret | None = None) -> TokenAdmission:
    indexer: Indexer[Secret] = Indexer()
    if cached is not None:
        indexer.put(cached)
    client: Any = server
    return TokenAdmission(client, Lister(indexer))


@pytest.mark.parametrize(
    "csr", [request(username="jane"), request(username="system:node:n1"), request(username="system:bootstrap:")]
)
@async_test
async def test_who_came_without_a_token_is_not_looked_up(csr: CertificateSigningRequest) -> None:
    server = Server(token(node_names="other"))
    await admission(server).admit(csr)
    assert not await admission(server).is_for_node(csr, "n1")
    assert server.reads == 0


@pytest.mark.parametrize("stored", [None, token("t-2"), token(kind="Opaque")])
@async_test
async def test_the_end_of_a_bounded_token_is_not_the_end_of_its_bounds(stored: Secret | None) -> None:
    tokens = admission(Server(stored))
    for attempt in (tokens.admit(request(token_uid="t-1")), tokens.is_for_node(request(token_uid="t-1"), "n1")):
        with pytest.raises(TokenBoundError, match=r"^the token abcdef with which it came is deleted or has expired$"):
            await attempt
    if stored is None:
        await tokens.admit(request())


@async_test
async def test_a_cache_that_is_behind_is_not_believed() -> None:
    new = token("t-2", node_names="n1")
    server = Server(new)
    await admission(server, token("t-1", node_names="old")).admit(request(token_uid="t-2"))
    assert server.reads == 1
    await admission(server, new).admit(request(token_uid="t-2"))
    assert server.reads == 1


@pytest.mark.parametrize(
    ("secret", "csr", "refused"),
    [
        (token(), request(), None),
        (token(node_names="n1"), request(), None),
        (token(node_names="n2"), request(), TokenBoundError),
        (token(public_keys=f"sha256:{'0' * 64}"), request(), TokenBoundError),
        (token(public_keys=token_record.attempt_of(request()).key), request(), None),
        (token(source_ranges="192.0.2.0/24"), request(token_uid="t-1"), None),
        (token(source_ranges="192.0.2.0/24"), request(), IgnorableError),
        (token(uses="many"), request(), ReconcileError),
        (token(uses="1", record="{"), request(), ReconcileError),
    ],
)
@async_test
async def test_bounds(secret: Secret, csr: CertificateSigningRequest, refused: type[Exception] | None) -> None:
    server = Server(secret)
    if refused is None:
        await admission(server, secret).admit(csr)
    else:
        with pytest.raises(refused) as caught:
            await admission(server, secret).admit(csr)
        assert type(caught.value) is refused
    assert server.writes == 0


@async_test
async def test_of_two_machines_with_a_token_for_one_the_first_gets_it() -> None:
    server = Server(token(uses="1"))
    tokens = admission(server)
    await tokens.admit(request("n1", uid="c-1"))
    assert server.secret is not None
    [taken] = token_record.read(server.secret.metadata.annotations)
    assert (taken.uid, taken.subject, taken.state) == ("c-1", "system:node:n1", State.RESERVED)
    assert server.secret.metadata.annotations[USES] == "1"
    await tokens.admit(request("n1", uid="c-1"))
    assert server.writes == 1
    with pytest.raises(WaitingForUseError, match="its only use to system:node:n1"):
        await tokens.admit(request("n2", uid="c-2"))
    issued = token_record.written(
        server.secret.metadata.annotations, (msgspec.structs.replace(taken, state=State.ISSUED),)
    )
    server.secret = replace_metadata(server.secret, annotations=issued)
    with pytest.raises(UsesTakenError) as final:
        await tokens.admit(request("n2", uid="c-2"))
    assert final.value.final
    assert server.writes == 1


@async_test
async def test_a_use_is_taken_of_the_token_that_it_was() -> None:
    """The cache still has the one with which the request came."""
    with pytest.raises(TokenBoundError, match=r"^the token abcdef with which it came is deleted"):
        await admission(Server(token("t-2", uses="1")), token("t-1", uses="1")).admit(request())
    with pytest.raises(TokenBoundError, match=r"^the token abcdef with which it came is deleted"):
        await admission(Server(None), token("t-1", uses="1")).admit(request())
    # Somebody has lifted the bound meanwhile.
    server = Server(token("t-1"))
    await admission(server, token("t-1", uses="1")).admit(request())
    assert server.writes == 0


@pytest.mark.parametrize(("conflicts", "taken"), [(4, True), (5, False)])
@async_test
async def test_somebody_else_writes_the_secret_at_the_same_time(conflicts: int, taken: bool) -> None:
    server = Server(token(uses="1"), *[answer(409)] * conflicts)
    if taken:
        await admission(server).admit(request())
    else:
        with pytest.raises(ReconcileError, match="the bootstrap token abcdef is changed too often"):
            await admission(server).admit(request())
    assert server.writes == taken


@async_test
async def test_what_the_server_refuses_is_not_taken() -> None:
    with pytest.raises(APIStatusError) as refused:
        await admission(Server(token(uses="1"), answer(403))).admit(request())
    assert refused.value.code == 403


@pytest.mark.parametrize(
    ("secret", "csr", "named"),
    [
        (token(node_names="n1"), request(token_uid="t-1"), True),
        (token(node_names="n1"), request(), False),
        (token(node_names="n*"), request(token_uid="t-1"), False),
        (token(node_names="n2"), request(token_uid="t-1"), False),
        (token(uses="1"), request(token_uid="t-1"), False),
    ],
)
@async_test
async def test_a_token_for_this_very_name(secret: Secret, csr: CertificateSigningRequest, named: bool) -> None:
    assert await admission(Server(secret)).is_for_node(csr, "n1") is named
