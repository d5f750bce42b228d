"""Attached signers beside others that sign under the same names."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from asynctest import async_test
from attached_world import (
    JOINING,
    asked,
    attached,
    foreign,
    holds,
    is_issued,
    options_for,
    passes,
    signing_of,
    until,
    until_leading,
)
from kubevouch import wellknown
from kubevouch.api import catalog
from kubevouch.api.certificates_v1 import (
    CertificateSigningRequest,
    CertificateSigningRequestCondition,
    CertificateSigningRequestSpec,
)
from kubevouch.api.coordination_v1 import Lease, LeaseSpec
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.machinery.text.times import MicroTime
from kubevouch.pki import keys
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509.request_builder import build_request
from kubevouch.pki.x509.subject import Subject
from kubevouch.policy import other_signers
from kubevouch.server.health import HealthError
from kubevouch.standalone.attached.options import AttachedError
from kubevouch.standalone.attached.process import RunningAttached
from kubevouch.testing.cluster import Cluster

_CSRS = catalog.CERTIFICATE_SIGNING_REQUESTS
_SIGNER = wellknown.KUBE_APISERVER_CLIENT_SIGNER


async def _asked_by_person(cluster: Cluster, name: str) -> CertificateSigningRequest:
    """For a signer whose requests nobody approves by rule."""
    request = build_request(keys.generate(KeyAlgorithm.ECDSA_P256), Subject(common_name=name))
    spec = CertificateSigningRequestSpec(request=request, signer_name=_SIGNER, usages=["client auth"])
    return await cluster.client().create(_CSRS, CertificateSigningRequest(metadata=ObjectMeta(name=name), spec=spec))


async def _approved(cluster: Cluster, csr: CertificateSigningRequest) -> CertificateSigningRequest:
    condition = CertificateSigningRequestCondition(type="Approved", status="True", reason="T", message="t")
    status = replace(csr.status, conditions=[condition])
    return await cluster.client().update(_CSRS, replace(csr, status=status), subresource="approval")


async def _signed_by_somebody(cluster: Cluster, name: str) -> None:
    """With a certificate that there is; which one makes no difference."""
    await asked(cluster, f"{name}-source", f"{name}-source")
    source = await until(cluster, f"{name}-source", is_issued)
    csr = await _asked_by_person(cluster, name)
    status = replace(csr.status, certificate=source.status.certificate)
    await cluster.client().update(_CSRS, replace(csr, status=status), subresource="status")


async def _alone(found: RunningAttached) -> None:
    await found.clusters[0].ready_checks()["other-signers"]()


@async_test
async def test_what_somebody_else_signs_is_left_to_them_until_a_request_has_lain_for_five_minutes() -> None:
    async with foreign(is_real_time=False) as cluster:
        options = options_for(cluster, controllers=JOINING, signing=signing_of(cluster))
        async with attached(cluster, options=options, clock=cluster.clock) as found:
            await until_leading(found)
            await asked(cluster, "csr-1", "worker-1")
            csr = await until(cluster, "csr-1", is_issued)
            assert csr.metadata.annotations[wellknown.SIGNED_ANNOTATION].startswith("sha256:")
            await _alone(found)
            waiting = await _asked_by_person(cluster, "theirs")
            status = replace(waiting.status, certificate=csr.status.certificate)
            await cluster.client().update(_CSRS, replace(waiting, status=status), subresource="status")
            signers = found.clusters[0].signers
            assert signers is not None
            await holds(lambda: _SIGNER in signers.aside)
            with pytest.raises(HealthError, match="somebody else has signed theirs"):
                await _alone(found)
            assert found.clusters[0].metrics.registry.get_sample_value(
                "kubevouch_certificates_signed_elsewhere_total", {"signer": _SIGNER}
            ) == 1.0  # fmt: skip
            begun = cluster.clock.monotonic()
            await _approved(cluster, await _asked_by_person(cluster, "left"))
            # The other names are signed as before.
            await asked(cluster, "csr-2", "worker-2")
            await until(cluster, "csr-2", is_issued)
            await passes(cluster.clock, lambda: _SIGNER not in signers.aside)
            assert cluster.clock.monotonic() - begun >= other_signers.RETURN_SECONDS
            await until(cluster, "left", is_issued)
            events = (await cluster.client().list(catalog.EVENTS, "")).items
            told = [each for each in events if each.reason == wellknown.SIGNED_ELSEWHERE]
            assert [each.involved_object.name for each in told] == ["theirs"]


@async_test
async def test_when_kube_controller_manager_comes_the_next_request_waits_for_it() -> None:
    async with foreign(is_real_time=False) as cluster:
        options = options_for(cluster, controllers=JOINING, signing=signing_of(cluster))
        async with attached(cluster, options=options, clock=cluster.clock) as found:
            await until_leading(found)
            await asked(cluster, "csr-1", "worker-1")
            await until(cluster, "csr-1", is_issued)
            now = MicroTime.of(cluster.clock.now())
            spec = LeaseSpec(
                holder_identity="cp_1", lease_duration_seconds=15, acquire_time=now, renew_time=now, lease_transitions=0
            )
            meta = ObjectMeta(name="kube-controller-manager", namespace="kube-system")
            await cluster.client().create(catalog.LEASES, Lease(metadata=meta, spec=spec))
            manager = found.clusters[0].manager
            assert manager is not None
            leases = next(each for each in manager.informers.informers if each.resource is catalog.LEASES)
            await holds(lambda: bool(leases.lister.list()))
            begun = cluster.clock.monotonic()
            await asked(cluster, "csr-2", "worker-2")
            requests = next(each for each in manager.informers.informers if each.resource is _CSRS)

            def issued() -> bool:
                csr = requests.lister.get("csr-2")
                return csr is not None and bool(csr.status.certificate)

            await passes(cluster.clock, issued)
            assert cluster.clock.monotonic() - begun >= other_signers.PROBATION_SECONDS
            await _alone(found)


@async_test
async def test_the_start_is_refused_where_somebody_else_has_signed_lately_unless_that_is_said_to_be_over() -> None:
    async with foreign() as cluster:
        options = options_for(cluster, controllers=JOINING, signing=signing_of(cluster))
        async with attached(cluster, options=options) as found:
            await until_leading(found)
            await _signed_by_somebody(cluster, "theirs")
        with pytest.raises(AttachedError, match=f"somebody else signs {_SIGNER}: 1 request") as caught:
            async with attached(cluster, options=options):
                pass
        assert "--assume-off csrsigning" in caught.value.hint
        said = replace(options, assume_off=("csrsigning",))
        async with attached(cluster, options=said) as found:
            await until_leading(found)
        # Without the name nothing is contested.
        bare = options_for(cluster, controllers=("*",))
        async with attached(cluster, options=bare) as found:
            await until_leading(found)
