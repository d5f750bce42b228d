"""A machine that is called back, by real sockets."""

from __future__ import annotations

import asyncio
import ipaddress
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import re2

from asynctest import async_test
from device_certificates import NOW
from kubevouch.attestation import catalog
from kubevouch.attestation.callback import attestor as node
from kubevouch.attestation.callback import verifier as server
from kubevouch.attestation.callback.evidence import MAX_ANSWER, answer, path
from kubevouch.attestation.http import Answer
from kubevouch.attestation.interface import (
    Attested,
    Binding,
    Challenge,
    Evidence,
    RefusedEvidenceError,
    SettingsError,
    Strength,
    UnavailableError,
    UnsupportedVersionError,
)
from kubevouch.pki import keys
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.testing.clock import FakeClock
from verifier_sources import AROUND

_CASES = [json.loads(line) for line in (Path(__file__).parents[3] / "vectors" / "node.jsonl").read_text().splitlines()]
HOSTS = [case for case in _CASES if case["when"] == "http challenge host check"]
FETCHES = [case for case in _CASES if case["when"] == "http challenge fetch"]
KEY = keys.generate(KeyAlgorithm.ECDSA_P256)
ONE, TWO = (Binding(spki=spki, cluster_id="c", nonce=b"n" * 32) for spki in (b"key 1", b"key 2"))


@asynccontextmanager
async def listening(binding: Binding | None = ONE, host: str = "127.0.0.1") -> AsyncIterator[int]:
    """A machine that has a proof for ``binding`` and waits to be called; the port."""
    attestor = await node.make_attestor({"host": host, "listen": "127.0.0.1", "port": "0"}, FakeClock())
    shown = await attestor.attest("v1", KEY, binding or TWO, None)
    assert json.loads(shown) == {"host": host}
    try:
        yield attestor.port
    finally:
        await attestor.close()


