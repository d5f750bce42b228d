"""client/transport.py: retries, credentials, certificates that change, and what is no answer at all."""

from __future__ import annotations

import asyncio
import datetime as dt
import queue
import socket
import ssl
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography import x509

from aio import until
from asynctest import on_both_loops
from kubevouch.cli.runner import run_async
from kubevouch.client.credentials import Credential, FixedCredential
from kubevouch.client.failures import Answer
from kubevouch.client.interface import (
    ClientConfigurationError,
    ConnectFailed,
    CredentialsFailed,
    NotKubernetes,
    TLSFailed,
    TransportError,
)
from kubevouch.client.options import ClientOptions, Impersonation, Timeouts
from kubevouch.client.tls import ClientTLS, TLSFiles, TLSSources
from kubevouch.client.transport import HTTPRequest, HTTPSTransport, Stream
from kubevouch.testing.clock import FakeClock
from scripted_server import Handler, ScriptedServer, cut_off, reply, stream
from throwaway_ca import ThrowawayCA, server_context

GET = HTTPRequest("GET", "/x", 30.0)
OK = reply(b"ok", content_type="text/plain")


def busy(status: int = 429, retry_after: str = "2") -> Handler:
    return reply(b"later", status, "text/plain", {"Retry-After": retry_after})


def transport(url: str, ca: ThrowawayCA, clock: FakeClock | None = None, **settings: Any) -> HTTPSTransport:
    clock = clock or FakeClock()
    options = settings.pop("options", ClientOptions(url))
    files = settings.pop("files", None) or TLSFiles(TLSSources(ca.bundle), clock)
    settings = {"random": lambda: 0.5} | settings
    return HTTPSTransport(msgspec.structs.replace(options, server=url), tls=files, clock=clock, **settings)


async def failure(api: HTTPSTransport, request: HTTPRequest = GET) -> TransportError:
    try:
        with pytest.raises(TransportError) as caught:
            await api.send(request)
    finally:
        await api.close()
    return caught.value


def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


# ------------------------------------------------------------------ retries


@on_both_loops
async def test_retry_after_is_honoured_with_jitter_on_top(ca: ThrowawayCA, serving: ssl.SSLContext) -> None:
    clock = FakeClock()
    async with ScriptedServer(serving) as server:
        server.script(busy(), busy(503), OK)
        api = transport(server.url, ca, clock)
        sending = asyncio.create_task(api.send(GET))
        for wait in (2.25, 2.5):  # 2 s asked for, half of 0.5 s and of 1 s on top
            await clock.until_asleep(2)  # the deadline, and the wait
            seen = len(server.seen)
            clock.advance(wait - 0.01)
            await asyncio.sleep(0)
            assert len(server.seen) == seen
            clock.advance(0.01)
            await until(lambda seen=seen: len(server.seen) > seen)  # type: ignore[misc]
        assert (await sending).status == 200
        await api.close()


@pytest.mark.parametrize(
    ("method", "answers", "requests"),
    [
        ("POST", [busy(), OK], 1),
        ("PATCH", [busy(), OK], 1),
        ("GET", [reply(b"", 429), OK], 1),
        ("GET", [busy(retry_after="3600"), OK], 1),
        ("GET", [busy(500), OK], 1),
        ("PUT", [busy(retry_after="0"), OK], 2),
        ("DELETE", [busy(retry_after="0")] * 9, 5),
    ],
)
def test_what_is_tried_again(
    ca: ThrowawayCA, serving: ssl.SSLContext, method: str, answers: list[Handler], requests: int
) -> None:
    @on_both_loops
    async def scenario() -> None:
        async with ScriptedServer(serving) as server:
            server.script(*answers)
            api = transport(server.url, ca, random=lambda: 0.0)
            answer = await api.send(HTTPRequest(method, "/x", 30.0, body=b"{}"))
            assert (len(server.seen), answer.status == 200) == (requests, requests == 2)
            await api.close()

    scenario()


