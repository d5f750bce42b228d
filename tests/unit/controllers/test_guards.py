"""controllers/guards.py: what is not guarded is not acted upon, where the API server is somebody else's."""

from __future__ import annotations

import pytest

from asynctest import async_test
from controller_world import world
from kubevouch.api.catalog import VALIDATING_ADMISSION_POLICIES, VALIDATING_ADMISSION_POLICY_BINDINGS
from kubevouch.api.kubevouch_v1alpha1.certificate_approvals import CertificateApproval, CertificateApprovalSpec
from kubevouch.api.kubevouch_v1alpha1.guard_versions import GuardVersion
from kubevouch.api.kubevouch_v1alpha1.guards import APPROVERS
from kubevouch.controllers.approval.voters import Voters
from kubevouch.controllers.guards import GUARD_SECONDS, Guards
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.revocation.revocations import Revocations
from kubevouch.standalone.attached import guards as attached


@pytest.mark.parametrize("gone", [VALIDATING_ADMISSION_POLICIES, VALIDATING_ADMISSION_POLICY_BINDINGS])
@async_test
async def test_a_guard_that_is_not_whole_holds_nobody(gone: object) -> None:
    async with world() as at:
        found = Guards(at.client, at.clock, is_own_server=False)
        assert await found.fault(APPROVERS) == ""
        await at.client.delete(gone, APPROVERS)  # type: ignore[arg-type]  # one of two kinds
        assert await found.fault(APPROVERS) == ""
        at.clock.advance(GUARD_SECONDS)
        assert (
            await found.fault(APPROVERS) == f"no ValidatingAdmissionPolicy {APPROVERS} with its binding, of the guards"
        )
        assert await Guards(at.client, at.clock, is_own_server=True).fault(APPROVERS) == ""


@async_test
async def test_votes_that_anybody_may_have_written_do_not_count() -> None:
    async with world() as at:
        spec = CertificateApprovalSpec(
            request_name="r", request_uid="u", approver="root", decision="Approve", groups=["system:masters"]
        )
        vote = CertificateApproval(metadata=ObjectMeta(name="v"), spec=spec)

        async def void() -> dict[str, str]:
            guards = Guards(at.client, at.clock, is_own_server=False)
            return dict(await Voters(at.client, Revocations.none(), guards).void([vote]))

        assert await void() == {}
        await at.client.delete(VALIDATING_ADMISSION_POLICIES, APPROVERS)
        assert "anybody may have said it in that name here" in (await void())["v"]


@async_test
async def test_what_is_missing_is_told_before_the_controllers_start() -> None:
    async with world() as at:
        version = GuardVersion.MUTATING
        assert await attached.faults(at.client, at.clock, version) == ()
        await at.client.delete(VALIDATING_ADMISSION_POLICIES, APPROVERS)
        (fault,) = await attached.faults(at.client, at.clock, version)
        assert APPROVERS in fault
