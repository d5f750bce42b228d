"""A signing process without the process: its server over a ledger in memory."""

from __future__ import annotations

import asyncio
import datetime as dt
import os
from pathlib import Path
from typing import Any

import msgspec

from kubevouch.ledger import entries
from kubevouch.ledger.entries import Entry
from kubevouch.ledger.memory import MemoryLedger
from kubevouch.pki import keys
from kubevouch.pki.authority import create_authority
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.signers.file import FileSigner
from kubevouch.signers.interface import Wanted
from kubevouch.signers.process import Answer, Question
from kubevouch.standalone.sign import SigningServer, SignRules
from kubevouch.testing.clock import FakeClock
from kubevouch.wellknown import KUBE_APISERVER_CLIENT_KUBELET_SIGNER
from signer_worlds import NOW, RULES, Trusting


class Watched(Trusting):
    """A witness that says what a test tells it to; ``held`` keeps it from saying anything until it is set."""

    def __init__(self) -> None:
        self.says: Exception | None = None
        self.held: asyncio.Event | None = None
        self._asked = asyncio.Semaphore(0)

    async def asked(self, times: int) -> None:
        """Wait until it was asked so often."""
        for _ in range(times):
            await self._asked.acquire()

    async def look(self) -> None:
        self._asked.release()
        if self.held is not None:
            await self.held.wait()
        if self.says is not None:
            raise self.says


class World:
    def __init__(self, folder: Path, **rules: Any) -> None:
        authority = create_authority("ca", keys.generate(KeyAlgorithm.ECDSA_P256), now=NOW)
        (folder / "ca.crt").write_bytes(authority.certificate.pem())
        (folder / "ca.key").write_bytes(keys.to_pem(authority.key))
        (folder / "ca.key").chmod(0o600)
        self.clock = FakeClock(NOW)
        self.ledger = MemoryLedger()
        self.witness = Watched()
        self.signer = FileSigner(folder / "ca.crt", folder / "ca.key", RULES, clock=self.clock)
        users = frozenset({os.geteuid()})
        self.server = SigningServer(
            {KUBE_APISERVER_CLIENT_KUBELET_SIGNER: self.signer}, self.ledger, self.witness,
            SignRules(**{"users": users, **rules}), self.clock,
        )  # fmt: skip

    async def allow(self, asked: Wanted, kind: str = entries.APPROVED, **changes: Any) -> Question:
        """As the approving controller does; ``changes`` to the entry."""
        entry = entry_of(kind, asked, self.clock.now())
        await self.ledger.append(msgspec.structs.replace(entry, **changes))
        return Question(asked.uid, entry.digest)

    async def ask(self, question: Question) -> Answer:
        return await self.server.answer(question)


def entry_of(kind: str, asked: Wanted, at: dt.datetime) -> Entry:
    return entries.entry_of_request(
        kind, at, asked.request, name=asked.name, uid=asked.uid, signer=asked.signer_name, requester="r",
        usages=asked.usages, expiration_seconds=asked.expiration_seconds,
    )  # fmt: skip