@on_both_loops
async def test_a_wait_beyond_the_timeout_is_not_begun(ca: ThrowawayCA, serving: ssl.SSLContext) -> None:
    async with ScriptedServer(serving) as server:
        server.script(busy(), OK)
        api = transport(server.url, ca)
        assert (await api.send(msgspec.structs.replace(GET, timeout=2.0))).status == 429
        await api.close()


@on_both_loops
async def test_a_server_that_stays_silent(ca: ThrowawayCA, serving: ssl.SSLContext) -> None:
    clock = FakeClock()
    arrived = asyncio.Event()

    async def silent(_request: Any) -> Any:
        arrived.set()
        await asyncio.Event().wait()

    async with ScriptedServer(serving) as server:
        server.script(silent)
        api = transport(server.url, ca, clock)
        sending = asyncio.create_task(failure(api))
        await arrived.wait()
        clock.advance(30)
        error = await sending
        assert isinstance(error, ConnectFailed)
        assert str(error) == f"127.0.0.1:{server.port} did not answer within 30 s"


# ------------------------------------------------------------------ what is sent and noted


@on_both_loops
async def test_credential_impersonation_and_agent(ca: ThrowawayCA, serving: ssl.SSLContext) -> None:
    options = ClientOptions("", component="csr-approver", impersonate=Impersonation("a", groups=("g",)))
    async with ScriptedServer(serving) as server:
        server.script(OK)
        api = transport(server.url, ca, options=options, credentials=FixedCredential.token("t"))
        await api.send(GET)
        head = server.seen[0].headers
        assert head["Authorization"] == "Bearer t"
        assert (head["Impersonate-User"], head["Impersonate-Group"]) == ("a", "g")
        assert head["User-Agent"].startswith("kubevouch/") and "(csr-approver; " in head["User-Agent"]
        await api.close()


@on_both_loops
async def test_warnings_and_the_server_s_date(ca: ThrowawayCA, serving: ssl.SSLContext) -> None:
    clock = FakeClock(dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC))
    heard: list[str] = []
    async with ScriptedServer(serving) as server:
        head = {"Warning": '299 - "deprecated"', "Date": "Sat, 21 Nov 2026 05:00:00 GMT"}
        server.script(reply(b"", headers=head), reply(b"", headers={"Date": "yesterday"}))
        api = transport(server.url, ca, clock, on_warning=heard.append)
        await api.send(GET)
        assert heard == ["deprecated"]
        date = api.server_date
        assert date is not None and date.skew == dt.timedelta(hours=7)
        await api.send(GET)
        assert api.server_date is None, "no date that can be read"
        await api.close()


class Changing:
    """A source that has another credential after each refusal."""

    def __init__(self, *tokens: str) -> None:
        self._credentials = [Credential(f"Bearer {token}") for token in tokens]
        self.refusals = 0

    async def current(self) -> Credential:
        return self._credentials[0]

    async def refused(self, credential: Credential) -> bool:
        assert credential == self._credentials[0]
        self.refusals += 1
        if len(self._credentials) > 1:
            self._credentials.pop(0)
            return True
        return False


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_after_a_401_the_request_is_repeated_once_with_the_next_credential(
    ca: ThrowawayCA, serving: ssl.SSLContext, method: str
) -> None:
    @on_both_loops
    async def scenario() -> None:
        async with ScriptedServer(serving) as server:
            server.script(reply(b"", 401), OK)
            api = transport(server.url, ca, credentials=Changing("one", "two"))
            assert (await api.send(msgspec.structs.replace(GET, method=method))).status == 200
            assert [seen.headers["Authorization"] for seen in server.seen] == ["Bearer one", "Bearer two"]
            await api.close()
            server.seen.clear()
            server.script(reply(b"", 401))
            for tokens, requests in ((("one", "two", "three"), 2), (("one",), 1)):
                source = Changing(*tokens)
                api = transport(server.url, ca, credentials=source)
                assert (await api.send(GET)).status == 401
                assert (len(server.seen), source.refusals) == (requests, 1)
                server.seen.clear()
                await api.close()

    scenario()


