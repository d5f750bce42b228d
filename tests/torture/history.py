"""What clients asked and were told while faults were injected: records in the order in which they happened.

One process records everything, in one event loop: a request is recorded before its first byte is sent, an answer after
its last byte was read. So if one record stands before another, it happened before it, whoever made them.

A history is kept as lines of JSON, one record each, the first of them saying how it was made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

import msgspec

BROKEN = 0
"""The code of an answer that did not come: whether what was asked for has happened, nobody knows."""

Verb = Literal["create", "update", "patch", "delete", "get", "list", "watch", "call"]


class CertificateRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """What there was to see of a CertificateSigningRequest. ``certificate`` is the SHA-256 of what it holds, in hex."""

    requester: str = ""
    approved: bool = False
    denied: bool = False
    failed: bool = False
    certificate: str = ""


class Seen(msgspec.Struct, frozen=True, omit_defaults=True):
    """An object at one revision, as a client saw it.

    ``key`` is RESOURCE/NAMESPACE/NAME. ``value`` is what a client of ours has written into it, each time another text.
    """

    key: str
    revision: int
    uid: str = ""
    value: str = ""
    request: CertificateRequest | None = None


class Asked(msgspec.Struct, frozen=True, omit_defaults=True, tag="asked", tag_field="is"):
    """A request, about to be sent.

    Args:
        at: seconds since the history's begin.
        op: its number; its answer has the same.
        key: of the object; of a list or watch what all keys begin with.
        value: what is written.
        expected: the revision that the object has to be at; None is any. A watch starts after it.
        consistent: a read that promises everything acknowledged before it.
        identity: the certificate shown, where it is one that may be revoked: SHA-256, in hex.
    """

    at: float
    op: int
    client: str
    verb: Verb
    key: str
    value: str = ""
    expected: int | None = None
    consistent: bool = False
    identity: str = ""


class Answered(msgspec.Struct, frozen=True, omit_defaults=True, tag="answered", tag_field="is"):
    """The answer, or that none will come (``BROKEN``). ``revision`` is the object's or the list's, 0 if it has none.

    A watch is answered when it ends: with 410 if the server said so, with 200 if it just ended.
    """

    at: float
    op: int
    code: int
    revision: int = 0
    items: list[Seen] = []
    why: str = ""

    @property
    def is_refusal(self) -> bool:
        """The server has said that it did not do it."""
        return 400 <= self.code < 500


class Told(msgspec.Struct, frozen=True, omit_defaults=True, tag="told", tag_field="is"):
    """An event of the watch ``op``: ADDED, MODIFIED, DELETED or BOOKMARK."""

    at: float
    op: int
    type: str
    revision: int
    seen: Seen | None = None
    initial_end: bool = False


class Fault(msgspec.Struct, frozen=True, tag="fault", tag_field="is"):
    """What was done to the system."""

    at: float
    what: str


class Fence(msgspec.Struct, frozen=True, tag="fence", tag_field="is"):
    """All faults are over, and everybody had time enough to learn of ``revision``: what does not know it never will."""

    at: float
    revision: int


class Bound(msgspec.Struct, frozen=True, tag="bound", tag_field="is"):
    """``user``, a bootstrap token's, may get so many certificates."""

    at: float
    user: str
    uses: int


class Revoked(msgspec.Struct, frozen=True, tag="revoked", tag_field="is"):
    """The server has acknowledged that the certificate ``identity`` is revoked."""

    at: float
    identity: str


class Issued(msgspec.Struct, frozen=True, tag="issued", tag_field="is"):
    """An entry of a ledger, read when all was over: ``certificate`` (SHA-256, in hex) was issued for a request.

    ``counts``: it was not discarded.
    """

    at: float
    ledger: str
    uid: str
    certificate: str
    counts: bool


class Damaged(msgspec.Struct, frozen=True, tag="damaged", tag_field="is"):
    """What a look at the files found that should not be."""

    at: float
    what: str


Record = Asked | Answered | Told | Fault | Fence | Bound | Revoked | Issued | Damaged


class Header(msgspec.Struct, frozen=True):
    """How a history was made: whoever runs the same again gets the same faults in the same order."""

    seed: int
    system: str
    planted: str = ""
    arguments: list[str] = []


class History:
    """Records as they come, in memory and, line by line, in a file if there is one."""

    def __init__(self, header: Header, path: Path | None = None) -> None:
        self.header = header
        self.records: list[Record] = []
        self._file = None if path is None else path.open("wb")
        self._encoder = msgspec.json.Encoder()
        self._write(header)

    def add(self, record: Record) -> None:
        self.records.append(record)
        self._write(record)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _write(self, what: Record | Header) -> None:
        if self._file is not None:
            self._file.write(self._encoder.encode(what) + b"\n")


def load(path: Path) -> tuple[Header, list[Record]]:
    """What a file holds, without a last line that was cut off."""
    with path.open("rb") as lines:
        header = msgspec.json.decode(next(lines), type=Header)
        decoder = msgspec.json.Decoder(Record)
        return header, [decoder.decode(line) for line in lines if line.endswith(b"\n")]


def of_ops(records: Iterable[Record], ops: set[int], keys: set[str]) -> Iterator[Record]:
    """What a person has to read about some requests and objects: these, what was told of them, and all faults."""
    for record in records:
        if isinstance(record, Fault):
            yield record
        elif isinstance(record, Asked):
            if record.op in ops or (record.key in keys and record.verb not in ("get", "list", "watch")):
                ops.add(record.op)
                yield record
        elif isinstance(record, Answered):
            if record.op in ops:
                yield msgspec.structs.replace(record, items=[each for each in record.items if each.key in keys])
        elif isinstance(record, Told):
            if record.op in ops and (record.seen is None or record.seen.key in keys):
                yield record
        elif not keys or getattr(record, "user", "") in keys or getattr(record, "identity", "") in keys:
            yield record
