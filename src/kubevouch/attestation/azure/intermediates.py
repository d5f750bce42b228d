"""Certificates between the metadata service's and the roots: documents come without some, and say where they are.

The place stands in a certificate that anybody may have made, so that it is asked for only where settings permit it:
a fetch to wherever a stranger says is a fetch from inside the control plane's network (SSRF).
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Collection, Sequence

from kubevouch.attestation.api_answers import APIAnswers
from kubevouch.attestation.azure.attested_document import Opened, verify_signer
from kubevouch.attestation.http import Web
from kubevouch.attestation.interface import RefusedEvidenceError, SettingsError
from kubevouch.pki.client_certificate import TrustAnchors, is_issued_by, is_self_signed
from kubevouch.pki.errors import ParseError
from kubevouch.pki.x509 import information_access, x509_certificate
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.util.clock import Clock

FOLDERS = (
    "http://www.microsoft.com/pkiops/certs/",
    "https://www.microsoft.com/pkiops/certs/",
    "http://caissuers.microsoft.com/pkiops/certs/",
    "http://www.microsoft.com/pki/mscorp/",
    "http://cacerts.digicert.com/",
)
"""Where the CAs of Azure's metadata service have their certificates. By http, because a chain is what proves them."""
MAX_HOPS = 4
"""Certificates that are fetched for one document."""
MAX_BYTES = 16 << 10
"""Of one of them."""
KEPT_SECONDS = 24 * 3600.0
CALLS_PER_MINUTE = 30

_FOLDER = re.compile(r"https?://[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?/(?:[A-Za-z0-9._-]+/)*", re.ASCII)
_FILE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_()-]|%20|\.(?!\.)){0,200}", re.ASCII)


def verify_folder(folder: str) -> str:
    """A place that settings permit. Raises :class:`SettingsError`."""
    if not _FOLDER.fullmatch(folder) or "/../" in folder or "/./" in folder:
        raise SettingsError(f"got the place of intermediates {folder!r}, expected one such as {FOLDERS[0]}")
    return folder


def verify_place(url: str, folders: Collection[str]) -> str:
    """A URL that may be fetched: a file right in one of ``folders``, and written plainly.

    Raises:
        RefusedEvidenceError: ``chain``.
    """
    for folder in folders:
        if url.startswith(folder) and _FILE.fullmatch(url[len(folder) :]):
            return url
    raise RefusedEvidenceError("chain", f"an intermediate is at {url[:200]!r}, which is not where any may be fetched")


class Intermediates:
    """Finds the chain of a document's signer.

    Args:
        folders: where certificates may be fetched; none means that none are.
    """

    def __init__(self, web: Web, clock: Clock, roots: TrustAnchors, folders: Sequence[str] = FOLDERS) -> None:
        self._web = web
        self._roots = roots
        self._folders = tuple(map(verify_folder, folders))
        self._fetched: APIAnswers[str, bytes] = APIAnswers(
            clock, kept_seconds=KEPT_SECONDS, calls_per_minute=CALLS_PER_MINUTE
        )

    async def verify_signer(self, opened: Opened, domains: Collection[str], now: dt.datetime) -> None:
        """As :func:`~kubevouch.attestation.azure.attested_document.verify_signer`, with what has to be fetched for it.

        Raises:
            RefusedEvidenceError: ``chain``, ``signer``.
            UnavailableError: an intermediate cannot be fetched now.
        """
        found: list[Certificate] = []
        while True:
            highest = self._unissued(opened, found)
            if highest is None or not self._folders or len(found) >= MAX_HOPS:
                break
            issuer = await self._issuer(highest)
            if issuer is None:
                break
            found.append(issuer)
        verify_signer(opened, self._roots, now=now, intermediates=found, domains=domains)

    def _unissued(self, opened: Opened, found: Sequence[Certificate]) -> Certificate | None:
        """Where the way up from the signer ends, unless it ends at a root or in itself."""
        pool = [*opened.certificates, *found]
        highest = opened.signer
        for _ in range(len(pool) + 1):
            if any(is_issued_by(highest, root) for root in self._roots.named(highest.issuer_name)):
                return None
            if is_self_signed(highest):
                return None
            above = next((each for each in pool if each is not highest and is_issued_by(highest, each)), None)
            if above is None:
                return highest
            highest = above
        return None

    async def _issuer(self, certificate: Certificate) -> Certificate | None:
        """The CA's certificate, from the first place that the certificate names; None if it names none.

        Raises:
            RefusedEvidenceError: ``chain``: it is in no place that counts, or there is something else.
        """
        places = information_access.ca_issuers(certificate.extensions)
        if not places:
            return None
        url = verify_place(places[0], self._folders)

        async def fetch() -> bytes | None:
            answer = await self._web.send("GET", url, limit=MAX_BYTES)
            return answer.body if answer.status == 200 else None

        body = await self._fetched.get(url, fetch)
        if body is None:
            raise RefusedEvidenceError("chain", f"there is no certificate at {url}")
        try:
            issuer = x509_certificate.parse_pem(body) if body.startswith(b"-----") else x509_certificate.parse_der(body)
        except ParseError as err:
            raise RefusedEvidenceError("chain", f"there is no certificate at {url}: {err}") from err
        if not is_issued_by(certificate, issuer):
            raise RefusedEvidenceError("chain", f"the certificate at {url} is not the issuer's")
        return issuer
