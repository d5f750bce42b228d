"""Tokens from a file."""

import pytest

import aio
from kubevouch.authentication.interface import Authentication, UserInfo
from kubevouch.authentication.token_file import METHOD, TokenFileAuthenticator, TokenFileError, parse_token_file
from kubevouch.testing.logs import capture_logs

FILE = """\
token1,user1,uid1
token2,user2,uid2,"group1,group2"
token3,user3,uid3,group1
token4,user4,uid4,
,nobody,uid5
token1,user6,uid6,ignored here,and here
"""


def test_who_stands_in_the_file() -> None:
    assert parse_token_file("tokens.csv", FILE) == {
        "token1": UserInfo("user6", "uid6", ("ignored here",)),
        "token2": UserInfo("user2", "uid2", ("group1", "group2")),
        "token3": UserInfo("user3", "uid3", ("group1",)),
        "token4": UserInfo("user4", "uid4", ("",)),
    }


def test_what_is_odd_is_told_by_its_line_without_the_token() -> None:
    with capture_logs() as lines:
        parse_token_file("tokens.csv", FILE)
    assert lines == [
        {"event": f"{what} token has been found in token file", "path": "tokens.csv", "record": number}
        | {"log_level": "warning"}
        for what, number in (("empty", 5), ("duplicate", 6))
    ]


@pytest.mark.parametrize("columns", [1, 2])
def test_lines_with_too_few_columns(columns: int) -> None:
    with pytest.raises(TokenFileError) as caught:
        parse_token_file("t.csv", ",".join(["s3cret"] * columns))
    assert str(caught.value) == (
        f"token file 't.csv' must have at least 3 columns (token, user name, user uid), found {columns}"
    )


def test_a_bad_quote_is_told_without_the_token() -> None:
    with pytest.raises(TokenFileError) as caught:
        parse_token_file("t.csv", 's3cr"et,user,uid\n')
    assert str(caught.value) == "token file 't.csv': parse error on line 1, column 5: bare \" in non-quoted-field"


def test_tokens_and_audiences() -> None:
    authenticator = TokenFileAuthenticator(parse_token_file("t.csv", FILE), ("api",))

    async def who(token: str, *audiences: str) -> Authentication | None:
        return await authenticator.authenticate_token(token, audiences)

    user = UserInfo("user2", "uid2", ("group1", "group2"))
    assert aio.run(who("token2")) == Authentication(user, METHOD)
    assert aio.run(who("token2", "other", "api")) == Authentication(user, METHOD, audiences=("api",))
    assert aio.run(who("token2", "other")) is None
    for unknown in ("", "token", "token2 ", "TOKEN2", "\udcff"):
        assert aio.run(who(unknown)) is None
