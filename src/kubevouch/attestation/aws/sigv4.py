"""AWS Signature Version 4: signing a request with credentials that last for hours.

Source: AWS IAM User Guide, "Create a signed AWS API request". Only what is used: everything is in the headers, the path
is ``/``.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import hmac
from collections.abc import Mapping
from urllib.parse import urlsplit

import msgspec

ALGORITHM = "AWS4-HMAC-SHA256"


class Credentials(msgspec.Struct, frozen=True, rename="pascal"):
    """As the metadata service and ``credential_process`` have them; ``expiration`` is when they end."""

    access_key_id: str
    secret_access_key: str
    token: str = ""
    expiration: dt.datetime | None = None

    def __repr__(self) -> str:
        return f"Credentials({self.access_key_id})"


def timestamp(now: dt.datetime) -> str:
    """As ``X-Amz-Date`` has it."""
    return now.astimezone(dt.UTC).strftime("%Y%m%dT%H%M%SZ")


def signed_headers(
    method: str,
    url: str,
    headers: Mapping[str, str],
    body: bytes,
    credentials: Credentials,
    *,
    region: str,
    service: str,
    now: dt.datetime,
) -> dict[str, str]:
    """All headers to send, ``Authorization`` among them; each of the others is signed.

    Args:
        url: without a query.
        headers: beside those that every request has; their names in lower case.
    """
    moment = timestamp(now)
    sent = {**headers, "host": urlsplit(url).netloc, "x-amz-date": moment}
    if credentials.token:
        sent["x-amz-security-token"] = credentials.token
    names = ";".join(sorted(sent))
    scope = f"{moment[:8]}/{region}/{service}/aws4_request"
    canonical = canonical_request(method, "", sent, names, hashlib.sha256(body).hexdigest())
    signature = sign(credentials.secret_access_key, scope, moment, canonical)
    sent["authorization"] = (
        f"{ALGORITHM} Credential={credentials.access_key_id}/{scope}, SignedHeaders={names}, Signature={signature}"
    )
    return sent


def canonical_request(method: str, query: str, headers: Mapping[str, str], names: str, body_digest: str) -> str:
    """What is signed of a request for the path ``/``; ``query`` is canonical already, ``names`` parted by ``;``."""
    lines = "".join(f"{name}:{' '.join(headers[name].split())}\n" for name in names.split(";"))
    return f"{method}\n/\n{query}\n{lines}\n{names}\n{body_digest}"


def sign(secret_key: str, scope: str, moment: str, canonical: str) -> str:
    """The signature, hexadecimal."""
    key = f"AWS4{secret_key}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    message = f"{ALGORITHM}\n{moment}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    return hmac.digest(key, message.encode(), "sha256").hex()
