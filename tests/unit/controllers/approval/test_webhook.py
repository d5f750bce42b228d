"""controllers/approval/webhook.py: services that answer, answer nonsense, slowly or not at all."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from asynctest import async_test
from controller_world import World, world
from kubevouch.config.approver_webhooks import ApproverWebhook
from kubevouch.controllers.approval.interface import Uncounted
from kubevouch.controllers.approval.webhook import WebhookApprover
from kubevouch.controllers.csr_approving import NAME as APPROVING
from kubevouch.controllers.interface import ApproverService, IgnorableError, Request, UnansweredError
from kubevouch.controllers.outside_questions import (
    KEPT_SECONDS,
    OF_SOURCE_AT_ONE,
    OutsideQuestions,
    RequestQuestions,
)
from kubevouch.pki.x509 import x509_request
from kubevouch.policy.approval_review import API_VERSION, KIND, MAX_ANSWER
from kubevouch.policy.facts import facts_of
from kubevouch.policy.kubelet_serving import ServingRules
from kubevouch.policy.verdict import Outcome, Verdict
from kubevouch.testing.clock import FakeClock
from scripted_server import Handler, ScriptedServer, cut_off, reply, reply_json, reply_status, stream
from serving_requests import asks, decision, node_with, post, report
from webhook_peer import webhook_peer

SERVING = "kubernetes.io/kubelet-serving"


def says(outcome: str, **more: Any) -> Handler:
    async def answer(request: web.Request) -> web.StreamResponse:
        uid = json.loads(await request.read())["request"]["uid"]
        return web.json_response(
            {"apiVersion": API_VERSION, "kind": KIND, "response": {"uid": uid, "outcome": outcome, **more}}
        )

    return answer


class Asked(Uncounted):
    def __init__(self, server: ScriptedServer, service: ApproverService, clock: FakeClock) -> None:
        self.server = server
        self.clock = clock
        self.woken: list[Request] = []
        self.answered: asyncio.Queue[Request] = asyncio.Queue()
        self.counted: list[tuple[str, str]] = []
        self.questions = OutsideQuestions(clock, self.answered.put_nowait)
        about = RequestQuestions(self.questions, trusts_annotations=True)
        self.approver = WebhookApprover(service, clock, about, self.woken.append, self)

    def asked(self, webhook: str, outcome: str, seconds: float) -> None:
        assert seconds >= 0
        self.counted.append((webhook, str(outcome)))

    async def judge_once(self, name: str = "csr-1") -> Verdict:
        csr = asks(name)
        request = x509_request.parse_pem(csr.spec.request or b"")
        return await self.approver.judge(csr, facts_of(csr, request), request)

    async def judge(self, name: str = "csr-1") -> Verdict:
        """As a worker that comes again when there is an answer."""
        while True:
            try:
                return await self.judge_once(name)
            except UnansweredError:
                await self.answered.get()

    def forget(self) -> None:
        """What was answered is kept no longer."""
        self.clock.advance(KEPT_SECONDS)


@asynccontextmanager
async def service(policy: str = "Wait", signer: str = SERVING, **more: Any) -> AsyncIterator[Asked]:
    async with webhook_peer(max_answer=MAX_ANSWER, **more) as (server, webhook, clock):
        settings = ApproverWebhook(name="cmdb", signer_names=[signer], failure_policy=policy)
        found = Asked(server, ApproverService(settings, webhook), clock)
        yield found
        await webhook.close()


@async_test
async def test_what_it_says_counts() -> None:
    async with service() as asked:
        asked.server.script(says("approve", reason="Known"), says("deny", message="not ours"), says("no-opinion"))
        verdicts = []
        for _ in range(3):
            verdicts.append(await asked.judge())
            asked.forget()
        assert [each.outcome for each in verdicts] == [Outcome.APPROVE, Outcome.DENY, Outcome.NO_OPINION]
        assert (verdicts[0].approver, verdicts[0].reason, verdicts[1].message) == ("webhook/cmdb", "Known", "not ours")
        assert asked.counted == [("cmdb", "approve"), ("cmdb", "deny"), ("cmdb", "no-opinion")]
        # Each question has an identifier of its own.
        assert len({json.loads(each.body)["request"]["uid"] for each in asked.server.seen}) == 3


@async_test
async def test_other_signers_are_not_asked_about() -> None:
    async with service(signer="example.com/x") as asked:
        assert await asked.judge() == Verdict(Outcome.NO_OPINION, "webhook/cmdb")
        assert asked.server.seen == []


APPROVAL = {"apiVersion": API_VERSION, "kind": KIND, "response": {"uid": "*", "outcome": "approve"}}
NO_ANSWERS = {
    "another's": reply_json(APPROVAL),
    "too long": reply(b'{"apiVersion": "' + b" " * (MAX_ANSWER + 1) + b'"}'),
    "an error that says approve": reply_json(APPROVAL, 500),
    "elsewhere": reply_status(302, "Found", "", headers={"Location": "/other"}),
    "refused": reply_status(403, "Forbidden", "no"),
    "busy": reply_status(429, "TooManyRequests", "later"),
    "half": stream([b'{"apiVersion":'], then=cut_off),
}


@pytest.mark.parametrize("answer", NO_ANSWERS.values(), ids=NO_ANSWERS)
def test_no_answer_never_approves(answer: Handler) -> None:
    @async_test
    async def tried() -> None:
        async with service("Wait") as asked:
            asked.server.script(answer)
            with pytest.raises(IgnorableError, match="webhook/cmdb gave no answer"):
                await asked.judge()
        async with service("Deny") as asked:
            asked.server.script(answer)
            verdict = await asked.judge()
            assert (verdict.outcome, verdict.reason) == (Outcome.DENY, "WebhookFailed")
            assert asked.counted == [("cmdb", "none")]
        async with service("Ignore") as asked:
            asked.server.script(answer)
            verdict = await asked.judge()
            assert (verdict.outcome, verdict.retry, verdict.steps[0].result) == (Outcome.NO_OPINION, True, "error")

    tried()


@async_test
async def test_one_that_never_answers() -> None:
    async with service("Ignore") as asked:
        arrived = asyncio.Event()

        async def never(_request: web.Request) -> web.StreamResponse:
            arrived.set()
            await asyncio.Event().wait()
            raise AssertionError

        asked.server.script(never)
        under_way = asyncio.create_task(asked.judge())
        await arrived.wait()
        asked.clock.advance(5.1)
        assert (await under_way).outcome is Outcome.NO_OPINION


@async_test
async def test_one_that_is_away_rests_and_wakes_what_waits() -> None:
    async with service("Wait") as asked:
        asked.server.script(reply_status(500, "InternalError", "oops"))
        for name in ("csr-1", "csr-2"):
            with pytest.raises(IgnorableError, match="oops"):
                await asked.judge(name)
        assert len(asked.server.seen) == 1
        # It rests longer each time, and half a minute at most.
        for expected in (1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0):
            asked.clock.advance(expected - 0.01)
            before = len(asked.server.seen)
            with pytest.raises(IgnorableError):
                await asked.judge()
            assert len(asked.server.seen) == before
            asked.clock.advance(0.02)
            with pytest.raises(IgnorableError):
                await asked.judge()
            assert len(asked.server.seen) == before + 1
        asked.server.script(says("approve"))
        asked.clock.advance(31.0)
        assert (await asked.judge("csr-3")).outcome is Outcome.APPROVE
        assert [each.name for each in asked.woken] == ["csr-1", "csr-2"]
        asked.woken.clear()
        asked.forget()
        await asked.judge("csr-3")
        assert asked.woken == []


@async_test
async def test_no_worker_waits_for_a_slow_one() -> None:
    async with service("Wait") as asked:
        go_on, arrived = asyncio.Event(), asyncio.Semaphore(0)
        inside = says("approve")

        async def slow(request: web.Request) -> web.StreamResponse:
            arrived.release()
            await go_on.wait()
            return await inside(request)

        asked.server.script(slow)
        names = [f"csr-{number}" for number in range(OF_SOURCE_AT_ONE + 2)]
        for name in names:
            with pytest.raises(UnansweredError):
                await asked.judge_once(name)
        for _ in range(OF_SOURCE_AT_ONE):
            await arrived.acquire()
        # The other two wait for room.
        assert (asked.questions.running, len(asked.questions)) == (OF_SOURCE_AT_ONE, len(names))
        go_on.set()
        for _ in names:
            await asked.answered.get()
        assert [(await asked.judge_once(name)).outcome for name in names] == [Outcome.APPROVE] * len(names)


@async_test
async def test_what_waits_for_room_is_not_asked_of_one_that_has_come_to_rest() -> None:
    async with service("Ignore") as asked:
        asked.server.script(reply_status(500, "InternalError", "oops"))
        names = [f"csr-{number}" for number in range(OF_SOURCE_AT_ONE + 2)]
        for name in names:
            with pytest.raises(UnansweredError):
                await asked.judge_once(name)
        for _ in names:
            await asked.answered.get()
        assert len(asked.server.seen) <= OF_SOURCE_AT_ONE
        assert [(await asked.judge_once(name)).outcome for name in names] == [Outcome.NO_OPINION] * len(names)


class TestInTheLoop:
    """Beside the other approvers."""

    async def decided(self, at: World, policy: str, answer: Handler, dns: tuple[str, ...] = ("n1",)) -> tuple[str, str]:
        async with webhook_peer(max_answer=MAX_ANSWER) as (server, webhook, _):
            server.script(answer)
            settings = ApproverWebhook(name="cmdb", signer_names=[SERVING], failure_policy=policy)
            await at.run(APPROVING, serving=ServingRules(), services=[ApproverService(settings, webhook)])
            await report(at, node_with())
            await post(at, asks("csr-1", dns=dns))
            await at.settle()
            found = await decision(at, "csr-1")
            await at.close()
            await webhook.close()
            return found

    @async_test
    async def test_its_denial_wins(self) -> None:
        async with world() as at:
            assert await self.decided(at, "Wait", says("deny", reason="NotOurs")) == ("Denied", "NotOurs")

    @async_test
    async def test_its_approval_does_not_overrule_a_contradiction(self) -> None:
        async with world() as at:
            found = await self.decided(at, "Wait", says("approve"), ("n1", "kubernetes.default.svc"))
            assert found == ("Denied", "ForbiddenName")

    @async_test
    async def test_what_nothing_else_justifies(self) -> None:
        async with world() as at:
            assert await self.decided(at, "Wait", says("approve", reason="Known"), ("n1", "x")) == ("Approved", "Known")

    @async_test
    async def test_nothing_is_approved_while_it_is_waited_for(self) -> None:
        async with world() as at:
            assert await self.decided(at, "Wait", reply_status(500, "InternalError", "x")) == ("Pending", "")

    @async_test
    async def test_others_go_on_where_it_is_ignored(self) -> None:
        async with world() as at:
            failing = reply_status(500, "InternalError", "x")
            assert await self.decided(at, "Ignore", failing) == ("Approved", "AutoApproved")
