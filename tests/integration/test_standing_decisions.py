"""A restart of `kubevouch up` lets nobody in whom somebody has shut out, whatever the store says."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from asynctest import async_test
from kubevouch import wellknown
from kubevouch.api.catalog import NODES
from kubevouch.api.kubevouch_v1alpha1.catalog import (
    CERTIFICATE_REQUEST_POLICIES,
    CERTIFICATE_REVOCATIONS,
    NODE_IDENTITIES,
)
from kubevouch.client.https import HTTPSClient
from kubevouch.client.options import ClientOptions
from kubevouch.client.tls import TLSFiles, TLSSources
from kubevouch.ledger.beside import LedgerBeside
from kubevouch.ledger.opening import DEFAULT_FILE
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.scheme import Resource
from kubevouch.pki import keys
from kubevouch.pki.authority import LeafSpec, issue_leaf
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509.usages import CLIENT_AUTH
from kubevouch.policy.standing_decisions import in_force
from kubevouch.standalone.options import StandaloneOptions
from kubevouch.standalone.up import Running, running
from kubevouch.storage.sqlite.store import SQLiteStore
from kubevouch.testing.waiting import wait_for
from kubevouch.util.clock import SystemClock

NODE = "worker-9"
KINDS = "kubevouch.io/v1alpha1"
OBJECTS: dict[Resource[Any], dict[str, Any]] = {
    CERTIFICATE_REVOCATIONS: {"reason": "keyCompromise", "revoked": {"users": [f"system:node:{NODE}"]}},
    NODE_IDENTITIES: {"banned": True, "bannedReason": "stolen"},
    CERTIFICATE_REQUEST_POLICIES: {
        "effect": "Require",
        "selector": {"signerNames": [wellknown.KUBE_APISERVER_CLIENT_KUBELET_SIGNER]},
        "usages": ["digital signature", "client auth"],
    },
}


@asynccontextmanager
async def up(folder: Path) -> AsyncIterator[Running]:
    async with running(
        StandaloneOptions(data_dir=folder, bind_address="127.0.0.1", secure_port=0), SystemClock()
    ) as it:
        yield it


async def decide(cluster: Running) -> None:
    """All three, until the ledger has them."""
    client = cluster.server.client
    for resource, spec in OBJECTS.items():
        tree = {"apiVersion": KINDS, "kind": resource.kind, "metadata": {"name": NODE}, "spec": spec}
        await client.create(resource, resource.codec.from_tree(tree).value)
    for resource in OBJECTS:
        await wait_for(client, resource, NODE, until=_is_protected)


def _is_protected(obj: Any) -> bool:
    return wellknown.DECISION_PROTECTION_FINALIZER in obj.metadata.finalizers


async def decided(folder: Path) -> None:
    """A cluster that was stopped once the ledger had it all, which comes after the finalizer."""
    wanted = {resource.plural for resource in OBJECTS}
    async with up(folder) as cluster:
        await decide(cluster)
        ledger = LedgerBeside(folder / DEFAULT_FILE, None, SystemClock())
        while {plural for plural, _ in await in_force(ledger)} != wanted:  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0)


async def erase(folder: Path, *prefixes: str) -> None:
    """As whoever writes to the store does, while nobody serves it."""
    store = await SQLiteStore.open(folder / "kubevouch.db")
    try:
        for prefix in prefixes:
            page = await store.list(prefix)
            assert page.items
            for each in page.items:
                await store.delete(each.key, each.revision)
    finally:
        await store.close()


async def looks(cluster: Running) -> int:
    """What the stolen certificate of the node is answered."""
    authority = cluster.server.pki.signing
    assert authority is not None
    key = keys.generate(KeyAlgorithm.ECDSA_P256)
    who = LeafSpec(common_name=f"system:node:{NODE}", organizations=("system:nodes",), purposes=(CLIENT_AUTH,))
    # It is from before the revocation.
    then = SystemClock().now() - dt.timedelta(hours=1)
    certificate = issue_leaf(authority, who, key, now=then)
    sources = TLSSources(
        ca_bundle=cluster.server.pki.ca_certificate, certificate=certificate.pem(), private_key=keys.to_pem(key)
    )
    tls = TLSFiles(sources, SystemClock())
    options = ClientOptions(server=cluster.endpoint.url, component="test")
    async with HTTPSClient(options, tls=tls, clock=SystemClock()) as client:
        try:
            await client.get(NODES, NODE)
        except APIStatusError as err:
            return err.code
    return 200


@pytest.mark.parametrize("with_definitions", [False, True], ids=["objects", "definitions"])
@async_test
async def test_what_was_erased_while_nobody_served_is_in_force_from_the_first_request(
    with_definitions: bool, tmp_path: Path
) -> None:
    async with up(tmp_path) as cluster:
        assert await looks(cluster) == 404
    await decided(tmp_path)
    definitions = [
        f"/registry/apiextensions.k8s.io/customresourcedefinitions/{each.group_resource}" for each in OBJECTS
    ]
    objects = [f"/registry/kubevouch.io/{each.plural}/" for each in OBJECTS]
    await erase(tmp_path, *objects, *(definitions if with_definitions else ()))
    async with up(tmp_path) as cluster:
        assert await looks(cluster) == 401
        for resource, spec in OBJECTS.items():
            found = await wait_for(cluster.server.client, resource, NODE)
            assert (
                resource.codec.to_tree(found)["spec"].items()
                >= {k: v for k, v in spec.items() if k != "revoked"}.items()
            )
        assert await looks(cluster) == 401
