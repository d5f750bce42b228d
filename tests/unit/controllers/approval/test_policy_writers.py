"""Whether a policy's writer is believed where the API server is another's, and what that writer is asked to hold."""

from __future__ import annotations

import datetime as dt
from typing import Any

import msgspec
import pytest

from asynctest import async_test
from certificate_requests import SIGNER, policy
from controller_world import NOW, World, world
from kubevouch.api.catalog import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    MUTATING_ADMISSION_POLICIES,
    MUTATING_ADMISSION_POLICY_BINDINGS,
    VALIDATING_ADMISSION_POLICIES,
    VALIDATING_ADMISSION_POLICY_BINDINGS,
)
from kubevouch.api.kubevouch_v1alpha1.guard_versions import GuardVersion, guards_for
from kubevouch.api.kubevouch_v1alpha1.writer_guards import WRITER_RECORDS, WRITERS, Writer
from kubevouch.authorization.policy import cluster_role, cluster_role_binding, group, rule
from kubevouch.client.interface import Client
from kubevouch.controllers.approval.policy_writers import GUARD_SECONDS, PolicyWriters
from kubevouch.machinery.scheme import Resource
from kubevouch.machinery.text.times import Time
from kubevouch.policy.certificate_policies import CompiledPolicy, compile_policy
from kubevouch.policy.verdict import Step

MASTERS = Writer("root", ("system:masters",))
LATER = Time.of(NOW + dt.timedelta(seconds=1))


async def look(at: World, *, own: bool = False, names: tuple[str, ...] = (SIGNER,), **changes: object) -> Step:
    writers = PolicyWriters(at.client, at.clock, is_own_server=own)
    return await writers.look(await compiled(at, **changes), names)


async def compiled(at: World, **changes: object) -> CompiledPolicy:
    stored = compile_policy(await policy(at))
    return msgspec.structs.replace(stored, **{"writer": MASTERS, "created": LATER, **changes})


@pytest.mark.parametrize(
    ("created", "own", "met"),
    [
        (LATER, False, True),
        # The guard has come within that second, and a policy may have come before it.
        (Time.of(NOW), False, False),
        (Time.of(NOW - dt.timedelta(days=1)), False, False),
        # Whatever is stored there, our own admission has looked at it.
        (Time.of(NOW), True, True),
        (Time.of(NOW - dt.timedelta(days=1)), True, True),
    ],
)
@async_test
async def test_a_record_counts_from_the_guard_on(created: Time, own: bool, met: bool) -> None:
    async with world() as at:
        step = await look(at, own=own, created=created)
        assert (step.result == "met") is met
        if not met:
            assert step.got == "a policy older than the admission policy that records writers"


@pytest.mark.parametrize("gone", [MUTATING_ADMISSION_POLICIES, MUTATING_ADMISSION_POLICY_BINDINGS])
@async_test
async def test_without_the_guard_no_record_counts(gone: object) -> None:
    async with world() as at:
        made = await compiled(at)
        await at.client.delete(gone, WRITERS)  # type: ignore[arg-type]  # one of two kinds
        step = await PolicyWriters(at.client, at.clock, is_own_server=False).look(made, (SIGNER,))
        assert step.result == "unmet"
        assert step.got.startswith(f"no MutatingAdmissionPolicy {WRITERS} with its binding, and no Validating")