@on_both_loops
async def test_no_credential_goes_over_plain_http_but_to_this_machine(ca: ThrowawayCA) -> None:
    async with ScriptedServer(None) as server:
        server.script(OK)
        api = transport(server.url, ca, credentials=FixedCredential.token("t"))
        assert (await api.send(GET)).status == 200
        await api.close()
    error = await failure(transport("http://192.0.2.7:1", ca, credentials=FixedCredential.token("t")))
    assert isinstance(error, CredentialsFailed) and "plain HTTP" in str(error)


@pytest.mark.parametrize(
    "url", ["", "10.0.0.1:6443", "ftp://x", "https://", "https://x:99999", "https://u:secret@x", "https://x?a=b"]
)
def test_server_urls_that_cannot_be_used(ca: ThrowawayCA, url: str) -> None:
    with pytest.raises(ClientConfigurationError) as caught:
        transport(url, ca)
    assert "secret" not in str(caught.value)


def test_socks_proxies_are_refused(ca: ThrowawayCA) -> None:
    with pytest.raises(ClientConfigurationError, match="proxy URL 'socks5://p:1080'"):
        transport("https://x", ca, options=ClientOptions("", proxy="socks5://me:secret@p:1080"))


# ------------------------------------------------------------------ no answer


@on_both_loops
async def test_refused(ca: ThrowawayCA) -> None:
    port = unused_port()
    error = await failure(transport(f"https://127.0.0.1:{port}", ca))
    assert (type(error), str(error)) == (ConnectFailed, f"no connection to 127.0.0.1:{port}: connection refused")
    assert error.address == f"127.0.0.1:{port}"


@on_both_loops
async def test_name_unknown(ca: ThrowawayCA) -> None:
    error = await failure(transport("https://no-such-host.invalid:6443", ca))
    assert (type(error), str(error)) == (ConnectFailed, "the name no-such-host.invalid cannot be resolved")


@on_both_loops
async def test_a_port_that_accepts_and_says_nothing(ca: ThrowawayCA) -> None:
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        options = ClientOptions("", timeouts=msgspec.structs.replace(Timeouts(), connect=0.01))
        error = await failure(transport(f"https://127.0.0.1:{deaf.getsockname()[1]}", ca, options=options))
        assert isinstance(error, ConnectFailed) and "did not answer in time" in str(error)


def server_with(ca: ThrowawayCA, folder: Path, **certificate: Any) -> ssl.SSLContext:
    return server_context(ca.issue(**certificate), folder)


LONG_AGO, FAR_OFF = dt.datetime(2021, 1, 1, tzinfo=dt.UTC), dt.datetime(2100, 1, 1, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("certificate", "text"),
    [
        ({"not_after": LONG_AGO}, "has expired (it is 2026-01-01T00:00:00Z here)"),
        ({"not_before": FAR_OFF}, "is not yet valid"),
        ({"names": ("10.9.8.7", "example.org")}, "is not for 127.0.0.1"),
        ({"names": (), "common_name": "127.0.0.1"}, "is not for 127.0.0.1"),
    ],
)
def test_certificates_that_do_not_hold(ca: ThrowawayCA, tmp_path: Path, certificate: dict[str, Any], text: str) -> None:
    @on_both_loops
    async def scenario() -> None:
        async with ScriptedServer(server_with(ca, tmp_path, **certificate)) as server:
            error = await failure(transport(server.url, ca))
            assert isinstance(error, TLSFailed)
            assert str(error).startswith(f"the certificate of 127.0.0.1:{server.port} ") and text in str(error)

    scenario()


