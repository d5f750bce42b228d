"""The approver beside a cache that is behind; what it approves is in the contract tests."""

from __future__ import annotations

from contextlib import suppress

import pytest

from asynctest import async_test
from controller_world import World, world
from decisions import request_pem
from kubevouch import wellknown
from kubevouch.api.catalog import CERTIFICATE_SIGNING_REQUESTS
from kubevouch.api.certificates_v1 import CertificateSigningRequest, CertificateSigningRequestSpec
from kubevouch.client.cache.indexer import Indexer
from kubevouch.client.cache.lister import Lister
from kubevouch.client.interface import Client
from kubevouch.controllers import csr_approving
from kubevouch.controllers.approval import name_admission
from kubevouch.controllers.approval.name_admission import NameAdmission, NameCaches
from kubevouch.controllers.approval.recovery_admission import RecoveryAdmission
from kubevouch.controllers.approval.token_admission import TokenAdmission
from kubevouch.controllers.csr_approving import CSRApprover
from kubevouch.controllers.interface import DONE, ReconcileError, request_of
from kubevouch.controllers.record_maps import RecordMaps
from kubevouch.controllers.recovery_records import RecoveryRecords
from kubevouch.machinery.meta import ObjectMeta, replace_metadata
from kubevouch.standalone.controllers import controller_user


def approver(at: World, cached: Indexer[CertificateSigningRequest]) -> CSRApprover:
    def connect(name: str) -> Client:
        return at.server.api.loopback(controller_user(name), name)

    keeper = wellknown.NODE_RECOVERY_CONTROLLER
    recovery = RecoveryAdmission(RecoveryRecords(connect(keeper), at.clock, keeper), None, at.clock)
    tokens = TokenAdmission(connect(wellknown.TOKEN_USES_CONTROLLER), Lister(Indexer()))
    for index in (name_admission.NODE_INDEX, name_admission.KEY_INDEX):
        with suppress(ValueError):
            cached.add_index(index, lambda _: ())
    caches = NameCaches(Lister(cached), Lister(Indexer()), RecordMaps(Indexer()))
    names = NameAdmission(connect(csr_approving.NAME), caches, tokens, at.clock, takeover=False)
    return CSRApprover(connect(csr_approving.NAME), Lister(cached), tokens, recovery, names)


async def asked(at: World) -> CertificateSigningRequest:
    spec = CertificateSigningRequestSpec(
        request=request_pem("system:node:n1", "system:nodes"),
        signer_name=wellknown.KUBE_APISERVER_CLIENT_KUBELET_SIGNER,
        usages=["digital signature", "client auth"],
    )
    machine = at.as_user("system:bootstrap:abcdef", "system:bootstrappers", wellknown.DEFAULT_NODE_TOKEN_GROUP)
    made = CertificateSigningRequest(metadata=ObjectMeta(name="csr-1"), spec=spec)
    return await machine.create(CERTIFICATE_SIGNING_REQUESTS, made)


@async_test
async def test_what_was_approved_is_left_alone_until_the_cache_has_heard_of_it() -> None:
    async with world() as at:
        cached: Indexer[CertificateSigningRequest] = Indexer()
        csr = await asked(at)
        cached.put(csr)
        approves = approver(at, cached)
        assert await approves.reconcile(request_of(csr)) == DONE
        approved = await at.client.get(CERTIFICATE_SIGNING_REQUESTS, "csr-1")
        assert [condition.type for condition in approved.status.conditions] == [wellknown.CSR_APPROVED]
        assert await approves.reconcile(request_of(csr)) == DONE
        # Another replica does not know, and loses the race.
        with pytest.raises(ReconcileError, match="the object has been modified"):
            await approver(at, cached).reconcile(request_of(csr))


@async_test
async def test_another_version_is_looked_at_again() -> None:
    async with world() as at:
        cached: Indexer[CertificateSigningRequest] = Indexer()
        csr = await asked(at)
        cached.put(csr)
        approves = approver(at, cached)
        await approves.reconcile(request_of(csr))
        cached.put(replace_metadata(csr, resource_version=f"{csr.metadata.resource_version}0"))
        with pytest.raises(ReconcileError):
            await approves.reconcile(request_of(csr))
