"""controllers/attestation.py: which cluster a proof has to be made for, and what is said of one for another."""

from __future__ import annotations

import pytest

from asynctest import async_test
from controller_world import World, world
from kubevouch.api.catalog import CONFIG_MAPS, NAMESPACES
from kubevouch.api.core_v1 import ConfigMap
from kubevouch.attestation.interface import RefusedEvidenceError
from kubevouch.controllers.attestation import ClusterID
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.pki import pins
from kubevouch.pki.x509 import x509_certificate
from kubevouch.records.cluster_info import ClusterInfo, config_map
from throwaway_ca import ThrowawayCA

OLD, NEW = (x509_certificate.parse_bundle(ThrowawayCA(name).pair.certificate)[0] for name in ("old", "new"))
OLD_PIN, NEW_PIN = pins.pin_of(OLD), pins.pin_of(NEW)


async def publish(at: World, bundle: bytes) -> None:
    await at.client.create(CONFIG_MAPS, config_map(ClusterInfo("https://192.0.2.1:6443", bundle)))


@async_test
async def test_the_uid_and_no_claim_are_the_uid() -> None:
    async with world() as at:
        uid = (await at.client.get(NAMESPACES, "kube-system")).metadata.uid
        assert await ClusterID(at.client).verify("") == await ClusterID(at.client).verify(uid) == uid


@async_test
async def test_the_pin_of_each_published_ca_counts_while_it_is_published() -> None:
    async with world() as at:
        cluster = ClusterID(at.client)
        await publish(at, OLD.pem() + NEW.pem())
        assert await cluster.verify(OLD_PIN) == OLD_PIN
        assert await cluster.verify(NEW_PIN) == NEW_PIN
        await at.client.delete(CONFIG_MAPS, "cluster-info", "kube-public")
        await publish(at, NEW.pem())
        assert await cluster.verify(NEW_PIN) == NEW_PIN
        with pytest.raises(RefusedEvidenceError, match="cluster: the evidence was made for cluster"):
            await cluster.verify(OLD_PIN)


@async_test
async def test_without_cluster_info_the_root_ca_of_service_accounts_tells() -> None:
    async with world() as at:
        meta = ObjectMeta(name="kube-root-ca.crt", namespace="kube-public")
        await at.client.create(CONFIG_MAPS, ConfigMap(metadata=meta, data={"ca.crt": OLD.pem().decode()}))
        assert await ClusterID(at.client).verify(OLD_PIN) == OLD_PIN


@async_test
async def test_a_denial_names_both_clusters_and_is_bounded() -> None:
    async with world() as at:
        await publish(at, OLD.pem())
        uid = (await at.client.get(NAMESPACES, "kube-system")).metadata.uid
        with pytest.raises(RefusedEvidenceError) as refusal:
            await ClusterID(at.client).verify("another\n" + "x" * 5000)
        assert refusal.value.step == "cluster"
        assert str(refusal.value).endswith(f"this is {uid} or {OLD_PIN}")
        assert "\n" not in str(refusal.value) and len(str(refusal.value)) < 400
