from __future__ import annotations

from asynctest import async_test
from kubevouch.authentication.anonymous import AnonymousAuthenticator
from kubevouch.authentication.bearer import EXTRA_SPACE
from kubevouch.authentication.interface import Credentials, UserInfo


@async_test
async def test_everybody_is_anonymous() -> None:
    found = await AnonymousAuthenticator().authenticate(Credentials())
    assert found is not None
    assert found.user == UserInfo("system:anonymous", groups=("system:unauthenticated",))
    assert (found.method, found.warnings) == ("anonymous", ())


@async_test
async def test_an_ignored_header_is_warned_about() -> None:
    found = await AnonymousAuthenticator().authenticate(Credentials(authorization="Bearer  abc"))
    assert found is not None
    assert found.user == UserInfo("system:anonymous", groups=("system:unauthenticated",))
    assert (found.method, found.warnings) == ("anonymous", (EXTRA_SPACE,))


@async_test
async def test_only_the_listed_paths_exactly() -> None:
    healthz = AnonymousAuthenticator(["/healthz"])
    assert await healthz.authenticate(Credentials(), "/healthz") is not None
    for path in ("", "/healthz/", "/healthz/etcd", "/Healthz", "/version"):
        assert await healthz.authenticate(Credentials(), path) is None


@async_test
async def test_no_paths_means_nobody() -> None:
    assert await AnonymousAuthenticator([]).authenticate(Credentials(), "/healthz") is None
