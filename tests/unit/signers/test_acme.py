"""signers/acme.py: certificates by a real ACME server (Pebble), which looks for answers to its challenges."""

from __future__ import annotations

import dataclasses
import ipaddress
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web

import real_cas
from asynctest import async_test
from kubevouch.ledger.memory import MemoryLedger
from kubevouch.pki import keys
from kubevouch.pki.client_certificate import is_issued_by
from kubevouch.pki.errors import PolicyError
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509 import x509_certificate, x509_request
from kubevouch.pki.x509.request_builder import build_request
from kubevouch.pki.x509.subject import Subject
from kubevouch.pki.x509.subject_alt_names import SubjectAltNames
from kubevouch.signers.interface import SignerError, SignerUnavailable, Wanted
from kubevouch.signers.webhook import THROTTLED_SECONDS
from kubevouch.util.clock import SystemClock
from kubevouch.wellknown import LEGACY_UNKNOWN_SIGNER
from scripted_server import ScriptedServer, reply, reply_json
from signer_worlds import World, config
from throwaway_ca import ThrowawayCA, server_context

KEY = keys.generate(KeyAlgorithm.ECDSA_P256)


@dataclasses.dataclass
class Pebble:
    directory: str
    root: bytes
    ca: bytes
    # Whom it asks for answers to challenges.
    http_port: int


@pytest.fixture(scope="module")
def pebble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pebble]:
    folder, ca = tmp_path_factory.mktemp("pebble"), ThrowawayCA()
    # Bound and not listening, so that nobody else gets the port before a test wants it.
    with socket.socket() as reserved:
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]
        with real_cas.pebble(folder, ca.issue(), port, PEBBLE_AUTHZREUSE="100") as (directory, root):
            yield Pebble(directory, root, ca.bundle, port)


@asynccontextmanager
async def answering(pebble: Pebble, folder: Path) -> AsyncIterator[None]:
    """A web server that serves the challenge folder, as one stands in front of every machine with such a name."""

    async def answer(request: web.Request) -> web.StreamResponse:
        file = folder / request.match_info["token"]
        return web.Response(body=file.read_bytes()) if file.exists() else web.Response(status=404)

    application = web.Application()
    application.router.add_get("/.well-known/acme-challenge/{token}", answer)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", pebble.http_port, reuse_port=True).start()
    try:
        yield
    finally:
        await runner.cleanup()


def wanted(uid: str = "u", name: str = "127.0.0.1", subject: Subject = Subject()) -> Wanted:  # noqa: B008 - frozen
    names = SubjectAltNames(ip_addresses=(ipaddress.ip_address(name),))
    request = x509_request.parse_pem(build_request(KEY, subject, names))
    return Wanted(f"csr-{uid}", uid, LEGACY_UNKNOWN_SIGNER, request, ["digital signature", "server auth"])


def world(folder: Path, directory: str, root: bytes, ca: bytes, **more: Any) -> World:
    (folder / "trust.pem").write_bytes(root)
    (folder / "acme-ca.pem").write_bytes(ca)
    (folder / "challenges").mkdir(exist_ok=True)
    settings = {
        "directory": directory,
        "caFile": "acme-ca.pem",
        "accountKeyFile": "account.key",
        "termsOfServiceAgreed": True,
        "challengeFolder": "challenges",
        **more,
    }
    clock = SystemClock()
    signer = config(folder, {"acme": settings, "toleratedUsages": ["client auth"]}, clock)
    return World(signer, x509_certificate.parse_pem(root), clock, MemoryLedger())


@async_test
async def test_a_certificate_for_a_name_that_was_validated(pebble: Pebble, tmp_path: Path) -> None:
    found = world(tmp_path, pebble.directory, pebble.root, pebble.ca)
    asked = wanted()
    async with answering(pebble, tmp_path / "challenges"):
        certificate = await found.sign(asked)
        # The account is found again with its key.
        again = world(tmp_path, pebble.directory, pebble.root, pebble.ca)
        assert (await again.sign(wanted("second"))).serial != certificate.serial
    assert certificate.public_key == asked.request.public_key
    assert [str(each) for each in certificate.meaning.alt_names.ip_addresses] == ["127.0.0.1"]
    (intermediate,) = found.signer.chain_of(certificate)
    assert is_issued_by(certificate, intermediate) and is_issued_by(intermediate, found.authority)
    assert not list((tmp_path / "challenges").iterdir())


