"""standalone/controllers.py: identities, settling, being killed and started again."""

from __future__ import annotations

import asyncio

import pytest

from asynctest import async_test
from cluster_api_world import HERE
from controller_world import fixture, world
from kubevouch import wellknown
from kubevouch.api.catalog import CERTIFICATE_SIGNING_REQUESTS, CONFIG_MAPS, NODES, SECRETS
from kubevouch.api.certificates_v1 import CertificateSigningRequest, CertificateSigningRequestSpec
from kubevouch.api.kubevouch_v1alpha1.catalog import CERTIFICATE_APPROVALS, CERTIFICATE_REQUEST_POLICIES
from kubevouch.controllers.catalog import CONTROLLERS, UnknownControllerError
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.records.node_recovery import RecoveryPolicy
from kubevouch.standalone.controllers import controller_user, start_controllers
from kubevouch.wellknown import LEDGER_CHECKPOINT_CONTROLLER


def request(name: str) -> CertificateSigningRequest:
    spec = CertificateSigningRequestSpec(
        request=fixture("client-good.csr"),
        signer_name=wellknown.KUBE_APISERVER_CLIENT_KUBELET_SIGNER,
        usages=["digital signature", "client auth"],
    )
    return CertificateSigningRequest(metadata=ObjectMeta(name=name), spec=spec)


def test_a_controller_is_a_service_account_of_its_name() -> None:
    user = controller_user("x-controller")
    assert user.name == "system:serviceaccount:kube-system:x-controller"
    assert "system:serviceaccounts:kube-system" in user.groups


@async_test
async def test_an_unknown_controller_is_refused() -> None:
    async with world() as at:
        with pytest.raises(UnknownControllerError):
            start_controllers(at.server, ("*", "-nope"))


@async_test
async def test_everything_runs_within_its_rights() -> None:
    async with world(runtime_config="certificates.k8s.io/v1beta1=true", recovery=RecoveryPolicy()) as at:
        running = await at.run("*", management=HERE)
        # Without a ledger in a file there is nothing to publish: unit/controllers/test_ledger_checkpoint.py; and no
        # method of attestation is configured.
        absent = (LEDGER_CHECKPOINT_CONTROLLER, wellknown.NODE_ATTESTATION_CONTROLLER)
        expected = [entry.name for entry in CONTROLLERS if entry.name not in absent]
        assert [controller.name for controller in running.manager.controllers] == expected
        assert all(informer.synced for informer in running.manager.informers.informers)


@async_test
async def test_one_cache_of_csrs_serves_all() -> None:
    async with world() as at:
        running = await at.run("csrapproving", "csrsigning", "csrcleaner", "tokenuses", "joinstatus")
        read = [informer.resource for informer in running.manager.informers.informers]
        shared = (
            CERTIFICATE_APPROVALS,
            CERTIFICATE_REQUEST_POLICIES,
            CERTIFICATE_SIGNING_REQUESTS,
            CONFIG_MAPS,
            NODES,
            SECRETS,
        )
        assert sorted(each.plural for each in read) == sorted(each.plural for each in shared)


@pytest.mark.parametrize("turns", [0, 3, 6, 9, 12, 15, 20, 30, 45, 60])
@async_test
async def test_killed_at_any_moment_nothing_is_lost(turns: int) -> None:
    """The controllers are cancelled after so many turns of the loop; those that come next finish the work."""

    async with world() as at:
        user = at.as_user("system:bootstrap:abcdef", "system:bootstrappers:kubeadm:default-node-token")
        running = at.start("csrapproving", "csrsigning")
        for number in range(5):
            await user.create(CERTIFICATE_SIGNING_REQUESTS, request(f"csr-{number}"))
        for _ in range(turns):
            await asyncio.sleep(0)
        await running.close()
        before = {
            csr.metadata.name: csr.status.certificate
            for csr in (await at.client.list(CERTIFICATE_SIGNING_REQUESTS)).items
        }
        second = at.start("csrapproving", "csrsigning")
        await second.settle()
        after = (await at.client.list(CERTIFICATE_SIGNING_REQUESTS)).items
        assert len(after) == 5 and all(csr.status.certificate for csr in after)
        for csr in after:
            assert before[csr.metadata.name] in (b"", csr.status.certificate)
            assert [condition.type for condition in csr.status.conditions] == ["Approved"]
