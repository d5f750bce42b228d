"""S5: a request that waits under the name that a machine will use, with another key or from another poster."""

from __future__ import annotations

from pathlib import Path

import pytest

import identity_world as world
from asynctest import async_test
from join_world import Told
from kubevouch.agent.certificate_request import node_client, own_request, request_names
from kubevouch.agent.certificate_store import CertificateStore
from kubevouch.agent.discovery import token_discovery
from kubevouch.api.catalog import CERTIFICATE_SIGNING_REQUESTS
from kubevouch.api.certificates_v1 import CertificateSigningRequest, CertificateSigningRequestSpec
from kubevouch.authentication.interface import UserInfo
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.phases import join as phase
from kubevouch.pki.keys import KeyAlgorithm, public_key_of
from kubevouch.pki.x509 import x509_certificate
from kubevouch.testing.cluster import Cluster
from kubevouch.util.clock import SystemClock

NAME = "worker-1"


@pytest.mark.parametrize("same_key", [False, True], ids=["another-key", "another-poster"])
@async_test
async def test_a_machine_takes_no_request_that_is_not_its_own(tmp_path: Path, same_key: bool) -> None:
    async with Cluster(https=True, controllers=("*",), real_time=True) as cluster:
        store = CertificateStore(tmp_path / phase.CERTIFICATE_FOLDER, relative_links=True)
        with store.locked():
            key, _ = await store.pending_key(KeyAlgorithm.ECDSA_P256)
        squatted = request_names(key, own_request(key, node_client(NAME), ()))[0]
        # The thief has seen the name, or the whole request, and its approval is a matter of milliseconds.
        spec = CertificateSigningRequestSpec(
            request=world.node_request(NAME if same_key else "thief", key if same_key else None),
            signer_name="example.com/other" if same_key else world.NODE_CLIENT,
            usages=list(world.CLIENT_USAGES),
        )
        thief = cluster.client(world.token_user("thief0"))
        await thief.create(
            CERTIFICATE_SIGNING_REQUESTS, CertificateSigningRequest(metadata=ObjectMeta(name=squatted), spec=spec)
        )
        await cluster.settle_async()
        token = await cluster.token_async()
        discovery = token_discovery(cluster.url.removeprefix("https://"), token, [cluster.pin], timeout=120.0)
        told = Told()
        await phase.join(phase.JoinOptions(discovery, NAME, tmp_path, 120.0), SystemClock(), told)
        current = store.current()
        assert current is not None
        assert current.leaf.subject.common_name == f"system:node:{NAME}"
        assert current.leaf.public_key.canonical_info == public_key_of(key).canonical_info
        mine = [
            csr
            for csr in (await cluster.client().list(CERTIFICATE_SIGNING_REQUESTS)).items
            if csr.status.certificate
            and x509_certificate.parse_bundle(csr.status.certificate)[0].serial == current.leaf.serial
        ]
        assert [csr.metadata.name for csr in mine] != [squatted]
        assert any("somebody else's" in text for text in told.warnings)


def test_the_approver_judges_the_poster_and_not_the_name() -> None:
    """Whoever may create requests, and nothing else, chooses their names, and what their bodies say of the poster."""
    rule = {"apiGroups": ["certificates.k8s.io"], "resources": ["certificatesigningrequests"], "verbs": ["create"]}
    group = "rbac.authorization.k8s.io"
    with Cluster(controllers=("csrapproving", "csrsigning")) as cluster:
        cluster.create(
            {"apiVersion": f"{group}/v1", "kind": "ClusterRole", "metadata": {"name": "ask"}, "rules": [rule]}
        )
        cluster.create(
            {
                "apiVersion": f"{group}/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": "ask"},
                "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "ask"},
                "subjects": [{"apiGroup": group, "kind": "User", "name": "mallory"}],
            }
        )
        mallory = UserInfo("mallory", groups=("system:authenticated",))
        for name in (f"node-csr-{NAME}", f"system:node:{NAME}", "system:admin"):
            posted = world.ask(cluster, mallory, world.node_request(NAME), name=name)
            assert world.outcome(cluster, posted) == "Pending"
            assert cluster.get("CertificateSigningRequest", posted).spec.username == "mallory"
