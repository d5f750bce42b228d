"""The node's side of aws: the identity document from the metadata service, and a call to STS signed for one key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from kubevouch.attestation import documents, settings
from kubevouch.attestation.aws import sigv4
from kubevouch.attestation.aws.evidence import (
    BINDING_HEADER,
    NAME,
    VERSIONS,
    Form,
    Freshness,
    Proof,
    SignedRequest,
    binding_digest,
    binding_text,
)
from kubevouch.attestation.aws.identity_document import Document
from kubevouch.attestation.aws.metadata import ENDPOINT, IDENTITY, MetadataService
from kubevouch.attestation.http import Web
from kubevouch.attestation.interface import Asked, AttestationError, Binding, RefusedEvidenceError
from kubevouch.attestation.showing import Showing
from kubevouch.pki.x509.signature import PrivateKey
from kubevouch.util.clock import Clock

_DOMAINS = (
    ("cn-", "amazonaws.com.cn"),
    ("us-iso-", "c2s.ic.gov"),
    ("us-isob-", "sc2s.sgov.gov"),
    ("us-isof-", "csp.hci.ic.gov"),
    ("eu-isoe-", "cloud.adc-e.uk"),
    ("eusc-", "amazonaws.eu"),
)
_BODY = "Action=GetCallerIdentity&Version=2011-06-15"


class Settings(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Args:
    metadata_endpoint: another one than 169.254.169.254, such as http://[fd00:ec2::254].
    form: which signature of the document to show.
    freshness: ``firstUse`` shows the document alone, where the cluster's settings let that count.
    sts_host: to sign for; empty for that of the instance's region.
    """

    metadata_endpoint: str = ENDPOINT
    form: Form = Form.RSA2048
    freshness: Freshness = Freshness.STS
    sts_host: str = ""


async def make_attestor(settings_: Mapping[str, str], clock: Clock) -> AWSAttestor:
    """Raises :class:`SettingsError`."""
    return AWSAttestor(settings.read(settings_, Settings, NAME), clock)


class AWSAttestor(Showing):
    """An :class:`~kubevouch.attestation.interface.Attestor`."""

    name = NAME
    versions: Sequence[str] = VERSIONS

    def __init__(self, read: Settings, clock: Clock) -> None:
        self._settings = read
        self._clock = clock
        self._metadata = MetadataService(Web(), clock, read.metadata_endpoint)

    @property
    def needs_challenge(self) -> bool:
        return self._settings.freshness is Freshness.STS

    async def attest(self, version: str, key: PrivateKey, binding: Binding, asked: Asked | None) -> bytes:
        document = await self._metadata.text(f"{IDENTITY}/document")
        proof = Proof(
            document=document,
            signature=await self._metadata.text(f"{IDENTITY}/{self._settings.form}"),
            form=self._settings.form,
            request=await self._signed(_read(document), binding) if self.needs_challenge else None,
        )
        return msgspec.json.encode(proof)

    async def _signed(self, told: Document, binding: Binding) -> SignedRequest:
        host = self._settings.sts_host or f"sts.{told.region}.{_domain(told.region)}"
        digest = binding_digest(binding.spki, binding.cluster_id, binding.nonce)
        headers = sigv4.signed_headers(
            "POST",
            f"https://{host}/",
            {
                "content-type": "application/x-www-form-urlencoded; charset=utf-8",
                BINDING_HEADER: binding_text(digest),
            },
            _BODY.encode(),
            await self._metadata.credentials(),
            region=told.region,
            service="sts",
            now=self._clock.now(),
        )
        return SignedRequest(method="POST", url=f"https://{host}/", headers=headers, body=_BODY)

    async def provider_id(self) -> str:
        return _read(await self._metadata.text(f"{IDENTITY}/document")).provider_id


def _read(document: str) -> Document:
    try:
        return documents.decode(document, Document, "the identity document")
    except RefusedEvidenceError as err:
        raise AttestationError(f"the metadata service has no identity document that can be read: {err}") from err


def _domain(region: str) -> str:
    """Of a region's hosts; that of a partition that is not known here needs ``stsHost``."""
    return next((domain for prefix, domain in _DOMAINS if region.startswith(prefix)), "amazonaws.com")
