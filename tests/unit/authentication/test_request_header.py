from __future__ import annotations

import pytest

from asynctest import async_test
from kubevouch.authentication.interface import AuthenticationError, Credentials, UserInfo
from kubevouch.authentication.request_header import (
    RequestHeaderAuthenticator,
    RequestHeaderOptions,
)
from kubevouch.testing.clock import FakeClock
from unit.authentication.client_certificates import ANCHORS, NOW, OTHER, chain

HEADERS = {
    "x-remote-user": ["carol"],
    "x-remote-uid": ["u-1"],
    "x-remote-group": ["a", "", "b"],
    "x-remote-extra-team%2fx": ["one"],
    "x-remote-extra-Scopes": ["openid"],
}


def through_proxy(peer_chain: tuple[bytes, ...], **headers: list[str]) -> Credentials:
    changes = {name.replace("_", "-"): values for name, values in headers.items()}
    return Credentials(peer_chain, None, HEADERS | changes)


@async_test
async def test_user_in_the_headers_of_a_proxy() -> None:
    found = await RequestHeaderAuthenticator(ANCHORS, FakeClock(NOW)).authenticate(through_proxy(chain("proxy")))
    assert found is not None
    assert found.user == UserInfo("carol", "u-1", ("a", "b"), {"team/x": ("one",), "scopes": ("openid",)})
    assert found.method == "request-header"


@async_test
async def test_headers_without_the_certificate_are_nothing() -> None:
    authenticator = RequestHeaderAuthenticator(ANCHORS, FakeClock(NOW))
    assert await authenticator.authenticate(through_proxy(())) is None


@async_test
async def test_a_certificate_of_another_ca_is_an_error() -> None:
    with pytest.raises(AuthenticationError):
        await RequestHeaderAuthenticator(OTHER, FakeClock(NOW)).authenticate(through_proxy(chain("proxy")))


@async_test
async def test_allowed_names() -> None:
    options = RequestHeaderOptions(allowed_names=("proxy",))
    authenticator = RequestHeaderAuthenticator(ANCHORS, FakeClock(NOW), options)
    assert await authenticator.authenticate(through_proxy(chain("proxy"))) is not None
    with pytest.raises(AuthenticationError) as caught:
        await authenticator.authenticate(through_proxy(chain("mallory")))
    assert str(caught.value) == "x509: subject with cn=mallory is not in the allowed list"


@async_test
async def test_no_user_name_no_opinion() -> None:
    authenticator = RequestHeaderAuthenticator(ANCHORS, FakeClock(NOW))
    assert await authenticator.authenticate(through_proxy(chain("proxy"), x_remote_user=[""])) is None


@async_test
async def test_replaced_proxy_anchors_count_at_once() -> None:
    authenticator = RequestHeaderAuthenticator(OTHER, FakeClock(NOW))
    credentials = through_proxy(chain("proxy"))
    with pytest.raises(AuthenticationError):
        await authenticator.authenticate(credentials)
    authenticator.replace_anchors(ANCHORS)
    assert await authenticator.authenticate(credentials) is not None


@async_test
async def test_several_headers_and_prefixes() -> None:
    options = RequestHeaderOptions(
        username_headers=("X-First", "X-Remote-User"),
        group_headers=("X-None", "X-Remote-Group", "X-More"),
        extra_header_prefixes=("X-Remote-Extra-", "X-Other-"),
    )
    credentials = through_proxy(chain("proxy"), x_first=[""], x_more=["c"], x_other_scopes=["mail"])
    found = await RequestHeaderAuthenticator(ANCHORS, FakeClock(NOW), options).authenticate(credentials)
    assert found is not None
    assert (found.user.name, found.user.groups) == ("carol", ("a", "b", "c"))
    assert found.user.extra["scopes"] == ("openid", "mail")
