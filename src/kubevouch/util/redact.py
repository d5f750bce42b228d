"""Takes secrets out of what is about to be written where people read it."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

HIDDEN = "[redacted]"
_SECRET_KEYS = re.compile(r"(?i)(^|[_-])(token|secret|password|authorization|private[_-]?key|bearer)$")
_BOOTSTRAP_TOKEN = re.compile(r"\b([a-z0-9]{6})\.[a-z0-9]{16}\b")
_JWT = re.compile(r"\beyJ[\w-]{8,}\.[\w-]+\.[\w-]+")
# RFC 6750, section 2.3: whatever form the token has. RFC 7512, section 2.4: the PIN of a token.
_QUERY = re.compile(r"(?i)([?&](?:access_)?token=|pin-value=)[^&;\s\"]+")
_PEM_KEY = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL)


def redact_text(text: str) -> str:
    """``text`` with bootstrap token secrets, JSON web tokens and private keys hidden. A token's id is no secret."""
    # Each pattern is looked for only where a part of it stands: a line for each certificate has a dozen texts.
    if "." in text:
        text = _BOOTSTRAP_TOKEN.sub(rf"\1.{HIDDEN}", text)
        text = _JWT.sub(HIDDEN, text)
    if "=" in text:
        text = _QUERY.sub(rf"\1{HIDDEN}", text)
    return _PEM_KEY.sub(HIDDEN, text) if "-----BEGIN" in text else text


@lru_cache(maxsize=256)
def _names_secret(key: str) -> bool:
    return _SECRET_KEYS.search(key) is not None


def redact(key: str, value: Any) -> Any:
    """The value of a log field: hidden if ``key`` names a secret, else with secrets inside it hidden."""
    if _names_secret(key) and value:
        return HIDDEN
    return redact_text(value) if isinstance(value, str) else value
