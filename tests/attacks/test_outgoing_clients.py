"""Every outgoing client, before a server that it must not believe: each refuses it, and says why in its own error."""

from __future__ import annotations

import asyncio
import base64
import datetime as dt
import ipaddress
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

import aio
import signer_worlds
from admission_webhook import config_map, configuration, rule
from admission_world import configure, post
from kubevouch.attestation.http import Web
from kubevouch.attestation.interface import UnavailableError
from kubevouch.authentication.interface import AuthenticationError, UserInfo
from kubevouch.authentication.issuer_http import IssuerHTTP
from kubevouch.authentication.webhook import WebhookTokenAuthenticator
from kubevouch.authorization.interface import Attributes
from kubevouch.authorization.webhook import WebhookAuthorizer, WebhookSettings
from kubevouch.client.interface import TLSFailed
from kubevouch.client.rest_config import client_from_kubeconfig
from kubevouch.client.tls import ClientTLS
from kubevouch.client.webhook import WebhookError, from_kubeconfig
from kubevouch.config.inventory_config import URLSource
from kubevouch.controllers import machine_inventory
from kubevouch.ledger.memory import MemoryLedger
from kubevouch.machinery.custom_object import CustomObject
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.pki import keys
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509 import x509_certificate, x509_request
from kubevouch.pki.x509.request_builder import build_request
from kubevouch.pki.x509.subject import Subject
from kubevouch.pki.x509.subject_alt_names import SubjectAltNames
from kubevouch.server import node_proxy
from kubevouch.server.audit.batch import DeliveryError
from kubevouch.server.audit.options import WebhookOptions
from kubevouch.server.audit.webhook import Webhook as AuditWebhook
from kubevouch.server.customresources.conversion import WebhookConverter
from kubevouch.server.customresources.conversion_review import ConversionFailed
from kubevouch.signers.interface import SignerUnavailable, Wanted
from kubevouch.storage.etcd.options import EtcdOptions
from kubevouch.storage.etcd.store import EtcdStore
from kubevouch.storage.interface import StoreUnavailable
from kubevouch.testing import Cluster
from kubevouch.util.clock import SystemClock
from kubevouch.wellknown import LEGACY_UNKNOWN_SIGNER
from throwaway_ca import Pair, ThrowawayCA, server_context

CLOCK = SystemClock()
LONG_AGO, RECENTLY, FAR_OFF = (dt.datetime(year, 1, 1, tzinfo=dt.UTC) for year in (2020, 2021, 2100))
TRUSTED = ThrowawayCA("trusted")


def _self_signed() -> Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "nobody's")])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(LONG_AGO).not_valid_after(FAR_OFF)
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    certificate = builder.add_extension(names, critical=False).sign(key, hashes.SHA256())
    return Pair(certificate.public_bytes(serialization.Encoding.PEM), keys.to_pem(key))


_UNKNOWN = "not trusted|unknown authority|self-signed certificate|unable to get local issuer|CERTIFICATE_VERIFY_FAILED"
PEERS: dict[str, tuple[Callable[[], Pair] | None, str]] = {
    "self-signed": (_self_signed, _UNKNOWN),
    "other CA": (ThrowawayCA("other").issue, _UNKNOWN),
    "other name": (
        lambda: TRUSTED.issue(names=("elsewhere.example",)),
        "is not for 127.0.0.1|IP address mismatch|Hostname Verification",
    ),
    "expired": (lambda: TRUSTED.issue(not_after=RECENTLY), "expired|CERTIFICATE_VERIFY_FAILED"),
    "plain TCP": (None, "does not speak TLS|[Ww][Rr][Oo][Nn][Gg][ _][Vv][Ee][Rr][Ss][Ii][Oo][Nn]|record layer"),
}
"""What stands there, and what a client may call that: our words, and those of the libraries that some clients are."""


