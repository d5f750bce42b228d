"""Signers of every kind with what they need, for one suite that they all pass."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import datetime as dt
import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat

import real_cas
from kubevouch.config import signing_config
from kubevouch.ledger import entries
from kubevouch.ledger.memory import MemoryLedger
from kubevouch.pki import issuance, keys
from kubevouch.pki.authority import CertificateAuthority, create_authority
from kubevouch.pki.issuance import SigningRules
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509 import x509_request
from kubevouch.pki.x509.request_builder import build_request
from kubevouch.pki.x509.subject import Subject
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.signers import outside
from kubevouch.signers.file import FileSigner
from kubevouch.signers.interface import Approval, Requester, Signer, Wanted
from kubevouch.signers.issuance import issue
from kubevouch.signers.keys import KeyOptions
from kubevouch.standalone.sign import SigningServer, SignRules, listening
from kubevouch.testing.clock import FakeClock
from kubevouch.util.clock import Clock, SystemClock
from kubevouch.wellknown import ATTESTED_CLIENT_SIGNER_PREFIX, KUBE_APISERVER_CLIENT_KUBELET_SIGNER
from scripted_server import ScriptedServer, reply, reply_json
from softhsm import PIN, SoftHSM
from throwaway_ca import ThrowawayCA, server_context

NOW = dt.datetime(2026, 6, 1, 12, tzinfo=dt.UTC)
USAGES = ["digital signature", "client auth"]
RULES = SigningRules(signing_duration=dt.timedelta(hours=24))
PASSPHRASE = b"open, please"

_ATTESTED = f"{ATTESTED_CLIENT_SIGNER_PREFIX}tpm"
_KEY = keys.generate(KeyAlgorithm.ECDSA_P256)
TRUE_SIGN = CertificateAuthority.sign


def wanted(uid: str = "u", name: str = "n1") -> Wanted:
    subject = Subject(common_name=f"system:node:{name}", organizations=("system:nodes",))
    request = x509_request.parse_pem(build_request(_KEY, subject))
    return Wanted(f"csr-{uid}", uid, KUBE_APISERVER_CLIENT_KUBELET_SIGNER, request, USAGES, 7200)


GRANTED = 600
"""Seconds."""


def granted(uid: str = "u") -> Wanted:
    """As of a machine that has proven what it is: so much may be signed, and no more."""
    return msgspec.structs.replace(wanted(uid), signer_name=_ATTESTED, expiration_seconds=GRANTED)


@dataclasses.dataclass
class World:
    """A signer, and what happens to the program behind it.

    Args:
        overrun: it signs for longer than it is told.
        obeys: it can be told how long.
    """

    signer: Signer
    authority: Certificate
    clock: Clock
    ledger: MemoryLedger
    is_remote: bool = True
    go_away: Callable[[], None] = lambda: None
    come_back: Callable[[], None] = lambda: None
    hang: Callable[[], None] | None = None
    lie: Callable[[], None] = lambda: None
    overrun: Callable[[], None] = lambda: None
    obeys: bool = True
    be_honest: Callable[[], None] = lambda: setattr(CertificateAuthority, "sign", TRUE_SIGN)

    async def sign(self, asked: Wanted | None = None, *, approved: bool = True) -> Certificate:
        approval = Approval("AutoApproved", "by the test") if approved else None
        return await issue(
            self.signer, Requester("system:bootstrap:abcdef"), approval, asked or wanted(),
            now=self.clock.now(), ledger=self.ledger,
        )  # fmt: skip


def _authority(now: dt.datetime = NOW) -> CertificateAuthority:
    return create_authority("ca", keys.generate(KeyAlgorithm.ECDSA_P256), now=now)


def lying() -> Callable[[], None]:
    """Has every later signature of this process be about another key."""
    other = keys.public_key_of(keys.generate(KeyAlgorithm.ECDSA_P256))
    return _signing(lambda template: msgspec.structs.replace(template, public_key=other))


def overrunning() -> Callable[[], None]:
    """Has every later signature of this process be good for hours more."""
    return _signing(lambda it: msgspec.structs.replace(it, not_after=it.not_after + dt.timedelta(hours=12)))


def _signing(change: Callable[[Any], Any]) -> Callable[[], None]:
    def sign(self: CertificateAuthority, template: Any) -> bytes:
        return TRUE_SIGN(self, change(template))

    return lambda: setattr(CertificateAuthority, "sign", sign)


@asynccontextmanager
async def file(folder: Path, hsm: SoftHSM, *, encrypted: bool = False) -> AsyncIterator[World]:
    authority = _authority()
    certificate, key, secret = folder / "ca.crt", folder / "ca.key", folder / "passphrase"
    certificate.write_bytes(authority.certificate.pem())
    text = keys.to_pem(authority.key)
    if encrypted:
        text = authority.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(PASSPHRASE))
    for path, content in ((key, text), (secret, PASSPHRASE)):
        path.write_bytes(content)
        path.chmod(0o600)
    clock = FakeClock(NOW)
    signer = FileSigner(certificate, key, RULES, keys=KeyOptions(str(secret)), clock=clock)
    yield World(
        signer, authority.certificate, clock, MemoryLedger(), is_remote=False,
        go_away=key.unlink, lie=lying(), overrun=overrunning(),
    )  # fmt: skip


def encrypted(folder: Path, hsm: SoftHSM) -> AbstractAsyncContextManager[World]:
    return file(folder, hsm, encrypted=True)


@asynccontextmanager
async def token(folder: Path, hsm: SoftHSM) -> AsyncIterator[World]:
    authority = hsm.authorities["p256"]
    (folder / "ca.crt").write_bytes(authority.certificate.pem())
    (folder / "pin").write_text(PIN)
    (folder / "pin").chmod(0o600)
    clock = FakeClock(NOW)
    signer = FileSigner(folder / "ca.crt", hsm.uri("p256", folder / "pin"), RULES, clock=clock)

    def back() -> None:
        hsm.insert()
        clock.advance(60)

    yield World(
        signer, authority.certificate, clock, MemoryLedger(), go_away=hsm.remove, come_back=back, lie=lying(),
        overrun=overrunning(),
    )  # fmt: skip


class Trusting:
    """A witness that has seen nothing."""

    async def look(self) -> None:
        return


@asynccontextmanager
async def process(folder: Path, hsm: SoftHSM) -> AsyncIterator[World]:
    async with AsyncExitStack() as stack:
        behind = await stack.enter_async_context(file(folder, hsm))
        signers = {KUBE_APISERVER_CLIENT_KUBELET_SIGNER: behind.signer, _ATTESTED: behind.signer}
        rules = SignRules(frozenset({os.geteuid()}))
        server = SigningServer(signers, behind.ledger, Trusting(), rules, behind.clock)
        path = folder / "sign.sock"
        running = AsyncExitStack()
        await running.enter_async_context(listening(server, path))
        stack.push_async_callback(lambda: running.aclose())
        aside = folder / "aside.sock"

        def hang() -> None:
            # The kernel takes the connection, and nobody ever reads from it.
            silent = asyncio.get_running_loop().create_task(_silent(folder / "silent.sock", stopped))
            stack.push_async_callback(_ended, silent, stopped)
            path.rename(aside)
            path.symlink_to(folder / "silent.sock")

        stopped = asyncio.Event()
        signer = outside.process_signer(path, folder / "ca.crt", RULES, behind.clock)
        yield dataclasses.replace(
            behind,
            signer=signer,
            is_remote=True,
            go_away=lambda: os.rename(path, aside),
            come_back=lambda: os.rename(aside, path),
            hang=hang,
        )


async def _silent(path: Path, stopped: asyncio.Event) -> None:
    async def say_nothing(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await stopped.wait()
        writer.close()

    async with await asyncio.start_unix_server(say_nothing, str(path)):
        await stopped.wait()


async def _ended(task: asyncio.Task[None], stopped: asyncio.Event) -> None:
    stopped.set()
    await task


def kubeconfig(path: Path, url: str, ca: ThrowawayCA, folder: Path) -> None:
    """Of a service at ``url``, with a client certificate."""
    certificate, key = ca.issue("kubevouch").write(folder, "client")
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [
            {"name": "c", "cluster": {"server": url, "certificate-authority-data": _base64(ca.bundle)}},
        ],
        "users": [{"name": "u", "user": {"client-certificate": str(certificate), "client-key": str(key)}}],
    }
    path.write_text(json.dumps(document))
    path.chmod(0o600)


def _base64(octets: bytes) -> str:
    return base64.b64encode(octets).decode()


def config(folder: Path, authority: dict[str, Any], clock: Clock) -> Signer:
    """The signer of a SigningConfiguration with this authority."""
    document = {
        "apiVersion": signing_config.API_VERSION,
        "kind": signing_config.KIND,
        "authorities": [{"name": "theirs", "trustFile": "trust.pem", **authority}],
    }
    (folder / "signing.yaml").write_text(json.dumps(document))
    found = outside.load(folder / "signing.yaml").authorities[0]
    return outside.remote_signer(found, folder, RULES, clock)


def signed_by(authority: CertificateAuthority, asked: Wanted, now: dt.datetime, rules: SigningRules = RULES) -> bytes:
    """What a CA of somebody else's answers, in PEM."""
    issued = issuance.issue(
        authority, asked.request, signer_name=asked.signer_name, usages=asked.usages,
        expiration_seconds=asked.expiration_seconds, now=now, rules=rules,
    )  # fmt: skip
    return issued.pem()