@on_both_loops
async def test_another_authority(ca: ThrowawayCA, serving: ssl.SSLContext) -> None:
    async with ScriptedServer(serving) as server:
        error = await failure(transport(server.url, ThrowawayCA("other")))
        assert isinstance(error, TLSFailed) and "not trusted here" in str(error)
        assert not server.seen


@on_both_loops
async def test_another_name_to_verify(ca: ThrowawayCA, tmp_path: Path) -> None:
    async with ScriptedServer(server_with(ca, tmp_path, names=("kubernetes",))) as server:
        server.script(OK)
        clock = FakeClock()
        api = transport(server.url, ca, clock, files=TLSFiles(TLSSources(ca.bundle, server_name="kubernetes"), clock))
        assert (await api.send(GET)).status == 200
        await api.close()


@on_both_loops
async def test_plain_http_on_the_port(ca: ThrowawayCA) -> None:
    async with ScriptedServer(None) as server:
        error = await failure(transport(f"https://127.0.0.1:{server.port}", ca))
        assert (type(error), str(error)) == (TLSFailed, f"127.0.0.1:{server.port} does not speak TLS")


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_server_that_insists_on_a_client_certificate(
    ca: ThrowawayCA, tmp_path: Path, version: ssl.TLSVersion
) -> None:
    """In TLS 1.3 the alert comes after the handshake. A blocking server, because asyncio's sends no alert."""
    context = server_context(ca.issue(), tmp_path, client_ca=ca.bundle, required=True)
    context.minimum_version = context.maximum_version = version
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:  # aiohttp tries an idempotent request twice where the alert comes late
            connection, _ = listener.accept()
            with connection:
                if not connection.recv(1, socket.MSG_PEEK):
                    return
                tls = context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
                with pytest.raises(ssl.SSLError):
                    tls.do_handshake()
                with socket.socket(fileno=tls.detach()) as bare:  # read on: a reset would overtake the alert
                    while bare.recv(65536):
                        pass

    server = threading.Thread(target=serve)
    server.start()

    @on_both_loops
    async def scenario() -> None:
        error = await failure(transport(f"https://127.0.0.1:{listener.getsockname()[1]}", ca))
        assert isinstance(error, TLSFailed)
        assert "refused the TLS connection: " in str(error)

    try:
        scenario()
    finally:
        socket.create_connection(listener.getsockname()).close()
        server.join()
        listener.close()


@on_both_loops
async def test_a_connection_that_closes_without_an_answer(ca: ThrowawayCA, serving: ssl.SSLContext) -> None:
    async def drop(request: Any) -> Any:
        await cut_off(request)

    async with ScriptedServer(serving) as server:
        server.script(drop)
        error = await failure(transport(server.url, ca))
        assert isinstance(error, ConnectFailed) and "closed the connection" in str(error)


