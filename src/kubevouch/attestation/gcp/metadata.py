"""The metadata service of an instance.

Source: Google Cloud, "About VM metadata". Its answers bear ``Metadata-Flavor: Google``; whatever answers without it is
another server that has the address, or a proxy.

NoSuchValueError    the service has no value of that name
"""

from __future__ import annotations

from urllib.parse import urlencode

from kubevouch.attestation.http import Web
from kubevouch.attestation.interface import AttestationError, UnavailableError

METADATA = "http://169.254.169.254"
_FLAVOR = "Google"


class NoSuchValueError(AttestationError):
    """The service has no value of that name."""


class MetadataService:
    """Asks for values by their paths."""

    def __init__(self, web: Web, base: str = METADATA) -> None:
        self._web = web
        self._base = f"{base.rstrip('/')}/computeMetadata/v1"

    async def get(self, path: str, **query: str) -> str:
        """A value.

        Raises:
            NoSuchValueError
            UnavailableError: among others, it is no metadata service.
        """
        url = f"{self._base}{path}" + (f"?{urlencode(query)}" if query else "")
        answer = await self._web.get(url, {"Metadata-Flavor": _FLAVOR})
        if answer.headers.get("metadata-flavor") != _FLAVOR:
            raise UnavailableError(f"{self._base} is no metadata service: its answer does not say so")
        if answer.status == 404:
            raise NoSuchValueError(f"the metadata service has no {path}")
        if answer.status != 200:
            raise UnavailableError(f"the metadata service answered {answer.status} for {path}: {answer.text[:200]}")
        return answer.text
