"""CRLs and OCSP over HTTP: for anybody, without a credential (RFC 5280 section 4.2.1.13, RFC 6960 appendix A)."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Awaitable, Callable
from urllib.parse import unquote

from kubevouch.machinery import errors
from kubevouch.pki.errors import PKIError
from kubevouch.pki.x509 import ocsp
from kubevouch.revocation.publication import PREFIX, Document, Publication
from kubevouch.server.request import NOT_FOUND, BytesResult, Request, Result
from kubevouch.signers.interface import SignerError
from kubevouch.signers.key_threads import KeyThreads, sign_beside
from kubevouch.util.clock import Clock

_OCSP = f"{PREFIX}/ocsp/"
_MAX_ID = 128
# At once, with keys in tokens, which others sign certificates with.
_TOKEN_SIGNATURES = 2


Answer = Callable[[str, str, bytes], Awaitable[Result]]
"""To a method, a path and, for an OCSP request by POST, its octets. Raises APIStatusError."""


class RevocationPaths:
    """Reads what is asked, and has it answered."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    async def serve(self, request: Request) -> Result:
        path, octets = request.target.path, b""
        if request.method == "POST" and _issuer(path):
            octets = await request.read_body(ocsp.MAX_REQUEST)
        return await self._answer(request.method, path, octets)


class PublishedHere:
    """Answers with what a :class:`Publication` of this process has."""

    def __init__(self, publication: Publication, clock: Clock) -> None:
        self._publication = publication
        self._clock = clock
        self._threads = KeyThreads(_TOKEN_SIGNATURES, clock)

    async def answer(self, method: str, path: str, octets: bytes) -> Result:
        """An :data:`Answer`."""
        if path.startswith(_OCSP):
            return await self._ocsp(method, path, octets)
        document = self._publication.documents.get(path)
        if document is None or method not in ("GET", "HEAD"):
            return NOT_FOUND
        return self._reply(document)

    async def _ocsp(self, method: str, path: str, octets: bytes) -> Result:
        issuer = _issuer(path)
        if not issuer:
            return NOT_FOUND
        if method != "POST":
            try:
                octets = base64.b64decode(unquote(path.removeprefix(_OCSP).partition("/")[2]).encode(), validate=True)
            except (binascii.Error, ValueError):
                octets = b""
        found = self._publication.answer(bytes.fromhex(issuer), octets, self._clock.now())
        if isinstance(found, Document):
            return self._reply(found)
        try:
            signed = await sign_beside(found.authority, self._threads, found.sign)
            return self._reply(self._publication.keep(found, signed))
        except (PKIError, SignerError) as err:
            raise errors.service_unavailable(f"the answer cannot be signed now: {err}") from err

    def _reply(self, document: Document) -> Result:
        seconds = max(0, int((document.until - self._clock.now()).total_seconds()))
        headers = {"Cache-Control": f"public, max-age={seconds}, no-transform" if seconds else "no-store"}
        return BytesResult(document.body, document.content_type, 200, headers)


def _issuer(path: str) -> str:
    """Of an OCSP request, in hexadecimal; empty if the path has none."""
    issuer = path.removeprefix(_OCSP).partition("/")[0] if path.startswith(_OCSP) else ""
    return issuer if len(issuer) <= _MAX_ID and _is_hex(issuer) else ""


def _is_hex(text: str) -> bool:
    return bool(text) and len(text) % 2 == 0 and all(char in "0123456789abcdef" for char in text)
