"""Keys that a cloud signs tokens with, and tokens of them; a few for all tests, for an RSA key takes its time."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from joserfc.jwk import RSAKey


@lru_cache(maxsize=4)
def private_key(number: int = 0) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, 2048)


def jwk(kid: str, number: int = 0, **more: Any) -> dict[str, Any]:
    """The public half, as it is published."""
    key = RSAKey.import_key(private_key(number)).as_dict(private=False)
    return {"kty": "RSA", "n": key["n"], "e": key["e"], "kid": kid, "alg": "RS256", "use": "sig", **more}


def key_set(*keys: Any) -> bytes:
    return json.dumps({"keys": keys}).encode()


def segment(octets: bytes) -> str:
    return base64.urlsafe_b64encode(octets).rstrip(b"=").decode()


def signed(payload: bytes, number: int = 0, header: Mapping[str, Any] | bytes | None = None) -> str:
    """A token; ``header`` in octets is taken as it is."""
    text = header if isinstance(header, bytes) else json.dumps(header or {"alg": "RS256", "kid": "k"}).encode()
    body = f"{segment(text)}.{segment(payload)}"
    return f"{body}.{segment(private_key(number).sign(body.encode(), padding.PKCS1v15(), hashes.SHA256()))}"
