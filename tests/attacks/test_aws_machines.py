"""Instances of EC2, and whoever has copied their proofs, before a whole cluster."""

from __future__ import annotations

import datetime as dt
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

import aio
from asynctest import async_test
from attested_world import Machine, attested_world, identity, outcome
from cloud_servers import aws
from cloud_servers.aws import Cloud, Instance, MetadataService
from controller_world import World
from kubevouch.api.catalog import CERTIFICATE_SIGNING_REQUESTS, NAMESPACES
from kubevouch.api.kubevouch_v1alpha1.attestation_challenges import AttestationChallenge
from kubevouch.attestation import catalog
from kubevouch.attestation.interface import Binding, Evidence

ID, OTHER_ID = "i-0abc000000000000a", "i-0abc000000000000b"


class EC2Machine(Machine):
    """Whatever runs on the instance with this metadata service."""

    def __init__(self, at: World, metadata: MetadataService, name: str = "") -> None:
        super().__init__(at, name or metadata.instance.id, "")
        self.provider = "aws"
        self.metadata = metadata

    async def evidence(self, challenge: AttestationChallenge | None) -> Evidence:
        cluster = (await self.at.client.get(NAMESPACES, "kube-system")).metadata.uid
        nonce = b"" if challenge is None else challenge.status.nonce
        attestor = await catalog.attestor("aws")({"metadataEndpoint": self.metadata.url}, self.at.clock)
        data = await attestor.attest("v1", self.key, Binding(self.spki, cluster, nonce), None)
        name = "" if challenge is None else challenge.metadata.name
        return Evidence(provider="aws", version="v1", data=data, challenge=name)


@asynccontextmanager
async def region(folder: Path, **settings: Any) -> AsyncIterator[tuple[World, Cloud, MetadataService]]:
    """A cluster that takes the proofs of a region with one instance, whose id is its Node's name."""
    clocks: list[World] = []

    def now() -> dt.datetime:
        return clocks[0].clock.now()

    machine = Instance(id=ID)
    async with Cloud(folder, now) as cloud, MetadataService(machine, now) as metadata:
        cloud.instances.append(machine)
        given = {
            "accounts": [machine.account],
            "roles": [machine.role_name],
            "certificates": {"eu-west-1": {"rsa2048": aws.region_certificate("eu-west-1")}},
            "instances": "api",
            "metadataEndpoint": metadata.url,
            "caFile": str(cloud.ca_file),
            "connectTo": cloud.connect_to,
            **settings,
        }
        method = {"provider": "aws", "nodeName": "{aws.instanceId}", "settings": given}
        async with attested_world(f"attestors: [{msgspec.json.encode(method).decode()}]\n") as at:
            clocks.append(at)
            machine.started = now() - dt.timedelta(minutes=20)
            yield at, cloud, metadata


@async_test
async def test_an_instance_joins_and_who_copies_it_does_not(tmp_path: Path) -> None:
    async with region(tmp_path) as (at, cloud, metadata):
        first = EC2Machine(at, metadata)
        proof = await first.evidence(await first.challenge())
        assert outcome(await first.file(first.request(proof))) == "issued"
        claimed = await identity(at, ID)
        assert claimed is not None and claimed.status.identity == f"111122223333/eu-west-1/{ID}"

        # 1. Who has copied the request shows the call that was signed for another key.
        thief = EC2Machine(at, metadata)
        challenge = await thief.challenge()
        stolen = msgspec.structs.replace(proof, challenge=challenge.metadata.name)
        assert outcome(await thief.file(thief.request(stolen))) == "denied: binding"
        # 2. A pod that reaches the metadata service has one for a key of its own, and no operator's word.
        assert outcome(await EC2Machine(at, metadata).join()) == "denied: already-used"
        # 3. Under another name neither.
        assert outcome(await EC2Machine(at, metadata, OTHER_ID).join()) == "denied: node-name"
        # 4. The node itself renews with a call for another key.
        renewing = EC2Machine(at, metadata)
        renewing.become_node()
        assert outcome(await renewing.join()) == "issued"
        # 5. Another instance with the same role has the first one's document, from a backup or a log.
        document, signature = (
            metadata.instance.document(),
            aws.signed_document(metadata.instance.document(), "eu-west-1"),
        )
        cloud.instances.append(clone := Instance(id=OTHER_ID))
        async with MetadataService(clone, at.clock.now) as others:
            cloned = EC2Machine(at, others)
            challenge = await cloned.challenge()
            own = msgspec.json.decode((await cloned.evidence(challenge)).data)
            mixed = msgspec.json.encode({**own, "document": document, "signature": signature})
            shown = Evidence(provider="aws", version="v1", data=mixed, challenge=challenge.metadata.name)
            assert outcome(await cloned.file(cloned.request(shown))) == "denied: session"


@async_test
async def test_an_instance_with_another_disk_and_one_that_is_gone(tmp_path: Path) -> None:
    async with region(tmp_path) as (at, _, metadata):
        metadata.instance.root_attached = metadata.instance.started + dt.timedelta(minutes=5)
        assert outcome(await EC2Machine(at, metadata).join()) == "denied: root-volume"
        metadata.instance.root_attached = None
        metadata.instance.state = "shutting-down"
        at.clock.advance(61)
        assert outcome(await EC2Machine(at, metadata).join()) == "denied: instance-state"
        assert await identity(at, ID) is None


@async_test
async def test_a_cloud_that_is_away_or_throttles_lets_instances_wait(tmp_path: Path) -> None:
    async with region(tmp_path) as (at, cloud, metadata):
        cloud.failures += [(400, "Throttling")]
        waiting = await EC2Machine(at, metadata).join()
        assert outcome(waiting) == "waits"
        asked = len(cloud.asked)
        at.clock.advance(30)
        await aio.until(lambda: len(cloud.asked) > asked + 1)
        await at.settle()
        assert outcome(await at.client.get(CERTIFICATE_SIGNING_REQUESTS, waiting.metadata.name)) == "issued"
        value = at.server.api.metrics.registry.get_sample_value
        for host, status, number in (("sts", "400", 1), ("sts", "200", 1), ("ec2", "200", 1), ("127.0.0.1", "200", 3)):
            labels = {"host": host if host[0] == "1" else f"{host}.eu-west-1.amazonaws.com", "status": status}
            assert value("kubevouch_attestation_requests_total", labels) == number
