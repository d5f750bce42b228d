"""One-time join tokens: a secret by which one machine, named before, comes in once.

The cluster holds the public half only: who reads the Secret cannot come in with it, and a request shows a signature,
never the token. So nothing that the API server stores lets anybody guess a token without asking it.

    JoinTokenError              anything that is wrong with a token or its Secret
    └── JoinTokenRefusedError   a token that does not count; ``step`` names why
"""

from __future__ import annotations

import datetime as dt
import hashlib
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from kubevouch import wellknown
from kubevouch.api.core_v1.secrets import Secret
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.machinery.text import names
from kubevouch.machinery.text.times import Time

SECRET_TYPE = "kubevouch.io/join-token"
SECRET_NAME_PREFIX = "join-token-"
RETRY = dt.timedelta(hours=1)
"""For so long the machine that has used a token may come again with the same key: its certificate may not be there."""
LONGEST = dt.timedelta(days=30)
"""That a token may be unused: it is meant for a machine that is about to be started."""

_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"
_ID_LENGTH, _SECRET_LENGTH = 8, 32
_TOKEN = re.compile(r"([a-z0-9]{8})\.([a-z0-9]{32})", re.ASCII)
_TOKEN_ID = re.compile(r"[a-z0-9]{8}", re.ASCII)
_PURPOSE = b"kubevouch.io/join-token/v1\0"
_DAY = dt.timedelta(days=1)


class JoinTokenError(ValueError):
    """Anything that is wrong with a token or its Secret."""


class JoinTokenRefusedError(JoinTokenError):
    """A token that does not count; ``step`` names why in one word."""

    def __init__(self, step: str, message: str) -> None:
        super().__init__(message)
        self.step = step


@dataclass(frozen=True, slots=True)
class JoinToken:
    """``<token-id>.<secret>``. The secret half does not show in ``repr``; it has 165 bits."""

    token_id: str
    secret: str = field(repr=False)

    @property
    def text(self) -> str:
        """The whole token, secret included."""
        return f"{self.token_id}.{self.secret}"

    def key(self) -> Ed25519PrivateKey:
        """What the token signs with. The secret is random, so that one hash is enough to make a key of it."""
        return Ed25519PrivateKey.from_private_bytes(hashlib.sha256(_PURPOSE + self.text.encode()).digest())

    def sign(self, cluster_id: str, digest: bytes) -> bytes:
        """Show that whoever asks with this key (``Binding.digest``) in this cluster has the token."""
        return self.key().sign(signed_message(cluster_id, digest))


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """What the cluster knows of a token.

    Args:
        machine: the name of the Node that it is for.
        public_key: of the key that the token signs with, 32 octets.
        used_by: hexadecimal SHA-256 of the public key that has used it; empty while it is unused.
    """

    token_id: str
    machine: str
    public_key: bytes
    expires: dt.datetime
    used_by: str = ""
    used_at: dt.datetime | None = None


def generate(choose: Callable[[str], str] = secrets.choice) -> JoinToken:
    """A new random token."""
    letters = [choose(_ALPHABET) for _ in range(_ID_LENGTH + _SECRET_LENGTH)]
    return JoinToken("".join(letters[:_ID_LENGTH]), "".join(letters[_ID_LENGTH:]))


def parse(text: str) -> JoinToken:
    """Raises :class:`JoinTokenError`, which does not repeat the text."""
    match = _TOKEN.fullmatch(text)
    if match is None:
        raise JoinTokenError(
            f"a join token has the form [a-z0-9]{{8}}.[a-z0-9]{{32}}, the given text of {len(text)} characters does not"
        )
    return JoinToken(match[1], match[2])


def secret_name(token_id: str) -> str:
    """Raises :class:`JoinTokenError` for what is no id: it becomes part of a name."""
    if _TOKEN_ID.fullmatch(token_id) is None:
        raise JoinTokenError(f"the id of a join token has the form [a-z0-9]{{8}}, got {len(token_id)} characters")
    return SECRET_NAME_PREFIX + token_id


