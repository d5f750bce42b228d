"""CertificateSigners with CAs of their own, and requests to them, over :mod:`controller_world`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec

import controller_world
from controller_world import NOW, World
from kubevouch.api.catalog import CERTIFICATE_SIGNING_REQUESTS, SECRETS
from kubevouch.api.certificates_v1 import (
    CertificateSigningRequest,
    CertificateSigningRequestCondition,
    CertificateSigningRequestSpec,
    CertificateSigningRequestStatus,
)
from kubevouch.api.core_v1 import Secret
from kubevouch.api.kubevouch_v1alpha1.catalog import CERTIFICATE_SIGNERS
from kubevouch.api.kubevouch_v1alpha1.certificate_signers import CertificateSigner, CertificateSignerSpec
from kubevouch.api.meta_v1 import Condition
from kubevouch.controllers import certificate_signers, csr_signing
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.machinery.text.times import Time
from kubevouch.pki import keys
from kubevouch.pki.authority import CertificateAuthority, create_authority
from kubevouch.pki.certificate_chain import verify_certificate_chain
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509.request_builder import build_request
from kubevouch.pki.x509.signature import PrivateKey
from kubevouch.pki.x509.subject import Subject
from kubevouch.pki.x509.subject_alt_names import SubjectAltNames
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.standalone.controllers import RunningControllers
from kubevouch.testing.clock import settle
from kubevouch.wellknown import SIGNERS_NAMESPACE, TLS_SECRET

SIGNER = "example.com/web"
BUNDLES = "certificates.k8s.io/v1beta1/clustertrustbundles=true"
SPEC: dict[str, Any] = {
    "signerName": SIGNER,
    "ca": {"secretName": "web-ca"},
    "subject": {"commonNames": ["*.example.com"]},
    "altNames": {"dnsNames": ["*.example.com"]},
    "usages": {"permitted": ["digital signature", "server auth"]},
    "lifetime": {"defaultSeconds": 3600, "maxSeconds": 7200},
}


def new_ca(
    name: str, now: Any = NOW, algorithm: KeyAlgorithm = KeyAlgorithm.ECDSA_P256, **more: Any
) -> CertificateAuthority:
    return create_authority(name, keys.generate(algorithm), now=now, **more)


def signer(name: str = "web", **changes: Any) -> CertificateSigner:
    spec = msgspec.convert(SPEC | changes, CertificateSignerSpec)
    return CertificateSigner(metadata=ObjectMeta(name=name), spec=spec)


def secret(
    ca: CertificateAuthority, *above: Certificate, name: str = "web-ca", values: Mapping[str, bytes] | None = None
) -> Secret:
    text = b"".join(each.pem() for each in (ca.certificate, *above))
    data = {"tls.crt": text, "tls.key": keys.to_pem(ca.key), **(values or {})}
    return Secret(metadata=ObjectMeta(name=name, namespace=SIGNERS_NAMESPACE), data=data, type=TLS_SECRET)


class Signers:
    """What a test does with a world."""

    def __init__(self, at: World) -> None:
        self.at = at
        self.running: RunningControllers | None = None
        self._count = 0

    async def start(self) -> None:
        self.running = await self.at.run(csr_signing.NAME, certificate_signers.NAME)

    async def settle(self) -> None:
        assert self.running is not None
        await self.running.settle()

    async def later(self, seconds: float) -> None:
        """After so much time, and what it brings."""
        self.at.clock.advance(seconds)
        await settle()
        await self.settle()

    async def restart(self) -> None:
        assert self.running is not None
        await self.running.close()
        await self.start()

    async def make(self, *objects: CertificateSigner | Secret) -> None:
        for obj in objects:
            if isinstance(obj, Secret):
                await self.at.client.create(SECRETS, obj)
            else:
                await self.at.client.create(CERTIFICATE_SIGNERS, obj)

    async def put_secret(self, wanted: Secret) -> None:
        """In the place of the one of that name."""
        found = await self.at.client.get(SECRETS, wanted.metadata.name, SIGNERS_NAMESPACE)
        await self.at.client.update(SECRETS, msgspec.structs.replace(found, data=wanted.data))
        await self.settle()

    async def get(self, name: str = "web") -> CertificateSigner:
        return await self.at.client.get(CERTIFICATE_SIGNERS, name)

    async def ready(self, name: str = "web") -> Condition:
        await self.settle()
        (found,) = (each for each in (await self.get(name)).status.conditions if each.type == "Ready")
        return found

    async def ask(
        self,
        subject: Subject = Subject(common_name="a.example.com"),  # noqa: B008 - frozen
        *,
        signer_name: str = SIGNER,
        usages: Sequence[str] = ("digital signature", "server auth"),
        key: PrivateKey | None = None,
        **names: Any,
    ) -> str:
        """An approved request, by whatever approved it; its name."""
        request = build_request(key or keys.generate(KeyAlgorithm.ECDSA_P256), subject, SubjectAltNames(**names))
        return await self.post(request, signer_name, usages)

    async def post(
        self, request: bytes, signer_name: str = SIGNER, usages: Sequence[str] = ("digital signature", "server auth")
    ) -> str:
        """As :meth:`ask`, past what the API server would have to say of the request."""
        self._count += 1
        at_once = Time.of(NOW)
        condition = CertificateSigningRequestCondition(
            type="Approved", status="True", last_update_time=at_once, last_transition_time=at_once
        )
        csr = CertificateSigningRequest(
            metadata=ObjectMeta(name=f"r{self._count}", uid=f"u{self._count}"),
            spec=CertificateSigningRequestSpec(request=request, signer_name=signer_name, usages=list(usages)),
            status=CertificateSigningRequestStatus(conditions=[condition]),
        )
        await self.at.put(CERTIFICATE_SIGNING_REQUESTS, csr)
        return csr.metadata.name

    async def issued(self, *args: Any, **kwargs: Any) -> list[Certificate]:
        """The chain in the status; empty if there is none."""
        return await self.chain(await self.ask(*args, **kwargs))

    async def chain(self, name: str) -> list[Certificate]:
        await self.settle()
        csr = await self.at.client.get(CERTIFICATE_SIGNING_REQUESTS, name)
        return verify_certificate_chain(csr.status.certificate) if csr.status.certificate else []

    async def failure(self, name: str) -> str:
        await self.settle()
        csr = await self.at.client.get(CERTIFICATE_SIGNING_REQUESTS, name)
        return next((each.message for each in csr.status.conditions if each.type == "Failed"), "")


@asynccontextmanager
async def signers(*objects: CertificateSigner | Secret, runtime_config: str = "") -> AsyncIterator[Signers]:
    async with controller_world.world(runtime_config=runtime_config) as at:
        made = Signers(at)
        await made.make(*objects)
        await made.start()
        yield made
