"""Machines that prove what they are to a standalone server, by the null method of ``null_attestation``."""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from controller_world import World, world
from kubevouch.api.catalog import CERTIFICATE_SIGNING_REQUESTS, EVENTS, NAMESPACES
from kubevouch.api.certificates_v1 import CertificateSigningRequest, CertificateSigningRequestSpec
from kubevouch.api.kubevouch_v1alpha1.attestation_challenges import AttestationChallenge, AttestationChallengeSpec
from kubevouch.api.kubevouch_v1alpha1.catalog import ATTESTATION_CHALLENGES, NODE_IDENTITIES
from kubevouch.api.kubevouch_v1alpha1.node_identities import NodeIdentity
from kubevouch.attestation import request as blocks
from kubevouch.attestation.interface import Binding, Evidence
from kubevouch.client.interface import Client
from kubevouch.client.stored import find
from kubevouch.config import attestation_config
from kubevouch.controllers.csr_approving import NAME as APPROVING
from kubevouch.controllers.csr_signing import NAME as SIGNING
from kubevouch.controllers.node_attestation import NAME as ATTESTING
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.pki import keys
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509 import provider_id as provider_ids
from kubevouch.pki.x509 import x509_certificate, x509_request
from kubevouch.pki.x509.certificate_extensions import Extension
from kubevouch.pki.x509.request_builder import build_request
from kubevouch.pki.x509.signature import PrivateKey
from kubevouch.pki.x509.subject import Subject
from kubevouch.pki.x509.subject_alt_names import SubjectAltNames
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.policy.kubelet_serving import ServingRules
from kubevouch.standalone.attestation import AttestationFile
from kubevouch.wellknown import ATTESTED_CLIENT_SIGNER_PREFIX, DEFAULT_NODE_TOKEN_GROUP, NODES_GROUP
from null_attestation import Shown, show

CONTROLLERS = (APPROVING, SIGNING, ATTESTING)
BOOTSTRAPPERS = ("system:bootstrappers", DEFAULT_NODE_TOKEN_GROUP)
_HEAD = "apiVersion: kubevouch.io/v1alpha1\nkind: AttestationConfiguration\n"
NULL = "attestors: [{provider: 'null'}]\n"


def configured(text: str = NULL) -> AttestationFile:
    return AttestationFile(Path("attestation.yaml"), attestation_config.decode((_HEAD + text).encode()), "0" * 64)


@asynccontextmanager
async def attested_world(text: str = NULL, *controllers: str, serving: bool = False) -> AsyncIterator[World]:
    """A cluster whose controllers take proofs of the null method."""
    async with world() as at:
        rules = ServingRules() if serving else None
        at.start(*CONTROLLERS, *controllers, attesting=configured(text), serving=rules)
        await at.settle()
        yield at