@on_both_loops
async def test_a_server_that_speaks_something_else(ca: ThrowawayCA) -> None:
    async def ssh(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"SSH-2.0-OpenSSH_9.6\r\n")
        await reader.read()
        writer.close()

    server = await asyncio.start_server(ssh, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        source = FixedCredential.token("top-secret")
        error = await failure(transport(f"http://127.0.0.1:{port}", ca, credentials=source))
        assert isinstance(error, NotKubernetes) and "does not speak HTTP" in str(error)
        assert "top-secret" not in repr(error.__cause__), "aiohttp's errors hold the request's headers"


# ------------------------------------------------------------------ proxies


@on_both_loops
async def test_the_environment_s_proxies_do_not_count(
    ca: ThrowawayCA, serving: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "https_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{unused_port()}")
    async with ScriptedServer(serving) as server:
        server.script(OK)
        api = transport(server.url, ca)
        assert (await api.send(GET)).status == 200
        await api.close()


@on_both_loops
async def test_a_proxy_that_was_asked_for_carries_the_connection(ca: ThrowawayCA, serving: ssl.SSLContext) -> None:
    async with ScriptedServer(serving) as server, tunnel(b"HTTP/1.1 200 OK\r\n\r\n", server.port) as port:
        server.script(OK)
        options = ClientOptions("", proxy=f"http://me:secret@127.0.0.1:{port}")
        api = transport(server.url, ca, options=options, credentials=FixedCredential.token("t"))
        assert (await api.send(GET)).status == 200
        assert server.seen[0].headers["Authorization"] == "Bearer t"
        await api.close()


@on_both_loops
async def test_a_proxy_s_refusal_is_said_to_be_the_proxy_s(ca: ThrowawayCA) -> None:
    refusal = b"HTTP/1.1 403 Forbidden\r\nServer: squid/5.7\r\nContent-Length: 0\r\n\r\n"
    async with tunnel(refusal, 0) as port:
        options = ClientOptions("", proxy=f"http://me:secret@127.0.0.1:{port}")
        error = await failure(transport("https://10.96.0.1:443", ca, options=options))
        assert isinstance(error, NotKubernetes) and error.status == 403
        assert str(error) == f"403 Forbidden came from the proxy http://127.0.0.1:{port}, not from 10.96.0.1:443"


@on_both_loops
async def test_a_proxy_that_is_not_there(ca: ThrowawayCA) -> None:
    port = unused_port()
    options = ClientOptions("", proxy=f"http://127.0.0.1:{port}")
    error = await failure(transport("https://10.96.0.1", ca, options=options))
    assert str(error) == f"no connection to the proxy http://127.0.0.1:{port}: connection refused"


class tunnel:  # noqa: N801 - used as a function
    """A proxy that answers CONNECT as told and then passes bytes on to ``port``."""

    def __init__(self, answer: bytes, port: int) -> None:
        self._answer = answer
        self._port = port
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> int:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return int(self._server.sockets[0].getsockname()[1])

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await self._server.wait_closed()
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        await reader.readuntil(b"\r\n\r\n")
        writer.write(self._answer)
        if self._port:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._port)
            await asyncio.gather(self._copy(reader, far_writer), self._copy(far_reader, writer))
        else:
            await reader.read()
        writer.close()

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while received := await reader.read(65536):
                writer.write(received)
        except ConnectionError:
            pass
        writer.close()


# ------------------------------------------------------------------ certificates that change


def shown(server: ScriptedServer) -> list[str]:
    """The common names of the client certificates, one a request."""
    names = []
    for seen in server.seen:
        assert seen.peer_certificate is not None
        (attribute,) = x509.load_der_x509_certificate(seen.peer_certificate).subject
        names.append(str(attribute.value))
    return names


@on_both_loops
async def test_a_replaced_pair_is_shown_on_new_connections_and_the_old_ones_are_closed(
    ca: ThrowawayCA, serving: ssl.SSLContext, tmp_path: Path
) -> None:
    clock = FakeClock()
    certificate, key = ca.issue("one").write(tmp_path, "client")
    files = TLSFiles(TLSSources(ca.bundle, certificate, key), clock)
    async with ScriptedServer(serving) as server:
        server.script(OK)
        api = transport(server.url, ca, clock, files=files)
        await api.send(GET)
        ca.issue("two").write(tmp_path, "client")
        await api.send(GET)
        assert shown(server) == ["one", "one"], "looked at every ten seconds"
        clock.advance(10)
        await api.send(GET)
        await until(lambda: server.open_connections == 1)
        ca.issue("three").write(tmp_path, "client")
        api.reload()
        await api.send(GET)
        assert shown(server) == ["one", "one", "two", "three"]
        await until(lambda: server.open_connections == 1)
        await api.close()


