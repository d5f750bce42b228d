"""The metadata service of a machine (Azure Instance Metadata Service)."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

import msgspec

from kubevouch.attestation.azure.evidence import Document
from kubevouch.attestation.http import Web
from kubevouch.attestation.interface import AttestationError, UnavailableError

METADATA = "http://169.254.169.254"
_INSTANCE = "2021-02-01"
_IDENTITY = "2018-02-01"


class Granted(msgspec.Struct):
    """An access token; ``expires_in`` seconds, which the service writes as text."""

    access_token: str
    expires_in: str | int = "0"

    @property
    def seconds(self) -> float:
        text = str(self.expires_in)
        return float(text[:9]) if text.isascii() and text.isdecimal() else 0.0


class _Compute(msgspec.Struct, rename="camel"):
    resource_id: str = ""


class MetadataService:
    """Asks for values by their paths."""

    def __init__(self, web: Web, base: str = METADATA) -> None:
        self._web = web
        self._base = f"{base.rstrip('/')}/metadata"

    async def document(self, nonce: str) -> Document:
        """The attested document for ``nonce``. Raises :class:`AttestationError`."""
        found: Document = await self._get("/attested/document", Document, nonce=nonce, **{"api-version": _INSTANCE})
        return found

    async def resource_id(self) -> str:
        """The machine's name in the API. Raises :class:`AttestationError`."""
        found: _Compute = await self._get("/instance/compute", _Compute, **{"api-version": _INSTANCE})
        return found.resource_id

    async def token(self, resource: str) -> Granted:
        """A token of the machine's identity for ``resource``. Raises :class:`AttestationError`."""
        query = {"api-version": _IDENTITY, "resource": resource}
        found: Granted = await self._get("/identity/oauth2/token", Granted, **query)
        return found

    async def _get(self, path: str, into: Any, **query: str) -> Any:
        answer = await self._web.get(f"{self._base}{path}?{urlencode(query)}", {"Metadata": "true"})
        # 410 means that the service is being updated, for at most 70 seconds.
        if answer.status == 410:
            raise UnavailableError("the metadata service is being updated")
        if answer.status != 200:
            raise AttestationError(f"the metadata service answered {answer.status} for {path}: {_said(answer.body)}")
        try:
            return msgspec.json.decode(answer.body, type=into)
        except (msgspec.MsgspecError, RecursionError) as err:
            raise UnavailableError(f"{self._base} is no metadata service: {str(err)[:200]}") from err


def _said(body: bytes) -> str:
    try:
        said = json.loads(body)
        return str(said.get("error_description") or said.get("error") or "")[:200]
    except (ValueError, AttributeError, RecursionError):
        return body[:200].decode("utf-8", "replace")
