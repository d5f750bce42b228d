"""What one person says of a request is stored once, in that person's name, and goes with the request."""

from __future__ import annotations

import pytest

from asynctest import async_test
from kubevouch.api.catalog import CERTIFICATE_SIGNING_REQUESTS
from kubevouch.api.certificates_v1 import (
    CertificateSigningRequest,
    CertificateSigningRequestCondition,
    CertificateSigningRequestSpec,
    CertificateSigningRequestStatus,
)
from kubevouch.api.kubevouch_v1alpha1.catalog import CERTIFICATE_APPROVALS
from kubevouch.client.interface import Client
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.phases.csr_vote import VoteError, vote
from kubevouch.pki import keys
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509.request_builder import build_request
from kubevouch.pki.x509.subject import Subject
from kubevouch.reviews.csr_review import ReviewError, fetch
from kubevouch.server.bootstrap import own_kinds
from kubevouch.testing import Cluster

ADMINS = ("system:masters",)


async def requested(client: Client, name: str = "csr-1") -> CertificateSigningRequest:
    request = build_request(keys.generate(KeyAlgorithm.ECDSA_P256), Subject(common_name="a"))
    spec = CertificateSigningRequestSpec(request=request, signer_name="example.com/a", usages=["client auth"])
    return await client.create(
        CERTIFICATE_SIGNING_REQUESTS, CertificateSigningRequest(metadata=ObjectMeta(name=name), spec=spec)
    )


@async_test
async def test_each_speaks_once_and_in_his_own_name() -> None:
    async with Cluster() as cluster:
        await own_kinds.ensure(cluster.client())
        csr = await requested(cluster.client("rita", ADMINS))
        ann = cluster.client("ann", ADMINS)
        made = await vote(ann, "csr-1", "Approve", "seen on my screen")
        assert (made.spec.approver, made.spec.request_uid) == ("ann", csr.metadata.uid)
        assert [each.uid for each in made.metadata.owner_references] == [csr.metadata.uid]
        with pytest.raises(VoteError, match="ann has already spoken for csr-1, and that cannot be changed"):
            await vote(ann, "csr-1", "Approve", "")
        await vote(ann, "csr-1", "Deny", "changed my mind")
        assert len((await ann.list(CERTIFICATE_APPROVALS)).items) == 2
        with pytest.raises(VoteError, match="ann has already spoken against csr-1, and that cannot be changed"):
            await vote(ann, "csr-1", "Deny", "")


@async_test
async def test_a_request_that_there_is_not_is_told_as_elsewhere() -> None:
    async with Cluster() as cluster:
        await own_kinds.ensure(cluster.client())
        await requested(cluster.client("rita", ADMINS), "csr-12")
        ann = cluster.client("ann", ADMINS)
        for name in ("csr-13", "elsewhere"):
            with pytest.raises(ReviewError) as shown:
                (await fetch(ann)).named(name)
            with pytest.raises(ReviewError) as voted:
                await vote(ann, name, "Approve", "")
            assert (str(voted.value), voted.value.hint) == (str(shown.value), shown.value.hint)


@async_test
async def test_not_about_a_request_of_ones_own_nor_one_that_is_decided() -> None:
    async with Cluster() as cluster:
        await own_kinds.ensure(cluster.client())
        rita = cluster.client("rita", ADMINS)
        csr = await requested(rita)
        with pytest.raises(VoteError, match="rita has made the request csr-1"):
            await vote(rita, "csr-1", "Approve", "")
        denied = CertificateSigningRequestCondition(type="Denied", status="True", reason="No")
        status = CertificateSigningRequestStatus(conditions=[denied])
        changed = CertificateSigningRequest(metadata=csr.metadata, spec=csr.spec, status=status)
        await rita.update(CERTIFICATE_SIGNING_REQUESTS, changed, subresource="approval")
        with pytest.raises(VoteError, match="is decided"):
            await vote(cluster.client("ann", ADMINS), "csr-1", "Approve", "")
