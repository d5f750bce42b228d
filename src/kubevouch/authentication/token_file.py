"""Tokens from a file (--token-auth-file): ``token,user,uid,"group1,group2"`` a line.

TokenFileError            the file cannot be used

Source: k8s.io/apiserver/pkg/authentication/token/tokenfile (Kubernetes 1.36).
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Mapping, Sequence

from kubevouch.authentication.interface import Authentication, UserInfo
from kubevouch.machinery.text.gocsv import CSVError, records
from kubevouch.util.logger import get_logger

METHOD = "token-file"

log = get_logger("authentication.token-file")


class TokenFileError(ValueError):
    """The file cannot be used. The text never quotes the file."""


def parse_token_file(name: str, text: str) -> dict[str, UserInfo]:
    """Users by token. The last line counts for a token that is there twice; a line without a token is left out.

    Args:
        name: of the file, for messages.

    Raises:
        TokenFileError
    """
    tokens: dict[str, UserInfo] = {}
    try:
        for number, record in enumerate(records(text), 1):
            if len(record) < 3:
                raise TokenFileError(
                    f"token file '{name}' must have at least 3 columns (token, user name, user uid), "
                    f"found {len(record)}"
                )
            if not record[0]:
                log.warning("empty token has been found in token file", path=name, record=number)
                continue
            if record[0] in tokens:
                log.warning("duplicate token has been found in token file", path=name, record=number)
            groups = tuple(record[3].split(",")) if len(record) > 3 else ()
            tokens[record[0]] = UserInfo(record[1], record[2], groups)
    except CSVError as err:
        raise TokenFileError(f"token file '{name}': {err}") from err
    return tokens


class TokenFileAuthenticator:
    """Knows the tokens of a file.

    Args:
        api_audiences: what this server calls itself; a review that names other audiences is told nothing.
    """

    def __init__(self, tokens: Mapping[str, UserInfo], api_audiences: Sequence[str]) -> None:
        # Keyed digests: neither the time of a look-up nor the memory of the process tells a token.
        self._secret = os.urandom(32)
        self._users = {self._digest(token): user for token, user in tokens.items()}
        self._api_audiences = tuple(api_audiences)

    async def authenticate_token(self, bearer_token: str, audiences: Sequence[str] = ()) -> Authentication | None:
        accepted = tuple(one for one in audiences if one in self._api_audiences)
        if audiences and not accepted:
            return None
        user = self._users.get(self._digest(bearer_token))
        return None if user is None else Authentication(user, METHOD, audiences=accepted)

    def _digest(self, token: str) -> bytes:
        return hmac.digest(self._secret, token.encode("utf-8", "surrogateescape"), hashlib.sha256)
