"""Our own kinds are served as this version declares them, through typed clients and to everybody else."""

from __future__ import annotations

import msgspec
import pytest

from asynctest import async_test
from kubevouch.api.apiextensions_v1.conditions import ESTABLISHED, is_true
from kubevouch.api.catalog import CUSTOM_RESOURCE_DEFINITIONS
from kubevouch.api.kubevouch_v1alpha1.allowed_machines import AllowedMachine, AllowedMachineSpec
from kubevouch.api.kubevouch_v1alpha1.catalog import ALLOWED_MACHINES, OWN_KINDS
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.server.bootstrap import own_kinds
from kubevouch.testing import Cluster


def machine(*addresses: str) -> AllowedMachine:
    return AllowedMachine(
        metadata=ObjectMeta(name="m1"), spec=AllowedMachineSpec(node_name="worker-7", addresses=list(addresses))
    )


@async_test
async def test_every_definition_is_established_once_it_is_ensured() -> None:
    async with Cluster() as cluster:
        await own_kinds.ensure(cluster.client())
        stored = [await cluster.client().get(CUSTOM_RESOURCE_DEFINITIONS, kind.definition_name) for kind in OWN_KINDS]
        assert all(is_true(each, ESTABLISHED) for each in stored)
        assert not [each.metadata.name for each in stored for said in each.status.conditions or () if
                    said.type == "NonStructuralSchema"]  # fmt: skip
        await own_kinds.ensure(cluster.client())
        again = [await cluster.client().get(CUSTOM_RESOURCE_DEFINITIONS, kind.definition_name) for kind in OWN_KINDS]
        assert again == stored


@async_test
async def test_a_definition_that_somebody_has_changed_is_mended() -> None:
    async with Cluster() as cluster:
        client = cluster.client()
        await own_kinds.ensure(client)
        name = OWN_KINDS[0].definition_name
        stored = await client.get(CUSTOM_RESOURCE_DEFINITIONS, name)
        version = msgspec.structs.replace(stored.spec.versions[0], additional_printer_columns=[])
        changed = msgspec.structs.replace(stored.spec, versions=[version])
        await client.update(CUSTOM_RESOURCE_DEFINITIONS, msgspec.structs.replace(stored, spec=changed))
        await own_kinds.ensure(client)
        assert (await client.get(CUSTOM_RESOURCE_DEFINITIONS, name)).spec == stored.spec


@async_test
async def test_typed_clients_write_and_read_them_and_the_schema_refuses() -> None:
    async with Cluster() as cluster:
        client = cluster.client()
        await own_kinds.ensure(client)
        made = await client.create(ALLOWED_MACHINES, machine("10.0.0.1", "fd00::1"))
        assert made.spec == machine("10.0.0.1", "fd00::1").spec
        assert (await client.list(ALLOWED_MACHINES)).items == [made]
        with pytest.raises(APIStatusError, match=r"spec\.addresses\[0\]: Invalid value.*must be an IP address"):
            await client.update(ALLOWED_MACHINES, msgspec.structs.replace(made, spec=machine("10.0.0.x").spec))