def _asked(body: bytes) -> Wanted:
    entry = msgspec.json.decode(msgspec.json.encode(msgspec.json.decode(body)["request"]), type=entries.Entry)
    request = x509_request.parse_der(entry.pkcs10)
    return Wanted(entry.request, entry.uid, entry.signer, request, entry.usages, entry.expiration_seconds)


@dataclasses.dataclass
class WebhookPeer:
    """A service that signs with ``authority``, each request as a dialect has it."""

    server: ScriptedServer
    authority: CertificateAuthority
    clock: Clock
    question: Callable[[bytes], Wanted]
    answer: Callable[[Wanted, bytes], Any]
    rules: SigningRules = RULES

    def sign(self) -> None:
        self.server.script(self._sign)

    def lie(self) -> None:
        self.server.script(self._lie)

    def overrun(self) -> None:
        self.server.script(self._overrun)

    async def _sign(self, request: web.Request) -> web.StreamResponse:
        asked = self.question(await request.read())
        return await self._reply(request, asked, signed_by(self.authority, asked, self.clock.now(), self.rules))

    async def _overrun(self, request: web.Request) -> web.StreamResponse:
        """Whatever was asked for, it is the most that its rules have."""
        asked = self.question(await request.read())
        longest = msgspec.structs.replace(asked, expiration_seconds=None)
        return await self._reply(request, asked, signed_by(self.authority, longest, self.clock.now(), self.rules))

    async def _lie(self, request: web.Request) -> web.StreamResponse:
        """Somebody else's: the right CA and the right name."""
        asked = self.question(await request.read())
        other = x509_request.parse_pem(build_request(keys.generate(KeyAlgorithm.ECDSA_P256), asked.request.subject))
        theirs = msgspec.structs.replace(asked, request=other)
        return await self._reply(request, asked, signed_by(self.authority, theirs, self.clock.now()))

    async def _reply(self, request: web.Request, asked: Wanted, certificate: bytes) -> web.StreamResponse:
        return await reply_json(self.answer(asked, certificate))(request)


