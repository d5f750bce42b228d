"""An OpenID Connect issuer on a socket, with keys that a test replaces."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web
from joserfc import jws
from joserfc.jwk import ECKey, RSAKey

from scripted_server import ScriptedServer
from throwaway_ca import ThrowawayCA, server_context


class IdentityProvider:
    """Publishes its keys over TLS and signs tokens with the newest."""

    def __init__(self, folder: Path) -> None:
        self.ca = ThrowawayCA("identity-provider")
        self.keys: list[ECKey | RSAKey] = [ECKey.generate_key("P-256", {"kid": "first"})]
        # What is told at /groups, and to whom.
        self.distributed: bytes = b""
        self.server = ScriptedServer(server_context(self.ca.issue(), folder), [self._answer])

    async def __aenter__(self) -> IdentityProvider:
        await self.server.__aenter__()
        return self

    async def __aexit__(self, *reason: Any) -> None:
        await self.server.__aexit__(*reason)

    @property
    def url(self) -> str:
        return self.server.url

    @property
    def paths(self) -> list[str]:
        """What it was asked for, in order."""
        return [seen.path for seen in self.server.seen]

    def rotate(self, key_id: str) -> None:
        """Sign with another key; the former one is not published any more."""
        self.keys = [ECKey.generate_key("P-256", {"kid": key_id})]

    def token(self, now: dt.datetime, *, algorithm: str = "ES256", key: Any = None, **claims: Any) -> str:
        issued = int(now.timestamp())
        body = {"iss": self.url, "aud": "kubevouch", "sub": "jane", "iat": issued, "exp": issued + 600, **claims}
        used = key or self.keys[0]
        header = {"alg": algorithm, "kid": used.kid} if used.kid else {"alg": algorithm}
        return jws.serialize_compact(header, msgspec.json.encode(body), used, algorithms=[algorithm])

    async def _answer(self, request: web.Request) -> web.Response:
        document: dict[str, Any] = {"issuer": self.url, "jwks_uri": f"{self.url}/keys"}
        if request.path == "/keys":
            document = {"keys": [key.as_dict(private=False) for key in self.keys]}
        if request.path == "/groups":
            if request.headers.get("Authorization") != "Bearer for-groups":
                return web.Response(status=401)
            return web.Response(body=self.distributed, content_type="application/jwt")
        return web.Response(body=msgspec.json.encode(document), content_type="application/json")
