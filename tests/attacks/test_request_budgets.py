"""Whoever has stolen a bootstrap token fills its budget of open requests, and its honest machines stay out."""

from __future__ import annotations

import functools

import pytest

import identity_world as world
from asynctest import async_test
from decisions import admission_request
from kubevouch.admission.certificate_request_budget import (
    DEFAULT_BUDGET,
    NAME_BUDGET,
    SOURCE_BUDGET,
    CertificateRequestBudget,
    OpenRequests,
)
from kubevouch.admission.interface import Operation
from kubevouch.api import catalog
from kubevouch.api.certificates_v1 import CertificateSigningRequest, CertificateSigningRequestSpec
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.records.token_bounds import SOURCE_ADDRESS_ANNOTATION
from kubevouch.testing.cluster import Cluster

TOKEN = world.token_user()


@functools.cache
def pem(node: str) -> bytes:
    return world.node_request(node)


def csr(name: str, source: str, node: str, token: str = "abcdef") -> CertificateSigningRequest:
    annotations = {SOURCE_ADDRESS_ANNOTATION: source} if source else {}
    spec = CertificateSigningRequestSpec(
        request=pem(node), signer_name=world.NODE_CLIENT, username=f"system:bootstrap:{token}"
    )
    return CertificateSigningRequest(metadata=ObjectMeta(name=name, annotations=annotations), spec=spec)


class Flood:
    """Requests as they come: refused, or stored and counted."""

    def __init__(self) -> None:
        self.open = OpenRequests()
        self._plugin = CertificateRequestBudget(self.open)
        self._number = 0

    async def send(self, source: str, node: str, token: str = "abcdef") -> int:
        """200, or the code of the refusal."""
        self._number += 1
        obj = csr(f"csr-{self._number}", source, node, token)
        user = world.token_user(token)
        try:
            await self._plugin.validate(
                admission_request(Operation.CREATE, catalog.CERTIFICATE_SIGNING_REQUESTS, obj, user=user)
            )
        except APIStatusError as err:
            return err.code
        self.open.changed(obj.metadata.name, obj)
        return 200


@async_test
async def test_a_thief_at_one_address_does_not_use_up_the_token() -> None:
    flood = Flood()
    names = [f"worker-{n}" for n in range(50)]
    codes = [await flood.send("198.51.100.7", names[n % 50]) for n in range(DEFAULT_BUDGET)]
    assert (codes.count(200), codes.count(429)) == (SOURCE_BUDGET, DEFAULT_BUDGET - SOURCE_BUDGET)
    assert await flood.send("203.0.113.1", "worker-1") == 200
    # Another token does not help.
    assert await flood.send("198.51.100.7", "new", "bbbbbb") == 429


@async_test
async def test_any_address_of_one_network_is_one_address() -> None:
    flood = Flood()
    for number in range(SOURCE_BUDGET + 1):
        code = await flood.send(f"2001:db8::{number:x}", f"worker-{number % 50}")
    assert code == 429
    assert await flood.send("2001:db8:0:1::1", "worker-1") == 200
    assert await flood.send("::ffff:203.0.113.1", "worker-1") == 200


@async_test
async def test_one_name_from_one_address() -> None:
    flood = Flood()
    codes = [await flood.send("198.51.100.7", "worker-1") for _ in range(NAME_BUDGET + 1)]
    assert codes == [200] * NAME_BUDGET + [429]
    assert await flood.send("198.51.100.7", "worker-2") == 200
    # The machine that the name belongs to is elsewhere.
    assert await flood.send("203.0.113.1", "worker-1") == 200
    flood.open.changed("csr-1", None)
    assert await flood.send("198.51.100.7", "worker-1") == 200


@async_test
async def test_nothing_is_counted_for_ever() -> None:
    flood = Flood()
    for number in range(100):
        await flood.send("198.51.100.7", f"worker-{number % 50}")
    for number in range(1, 101):
        flood.open.changed(f"csr-{number}", None)
    kept = [*vars(flood.open).values(), *vars(flood.open._open).values()]
    tables = [table for table in kept if isinstance(table, dict)]
    assert len(tables) >= 6 and not any(tables)


@pytest.mark.parametrize(
    "metadata",
    [
        {"finalizers": ["example.com/stay"]},
        {
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Node", "name": "a", "uid": "1", "blockOwnerDeletion": True}
            ]
        },
    ],
)
def test_a_token_keeps_nothing_for_ever(metadata: dict[str, object]) -> None:
    with Cluster() as cluster:
        with pytest.raises(APIStatusError) as refused:
            world.ask(cluster, TOKEN, world.node_request("worker-1"), metadata=metadata)
        assert refused.value.code == 403