class Asked(NamedTuple):
    """A server that must not be believed; ``folder`` has room for files."""

    port: int
    folder: Path

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @property
    def authorities(self) -> Path:
        path = self.folder / "trusted.pem"
        path.write_bytes(TRUSTED.bundle)
        return path

    def kubeconfig(self) -> Path:
        path = self.folder / "webhook.conf"
        signer_worlds.kubeconfig(path, f"{self.url}/ask", TRUSTED, self.folder)
        return path


@asynccontextmanager
async def unbelievable(kind: str, folder: Path) -> AsyncIterator[Asked]:
    """Accepts, and answers every connection with a line that is no TLS where it has no certificate."""

    async def hang_up(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.example ESMTP\r\n" * 10)
        writer.close()

    issue, _ = PEERS[kind]
    context = None if issue is None else server_context(issue(), folder)
    if context is not None:
        context.set_alpn_protocols(["h2", "http/1.1"])  # gRPC looks at that before it looks at names
    async with await asyncio.start_server(hang_up, "127.0.0.1", 0, ssl=context) as server:
        yield Asked(server.sockets[0].getsockname()[1], folder)


Ask = Callable[[Asked], Awaitable[str]]
"""Has one client ask; what it says of the server."""


async def _refusal(asking: Awaitable[object], error: type[Exception]) -> str:
    with pytest.raises(error) as refusal:
        await asking
    return str(refusal.value)


async def _api_client(asked: Asked) -> str:
    client = client_from_kubeconfig(asked.kubeconfig(), component="test")
    try:
        return await _refusal(client.raw("GET", "/version"), TLSFailed)
    finally:
        await client.close()


async def _webhook(asked: Asked) -> str:
    webhook = from_kubeconfig(asked.kubeconfig(), CLOCK, component="test", seconds=10)
    try:
        return await _refusal(webhook.ask({}), WebhookError)
    finally:
        await webhook.close()


async def _conversion(asked: Asked) -> str:
    config = {"url": f"{asked.url}/convert", "caBundle": base64.b64encode(TRUSTED.bundle).decode()}
    converter = WebhookConverter({"clientConfig": config, "conversionReviewVersions": ["v1"]}, CLOCK)
    obj = CustomObject(kind="Widget", api_version="example.com/v1", metadata=ObjectMeta(name="w"), content={})
    try:
        return await _refusal(converter.convert([obj], "example.com/v2"), ConversionFailed)
    finally:
        await converter.close()


async def _token_review(asked: Asked) -> str:
    webhook = from_kubeconfig(asked.kubeconfig(), CLOCK, component="test", seconds=10)
    authenticator = WebhookTokenAuthenticator(webhook, "v1", ("api",), 60, CLOCK)
    try:
        return await _refusal(authenticator.authenticate_token("token"), AuthenticationError)
    finally:
        await authenticator.close()


async def _access_review(asked: Asked) -> str:
    webhook = from_kubeconfig(asked.kubeconfig(), CLOCK, component="test", seconds=10)
    authorizer = WebhookAuthorizer(webhook, WebhookSettings("test"), CLOCK)
    try:
        return (await authorizer.authorize(Attributes(UserInfo("somebody"), "get", path="/"))).error
    finally:
        await authorizer.close()


async def _audit(asked: Asked) -> str:
    path = asked.kubeconfig()
    lost: list[str] = []
    # The backend counts what it has lost and logs why: what is looked at is one delivery.
    backend = AuditWebhook(WebhookOptions(path, initial_backoff=0.001), CLOCK, lambda name, _: lost.append(name))
    try:
        return await _refusal(backend._send([b"{}"]), DeliveryError)
    finally:
        await backend.close()


async def _issuer(asked: Asked) -> str:
    issuer = IssuerHTTP(TRUSTED.bundle.decode(), CLOCK)
    try:
        return await _refusal(issuer.get(f"{asked.url}/.well-known/openid-configuration"), TLSFailed)
    finally:
        await issuer.close()


def _for_a_name() -> Wanted:
    names = SubjectAltNames(ip_addresses=(ipaddress.ip_address("127.0.0.1"),))
    request = x509_request.parse_pem(build_request(keys.generate(KeyAlgorithm.ECDSA_P256), Subject(), names))
    return Wanted("csr", "u", LEGACY_UNKNOWN_SIGNER, request, ["digital signature", "server auth"])


def _signing(authority: dict[str, Any]) -> Ask:
    async def ask(asked: Asked) -> str:
        asked.kubeconfig()
        (asked.folder / "trust.pem").write_bytes(TRUSTED.bundle)
        (asked.folder / "challenges").mkdir()
        way = json.loads(json.dumps(authority).replace("URL", asked.url).replace("FILE", asked.authorities.name))
        signer = signer_worlds.config(asked.folder, way, CLOCK)
        world = signer_worlds.World(signer, x509_certificate.parse_pem(TRUSTED.bundle), CLOCK, MemoryLedger())
        return await _refusal(world.sign(_for_a_name()), SignerUnavailable)

    return ask


async def _attestation(asked: Asked) -> str:
    return await _refusal(Web(ca_file=str(asked.authorities)).get(f"{asked.url}/"), UnavailableError)


async def _inventory(asked: Asked) -> str:
    source = URLSource(url=f"{asked.url}/machines", certificate_authority=str(asked.authorities))
    return await _refusal(machine_inventory._URL(source, CLOCK).read(), TLSFailed)


async def _kubelet(asked: Asked) -> str:
    call = node_proxy._Call("n1", "127.0.0.1", asked.port, "GET", "/healthz", {}, b"")
    return await _refusal(node_proxy._asked(call, lambda: ClientTLS(TRUSTED.bundle), 30.0), OSError)


async def _etcd(asked: Asked) -> str:
    options = EtcdOptions((asked.url,), cafile=asked.authorities)
    return await _refusal(EtcdStore.open(options, CLOCK, seconds=1.0), StoreUnavailable)


CLIENTS: dict[str, Ask] = {
    "client of an API server: agents, join, commands, controllers, Cluster API": _api_client,
    "webhook: admission, approval": _webhook,
    "conversion webhook": _conversion,
    "token review": _token_review,
    "access review": _access_review,
    "audit webhook": _audit,
    "OpenID Connect issuer": _issuer,
    "signing webhook": _signing({"webhook": {"kubeconfigFile": "webhook.conf"}}),
    "CFSSL": _signing({"cfssl": {"kubeconfigFile": "webhook.conf"}}),
    "Vault": _signing({"vault": {"kubeconfigFile": "webhook.conf"}}),
    "ACME": _signing(
        {
            "acme": {
                "directory": "URL/directory",
                "caFile": "FILE",
                "accountKeyFile": "account.key",
                "termsOfServiceAgreed": True,
                "challengeFolder": "challenges",
            }
        }
    ),
    "clouds and metadata services": _attestation,
    "inventory": _inventory,
    "kubelet": _kubelet,
    "etcd": _etcd,
}


@pytest.mark.parametrize("kind", PEERS)
@pytest.mark.parametrize("client", CLIENTS)
def test_no_client_believes_it_and_each_says_why(client: str, kind: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with unbelievable(kind, tmp_path) as asked:
            said = await CLIENTS[client](asked)
        assert re.search(PEERS[kind][1], said), said

    aio.run(scenario(), loop="uvloop")


@pytest.mark.parametrize("kind", PEERS)
def test_who_creates_an_object_is_told_of_the_admission_webhook(kind: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with unbelievable(kind, tmp_path) as asked, Cluster() as cluster:
            client = cluster.client()
            entry = {
                "name": "w.example.com",
                "clientConfig": {"url": f"{asked.url}/", "caBundle": base64.b64encode(TRUSTED.bundle).decode()},
                "rules": [rule()],
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
            }
            await configure(client, configuration("Validating", entry))
            answer = await post(client, "/api/v1/namespaces/default/configmaps", config_map())
        said = json.loads(answer.body)
        assert (answer.status, said["reason"]) == (500, "InternalError")
        assert 'failed calling webhook "w.example.com"' in said["message"]
        assert re.search(PEERS[kind][1], said["message"]), said["message"]

    aio.run(scenario(), loop="uvloop")