def plan(token: JoinToken, machine: str, ttl: dt.timedelta, now: dt.datetime) -> Record:
    """A token for ``machine``.

    Raises:
        JoinTokenError: no name of a Node, or a life that is none or too long.
    """
    faults = names.subdomain(machine)
    if faults:
        raise JoinTokenError(f"{machine[:64]!r} is no name of a machine: {faults[0]}")
    if not dt.timedelta(seconds=1) <= ttl <= LONGEST:
        raise JoinTokenError(f"got a ttl of {ttl.total_seconds():g} seconds, expected 1 second to {LONGEST.days} days")
    public = token.key().public_key().public_bytes_raw()
    return Record(token_id=token.token_id, machine=machine, public_key=public, expires=now + ttl)


def to_secret(record: Record) -> Secret:
    """What the cluster stores."""
    used = {} if record.used_at is None else {"used-by": record.used_by, "used-at": str(Time.of(record.used_at))}
    texts = {
        "token-id": record.token_id, "machine": record.machine, "expiration": str(Time.of(record.expires)), **used,
    }  # fmt: skip
    return Secret(
        metadata=ObjectMeta(name=secret_name(record.token_id), namespace=wellknown.JOIN_TOKENS_NAMESPACE),
        data={name: text.encode() for name, text in texts.items()} | {"public-key": record.public_key},
        type=SECRET_TYPE,
    )


def from_secret(secret: Secret) -> Record:
    """Raises :class:`JoinTokenError`: it is none, or not whole."""
    name = secret.metadata.name
    if secret.type != SECRET_TYPE:
        raise JoinTokenError(f"the secret {name} is of type {secret.type}, expected {SECRET_TYPE}")
    try:
        texts = {key: value.decode() for key, value in secret.data.items() if key != "public-key"}
        used_at = texts.get("used-at")
        record = Record(
            token_id=texts["token-id"],
            machine=texts["machine"],
            public_key=secret.data["public-key"],
            expires=Time.parse(texts["expiration"]).datetime(),
            used_by=texts.get("used-by", ""),
            used_at=None if used_at is None else Time.parse(used_at).datetime(),
        )
    except (KeyError, ValueError) as err:
        raise JoinTokenError(f"the secret {name} holds no join token: {err}") from err
    if name != secret_name(record.token_id) or len(record.public_key) != 32:
        raise JoinTokenError(f"the secret {name} holds no join token of that name")
    return record


def signed_message(cluster_id: str, digest: bytes) -> bytes:
    """What the token signs: it is for one cluster, one key and, where there is one, one challenge."""
    return _PURPOSE + hashlib.sha256(cluster_id.encode()).digest() + digest


def verify_signature(record: Record, signature: bytes, message: bytes) -> None:
    """Raises :class:`JoinTokenRefusedError`: ``token``."""
    try:
        Ed25519PublicKey.from_public_bytes(record.public_key).verify(signature, message)
    except (InvalidSignature, ValueError) as err:
        raise unknown() from err


def unknown() -> JoinTokenRefusedError:
    """For an id that nobody has made and for a wrong secret alike: nobody learns which ids there are."""
    return JoinTokenRefusedError("token", "no such join token, or another secret")


def use(record: Record, key: str, now: dt.datetime) -> Record:
    """The record as it has to be stored before the token counts; the same if nothing has changed.

    Using a token burns it, also when that is too late: :func:`verify_in_time` looks at what this returns, once it is
    stored.

    Args:
        key: hexadecimal SHA-256 of the public key of the request.

    Raises:
        JoinTokenRefusedError: ``used``, by another key, or too long ago.
    """
    if record.used_at is None:
        return msgspec.structs.replace(record, used_by=key, used_at=now)
    if record.used_by != key:
        raise JoinTokenRefusedError("used", f"the join token {record.token_id} has been used by another key")
    if now > record.used_at + RETRY:
        raise JoinTokenRefusedError("used", f"the join token {record.token_id} was used at {Time.of(record.used_at)}")
    return record


def verify_in_time(record: Record) -> None:
    """That a token was used before it ended. Raises :class:`JoinTokenRefusedError`: ``expired``."""
    if record.used_at is None or record.used_at > record.expires:
        raise JoinTokenRefusedError("expired", f"the join token {record.token_id} ended at {Time.of(record.expires)}")


def is_over(record: Record, now: dt.datetime) -> bool:
    """Whether nobody will ask for it any more: a day after it ended or was used."""
    last = record.expires if record.used_at is None else record.used_at + RETRY
    return now > last + _DAY
