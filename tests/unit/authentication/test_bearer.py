from __future__ import annotations

import ipaddress
from collections.abc import Sequence

import pytest

from asynctest import async_test
from kubevouch.authentication.bearer import EXTRA_SPACE, BearerAuthenticator, bearer_token_of, warnings_for
from kubevouch.authentication.interface import Authentication, AuthenticationError, Credentials, UserInfo


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (None, ""),
        ("", ""),
        ("Basic YWRtaW46YWRtaW4=", ""),
        ("Bearer", ""),
        ("Bearer ", ""),
        ("Bearer  abc", ""),
        ("Bearer\tabc", ""),
        ("Bearer abc", "abc"),
        ("bEaReR abc", "abc"),
        ("  Bearer abc  ", "abc"),
        ("Bearer abc def", "abc"),
        ("\xa0Bearer abc\x85", "abc"),
        ("\x1cBearer abc", ""),  # white space for Python, not for Go
        ("abc", ""),
    ],
)
def test_bearer_token_of(header: str | None, expected: str) -> None:
    assert bearer_token_of(header) == expected


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("Bearer  abc", (EXTRA_SPACE,)),
        ("bearer  abc def", (EXTRA_SPACE,)),
        ("Bearer abc", ()),
        ("Bearer ", ()),
        ("\x1cBearer  abc", ()),
        ("Basic  abc", ()),
        (None, ()),
    ],
)
def test_only_an_extra_space_is_worth_a_warning(header: str | None, expected: tuple[str, ...]) -> None:
    assert warnings_for(header) == expected


class OneToken:
    """Knows one token; another one that starts alike it takes for its own and refuses."""

    def __init__(self, token: str) -> None:
        self.token = token

    async def authenticate_token(self, bearer_token: str, audiences: Sequence[str] = ()) -> Authentication | None:
        if bearer_token == self.token:
            return Authentication(UserInfo(self.token), "one", audiences=tuple(audiences))
        if bearer_token.startswith(self.token):
            raise AuthenticationError(f"{self.token}: no good")
        return None


BEARER = BearerAuthenticator([OneToken("a"), OneToken("ab"), OneToken("c")])


@async_test
async def test_a_later_authenticator_heals_the_error_of_an_earlier_one() -> None:
    found = await BEARER.authenticate(Credentials(authorization="Bearer ab"))
    assert found is not None
    assert found.user.name == "ab"


@pytest.mark.parametrize(
    ("token", "error"),
    [("zzz", "invalid bearer token"), ("cd", "c: no good"), ("abc", "[a: no good, ab: no good]")],
)
@async_test
async def test_a_token_that_nobody_accepts_is_an_error(token: str, error: str) -> None:
    with pytest.raises(AuthenticationError) as caught:
        await BEARER.authenticate(Credentials(authorization=f"Bearer {token}"))
    assert str(caught.value) == error


@async_test
async def test_no_bearer_token_is_no_credential() -> None:
    assert await BEARER.authenticate(Credentials(authorization="Basic abc")) is None
    assert await BEARER.authenticate(Credentials()) is None


@async_test
async def test_a_review_names_audiences() -> None:
    found = await BEARER.authenticate_token("c", ["somewhere"])
    assert found.audiences == ("somewhere",)


class FromSomewhere:
    async def authenticate_token(self, bearer_token: str, audiences: Sequence[str] = ()) -> Authentication | None:
        return Authentication(UserInfo("jane"), "x", source_ranges=(ipaddress.ip_network("192.0.2.0/24"),))


@pytest.mark.parametrize(
    ("source", "accepted"),
    [("192.0.2.7", True), ("::ffff:192.0.2.7", True), ("192.0.3.7", False), ("", False), ("2001:db8::1", False)],
)
@async_test
async def test_a_token_for_some_addresses(source: str, accepted: bool) -> None:
    bearer = BearerAuthenticator([FromSomewhere()])
    credentials = Credentials(authorization="Bearer x", source=source)
    if accepted:
        found = await bearer.authenticate(credentials)
        assert found is not None and found.user.name == "jane"
        return
    with pytest.raises(AuthenticationError, match=f"the token of jane is not accepted from {source}"):
        await bearer.authenticate(credentials)


@async_test
async def test_a_review_does_not_say_from_where_so_it_does_not_accept() -> None:
    with pytest.raises(AuthenticationError, match="from some addresses only"):
        await BearerAuthenticator([FromSomewhere()]).authenticate_token("x")