@asynccontextmanager
async def https_peer(
    folder: Path, question: Callable[[bytes], Wanted], answer: Callable[[Wanted, bytes], Any], **way: Any
) -> AsyncIterator[tuple[World, WebhookPeer]]:
    """A signer over HTTPS with client certificates, and the service that it asks."""
    ca = ThrowawayCA()
    context = server_context(ca.issue(), folder, client_ca=ca.bundle, required=True)
    clock, authority = FakeClock(NOW), _authority()
    async with ScriptedServer(context) as server:
        peer = WebhookPeer(server, authority, clock, question, answer)
        peer.sign()
        where = folder / "webhook.conf"
        kubeconfig(where, f"{server.url}/sign", ca, folder)
        (folder / "trust.pem").write_bytes(authority.certificate.pem())
        stopped = asyncio.Event()

        async def say_nothing(_request: web.Request) -> web.StreamResponse:
            await stopped.wait()
            return web.Response()

        yield World(
            config(folder, way, clock), authority.certificate, clock, MemoryLedger(),
            go_away=lambda: server.script(reply(b"", 503)), come_back=peer.sign,
            hang=lambda: server.script(say_nothing), lie=peer.lie, overrun=peer.overrun, be_honest=peer.sign,
        ), peer  # fmt: skip
        stopped.set()


