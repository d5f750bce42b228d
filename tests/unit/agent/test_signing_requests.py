from __future__ import annotations

from contextlib import aclosing

import pytest

from asynctest import async_test
from kubevouch.agent.certificate_request import node_client
from kubevouch.agent.signing_requests import SigningRequests
from kubevouch.api import catalog
from kubevouch.api.certificates_v1 import CertificateSigningRequest, CertificateSigningRequestSpec
from kubevouch.client.interface import EventType
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.pki import keys
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509.request_builder import build_request
from kubevouch.testing.cluster import Cluster


def _wanted(name: str = "a") -> CertificateSigningRequest:
    template = node_client("worker-1")
    spec = CertificateSigningRequestSpec(
        request=build_request(keys.generate(KeyAlgorithm.ECDSA_P256), template.subject),
        signer_name=template.signer_name,
        usages=["digital signature", "client auth"],
    )
    return CertificateSigningRequest(metadata=ObjectMeta(name=name), spec=spec)


OLD = "certificates.k8s.io/v1=false,certificates.k8s.io/v1beta1=true"


@pytest.mark.parametrize(("runtime_config", "version"), [("", "v1"), (OLD, "v1beta1")])
def test_servers_new_and_old(runtime_config: str, version: str) -> None:
    @async_test
    async def scenario() -> None:
        async with Cluster(runtime_config=runtime_config) as cluster:
            client = cluster.client()
            requests = SigningRequests(client)
            made = await requests.create(_wanted())
            assert requests.version == version
            assert made.spec.usages == ["digital signature", "client auth"]
            assert (await requests.get("a")).metadata.uid == made.metadata.uid
            found, seen = await requests.find("a")
            assert found is not None and found.metadata.uid == made.metadata.uid
            assert (await requests.find("b"))[0] is None
            # Only what has the name is seen, from that version on.
            await requests.create(_wanted("b"))
            if version == "v1":
                await client.delete(catalog.CERTIFICATE_SIGNING_REQUESTS, "a")
            else:
                await client.delete(catalog.CERTIFICATE_SIGNING_REQUESTS_V1BETA1, "a")
            async with aclosing(requests.watch("a", seen, 5)) as events:
                first = await anext(events)
            assert first.type is EventType.DELETED and first.object is not None
            assert first.object.metadata.name == "a" and first.object.spec == made.spec

    scenario()


@async_test
async def test_another_refusal_than_404_is_no_reason_for_the_old_version() -> None:
    async with Cluster() as cluster:
        requests = SigningRequests(cluster.client())
        await requests.create(_wanted())
        with pytest.raises(APIStatusError) as refused:
            await requests.create(_wanted())
        assert refused.value.code == 409 and requests.version == "v1"