@asynccontextmanager
async def answering(text: bytes) -> AsyncIterator[int]:
    """Somebody else, who answers whatever is asked with these octets."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(text)
        writer.close()

    listener = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with listener:
        yield listener.sockets[0].getsockname()[1]


def response(body: bytes, status: str = "200 OK", headers: str = "") -> bytes:
    return f"HTTP/1.1 {status}\r\n{headers}Content-Length: {len(body)}\r\n\r\n".encode() + body


async def judged(port: int, binding: Binding = ONE, host: str = "127.0.0.1", **settings: Any) -> Attested:
    more = {"networks": ["127.0.0.0/8"], "port": port, "allowUnprivilegedPort": True, **settings}
    verifier = catalog.verifier("callback")(more, AROUND)
    evidence = Evidence(provider="callback", version="v1", data=json.dumps({"host": host}).encode())
    return await verifier.verify_client(evidence, binding, Challenge(), NOW)


@async_test
async def test_a_machine_answers_for_its_own_key() -> None:
    async with listening() as port:
        known = await judged(port)
    assert (known.identity, known.strength, known.addresses) == ("127.0.0.1", Strength.TOKEN, ("127.0.0.1",))
    verifier = catalog.verifier("callback")({"networks": ["127.0.0.0/8"]}, AROUND)
    assert await verifier.verify_serving(known, ["127.0.0.1", "127.0.0.2"], NOW) == {"127.0.0.1": "callback"}


@async_test
async def test_a_machine_that_has_not_asked_answers_for_nobody() -> None:
    """Whoever has its token asks from elsewhere: the server calls the machine, which knows nothing of that."""
    async with listening(TWO) as port:
        with pytest.raises(RefusedEvidenceError) as caught:
            await judged(port, ONE)
    assert caught.value.step == "answer"


@async_test
async def test_an_answer_is_for_one_challenge() -> None:
    later = Binding(spki=ONE.spki, cluster_id="c", nonce=b"m" * 32)
    async with listening(ONE) as port:
        with pytest.raises(RefusedEvidenceError, match=r"^answer: "):
            await judged(port, later)


@async_test
async def test_it_listens_no_longer_than_it_has_to() -> None:
    async with listening() as port:
        pass
    with pytest.raises(UnavailableError):
        await judged(port)


@async_test
async def test_a_name_is_looked_up_and_called() -> None:
    async with listening(host="localhost") as port:
        known = await judged(port, host="localhost", names=["local.*"], networks=["127.0.0.0/8", "::1/128"])
        assert (known.identity, known.dns_names, known.addresses) == ("localhost", ("localhost",), ())
        with pytest.raises(RefusedEvidenceError, match=r"^host: "):
            await judged(port, host="localhost", names=["local"])
        with pytest.raises(RefusedEvidenceError, match=r"^network: "):
            await judged(port, host="localhost", names=["localhost"], networks=["10.0.0.0/8"])


@pytest.mark.parametrize("host", ["10.0.0.1", "169.254.169.254", "::1", "::ffff:127.0.0.1", "0.0.0.0"])
@async_test
async def test_nothing_outside_of_the_networks_is_called(host: str) -> None:
    with pytest.raises(RefusedEvidenceError) as caught:
        await judged(1, host=host)
    assert caught.value.step == "network"


@pytest.mark.parametrize(
    "host", ["", "127.1", "0x7f.1", "2130706433.", "a b", "127.0.0.1:80", "127.0.0.1/x", "x@127.0.0.1", "[::1]", "a..b"]
)
@async_test
async def test_what_is_no_host(host: str) -> None:
    with pytest.raises(RefusedEvidenceError) as caught:
        await judged(1, host=host, names=["a"])
    assert caught.value.step == "host"


@pytest.mark.parametrize("case", HOSTS, ids=[case["id"] for case in HOSTS])
def test_the_cases_of_hosts(case: dict[str, Any]) -> None:
    try:
        server.verify_host(case["given"]["hostname"], [re2.compile(case["given"]["allowed_pattern"])])
    except RefusedEvidenceError:
        assert not case["then"]["ok"]
    else:
        assert case["then"]["ok"]


@pytest.mark.parametrize("case", FETCHES, ids=[case["id"] for case in FETCHES])
@async_test
async def test_the_cases_of_answers(case: dict[str, Any]) -> None:
    assert case["then"].get("read_limit_bytes", MAX_ANSWER) == MAX_ANSWER
    right = answer(ONE.digest)
    text = response(right)
    if size := case["given"].get("challenge_body_bytes"):
        text = response(right.ljust(size))
    if code := case["given"].get("response"):
        text = response(right, f"{code} Found", "Location: http://127.0.0.1/elsewhere\r\n")
    async with answering(text) as port:
        if case["then"]["ok"]:
            await judged(port)
            return
        with pytest.raises((RefusedEvidenceError, UnavailableError)):
            await judged(port)


@pytest.mark.parametrize(
    "text",
    [
        response(b""), response(answer(ONE.digest) + b"\n"), response(answer(TWO.digest)),
        response(ONE.digest.hex().encode()),
        response(answer(ONE.digest), "404 Not Found"), response(answer(ONE.digest), "201 Created"),
        response(path(ONE.spki).encode()[-64:]),
    ],
)  # fmt: skip
@async_test
async def test_wrong_answers(text: bytes) -> None:
    async with answering(text) as port:
        with pytest.raises(RefusedEvidenceError, match=r"^answer: "):
            await judged(port)


@async_test
async def test_of_a_long_answer_no_more_is_read_than_one_has() -> None:
    async with answering(response(answer(ONE.digest).ljust(MAX_ANSWER + 1))) as port:
        with pytest.raises(UnavailableError, match="more than 64 bytes"):
            await judged(port)


@pytest.mark.parametrize("text", [b"", b"nonsense\r\n\r\n", response(b"", "503 Busy")])
@async_test
async def test_what_may_be_right_later(text: bytes) -> None:
    async with answering(text) as port:
        with pytest.raises(UnavailableError):
            await judged(port)


@async_test
async def test_who_asks_a_machine_for_something_else() -> None:
    async def ask(port: int, text: bytes) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(text)
        try:
            return (await reader.read(200)).partition(b"\r\n")[0]
        except ConnectionError:
            return b""
        finally:
            writer.close()

    async with listening() as port:
        good = path(ONE.spki).encode()
        assert await ask(port, b"GET %s HTTP/1.1\r\n\r\n" % good) == b"HTTP/1.1 200 OK"
        for wrong in (
            b"POST %s HTTP/1.1" % good,
            b"GET / HTTP/1.1",
            b"GET",
            b"",
            b"\xff" * 8,
            b"GET %s/ HTTP/1.1" % good,
        ):
            assert await ask(port, wrong + b"\r\n\r\n") == b"HTTP/1.1 404 Not Found"
        assert await ask(port, b"x" * (64 << 10)) == b""


@async_test
async def test_silent_connections_give_way_to_who_asks() -> None:
    async with listening() as port:
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(node._MAX_CONNECTIONS)]
        assert (await judged(port)).strength
        assert await silent[0][0].read() == b""
        assert not silent[-1][0].at_eof()
        for _, writer in silent:
            writer.close()


def test_an_answer_is_compared_whole() -> None:
    expected = answer(ONE.digest)
    assert len(expected) == 43 < MAX_ANSWER
    server.verify_answer(Answer(200, expected), expected, "h")
    for wrong in (b"", expected[:-1], expected + b"=", expected.lower()):
        with pytest.raises(RefusedEvidenceError):
            server.verify_answer(Answer(200, wrong), expected, "h")


def test_an_address_of_one_family_is_in_no_network_of_the_other() -> None:
    networks = [ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("fd00::/8")]
    server.verify_network(ipaddress.ip_address("fd00::1"), networks)
    with pytest.raises(RefusedEvidenceError):
        server.verify_network(ipaddress.ip_address("::ffff:127.0.0.1"), networks)


@pytest.mark.parametrize(
    "settings",
    [
        {}, {"networks": []}, {"networks": ["x"]}, {"networks": ["10.0.0.1/8"]},
        {"networks": ["10.0.0.0/8"], "port": 0},
        {"networks": ["10.0.0.0/8"], "port": 8080}, {"networks": ["10.0.0.0/8"], "timeoutSeconds": 31},
        {"networks": ["10.0.0.0/8"], "names": ["("]}, {"networks": ["10.0.0.0/8"], "more": 1},
    ],
)  # fmt: skip
def test_settings_that_it_cannot_work_with(settings: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match="settings of callback"):
        catalog.verifier("callback")(settings, AROUND)


@async_test
async def test_what_is_asked_before_anybody_is_called() -> None:
    verifier = catalog.verifier("callback")({"networks": ["127.0.0.0/8"]}, AROUND)
    evidence = Evidence(provider="callback", version="v2", data=b"{}")
    with pytest.raises(UnsupportedVersionError):
        await verifier.verify_client(evidence, ONE, Challenge(), NOW)
    evidence = Evidence(provider="callback", version="v1", data=b'{"host":"127.0.0.1"}')
    with pytest.raises(RefusedEvidenceError, match=r"^nonce: "):
        await verifier.verify_client(evidence, ONE, None, NOW)


@async_test
async def test_a_port_that_is_taken() -> None:
    async with listening() as port:
        attestor = await catalog.attestor("callback")({"host": "127.0.0.1", "port": str(port)}, FakeClock())
        with pytest.raises(UnavailableError, match="cannot listen"):
            await attestor.attest("v1", KEY, ONE, None)
        await attestor.close()
