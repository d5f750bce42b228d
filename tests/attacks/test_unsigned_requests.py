"""A request that its own key has not signed is recorded where that is asked for, and leads to no certificate."""

from __future__ import annotations

import datetime as dt
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from asynctest import async_test
from kubevouch import wellknown
from kubevouch.api import catalog
from kubevouch.api.certificates_v1 import (
    CertificateSigningRequest,
    CertificateSigningRequestCondition,
    CertificateSigningRequestSpec,
    CertificateSigningRequestStatus,
)
from kubevouch.client.interface import MERGE_PATCH, Client
from kubevouch.controllers.csr_signing import approval_of
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.pki import keys
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509 import pem, request_builder, x509_request
from kubevouch.pki.x509.subject import Subject
from kubevouch.registry.certificates.certificatesigningrequests import MAX_RECORDED_BYTES, RECORDED_AN_HOUR
from kubevouch.server.options import ServerOptions
from kubevouch.standalone.options import StandaloneOptions
from kubevouch.standalone.up import running
from kubevouch.testing.clock import FakeClock

NOW = dt.datetime(2026, 11, 1, tzinfo=dt.UTC)
CSRS = catalog.CERTIFICATE_SIGNING_REQUESTS
RECORDING = ServerOptions(record_invalid_csr_signatures=True)


def _request(*, signed: bool = False, behind: bytes = b"") -> bytes:
    subject = Subject(common_name="system:node:worker-1", organizations=("system:nodes",))
    text = request_builder.build_request(keys.generate(KeyAlgorithm.ECDSA_P256), subject)
    made = x509_request.parse_pem(text).contents
    # The last octet is the signature's.
    der = made if signed else made[:-1] + bytes([made[-1] ^ 1])
    return pem.encode("CERTIFICATE REQUEST", der) + behind


def _csr(name: str, request: bytes, metadata: ObjectMeta | None = None) -> CertificateSigningRequest:
    spec = CertificateSigningRequestSpec(
        request=request,
        signer_name=wellknown.KUBE_APISERVER_CLIENT_KUBELET_SIGNER,
        usages=["digital signature", "client auth"],
    )
    return CertificateSigningRequest(metadata=metadata or ObjectMeta(name=name), spec=spec)


@asynccontextmanager
async def _cluster(folder: Path, clock: FakeClock, server: ServerOptions = RECORDING) -> AsyncIterator[Client]:
    options = StandaloneOptions(
        data_dir=folder, bind_address="127.0.0.1", secure_port=0, store="memory:", server=server, controllers=()
    )
    async with running(options, clock) as cluster:
        yield cluster.server.client


async def _refused(client: Client, csr: CertificateSigningRequest) -> APIStatusError:
    with pytest.raises(APIStatusError) as refusal:
        await client.create(CSRS, csr)
    assert refusal.value.code == 422
    return refusal.value


@async_test
async def test_by_default_it_is_refused_as_in_kubernetes(tmp_path: Path) -> None:
    async with _cluster(tmp_path, FakeClock(NOW), ServerOptions()) as client:
        assert "spec.request" in str(await _refused(client, _csr("a", _request())))


@async_test
async def test_it_is_denied_as_it_is_stored_and_nothing_makes_it_good(tmp_path: Path) -> None:
    async with _cluster(tmp_path, FakeClock(NOW)) as client:
        made = await client.create(CSRS, _csr("bad", _request()))
        (condition,) = made.status.conditions
        assert (condition.type, condition.status, condition.reason) == ("Denied", "True", "InvalidSignature")
        assert "not signed by its own key" in condition.message
        assert condition.last_update_time is not None
        # It stays an object like others: labels can be changed, and it goes away.
        labelled = await client.patch(CSRS, "bad", {"metadata": {"labels": {"a": "b"}}}, MERGE_PATCH)
        approved = CertificateSigningRequestCondition(type="Approved", status="True")
        for conditions in ([condition, approved], [approved], []):
            status = CertificateSigningRequestStatus(conditions=conditions)
            with pytest.raises(APIStatusError):
                await client.update(CSRS, msgspec.structs.replace(labelled, status=status), subresource="approval")
        # With another request in it, it is still the one that was denied.
        spec = msgspec.structs.replace(labelled.spec, request=_request(signed=True))
        changed = await client.update(CSRS, msgspec.structs.replace(labelled, spec=spec))
        assert changed.spec.request == made.spec.request
        assert approval_of(changed) is None
        # Nobody says of itself that it was denied, and so gets past the check.
        spoofed = msgspec.structs.replace(_csr("x", b"x"), status=made.status)
        await _refused(client, spoofed)
        assert not (await client.create(CSRS, _csr("good", _request(signed=True)))).status.conditions
        await client.delete(CSRS, "bad")


@async_test
async def test_what_is_recorded_is_bounded(tmp_path: Path) -> None:
    clock = FakeClock(NOW)
    async with _cluster(tmp_path, clock) as client:
        # What would be large, or would be kept for ever, is not worth it.
        for number, csr in enumerate((
            _csr("large", _request(behind=b"x" * MAX_RECORDED_BYTES)),
            _csr("annotated", _request(), ObjectMeta(name="annotated", annotations={"a": "x" * 100})),
            _csr("labelled", _request(), ObjectMeta(name="labelled", labels={"a": "b"})),
            _csr("kept", _request(), ObjectMeta(name="kept", finalizers=["example.com/kept"])),
        )):  # fmt: skip
            await _refused(client, csr)
            assert not (await client.list(CSRS)).items, number
        request = _request()
        for number in range(RECORDED_AN_HOUR):
            await client.create(CSRS, _csr(f"bad-{number}", request))
        await _refused(client, _csr("more", request))
        clock.set(NOW + dt.timedelta(minutes=2))
        await client.create(CSRS, _csr("later", request))
        await client.create(CSRS, _csr("later-2", request))
        await _refused(client, _csr("more", request))
        assert len((await client.list(CSRS)).items) == RECORDED_AN_HOUR + 2