@on_both_loops
async def test_a_replaced_pair_lets_requests_finish_and_ends_streams(
    ca: ThrowawayCA, serving: ssl.SSLContext, tmp_path: Path
) -> None:
    go_on = asyncio.Event()

    async def slow(request: Any) -> Any:
        await go_on.wait()
        return await OK(request)

    async def forever(_request: Any) -> None:
        await asyncio.Event().wait()

    clock = FakeClock()
    certificate, key = ca.issue("one").write(tmp_path, "client")
    files = TLSFiles(TLSSources(ca.bundle, certificate, key), clock)
    async with ScriptedServer(serving) as server:
        api = transport(server.url, ca, clock, files=files)
        server.script(stream([b"x"], then=forever), slow, OK)
        watching = await api.open(GET)
        assert isinstance(watching, Stream) and await watching.read() == b"x"
        reading = asyncio.create_task(watching.read())
        sending = asyncio.create_task(api.send(GET))
        await until(lambda: len(server.seen) == 2)
        ca.issue("two").write(tmp_path, "client")
        api.reload()
        assert (await api.send(GET)).status == 200
        assert await reading == b"", "the stream ended as if the server had ended it"
        assert not sending.done()
        go_on.set()
        assert (await sending).status == 200
        watching.close()
        watching.close()
        await until(lambda: server.open_connections == 1)
        assert shown(server) == ["one", "one", "two"]
        await api.close()


@on_both_loops
async def test_a_pair_from_a_plugin_beats_the_files_and_a_new_token_alone_keeps_connections(
    ca: ThrowawayCA, serving: ssl.SSLContext
) -> None:
    class Source:
        credential = Credential()

        async def current(self) -> Credential:
            return self.credential

        async def refused(self, credential: Credential) -> bool:
            return False

    source = Source()
    one, two = ca.issue("one"), ca.issue("two")
    async with ScriptedServer(serving) as server:
        server.script(OK)
        api = transport(server.url, ca, credentials=source)
        for authorization, pair in (("Bearer a", one), ("Bearer b", one), ("Bearer b", two)):
            source.credential = Credential(authorization, pair.certificate, pair.key)
            await api.send(GET)
        assert shown(server) == ["one", "one", "two"]
        first, second, third = (seen.connection for seen in server.seen)
        assert first == second != third
        await api.close()


@on_both_loops
async def test_an_answer_that_is_not_200_is_no_stream(ca: ThrowawayCA, serving: ssl.SSLContext) -> None:
    async with ScriptedServer(serving) as server:
        server.script(reply(b"gone", 410))
        api = transport(server.url, ca)
        answer = await api.open(GET)
        assert isinstance(answer, Answer) and (answer.status, answer.body) == (410, b"gone")
        await api.close()


def test_one_builder_serves_every_source(ca: ThrowawayCA) -> None:
    """Whatever named the endpoint, its context comes from ``client.tls`` (CVE-2020-15136)."""
    source = Path(__file__).parents[3] / "src/kubevouch/client"
    makers = [path.name for path in source.rglob("*.py") if "SSLContext(" in path.read_text()]
    assert makers == ["tls.py"]
    assert ClientTLS().insecure is False


def test_a_request_that_is_given_up_leaves_no_connection_behind(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever waits for a server that has gone silent may be told to end; the server will not say goodbye then."""
    ca = ThrowawayCA()
    context = server_context(ca.issue(), tmp_path)
    listener = socket.create_server(("127.0.0.1", 0))
    silent: queue.Queue[ssl.SSLSocket] = queue.Queue()

    def accept() -> None:
        accepted, _ = listener.accept()
        connection = context.wrap_socket(accepted, server_side=True)
        connection.recv(1)
        silent.put(connection)

    thread = threading.Thread(target=accept)
    thread.start()

    async def give_up() -> None:
        api = transport(f"https://127.0.0.1:{listener.getsockname()[1]}", ca)
        asking = asyncio.create_task(api.send(GET))
        await asyncio.to_thread(thread.join)
        asking.cancel()
        await asyncio.wait({asking})
        await api.close()

    run_async(give_up())
    # Closing the loop over a connection that still is there says so.
    assert not [record for record in caplog.records if record.name == "asyncio"]
    silent.get(timeout=0).close()
    listener.close()