PLAIN = _asked, lambda asked, certificate: {"uid": asked.uid, "certificate": certificate.decode()}
"""Question and answer of a webhook in our own form."""


@asynccontextmanager
async def webhook(folder: Path, hsm: SoftHSM) -> AsyncIterator[World]:
    async with https_peer(folder, *PLAIN, webhook={"kubeconfigFile": "webhook.conf"}) as (world, _):
        yield world


def _asked_of_vault(body: bytes) -> Wanted:
    document = msgspec.json.decode(body)
    request = x509_request.parse_pem(document["csr"].encode())
    seconds = int(document["ttl"].removesuffix("s"))
    return msgspec.structs.replace(wanted(), request=request, expiration_seconds=seconds)


@asynccontextmanager
async def vault(folder: Path, hsm: SoftHSM) -> AsyncIterator[World]:
    async with https_peer(
        folder,
        _asked_of_vault,
        lambda _, certificate: {"data": {"certificate": certificate.decode(), "ca_chain": []}},
        vault={"kubeconfigFile": "webhook.conf"},
    ) as (world, _):
        yield world


@asynccontextmanager
async def cfssl(folder: Path, hsm: SoftHSM) -> AsyncIterator[World]:
    clock = SystemClock()
    authority, ca = _authority(clock.now()), ThrowawayCA()
    where = folder / "cfssl.conf"
    (folder / "trust.pem").write_bytes(authority.certificate.pem())
    (folder / "auth.key").write_text(real_cas.AUTH_KEY)
    (folder / "auth.key").chmod(0o600)
    server = real_cas.cfssl(folder, authority, ca.issue())
    async with AsyncExitStack() as stack:
        port = await asyncio.to_thread(server.__enter__)
        stack.push_async_callback(asyncio.to_thread, server.__exit__, None, None, None)
        context = server_context(ca.issue(), folder)
        liar = await stack.enter_async_context(ScriptedServer(context))
        other = build_request(keys.generate(KeyAlgorithm.ECDSA_P256), wanted().request.subject)
        theirs = msgspec.structs.replace(wanted(), request=x509_request.parse_pem(other))
        stranger = signed_by(authority, theirs, clock.now())
        liar.script(reply_json({"success": True, "result": {"certificate": stranger.decode()}, "errors": []}))

        def ask(at: int) -> None:
            kubeconfig(where, f"https://127.0.0.1:{at}/api/v1/cfssl/authsign", ca, folder)

        ask(port)
        signer = config(folder, {"cfssl": {"kubeconfigFile": "cfssl.conf", "authKeyFile": "auth.key"}}, clock)
        yield World(
            signer, authority.certificate, clock, MemoryLedger(),
            go_away=lambda: ask(9), come_back=lambda: ask(port), lie=lambda: ask(liar.port),
            be_honest=lambda: ask(port), obeys=False,
        )  # fmt: skip


KINDS: dict[str, Callable[[Path, SoftHSM], AbstractAsyncContextManager[World]]] = {
    "file": file,
    "encrypted file": encrypted,
    "pkcs11": token,
    "process": process,
    "webhook": webhook,
    "vault": vault,
    "cfssl": cfssl,
}
