"""controllers/cluster_trust_bundle_publisher.py: upstream's table (publisher_test.go, Kubernetes 1.36) and more."""

from __future__ import annotations

import pytest

from asynctest import async_test
from controller_world import World, answer, fixture, world
from kubevouch.api.catalog import CLUSTER_TRUST_BUNDLES
from kubevouch.api.certificates_v1beta1 import ClusterTrustBundle, ClusterTrustBundleSpec
from kubevouch.controllers import cluster_trust_bundle_publisher
from kubevouch.controllers.cluster_trust_bundle_publisher import bundle_name
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.wellknown import KUBE_APISERVER_SERVING_SIGNER, KUBELET_SERVING_SIGNER

NAME = cluster_trust_bundle_publisher.NAME
SERVED = "certificates.k8s.io/v1beta1=true"
OTHER_CA = fixture("ca-ec.crt").decode()


def bundle(name: str, signer_name: str = KUBE_APISERVER_SERVING_SIGNER) -> ClusterTrustBundle:
    spec = ClusterTrustBundleSpec(signer_name=signer_name, trust_bundle=OTHER_CA)
    return ClusterTrustBundle(metadata=ObjectMeta(name=name), spec=spec)


async def published(at: World) -> dict[str, tuple[str, str]]:
    bundles = (await at.client.list(CLUSTER_TRUST_BUNDLES)).items
    return {each.metadata.name: (each.spec.signer_name, each.spec.trust_bundle) for each in bundles}


def wanted(at: World) -> dict[str, tuple[str, str]]:
    text = at.server.pki.ca_certificate.decode()
    signers = (KUBE_APISERVER_SERVING_SIGNER, KUBELET_SERVING_SIGNER)
    return {bundle_name(signer, text): (signer, text) for signer in signers}


def test_the_name_is_the_signer_and_a_hash() -> None:
    # printf x | sha256sum
    assert bundle_name("kubernetes.io/kube-apiserver-serving", "x") == (
        "kubernetes.io:kube-apiserver-serving:2d711642b726b04401627ca9"
    )


@async_test
async def test_none_there() -> None:
    async with world(runtime_config=SERVED) as at:
        await at.run(NAME)
        assert await published(at) == wanted(at)


@async_test
async def test_others_of_our_signers_go_and_the_rest_stays() -> None:
    async with world(runtime_config=SERVED) as at:
        right = next(iter(wanted(at)))
        theirs = bundle("example.com:x:1", "example.com/x")
        for each in (
            bundle("kubernetes.io:kube-apiserver-serving:old"),
            bundle("kubernetes.io:kube-apiserver-serving:foreign"),
            bundle(right),
            theirs,
            bundle("unsigned", ""),
        ):
            await at.client.create(CLUSTER_TRUST_BUNDLES, each)
        await at.run(NAME)
        kept = {"example.com:x:1": ("example.com/x", OTHER_CA), "unsigned": ("", OTHER_CA)}
        assert await published(at) == wanted(at) | kept


@async_test
async def test_what_is_right_is_not_written() -> None:
    async with world(runtime_config=SERVED) as at:
        first = await at.run(NAME)
        await first.close()
        at.calls.clear()
        await at.run(NAME)
        assert at.writes() == []


@async_test
async def test_a_removed_bundle_comes_back() -> None:
    async with world(runtime_config=SERVED) as at:
        running = await at.run(NAME)
        await at.client.delete(CLUSTER_TRUST_BUNDLES, next(iter(wanted(at))))
        await running.settle()
        assert await published(at) == wanted(at)


@pytest.mark.parametrize(("code", "retried"), [(404, False), (500, True)])
@async_test
async def test_one_deletion_that_fails_does_not_keep_the_others(code: int, retried: bool) -> None:
    async with world(runtime_config=SERVED) as at:
        for number in range(2):
            await at.client.create(CLUSTER_TRUST_BUNDLES, bundle(f"kubernetes.io:kube-apiserver-serving:{number}"))
        at.failures["DELETE"] = answer(code)
        running = await at.run(NAME)
        # Once for each at the least: the first failure did not end the pass.
        assert {name for name, _ in at.writes("DELETE")} == {
            f"kubernetes.io:kube-apiserver-serving:{number}" for number in range(2)
        }
        at.failures.clear()
        if retried:
            await at.clock.run(60)
            await running.settle()
            assert await published(at) == wanted(at)


@async_test
async def test_nothing_runs_where_the_kind_is_not_served() -> None:
    async with world() as at:
        running = await at.run(NAME)
        assert running.manager.controllers == ()