class Machine:
    """A machine that asks for a node's name. Args: ``shown``: what it says of itself, as ``null_attestation.Shown``."""

    def __init__(self, at: World, name: str, identity: str, *, token: str = "p9k2zq", **shown: Any) -> None:
        self.at = at
        self.name = name
        self.key: PrivateKey = keys.generate(KeyAlgorithm.ECDSA_P256)
        self.shown = Shown(identity=identity, **shown)
        self.user = f"system:bootstrap:{token}"
        self.groups: tuple[str, ...] = BOOTSTRAPPERS
        self.provider = "null"

    @property
    def client(self) -> Client:
        return self.at.as_user(self.user, *self.groups)

    @property
    def spki(self) -> bytes:
        return x509_request.parse_pem(self.request()).public_key.canonical_info

    def become_node(self) -> None:
        """From now on it comes as the node."""
        self.user, self.groups = f"system:node:{self.name}", (NODES_GROUP,)

    async def challenge(self, **spec: Any) -> AttestationChallenge:
        """A challenge that was asked."""
        fields = {"provider": self.provider, "version": "v1", "key_fingerprint": hashlib.sha256(self.spki).hexdigest()}
        made = await self.client.create(
            ATTESTATION_CHALLENGES,
            AttestationChallenge(
                metadata=ObjectMeta(generate_name="attest-"), spec=AttestationChallengeSpec(**fields | spec)
            ),
        )
        await self.at.settle()
        return await self.client.get(ATTESTATION_CHALLENGES, made.metadata.name)

    async def evidence(self, challenge: AttestationChallenge | None) -> Evidence:
        cluster = (await self.at.client.get(NAMESPACES, "kube-system")).metadata.uid
        nonce = b"" if challenge is None else challenge.status.nonce
        proof = show(self.shown, Binding(self.spki, cluster, nonce))
        name = "" if challenge is None else challenge.metadata.name
        return Evidence(provider=self.provider, version="v1", data=proof, challenge=name)

    def request(self, *proofs: Evidence, name: str = "", extensions: tuple[Extension, ...] = ()) -> bytes:
        subject = Subject(common_name=f"system:node:{name or self.name}", organizations=(NODES_GROUP,))
        if self.shown.provider_id and not extensions:
            extensions = (provider_ids.extension(self.shown.provider_id),)
        pem = build_request(self.key, subject, extensions=extensions)
        return blocks.build(pem, proofs) if proofs else pem

    async def serve(self, signer: str, *names: str) -> CertificateSigningRequest:
        """Ask for a serving certificate, as the node."""
        subject = Subject(common_name=f"system:node:{self.name}", organizations=(NODES_GROUP,))
        addresses = tuple(ipaddress.ip_address(each) for each in names if each[0].isdigit())
        dns_names = tuple(each for each in names if not each[0].isdigit())
        wanted = SubjectAltNames(dns_names=dns_names, ip_addresses=addresses)
        pem = build_request(self.key, subject, wanted)
        return await self.file(pem, signer_name=signer, usages=["digital signature", "server auth"])

    async def post(self, request: bytes, **spec: Any) -> str:
        """Post a request; its name."""
        fields = {
            "request": request,
            "signer_name": f"{ATTESTED_CLIENT_SIGNER_PREFIX}{self.provider}",
            "usages": ["digital signature", "client auth"],
        }
        meta = ObjectMeta(generate_name="node-csr-")
        csr = CertificateSigningRequest(metadata=meta, spec=CertificateSigningRequestSpec(**fields | spec))
        return (await self.client.create(CERTIFICATE_SIGNING_REQUESTS, csr)).metadata.name

    async def file(self, request: bytes, **spec: Any) -> CertificateSigningRequest:
        """Post a request, and what became of it once nobody has anything to do."""
        name = await self.post(request, **spec)
        await self.at.settle()
        return await self.at.client.get(CERTIFICATE_SIGNING_REQUESTS, name)

    async def join(self) -> CertificateSigningRequest:
        """The whole way: a challenge, its answer, a request."""
        return await self.file(self.request(await self.evidence(await self.challenge())))


def outcome(csr: CertificateSigningRequest) -> str:
    """``issued``, ``denied: step``, ``failed`` or ``waits``."""
    for each in csr.status.conditions:
        if each.type == "Denied":
            return f"denied: {each.message.partition(':')[0]}"
        if each.type == "Failed":
            return f"failed: {each.message}"
    return "issued" if csr.status.certificate else "waits"


def certificate(csr: CertificateSigningRequest) -> Certificate:
    return x509_certificate.parse_bundle(csr.status.certificate)[0]


async def identity(at: World, name: str) -> NodeIdentity | None:
    return await find(at.client, NODE_IDENTITIES, name)


async def events(at: World) -> list[str]:
    """Reasons."""
    return [each.reason for each in (await at.client.list(EVENTS, "default")).items]


def shown(machine: Machine, **change: Any) -> None:
    """What it says of itself from now on."""
    machine.shown = msgspec.structs.replace(machine.shown, **change)
