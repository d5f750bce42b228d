"""Machines of clouds, and whoever has copied their proofs, before a whole cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec

import aio
from asynctest import async_test
from attested_world import Machine, attested_world, identity, outcome
from cloud_servers import azure, gcp
from cloud_servers.azure import AzureCloud
from cloud_servers.gcp import GoogleCloud
from controller_world import World
from kubevouch.api.catalog import CERTIFICATE_SIGNING_REQUESTS, NAMESPACES
from kubevouch.api.kubevouch_v1alpha1.attestation_challenges import AttestationChallenge
from kubevouch.attestation import catalog
from kubevouch.attestation.interface import Binding, Evidence
from kubevouch.testing.clock import FakeClock

Cloud = GoogleCloud | AzureCloud
C = TypeVar("C", GoogleCloud, AzureCloud)


class CloudMachine(Machine):
    """A machine that shows what its metadata service says."""

    def __init__(self, at: World, cloud: Cloud, name: str) -> None:
        super().__init__(at, name, "")
        self.cloud = cloud
        self.provider = "gcp" if isinstance(cloud, GoogleCloud) else "azure"

    async def evidence(self, challenge: AttestationChallenge | None) -> Evidence:
        cluster = (await self.at.client.get(NAMESPACES, "kube-system")).metadata.uid
        nonce = b"" if challenge is None else challenge.status.nonce
        attestor = await catalog.attestor(self.provider)(self.cloud.node_settings, self.at.clock)
        data = await attestor.attest("v1", self.key, Binding(self.spki, cluster, nonce), None)
        name = "" if challenge is None else challenge.metadata.name
        return Evidence(provider=self.provider, version="v1", data=data, challenge=name)


@asynccontextmanager
async def world_of(kind: type[C], folder: Path, **settings: Any) -> AsyncIterator[tuple[World, C]]:
    """A cluster that takes the proofs of a cloud's machines."""
    async with kind(folder, FakeClock().now()) as cloud:
        provider = "gcp" if kind is GoogleCloud else "azure"
        method = {"provider": provider, "settings": {**cloud.verifier_settings(folder), **settings}}
        text = f"attestors: [{msgspec.json.encode(method).decode()}]\n"
        async with attested_world(text, serving=True) as at:
            cloud.now = at.clock.now()
            yield at, cloud


@async_test
async def test_an_instance_of_google_joins_and_who_copies_it_does_not(tmp_path: Path) -> None:
    async with world_of(GoogleCloud, tmp_path) as (at, cloud):
        first = CloudMachine(at, cloud, gcp.NAME)
        proof = await first.evidence(await first.challenge())
        joined = await first.file(first.request(proof))
        assert outcome(joined) == "issued"
        claimed = await identity(at, gcp.NAME)
        assert claimed is not None and claimed.status.identity == f"{gcp.PROJECT}/{gcp.INSTANCE_ID}"

        # 1. Who has copied the request shows the token for a key of his own.
        thief = CloudMachine(at, cloud, gcp.NAME)
        challenge = await thief.challenge()
        stolen = msgspec.structs.replace(proof, challenge=challenge.metadata.name)
        assert outcome(await thief.file(thief.request(stolen))) == "denied: audience"
        # 2. A pod that reaches the metadata service has a token for a key of its own, and no operator's word.
        pod = CloudMachine(at, cloud, gcp.NAME)
        assert outcome(await pod.join()) == "denied: already-used"
        # 3. Under another name neither.
        other = CloudMachine(at, cloud, "vm-blue-4")
        assert outcome(await other.join()) == "denied: node-name"
        # 4. The node itself renews with a proof for another key.
        renewing = CloudMachine(at, cloud, gcp.NAME)
        renewing.become_node()
        assert outcome(await renewing.join()) == "issued"
        # 5. The name went to another instance: what was claimed stays.
        cloud.instances[gcp.NAME] = gcp.resource(id="1")
        at.clock.advance(61)
        cloud.now = at.clock.now()
        clone = CloudMachine(at, cloud, gcp.NAME)
        assert outcome(await clone.join()) == "denied: name-taken"


@async_test
async def test_names_of_serving_certificates_are_the_clouds_to_give(tmp_path: Path) -> None:
    async with world_of(GoogleCloud, tmp_path) as (at, cloud):
        machine = CloudMachine(at, cloud, gcp.NAME)
        await machine.join()
        machine.become_node()
        name = f"{gcp.NAME}.c.{gcp.PROJECT}.internal"
        for names, expected in (
            ([name], "waits"),
            ([name, "10.0.0.6"], "waits"),
            ([f"vm-blue-4.c.{gcp.PROJECT}.internal", "10.0.0.5"], "waits"),
            ([name, "10.0.0.5"], "issued"),
        ):
            assert outcome(await machine.serve("cluster.x-k8s.io/kubelet-serving-gcp", *names)) == expected, names


@async_test
async def test_a_machine_of_azure_joins_and_who_copies_it_does_not(tmp_path: Path) -> None:
    async with world_of(AzureCloud, tmp_path) as (at, cloud):
        first = CloudMachine(at, cloud, azure.NAME)
        proof = await first.evidence(await first.challenge())
        assert outcome(await first.file(first.request(proof))) == "issued"

        thief = CloudMachine(at, cloud, azure.NAME)
        challenge = await thief.challenge()
        stolen = msgspec.structs.replace(proof, challenge=challenge.metadata.name)
        assert outcome(await thief.file(thief.request(stolen))) == "denied: nonce"
        assert outcome(await CloudMachine(at, cloud, azure.NAME).join()) == "denied: already-used"
        assert outcome(await CloudMachine(at, cloud, "node-y").join()) == "denied: node-name"


@async_test
async def test_a_cloud_that_is_away_lets_machines_wait(tmp_path: Path) -> None:
    async with world_of(GoogleCloud, tmp_path) as (at, cloud):
        machine = CloudMachine(at, cloud, gcp.NAME)
        cloud.fail(503, times=1)
        waiting = await machine.join()
        assert outcome(waiting) == "waits"
        asked = len(cloud.calls)
        at.clock.advance(30)
        await aio.until(lambda: len(cloud.calls) > asked)
        await at.settle()
        assert outcome(await at.client.get(CERTIFICATE_SIGNING_REQUESTS, waiting.metadata.name)) == "issued"
