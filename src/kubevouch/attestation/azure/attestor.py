"""The node's side of azure: a document of the metadata service for this key's nonce."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

import msgspec

from kubevouch.attestation.azure import resource_ids
from kubevouch.attestation.azure.evidence import NAME, VERSION, Proof, nonce, provider_id
from kubevouch.attestation.azure.managed_identity import AUDIENCE
from kubevouch.attestation.azure.metadata import METADATA, MetadataService
from kubevouch.attestation.http import Web
from kubevouch.attestation.interface import Asked, AttestationError, Binding, SettingsError
from kubevouch.attestation.showing import Showing
from kubevouch.pki.x509.signature import PrivateKey
from kubevouch.util.clock import Clock

_SETTINGS = {"metadata", "managedIdentity", "audience"}


async def make_attestor(settings: Mapping[str, str], clock: Clock) -> AzureAttestor:
    """Settings: ``metadata``, the URL of the metadata service, ``managedIdentity``, ``true`` to show the token of the
    machine's own identity, too, and ``audience``, for whom that is.

    Raises:
        SettingsError
    """
    strange = sorted(set(settings) - _SETTINGS)
    if strange:
        raise SettingsError(
            f"settings of {NAME}: got {strange[0]!r}", hint=f"known settings: {', '.join(sorted(_SETTINGS))}"
        )
    base = settings.get("metadata", METADATA)
    if urlsplit(base).scheme != "http":
        raise SettingsError(f"settings of {NAME}: got metadata {base!r}, expected a URL such as {METADATA}")
    shown = settings.get("managedIdentity", "false")
    if shown not in ("true", "false"):
        raise SettingsError(f"settings of {NAME}: got managedIdentity {shown!r}, expected true or false")
    audience = settings.get("audience", AUDIENCE) if shown == "true" else ""
    return AzureAttestor(MetadataService(Web(), base), audience)


class AzureAttestor(Showing):
    """An :class:`~kubevouch.attestation.interface.Attestor`.

    Args:
        audience: for whom a token of the machine's identity is shown; empty shows none.
    """

    name = NAME
    versions: Sequence[str] = (VERSION,)
    needs_challenge = True

    def __init__(self, metadata: MetadataService, audience: str) -> None:
        self._metadata = metadata
        self._audience = audience

    async def attest(self, version: str, key: PrivateKey, binding: Binding, asked: Asked | None) -> bytes:
        document = await self._metadata.document(nonce(binding))
        token = (await self._metadata.token(self._audience)).access_token if self._audience else ""
        return msgspec.json.encode(
            Proof(document=document, token=token, resource_id=await self._metadata.resource_id())
        )

    async def provider_id(self) -> str:
        found = await self._metadata.resource_id()
        machine = resource_ids.parse_machine(found)
        if machine is None:
            raise AttestationError(f"the metadata service calls this machine {found[:200]!r}, which is no machine")
        return provider_id(machine.canonical)
