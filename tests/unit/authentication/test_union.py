from __future__ import annotations

import pytest

from asynctest import async_test
from kubevouch.authentication.anonymous import AnonymousAuthenticator
from kubevouch.authentication.interface import Authentication, AuthenticationError, Credentials, UserInfo
from kubevouch.authentication.union import UnionAuthenticator


class Fixed:
    """Always gives the same answer."""

    def __init__(self, answer: str | Exception | None) -> None:
        self.answer = answer

    async def authenticate(self, credentials: Credentials) -> Authentication | None:
        if isinstance(self.answer, Exception):
            raise self.answer
        return None if self.answer is None else Authentication(UserInfo(self.answer), "fixed")


BAD = AuthenticationError("bad")


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        (("a", "b"), "a"),
        ((None, "b"), "b"),
        ((BAD, "b"), "b"),
        (("a", BAD), "a"),
        ((None, None), "system:anonymous"),
        ((), "system:anonymous"),
    ],
)
@async_test
async def test_first_success_counts(answers: tuple[str | Exception | None, ...], expected: str) -> None:
    union = UnionAuthenticator([Fixed(answer) for answer in answers], AnonymousAuthenticator())
    found = await union.authenticate(Credentials())
    assert found.user.name == expected
    assert ("system:authenticated" in found.user.groups) == (expected != "system:anonymous")


@pytest.mark.parametrize(
    ("answers", "error"),
    [((BAD,), "bad"), ((BAD, None), "bad"), ((None, BAD, AuthenticationError("worse")), "[bad, worse]")],
)
@async_test
async def test_who_presented_something_bad_is_never_anonymous(
    answers: tuple[str | Exception | None, ...], error: str
) -> None:
    union = UnionAuthenticator([Fixed(answer) for answer in answers], AnonymousAuthenticator())
    with pytest.raises(AuthenticationError) as caught:
        await union.authenticate(Credentials())
    assert str(caught.value) == error


@async_test
async def test_without_anonymous_requests() -> None:
    with pytest.raises(AuthenticationError):
        await UnionAuthenticator([Fixed(None)]).authenticate(Credentials())


@async_test
async def test_anonymous_on_some_paths() -> None:
    union = UnionAuthenticator([Fixed(None)], AnonymousAuthenticator(["/livez"]))
    assert (await union.authenticate(Credentials(), "/livez")).user.name == "system:anonymous"
    with pytest.raises(AuthenticationError):
        await union.authenticate(Credentials(), "/version")


@async_test
async def test_each_is_asked_about_what_was_presented_and_nobody_is_said_so() -> None:
    asked: list[Credentials] = []

    class Asked:
        async def authenticate(self, credentials: Credentials) -> Authentication | None:
            asked.append(credentials)
            return None

    credentials = Credentials((), None, {"authorization": ["Bearer t"]})
    with pytest.raises(AuthenticationError, match=r"^the request has no credential that this server knows$"):
        await UnionAuthenticator([Asked(), Asked()]).authenticate(credentials)
    assert [each is credentials for each in asked] == [True, True]
