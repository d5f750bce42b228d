"""Bounded tokens as machines meet them: real joins over HTTPS, one process, all controllers."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from asynctest import async_test
from join_world import Told
from kubevouch import wellknown
from kubevouch.agent.discovery import token_discovery
from kubevouch.agent.interface import AgentError, RequestDeniedError
from kubevouch.api import catalog
from kubevouch.api.certificates_v1 import CertificateSigningRequest, CertificateSigningRequestSpec
from kubevouch.client.credentials import FixedCredential
from kubevouch.client.https import HTTPSClient
from kubevouch.client.options import ClientOptions
from kubevouch.client.tls import TLSFiles, TLSSources
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.phases import bootstrap_token, join_rehearsal
from kubevouch.phases import join as phase
from kubevouch.records import token_bounds
from kubevouch.records.bootstrap_tokens import Token, generate_token
from kubevouch.records.token_bounds import Bounds
from kubevouch.reviews import token_biography
from kubevouch.testing.cluster import Cluster
from kubevouch.util.clock import SystemClock


async def make(cluster: Cluster, bounds: Bounds) -> Token:
    token = generate_token()
    now = SystemClock().now()
    await bootstrap_token.create(cluster.client(), bootstrap_token.plan(token, now=now, bounds=bounds))
    await cluster.settle_async()
    return token


async def join(cluster: Cluster, token: Token, folder: Path, node: str) -> None:
    endpoint = cluster.url.removeprefix("https://")
    discovery = token_discovery(endpoint, token.text, [cluster.pin], timeout=120.0)
    await phase.join(phase.JoinOptions(discovery, node, folder, 120.0), SystemClock(), Told())


def as_bearer(cluster: Cluster, token: Token) -> HTTPSClient:
    clock = SystemClock()
    tls = TLSFiles(TLSSources(ca_bundle=cluster.pki.ca_certificate), clock)
    options = ClientOptions(server=cluster.url, component="test")
    return HTTPSClient(options, tls=tls, credentials=FixedCredential.token(token.text), clock=clock)


@async_test
async def test_one_of_two_machines_gets_in_and_the_other_is_told_why(tmp_path: Path) -> None:
    async with Cluster(https=True, controllers=("*",), real_time=True) as cluster:
        token = await make(cluster, Bounds(uses=1))
        ended = await asyncio.gather(
            *(join(cluster, token, tmp_path / node, node) for node in ("n1", "n2")), return_exceptions=True
        )
        (refused,) = [each for each in ended if each is not None]
        assert isinstance(refused, AgentError)
        assert "the token has given its only use to system:node:n" in str(refused)
        told = await token_biography.fetch(cluster.client(), token.token_id, now=SystemClock().now())
        assert sorted(each.state.value for each in told.attempts) == ["Denied", "Issued"]
        assert {each.source for each in told.attempts} == {"127.0.0.1"}
        assert told.uses_left == 0
        assert token.token_secret not in json.dumps(told.tree())


@pytest.mark.parametrize(("ranges", "accepted"), [(["127.0.0.0/8"], True), (["192.0.2.0/24"], False)])
@async_test
async def test_a_token_counts_from_its_addresses_only(ranges: list[str], accepted: bool) -> None:
    async with Cluster(https=True, controllers=("*",), real_time=True) as cluster:
        token = await make(cluster, token_bounds.parse(source_ranges=ranges))
        async with as_bearer(cluster, token) as client:
            if accepted:
                assert (await client.list(catalog.CERTIFICATE_SIGNING_REQUESTS)).items == []
                return
            with pytest.raises(APIStatusError) as refusal:
                await client.list(catalog.CERTIFICATE_SIGNING_REQUESTS)
            assert refusal.value.code == 401


@async_test
async def test_nobody_forges_from_where_he_comes() -> None:
    async with Cluster(https=True, real_time=True) as cluster:
        token = await make(cluster, token_bounds.NONE)
        key = token_bounds.SOURCE_ADDRESS_ANNOTATION
        async with as_bearer(cluster, token) as client:
            spec = CertificateSigningRequestSpec(
                request=(Path(__file__).parents[1] / "vectors/fixtures-controllers/client-good.csr").read_bytes(),
                signer_name=wellknown.KUBE_APISERVER_CLIENT_KUBELET_SIGNER,
                usages=["digital signature", "client auth"],
                extra={token_bounds.TOKEN_UID_EXTRA: ["forged"]},
            )
            metadata = ObjectMeta(name="csr-1", annotations={key: "203.0.113.9"})
            made = await client.create(
                catalog.CERTIFICATE_SIGNING_REQUESTS, CertificateSigningRequest(metadata=metadata, spec=spec)
            )
        assert made.metadata.annotations == {key: "127.0.0.1"}
        # As Kubernetes has it: a token without bounds leaves no trace in the requester.
        assert made.spec.extra == {}


@async_test
async def test_a_machine_joins_with_separate_tokens_and_the_public_one_lets_nobody_in(tmp_path: Path) -> None:
    async with Cluster(https=True, controllers=("*",), real_time=True) as cluster:
        public, secret = generate_token(), generate_token()
        plans = bootstrap_token.plan_separate(public, secret, now=SystemClock().now(), bounds=Bounds(uses=1))
        await bootstrap_token.create_all(cluster.client(), plans)
        await cluster.settle_async()
        endpoint = cluster.url.removeprefix("https://")
        discovery = token_discovery(endpoint, public.text, [cluster.pin], timeout=120.0)
        options = phase.JoinOptions(discovery, "n1", tmp_path, 20.0, tls_bootstrap_token=secret)
        await phase.join(options, SystemClock(), Told())
        info = await cluster.client().get(catalog.CONFIG_MAPS, "cluster-info", "kube-public")
        assert f"jws-kubeconfig-{secret.token_id}" not in info.data
        async with as_bearer(cluster, public) as client:
            with pytest.raises(APIStatusError) as refusal:
                await client.list(catalog.CERTIFICATE_SIGNING_REQUESTS)
            assert refusal.value.code == 401


@pytest.mark.parametrize("rehearsed", [False, True])
@async_test
async def test_a_machine_outside_of_the_addresses_is_told_of_its_token(rehearsed: bool, tmp_path: Path) -> None:
    """Its 401 is none of a kubeconfig, whichever request it is that the server refuses first."""
    async with Cluster(https=True, controllers=("*",), real_time=True) as cluster:
        token = await make(cluster, token_bounds.parse(source_ranges=["203.0.113.0/24"]))
        discovery = token_discovery(cluster.url.removeprefix("https://"), token.text, [cluster.pin], timeout=120.0)
        options = phase.JoinOptions(discovery, "n1", tmp_path, 120.0)
        with pytest.raises(RequestDeniedError, match="does not accept the token: Unauthorized") as refused:
            await (join_rehearsal.rehearse if rehearsed else phase.run)(options, SystemClock(), Told())
        assert "not for the address of this machine" in refused.value.hint
        assert "kubeconfig" not in f"{refused.value} {refused.value.hint}"
