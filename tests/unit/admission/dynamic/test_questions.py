"""admission/dynamic/questions.py"""

from __future__ import annotations

from asynctest import async_test
from kubevouch.admission.dynamic.questions import Asking, Interview, attributes_of
from kubevouch.authentication.interface import UserInfo
from kubevouch.authorization.interface import Attributes, Decision, Verdict
from kubevouch.cel.library.authorizer import Answer, Question

JANE = UserInfo("jane", groups=("devs",))


def test_what_a_question_means() -> None:
    pods = Question(
        "get", group="", resource="pods", subresource="log", namespace="prod", name="a", label_selector="x=y"
    )
    assert attributes_of(pods, JANE) == Attributes(
        JANE, "get", "", "*", "pods", "log", "prod", "a", label_selector="x=y"
    )
    assert attributes_of(Question("get", path="/healthz"), JANE) == Attributes(JANE, "get", path="/healthz")
    account = attributes_of(Question("get", ("prod", "web"), path="/x"), JANE).user
    assert account.name == "system:serviceaccount:prod:web"
    assert account.groups == ("system:serviceaccounts", "system:serviceaccounts:prod")


class Counting:
    """Allows paths, has no opinion on anything else."""

    def __init__(self) -> None:
        self.asked: list[Attributes] = []

    async def authorize(self, attributes: Attributes) -> Verdict:
        self.asked.append(attributes)
        return Verdict(Decision.ALLOW, "a path") if attributes.path else Verdict(Decision.NO_OPINION, error="broken")


@async_test
async def test_an_interview_asks_everything_once() -> None:
    def asking() -> Asking[list[Answer | None]]:
        first = yield Question("get", path="/x")
        second = yield Question("get", path="/x")
        third = yield Question("get", resource="pods")
        return [first, second, third]

    authorizer = Counting()
    interview = Interview(authorizer, JANE)
    allowed, refused = Answer(True, "a path"), Answer(False, "", "broken")
    assert await interview.settle(asking()) == [allowed, allowed, refused]
    assert await interview.settle(asking()) == [allowed, allowed, refused]
    assert len(authorizer.asked) == 2
