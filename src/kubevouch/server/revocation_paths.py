"""CRLs and OCSP over HTTP: for anybody, without a credential (RFC 5280 section 4.2.1.13, RFC 6960 appendix A)."""

from __future__ import annotations

import base64
import binascii
from urllib.parse import unquote

from kubevouch.machinery import errors
from kubevouch.pki.errors import PKIError
from kubevouch.pki.x509 import ocsp
from kubevouch.revocation.publication import PREFIX, Document, Publication
from kubevouch.server.request import NOT_FOUND, BytesResult, Request, Result
from kubevouch.signers.interface import SignerError
from kubevouch.util.clock import Clock
from kubevouch.util.worker import elsewhere

_OCSP = f"{PREFIX}/ocsp/"
_MAX_ID = 128


class RevocationPaths:
    """What a :class:`Publication` has."""

    def __init__(self, publication: Publication, clock: Clock) -> None:
        self._publication = publication
        self._clock = clock

    async def serve(self, request: Request) -> Result:
        path = request.target.path
        if path.startswith(_OCSP):
            return await self._ocsp(request, path.removeprefix(_OCSP))
        document = self._publication.documents.get(path)
        if document is None or request.method not in ("GET", "HEAD"):
            return NOT_FOUND
        return self._reply(document)

    async def _ocsp(self, request: Request, rest: str) -> Result:
        issuer, _, asked = rest.partition("/")
        if len(issuer) > _MAX_ID or not _is_hex(issuer):
            return NOT_FOUND
        if request.method == "POST":
            octets = await request.read_body(ocsp.MAX_REQUEST)
        else:
            try:
                octets = base64.b64decode(unquote(asked).encode(), validate=True)
            except (binascii.Error, ValueError):
                octets = b""
        found = self._publication.answer(bytes.fromhex(issuer), octets, self._clock.now())
        if isinstance(found, Document):
            return self._reply(found)
        try:
            # A key may be in a token, which takes its time.
            return self._reply(self._publication.keep(found, await elsewhere(found.sign)))
        except (PKIError, SignerError) as err:
            raise errors.service_unavailable(f"the answer cannot be signed now: {err}") from err

    def _reply(self, document: Document) -> Result:
        seconds = max(0, int((document.until - self._clock.now()).total_seconds()))
        headers = {"Cache-Control": f"public, max-age={seconds}, no-transform" if seconds else "no-store"}
        return BytesResult(document.body, document.content_type, 200, headers)


def _is_hex(text: str) -> bool:
    return bool(text) and len(text) % 2 == 0 and all(char in "0123456789abcdef" for char in text)
