"""The node's side of gcp: a token of the metadata service, made for this key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

import msgspec

from kubevouch.attestation.gcp.evidence import NAME, VERSION, TokenEvidence, audience, provider_id
from kubevouch.attestation.gcp.metadata import METADATA, MetadataService, NoSuchValueError
from kubevouch.attestation.http import Web
from kubevouch.attestation.interface import Asked, AttestationError, Binding, SettingsError
from kubevouch.attestation.showing import Showing
from kubevouch.pki.x509.signature import PrivateKey
from kubevouch.util.clock import Clock

_SETTINGS = {"metadata", "serviceAccount"}


async def make_attestor(settings: Mapping[str, str], clock: Clock) -> GCPAttestor:
    """Settings: ``metadata``, the URL of the metadata service, and ``serviceAccount``, ``default`` if it is not given.

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
    return GCPAttestor(MetadataService(Web(), base), settings.get("serviceAccount", "default"))


class GCPAttestor(Showing):
    """An :class:`~kubevouch.attestation.interface.Attestor`."""

    name = NAME
    versions: Sequence[str] = (VERSION,)
    needs_challenge = True

    def __init__(self, metadata: MetadataService, account: str) -> None:
        self._metadata = metadata
        self._account = account

    async def attest(self, version: str, key: PrivateKey, binding: Binding, asked: Asked | None) -> bytes:
        try:
            token = await self._metadata.get(
                f"/instance/service-accounts/{self._account}/identity", audience=audience(binding), format="full"
            )
        except NoSuchValueError as err:
            raise AttestationError(
                f"this instance has no service account {self._account!r}, without which Google identifies no instance"
            ) from err
        return msgspec.json.encode(TokenEvidence(token=token.strip()))

    async def provider_id(self) -> str:
        project = await self._metadata.get("/project/project-id")
        zone = await self._metadata.get("/instance/zone")
        return provider_id(project, zone.rpartition("/")[2], await self._metadata.get("/instance/name"))
