"""The signing process from its clients' side: a Unix socket over which requests are named that it finds by itself.

A message is its length in four octets, big-endian, and JSON. One connection carries one question and one answer.
"""

from __future__ import annotations

import asyncio
import struct
from pathlib import Path
from typing import Literal

import msgspec

from kubevouch.ledger.entries import digest_of
from kubevouch.pki.errors import PolicyError
from kubevouch.signers.interface import (
    UNAVAILABLE_RETRY_SECONDS,
    Decision,
    SignerError,
    SignerUnavailable,
    SigningStopped,
    UndecidedError,
)

MAX_QUESTION, MAX_ANSWER = 4 << 10, 256 << 10
"""Octets. A question has two names in it, an answer a certificate and its chain."""
SECONDS = 15.0
"""For an answer: the signer behind the process may wait for a token."""

_LENGTH = struct.Struct(">I")


class FramingError(ValueError):
    """What came is no message."""


class Question(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Sign what the ledger holds as allowed under this uid, if it is exactly this; nothing of it is taken from here."""

    uid: str
    digest: str


Problem = Literal["undecided", "refused", "unavailable", "stopped", "failed"]


class Answer(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """``certificate``: PEM, the issued one first; empty with a ``problem``."""

    certificate: str = ""
    problem: Problem | Literal[""] = ""
    message: str = ""
    retry_after: float = UNAVAILABLE_RETRY_SECONDS


_ERRORS: dict[str, type[Exception]] = {
    "undecided": UndecidedError,
    "refused": PolicyError,
    "stopped": SigningStopped,
    "failed": SignerError,
}


def frame(message: msgspec.Struct) -> bytes:
    body = msgspec.json.encode(message)
    return _LENGTH.pack(len(body)) + body


async def read_frame(reader: asyncio.StreamReader, most: int) -> bytes:
    """The next message. Raises :class:`FramingError`: it ends too soon, or is longer than ``most``."""
    try:
        (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
        if not 0 < length <= most:
            raise FramingError(f"got a message of {length} octets, expected at most {most}")
        return await reader.readexactly(length)
    except asyncio.IncompleteReadError as err:
        raise FramingError("the connection ended within a message") from err


class SigningProcess:
    """The process on a socket; see ``signers.remote.Issuer``."""

    kind = "process"
    own_subject = False
    own_lifetimes = False

    def __init__(self, path: Path) -> None:
        self._path = path

    async def obtain(self, decision: Decision) -> bytes:
        """See ``signers.remote.Issuer``."""
        wanted = decision.wanted
        digest = digest_of(wanted.signer_name, wanted.request.contents, wanted.usages, wanted.expiration_seconds)
        answer = await self._ask(Question(wanted.uid, digest))
        if answer.problem == "unavailable":
            raise SignerUnavailable(answer.message, min(max(answer.retry_after, 0.05), 60.0))
        if answer.problem:
            raise _ERRORS[answer.problem](answer.message)
        return answer.certificate.encode()

    async def _ask(self, question: Question) -> Answer:
        try:
            reader, writer = await asyncio.open_unix_connection(str(self._path), limit=MAX_ANSWER + _LENGTH.size)
        except OSError as err:
            why = (err.strerror or str(err)).lower()
            raise SignerUnavailable(f"no signing process answers on {self._path}: {why}") from err
        try:
            writer.write(frame(question))
            await writer.drain()
            return msgspec.json.decode(await read_frame(reader, MAX_ANSWER), type=Answer)
        except (FramingError, msgspec.MsgspecError, UnicodeDecodeError) as err:
            raise SignerUnavailable(f"the signing process on {self._path} answered with no message: {err}") from err
        except OSError as err:
            raise SignerUnavailable(f"the signing process on {self._path} has gone: {err.strerror}") from err
        finally:
            writer.close()
