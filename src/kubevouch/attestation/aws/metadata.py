"""The metadata service of the instance that this runs on, version 2 only: with a token that has to be put first.

Source: Amazon EC2 User Guide, "Use the Instance Metadata Service". A request that somebody else can be made to send
for us (a GET, through a proxy) gets nothing of version 2.
"""

from __future__ import annotations

import datetime as dt
import re

import msgspec

from kubevouch.attestation.aws.sigv4 import Credentials
from kubevouch.attestation.http import Answer, Web
from kubevouch.attestation.interface import AttestationError, UnavailableError
from kubevouch.util.clock import Clock

ENDPOINT = "http://169.254.169.254"
IDENTITY = "/latest/dynamic/instance-identity"
_CREDENTIALS = "/latest/meta-data/iam/security-credentials/"
_TOKEN_SECONDS = 300
_ROLE = re.compile(r"[\w+=,.@-]{1,128}", re.ASCII)
EARLY = dt.timedelta(minutes=5)
"""Before credentials end, new ones are there."""


class MetadataService:
    """Reads one metadata service."""

    def __init__(self, web: Web, clock: Clock, endpoint: str = ENDPOINT) -> None:
        self._web = web
        self._clock = clock
        self._endpoint = endpoint.rstrip("/")
        self._token = ""
        self._token_ends = 0.0
        self._credentials: Credentials | None = None

    async def text(self, path: str) -> str:
        """What is at ``path``.

        Raises:
            UnavailableError: the service does not answer.
            AttestationError: it answers that there is no such thing, or that it is turned off.
        """
        answer = await self._get(path)
        if answer.status == 401:  # the machine was moved or the service restarted: the token is none of its own
            self._token_ends = 0.0
            answer = await self._get(path)
        if answer.status != 200:
            raise AttestationError(f"the metadata service answered {answer.status} for {path}")
        return answer.text

    async def credentials(self) -> Credentials:
        """Those of the instance's role. Raises as :meth:`text`, and where the instance has no role."""
        known = self._credentials
        if known is None or known.expiration is None or known.expiration - self._clock.now() < EARLY:
            known = self._credentials = await self._new_credentials()
        return known

    async def _new_credentials(self) -> Credentials:
        role = (await self.text(_CREDENTIALS)).partition("\n")[0].strip()
        if not _ROLE.fullmatch(role):
            raise AttestationError("the instance has no role: attach an instance profile to it")
        text = await self.text(_CREDENTIALS + role)
        try:
            return msgspec.json.decode(text, type=Credentials)
        except (msgspec.ValidationError, msgspec.DecodeError) as err:
            raise UnavailableError(f"the metadata service has no credentials for {role} now") from err

    async def _get(self, path: str) -> Answer:
        if self._clock.monotonic() >= self._token_ends:
            await self._new_token()
        return await self._web.get(self._endpoint + path, {"X-aws-ec2-metadata-token": self._token})

    async def _new_token(self) -> None:
        seconds = {"X-aws-ec2-metadata-token-ttl-seconds": str(_TOKEN_SECONDS)}
        answer = await self._web.send("PUT", f"{self._endpoint}/latest/api/token", seconds)
        if answer.status != 200 or not re.fullmatch(r"[!-~]{1,1024}", answer.text):
            raise AttestationError(
                f"the metadata service answered {answer.status} to the request for a token, expected 200: it may be "
                "turned off, or another machine's"
            )
        self._token = answer.text
        self._token_ends = self._clock.monotonic() + _TOKEN_SECONDS / 2