@async_test
async def test_where_nothing_is_filled_in_a_guard_that_asks_for_the_record_does_as_well() -> None:
    async with world() as at:
        made = await compiled(at)
        gone: tuple[Resource[Any], ...] = (MUTATING_ADMISSION_POLICIES, MUTATING_ADMISSION_POLICY_BINDINGS)
        for resource in gone:
            await at.client.delete(resource, WRITERS)
        for resource, obj in guards_for(GuardVersion.VALIDATING):
            if obj.metadata.name == WRITER_RECORDS:
                await at.client.create(resource, obj)
        writers = PolicyWriters(at.client, at.clock, is_own_server=False)
        assert (await writers.look(made, (SIGNER,))).result == "met"
        before = msgspec.structs.replace(made, created=Time.of(NOW))
        assert (await writers.look(before, (SIGNER,))).got.startswith("a policy older than")
        policy_, binding = VALIDATING_ADMISSION_POLICIES, VALIDATING_ADMISSION_POLICY_BINDINGS
        found = await at.client.get(binding, WRITER_RECORDS)
        warns = msgspec.structs.replace(found.spec, validation_actions=["Warn"])
        await at.client.update(binding, msgspec.structs.replace(found, spec=warns))
        at.clock.advance(GUARD_SECONDS)
        assert (await writers.look(made, (SIGNER,))).got.endswith("of another version")
        await at.client.delete(policy_, WRITER_RECORDS)
        at.clock.advance(GUARD_SECONDS)
        assert (await writers.look(made, (SIGNER,))).result == "unmet"


@async_test
async def test_a_guard_that_records_something_else_does_not_count() -> None:
    async with world() as at:
        made = await compiled(at)
        guard = await at.client.get(MUTATING_ADMISSION_POLICIES, WRITERS)
        other = msgspec.structs.replace(guard.spec, mutations=[*guard.spec.mutations, *guard.spec.mutations])
        await at.client.update(MUTATING_ADMISSION_POLICIES, msgspec.structs.replace(guard, spec=other))
        step = await PolicyWriters(at.client, at.clock, is_own_server=False).look(made, (SIGNER,))
        assert (step.result, step.got) == ("unmet", f"a MutatingAdmissionPolicy {WRITERS} of another version")


@pytest.mark.parametrize("own", [True, False])
@async_test
async def test_nobody_recorded_approves_only_what_our_own_server_had_before(own: bool) -> None:
    async with world() as at:
        made = await compiled(at, writer=None)
        writers = PolicyWriters(at.client, at.clock, is_own_server=own)
        assert (await writers.look(made, (SIGNER,))).result == "unmet"
        before = msgspec.structs.replace(made, created=Time.of(NOW - dt.timedelta(days=1)))
        assert (await writers.look(before, (SIGNER,))).result == ("met" if own else "unmet")


@pytest.mark.parametrize(
    ("held", "names", "missing"),
    [
        ([], (SIGNER,), SIGNER),
        ([SIGNER], (SIGNER,), ""),
        ([SIGNER], (SIGNER, "example.com/b"), "example.com/b"),
        (["example.com/*"], (SIGNER, "example.com/*"), ""),
        (["example.com/*"], ("*",), "*"),
        (["*"], ("*",), "*"),
        (None, ("*", "example.org/a"), ""),
    ],
)
@async_test
async def test_the_right_is_asked_for_by_the_groups_of_the_record(
    held: list[str] | None, names: tuple[str, ...], missing: str
) -> None:
    async with world() as at:
        if held != []:
            approves = rule("approve", "certificates.k8s.io", "signers", held or ())
            await at.client.create(CLUSTER_ROLES, cluster_role("a", approves))
            await at.client.create(CLUSTER_ROLE_BINDINGS, cluster_role_binding("a", group("approvers")))
        step = await look(at, names=names, writer=Writer("ops", ("approvers",)))
        assert (step.result, step.expected) == (
            ("unmet", f"the right to approve for {missing}") if missing else ("met", step.expected)
        )


class Counting:
    """Passes everything on, and counts what is read."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.gets = 0

    def __getattr__(self, verb: str) -> object:
        self.gets += verb == "get"
        return getattr(self._client, verb)


@async_test
async def test_the_guard_is_read_once_in_ten_seconds() -> None:
    async with world() as at:
        made, client = await compiled(at), Counting(at.client)
        writers = PolicyWriters(client, at.clock, is_own_server=False)  # type: ignore[arg-type]  # passes all on
        for _ in range(5):
            await writers.look(made, (SIGNER,))
        assert client.gets == 2
        await at.clock.run(GUARD_SECONDS)
        await writers.look(made, (SIGNER,))
        assert client.gets == 4
