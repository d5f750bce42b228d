import asyncio
from pathlib import Path

import pytest
from aiohttp import web

from asynctest import async_test
from kubevouch.attestation.http import MAX_BODY, MAX_RETRY_AFTER, Web
from kubevouch.attestation.interface import SettingsError, UnavailableError
from scripted_server import Handler, ScriptedServer
from throwaway_ca import ThrowawayCA, server_context


def saying(status: int = 200, body: bytes = b"", **headers: str) -> Handler:
    async def answer(_request: web.Request) -> web.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return web.Response(status=status, body=body, headers=named)

    return answer


@async_test
async def test_only_what_the_caller_said_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    async with ScriptedServer(None, [saying(body=b"here", Content_Encoding="gzip")]) as server:
        answer = await Web().send("PUT", f"{server.url}/a%2Fb?q=%41&q=+", {"X-Token": "t"}, b"body")
    (seen,) = server.seen
    assert (answer.status, answer.text) == (200, "here")
    assert (seen.method, seen.raw_path, seen.body) == ("PUT", "/a%2Fb?q=%41&q=+", b"body")
    assert {each.lower() for each in seen.headers} == {"host", "x-token", "content-length", "connection"}


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413])
@async_test
async def test_what_the_caller_judges_is_an_answer(status: int) -> None:
    async with ScriptedServer(None, [saying(status, b"why")]) as server:
        found = await Web().get(server.url)
    assert (found.status, found.body) == (status, b"why")


@pytest.mark.parametrize(
    ("status", "said", "seconds"),
    [
        (429, "17", 17.0),
        (503, "99999999999999999999", MAX_RETRY_AFTER),
        (503, "-1", 5.0),
        (503, "٣", 5.0),
        (500, "", 5.0),
        (502, "soon", 5.0),
        (408, "0", 0.0),
    ],
)
@async_test
async def test_a_busy_or_broken_service_is_asked_again_when_it_says(status: int, said: str, seconds: float) -> None:
    async with ScriptedServer(None, [saying(status, Retry_After=said)]) as server:
        with pytest.raises(UnavailableError, match=rf"^127\.0\.0\.1 answered {status}") as refused:
            await Web().get(server.url)
    assert refused.value.retry_after == seconds


@async_test
async def test_a_date_to_try_again_is_counted_from_the_answers_own() -> None:
    sent, until = "Sun, 22 Nov 2026 06:00:00 GMT", "Sun, 22 Nov 2026 06:00:42 GMT"
    async with ScriptedServer(None, [saying(503, Date=sent, Retry_After=until)]) as server:
        with pytest.raises(UnavailableError) as refused:
            await Web().get(server.url)
    assert refused.value.retry_after == 42


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308, 304])
@async_test
async def test_no_redirect_is_followed(status: int) -> None:
    async with ScriptedServer(None, [saying(status, Location="/elsewhere"), saying()]) as server:
        with pytest.raises(UnavailableError, match="a redirect, which is not followed"):
            await Web().get(server.url)
    assert len(server.seen) == 1


@async_test
async def test_no_more_is_read_than_the_limit() -> None:
    async with ScriptedServer(None, [saying(body=b"x" * MAX_BODY), saying(body=b"x" * (MAX_BODY + 1))]) as server:
        assert len((await Web().get(server.url)).body) == MAX_BODY
        with pytest.raises(UnavailableError, match=f"more than {MAX_BODY} bytes"):
            await Web().get(server.url)


@async_test
async def test_who_does_not_answer_is_unavailable() -> None:
    async def silent(_request: web.Request) -> web.Response:
        await asyncio.get_running_loop().create_future()
        raise AssertionError

    async with ScriptedServer(None, [silent]) as server:
        with pytest.raises(UnavailableError, match=r"has not answered within 0\.05 s"):
            await Web(seconds=0.05).get(server.url)
        gone = server.url
    with pytest.raises(UnavailableError, match="cannot be asked"):
        await Web().get(gone)


@async_test
async def test_each_request_is_counted_by_what_came_of_it() -> None:
    asked: list[tuple[str, str]] = []
    web = Web(asked=lambda host, status: asked.append((host, status)))
    async with ScriptedServer(
        None, [saying(200), saying(503), saying(302), saying(200, b"x" * (MAX_BODY + 1))]
    ) as server:
        await web.get(server.url)
        for _ in range(3):
            with pytest.raises(UnavailableError):
                await web.get(server.url)
        gone = server.url
    with pytest.raises(UnavailableError):
        await web.get(gone)
    assert asked == [("127.0.0.1", each) for each in ("200", "503", "302", "200", "none")]


@async_test
async def test_a_name_is_connected_to_elsewhere_and_stays_what_it_is(tmp_path: Path) -> None:
    ca = ThrowawayCA("cloud")
    (tmp_path / "ca.crt").write_bytes(ca.bundle)
    tls = server_context(ca.issue(names=("sts.example",)), tmp_path)
    async with ScriptedServer(tls, [saying(body=b"{}")]) as server:
        connect_to = {"STS.example": f"127.0.0.1:{server.port}", "other.example": f"127.0.0.1:{server.port}"}
        there = Web(ca_file=str(tmp_path / "ca.crt"), connect_to=connect_to)
        assert (await there.get("https://sts.example/")).status == 200
        with pytest.raises(UnavailableError, match="certificate verify failed"):
            await there.get("https://other.example/")
        with pytest.raises(UnavailableError, match="certificate verify failed"):
            await Web(connect_to=connect_to).get("https://sts.example/")
    assert [seen.headers["Host"] for seen in server.seen] == ["sts.example"]


@pytest.mark.parametrize("text", ["", "10.0.0.7", "10.0.0.7:", ":443", "h:0", "h:65536", "h:٤", "h:99999999999"])
def test_an_address_without_a_port_is_no_setting(text: str) -> None:
    with pytest.raises(SettingsError, match="expected an address and a port"):
        Web(connect_to={"sts.example": text})


def test_a_file_without_certificates_is_no_setting(tmp_path: Path) -> None:
    for path in (tmp_path / "absent", tmp_path / "empty"):
        (tmp_path / "empty").write_text("")
        with pytest.raises(SettingsError, match="no certificates can be read"):
            Web(ca_file=str(path))
