"""Is a ledger what was written? Everything is looked at, over a connection that may only read.

Four things are compared with one another: the entries, the chain through them, the Merkle tree over them with the
signed head and checkpoints, and the index by which entries are found. Whoever changes an entry breaks the chain there;
who makes the chain anew has another root than the head, which only the key can sign; who has the key too has another
root than a checkpoint that somebody has kept elsewhere.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence

import msgspec

from kubevouch.ledger import chain, checkpoints, entries, proofs, reading, schema, terms
from kubevouch.ledger.checkpoints import HEAD, Checkpoint, CheckpointError, VerifierKey
from kubevouch.ledger.interface import LedgerDamaged
from kubevouch.ledger.proofs import Frontier
from kubevouch.ledger.schema import BUCKETS, NODE_LEVEL, SEGMENT

MOST_FINDINGS = 50
"""What is wrong behind these is counted no more: the file is not the ledger."""
PROGRESS = 10_000
"""Entries between two calls of who shows how far it is."""

_ROWS = "SELECT sequence, kind, at, not_after, link, terms, body FROM entry ORDER BY sequence"


class TooManyFindings(Exception):
    """Nothing more is looked for."""


class Report(msgspec.Struct):
    """What was found; a ledger without findings is what was written, up to the newest checkpoint that is known.

    Args:
        size: entries.
        root: over them.
        checkpoints: how many of the ledger's own and of those given were compared.
        is_marked: whether a mark beside the file says how far it once was.
        findings: each a sentence that begins with where it is.
    """

    size: int = 0
    root: bytes = proofs.EMPTY_ROOT
    checkpoints: int = 0
    is_marked: bool = False
    findings: list[str] = msgspec.field(default_factory=list)

    def add(self, finding: str) -> None:
        if len(self.findings) >= MOST_FINDINGS:
            self.findings.append("and more")
            raise TooManyFindings
        self.findings.append(finding)


def verify(
    connection: sqlite3.Connection,
    key: VerifierKey,
    pinned: Sequence[Checkpoint] = (),
    progress: Callable[[int], None] = lambda _: None,
) -> Report:
    """Look at every row of the ledger behind ``connection``.

    Args:
        key: whose head and checkpoints are believed.
        pinned: checkpoints that were kept elsewhere, verified with ``key``.
    """
    report = Report()
    try:
        with reading.moment(connection):
            _Verification(connection, key, pinned, progress, report).run()
    except TooManyFindings:
        pass
    except (sqlite3.Error, UnicodeDecodeError, LedgerDamaged) as error:
        report.findings.append(f"entry {report.size}, or the index: the file cannot be read there ({error})")
    return report


class _Claim(msgspec.Struct):
    """That the ledger had ``checkpoint.root`` at ``checkpoint.size``; ``whose`` says it."""

    checkpoint: Checkpoint
    whose: str


class _Verification:
    def __init__(
        self,
        connection: sqlite3.Connection,
        key: VerifierKey,
        pinned: Sequence[Checkpoint],
        progress: Callable[[int], None],
        report: Report,
    ) -> None:
        self._connection = connection
        self._key = key
        self._pinned = pinned
        self._progress = progress
        self._report = report
        self._frontier = Frontier()
        self._nodes: dict[tuple[int, int], bytes] = {}
        self._is_broken = False
        """Entries are missing: no root of what stands behind them can be right."""
        self._agreed = 0

    def run(self) -> None:
        claims = sorted(self._claims(), key=lambda claim: claim.checkpoint.size)
        for level, position, node in self._connection.execute("SELECT * FROM node"):
            self._nodes[level, position] = node
        segments = {row[0]: row for row in self._connection.execute("SELECT * FROM segment")}
        previous = chain.beginning(self._meta(schema.ORIGIN))
        filling: list[tuple[str, int, int | None, str]] = []
        packed: list[bytes] = []
        self._compare(claims)
        for sequence, kind, at, end, link, row_terms, body in self._connection.execute(_ROWS):
            report = self._report
            if sequence != report.size:
                self._missing(report.size, sequence)
            leaf = proofs.leaf_hash(body)
            if link != chain.link(previous, leaf) and not (self._is_broken and sequence != report.size):
                report.add(f"entry {sequence}: it, or what stands before it, is not what was written")
            previous = link
            report.size = sequence + 1
            signer = self._expect_columns(sequence, (kind, at, end), row_terms, body)
            for node, made in self._frontier.append(leaf):
                if node[0] >= NODE_LEVEL and not self._is_broken and self._nodes.pop(node, None) != made:
                    report.add(f"tree node {node[0]}/{node[1]}: its hash is not that of its entries")
            self._compare(claims)
            filling.append((kind, at, end, signer))
            packed.append(row_terms)
            if len(filling) == SEGMENT and not self._is_broken:
                self._expect_segment(sequence // SEGMENT, filling, packed, segments)
                filling, packed = [], []
            if not sequence % PROGRESS:
                self._progress(sequence)
        self._expect_end(claims, segments)

    def _meta(self, name: str) -> str:
        value = reading.one(self._connection, "SELECT value FROM meta WHERE name = ?", name)
        return value if isinstance(value, str) else ""

    # -------------------------------------------------------------- what is claimed

    def _claims(self) -> Iterator[_Claim]:
        """Of the file's own head and checkpoints, those that the key has signed; and those given."""
        report = self._report
        if self._meta(schema.KEY) != str(self._key):
            report.add("key: the file names another one than that whose signatures are believed")
        try:
            head = checkpoints.verified(self._meta(schema.HEAD), self._key)
        except CheckpointError as error:
            report.add(f"head: {error}")
        else:
            if head.purpose != HEAD or head.origin != self._meta(schema.ORIGIN):
                report.add("head: this is no head of this ledger")
            notes = [note for (note,) in self._connection.execute("SELECT note FROM checkpoint ORDER BY size")]
            if head.extensions[1:] != (checkpoints.summary(notes),):
                report.add(f"head: it is not about the {len(notes)} checkpoints that are there")
            yield _Claim(head, "head")
        for size, note in self._connection.execute("SELECT size, note FROM checkpoint ORDER BY size"):
            try:
                checkpoint = checkpoints.verified(note, self._key)
            except CheckpointError as error:
                report.add(f"checkpoint {size}: {error}")
                continue
            if checkpoint.size != size or checkpoint.origin != self._key.name:
                report.add(f"checkpoint {size}: it is one of {checkpoint.origin} at {checkpoint.size} entries")
                continue
            yield _Claim(checkpoint, f"checkpoint of {checkpoint.at}")
        for checkpoint in self._pinned:
            yield _Claim(checkpoint, f"checkpoint of {checkpoint.at} that was kept elsewhere")

    def _compare(self, claims: list[_Claim]) -> None:
        """Those that are about as many entries as were seen."""
        while claims and claims[0].checkpoint.size == self._frontier.size and not self._is_broken:
            claim = claims.pop(0)
            self._report.checkpoints += 1
            size = claim.checkpoint.size
            if claim.checkpoint.root == self._frontier.root():
                self._agreed = max(self._agreed, size)
                continue
            self._report.add(
                f"entries {self._agreed} to {size - 1}: some are not those of the {claim.whose}, which is about {size}"
            )

    # -------------------------------------------------------------- what is there

    def _missing(self, expected: int, sequence: int) -> None:
        self._is_broken = True
        self._report.add(_missing(expected, sequence - 1))

    def _expect_columns(self, sequence: int, columns: reading.Columns, row_terms: bytes, body: bytes) -> str:
        """What stands beside a body has to be what it says, or it is not found; returns its signer."""
        try:
            entry = entries.decode(body)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            self._report.add(f"entry {sequence}: it cannot be read ({error})")
            return ""
        if reading.columns_of(entry) != columns or terms.packed(entries.terms_of(entry)) != row_terms:
            self._report.add(f"entry {sequence}: the index has other words or times than the entry")
        return entry.signer

    def _expect_segment(
        self,
        number: int,
        rows: list[tuple[str, int, int | None, str]],
        packed: list[bytes],
        segments: dict[int, tuple[object, ...]],
    ) -> None:
        where = f"index of entries {number * SEGMENT} to {(number + 1) * SEGMENT - 1}"
        if segments.pop(number, None) != reading.segment_row(number, rows):
            self._report.add(f"{where}: it has other times, kinds or signers than they")
        expected = {bucket: places for bucket, places in enumerate(terms.buckets(packed)) if places}
        found = dict(
            self._connection.execute(
                f"SELECT bucket, places FROM posting WHERE segment = ? AND bucket IN ({_ALL_BUCKETS})",  # noqa: S608 - numbers
                (number,),
            )
        )
        if found != expected:
            self._report.add(f"{where}: it does not lead to them all")

    def _expect_end(self, claims: list[_Claim], segments: dict[int, tuple[object, ...]]) -> None:
        report, connection = self._report, self._connection
        report.root = self._frontier.root()
        for claim in claims if not self._is_broken else ():
            size = claim.checkpoint.size
            report.add(f"{_missing(report.size, size - 1)}; the {claim.whose} is about {size}")
        if self._nodes and not self._is_broken:
            report.add(f"tree: it has nodes of no entries, such as {next(iter(self._nodes))}")
        last = reading.one(connection, "SELECT max(segment) FROM posting")
        if segments or (last is not None and last >= report.size // SEGMENT):
            report.add(f"index: it has entries behind {report.size - 1}")
        head = self._meta(schema.HEAD)
        try:
            is_of_all = checkpoints.verified(head, self._key).size == report.size
        except CheckpointError:
            return  # it was told
        if not is_of_all and not claims:
            report.add(f"head: it is not about all {report.size} entries")


def _missing(first: int, last: int) -> str:
    return f"entry {first}: is missing" if first == last else f"entries {first} to {last}: are missing"


_ALL_BUCKETS = ", ".join(map(str, range(BUCKETS)))
