"""reviews/csr_explanation.py: the first clause that is not met, the missing right, and what the ledger has."""

from __future__ import annotations

import msgspec
import pytest

from asynctest import async_test
from certificate_requests import ask, policy, rights
from controller_world import NOW, World, world
from kubevouch.api.catalog import CERTIFICATE_SIGNING_REQUESTS
from kubevouch.cli.csr_explain import chart, policy_outlook
from kubevouch.controllers import csr_approving
from kubevouch.ledger.interface import ReadableLedger
from kubevouch.ledger.memory import MemoryLedger
from kubevouch.policy.verdict import Outcome, Step, Verdict
from kubevouch.reviews.csr_explanation import NO_LEDGER, Explanation, NothingKnownError, explain, unrecorded
from kubevouch.reviews.csr_review import decide


async def why(at: World, name: str, ledger: ReadableLedger | None = None) -> Explanation:
    return await explain(at.client, name, ledger, at.clock)


@async_test
async def test_what_waits_tells_the_first_clause_and_the_missing_right() -> None:
    async with world() as at:
        await rights(at, "alice", "eve")
        await policy(at)
        await ask(at, "no-right", user="eve")
        await ask(at, "good", key=8)
        await ask(at, "other", key=9, signer="example.com/other")
        found = await why(at, "no-right")
        assert (found.state, found.source, found.verdict.outcome) == ("Pending", "rules", Outcome.NO_OPINION)
        assert found.verdict.missing == (
            "requester may use it: got no, expected the right to use certificaterequestpolicies/hosts"
        )
        assert Step("policy/hosts: san.dns", "met", "a.k8s.example.com", "*.k8s.example.com") in found.verdict.steps
        assert (await why(at, "good")).verdict.outcome is Outcome.APPROVE
        assert (await why(at, "other")).verdict.missing == ""


@async_test
async def test_a_reviewing_person_hears_of_policies() -> None:
    async with world() as at:
        await rights(at, "alice", "eve")
        await policy(at)
        waits, good = await ask(at, "no-right", user="eve"), await ask(at, "good", key=8)
        other = await ask(at, "other", key=9, signer="example.com/other")
        assert (await policy_outlook(at.client, waits) or "").startswith("waits: requester may use it: got no")
        assert (await policy_outlook(at.client, good) or "").startswith(
            "policy hosts: all rules are met; it is decided"
        )
        assert await policy_outlook(at.client, other) is None


@async_test
async def test_what_was_issued_before_is_not_guessed() -> None:
    async with world() as at:
        await rights(at, "alice")
        await policy(at, fresh_key=True)
        await ask(at, "good")
        found = await why(at, "good")
        assert found.verdict.missing.startswith(
            "freshKey: got the ledger cannot be read: the ledger is not at hand here"
        )
        assert (await why(at, "good", MemoryLedger())).verdict.outcome is Outcome.APPROVE


@async_test
async def test_what_was_decided_long_ago_is_in_the_ledger() -> None:
    async with world() as at:
        await rights(at, "alice")
        await policy(at)
        ledger = at.ledger
        running = await at.run(csr_approving.NAME)
        await ask(at, "evil", names=("evil.com",))
        await running.settle()
        before = await why(at, "evil", ledger)
        await at.client.delete(CERTIFICATE_SIGNING_REQUESTS, "evil")
        found = await why(at, "evil", ledger)
        assert found == before
        assert (found.state, found.source, found.at) == ("Denied", "ledger", NOW)
        assert found.verdict.approver == "policy/hosts"
        assert found.request is not None
        assert (found.request.username, found.request.dns_names) == ("alice", ("evil.com",))
        assert any(step.rule == "policy/hosts: san.dns" and step.result == "unmet" for step in found.verdict.steps)
        with pytest.raises(NothingKnownError):
            await why(at, "evil")


@async_test
async def test_without_the_ledger_the_condition_is_what_is_known() -> None:
    async with world() as at:
        await rights(at, "alice")
        await policy(at)
        running = await at.run(csr_approving.NAME)
        await ask(at, "good")
        await running.settle()
        found = await why(at, "good")
        assert (found.state, found.source, found.verdict.reason) == ("Approved", "conditions", "ApprovedByPolicy")


@async_test
async def test_what_a_person_decided_is_not_said_to_be_missing_in_the_ledger() -> None:
    async with world() as at:
        await rights(at, "alice")
        for name, key, state in (("yes", 8, "Approved"), ("no", 9, "Denied")):
            await decide(at.client, await ask(at, name, key=key), state, "I know her")
            found = await why(at, name, at.ledger)
            assert (found.state, found.source) == (state, "conditions")
            assert unrecorded(found, has_ledger=True) == f"{state.lower()} by hand: no rule was looked at"
            assert NO_LEDGER in unrecorded(found, has_ledger=False)
        await decide(at.client, await ask(at, "other", key=10), "Approved", "", reason="AutoApproved")
        told = unrecorded(await why(at, "other", at.ledger), has_ledger=True)
        assert "another controller" in told and "by hand" not in told and NO_LEDGER not in told


def test_a_chart_has_no_markup_of_the_requester() -> None:
    nasty = 'x"]; click a "javascript:alert(1)" <b> `'
    verdict = Verdict(Outcome.DENY, "policy/a", "R", nasty, steps=(Step(nasty, "unmet", nasty, nasty),))
    text = chart(Explanation(name=nasty, state="Denied", source="ledger", verdict=verdict))
    for line in text.splitlines():
        assert line.count('"') in (0, 2)
        assert "<" not in line
    assert msgspec.json.encode(text)