@async_test
async def test_a_name_that_cannot_be_validated(pebble: Pebble, tmp_path: Path) -> None:
    found = world(tmp_path, pebble.directory, pebble.root, pebble.ca)
    with pytest.raises(SignerError, match=r"the acme CA has refused: .*127\.0\.0\.2"):
        await found.sign(wanted(name="127.0.0.2"))
    assert not list((tmp_path / "challenges").iterdir())
    without = world(tmp_path, pebble.directory, pebble.root, pebble.ca, challengeFolder="")
    with pytest.raises(SignerError, match=r"wants 127\.0\.0\.3 to be validated"):
        await without.sign(wanted(name="127.0.0.3"))


@async_test
async def test_what_an_acme_ca_never_signs(pebble: Pebble, tmp_path: Path) -> None:
    found = world(tmp_path, pebble.directory, pebble.root, pebble.ca)
    nameless = msgspec.structs.replace(
        wanted(), request=x509_request.parse_pem(build_request(KEY, Subject(common_name="a")))
    )
    with pytest.raises(PolicyError, match="the acme issues certificates for names, and none is asked for"):
        await found.sign(nameless)
    # A name beside those that are validated.
    with pytest.raises(SignerError, match="the acme CA has refused"):
        await found.sign(wanted(subject=Subject(common_name="admin")))


def problem(code: str, status: int, **headers: str) -> Any:
    return reply_json({"type": f"urn:ietf:params:acme:error:{code}", "detail": "so it is"}, status, headers)


@pytest.mark.parametrize(
    ("answer", "error", "why", "seconds"),
    [
        (problem("rateLimited", 429, **{"Retry-After": "77"}), SignerUnavailable, "rateLimited: so it is", 77),
        (problem("rateLimited", 429), SignerUnavailable, "rateLimited", THROTTLED_SECONDS),
        (problem("serverInternal", 500), SignerUnavailable, "serverInternal", THROTTLED_SECONDS),
        (problem("unauthorized", 403), SignerError, "has refused: .*unauthorized", None),
        (reply(b"<html>", 200), SignerError, "has refused", None),
        (reply(b"", 502), SignerError, "has refused", None),
    ],
)
@async_test
async def test_a_ca_that_says_no(
    tmp_path: Path, answer: Any, error: type[SignerError], why: str, seconds: float | None
) -> None:
    ca = ThrowawayCA()
    async with ScriptedServer(None) as server:
        server.script(answer)
        found = world(tmp_path, f"{server.url}/dir", ca.bundle, ca.bundle)
        with pytest.raises(error, match=why) as refusal:
            await found.sign(wanted())
        if isinstance(refusal.value, SignerUnavailable):
            assert refusal.value.retry_after == seconds


@async_test
async def test_a_ca_that_is_not_there(tmp_path: Path) -> None:
    ca = ThrowawayCA()
    async with ScriptedServer(server_context(ca.issue(), tmp_path)) as server:
        url = server.url
    found = world(tmp_path, f"{url}/dir", ca.bundle, ca.bundle)
    with pytest.raises(SignerUnavailable, match="the acme CA cannot be reached"):
        await found.sign(wanted())
    (tmp_path / "account.key").write_text("no key")
    with pytest.raises(SignerError, match=r"the key of the acme account in .* cannot be used"):
        world(tmp_path, f"{url}/dir", ca.bundle, ca.bundle)


@pytest.mark.parametrize("content", ["not base64url, but secret", ""])
@async_test
async def test_a_key_of_an_external_account_that_is_none_is_not_shown(
    pebble: Pebble, tmp_path: Path, content: str
) -> None:
    if content:
        (tmp_path / "eab.key").write_text(content)
        (tmp_path / "eab.key").chmod(0o600)
    more = {"eabKeyId": "kid", "eabHmacKeyFile": "eab.key"}
    found = world(tmp_path, pebble.directory, pebble.root, pebble.ca, **more)
    with pytest.raises(SignerError, match="the key of the external account cannot be used") as refusal:
        await found.sign(wanted())
    assert "secret" not in str(refusal.value)


@async_test
async def test_an_external_account_that_the_ca_does_not_know(pebble: Pebble, tmp_path: Path) -> None:
    (tmp_path / "eab.key").write_text("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8")
    (tmp_path / "eab.key").chmod(0o600)
    more = {"eabKeyId": "kid", "eabHmacKeyFile": "eab.key"}
    found = world(tmp_path, pebble.directory, pebble.root, pebble.ca, **more)
    with pytest.raises(SignerError, match="the acme CA has refused"):
        await found.sign(wanted())
