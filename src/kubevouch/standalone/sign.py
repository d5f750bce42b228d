"""``kubevouch sign`` without the printing: a process that has the CA's key, and that nothing else can be asked of.

It faces no network. Who may connect to its Unix socket names a request by uid and digest; the request itself, and that
it was allowed, is read from the ledger (docs/adr/0025-a-signing-process.md says what that is worth).
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol

import msgspec

from kubevouch.ledger import entries
from kubevouch.ledger.beside import LedgerBeside
from kubevouch.ledger.interface import LedgerDamaged, LedgerError, ReadableLedger
from kubevouch.machinery.errors import loggable
from kubevouch.pki.errors import IssuedMismatchError, PKIError, PolicyError
from kubevouch.pki.issuance import SigningRules
from kubevouch.pki.profile import Profile
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.signers.catalog import SigningOptions, build_signers
from kubevouch.signers.interface import Signer, SignerError, SignerUnavailable, SigningStopped, UndecidedError
from kubevouch.signers.issuance import sign_recorded
from kubevouch.signers.process import (
    MAX_QUESTION,
    Answer,
    FramingError,
    Question,
    frame,
    read_frame,
)
from kubevouch.standalone.options import ClusterSigning
from kubevouch.util import unix_sockets
from kubevouch.util.clock import Clock, wait_at_most
from kubevouch.util.files import FileInUseError, locked, make_folder
from kubevouch.util.logger import get_logger

log = get_logger("standalone.sign")

MAX_CONNECTIONS = 64
"""Of those that are allowed to connect. For one more, of the user with most connections that have not asked yet, the
oldest of these gives way. Where all have asked, the new one is hung up on, and asks again."""
QUESTION_SECONDS = 5.0
"""For a question to come: it is a few hundred octets from this machine."""
KEPT_ANSWERS = 1000
"""Certificates that are given again to who asks again, whose first answer may have been lost."""
LONGEST = dt.timedelta(hours=24)
"""How long ago a request may have been allowed that is signed."""


class SignProcessError(Exception):
    """The process cannot start here; ``hint`` says what to do."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class Witness(Protocol):
    """Who has seen the ledger before, and says whether it still begins as it did."""

    async def look(self) -> None:
        """Raises :class:`~kubevouch.ledger.interface.LedgerDamaged`: entries were changed or taken away."""
        ...


class SignRules(msgspec.Struct, frozen=True):
    """What is signed.

    Args:
        users: IDs of the users whose processes may ask.
        kinds: of the ledger's entries that allow a request.
    """

    users: frozenset[int]
    longest: dt.timedelta = LONGEST
    kinds: frozenset[str] = msgspec.field(default_factory=lambda: frozenset({entries.APPROVED, entries.INTENDED}))


class SignOptions(msgspec.Struct, frozen=True):
    """What ``kubevouch sign`` is told.

    Args:
        users: who may ask; empty is the user of this process.
        state: what keeps how far the ledger was seen; None forgets it with the process.
        only_approvers: what people approved over the API is not signed.
    """

    socket: Path
    ledger: Path
    signing: ClusterSigning
    users: frozenset[int] = frozenset()
    state: Path | None = None
    longest: dt.timedelta = LONGEST
    only_approvers: bool = False
    profile: Profile = Profile.STRICT

    @property
    def rules(self) -> SignRules:
        kinds = {entries.APPROVED} if self.only_approvers else {entries.APPROVED, entries.INTENDED}
        return SignRules(self.users or frozenset({os.geteuid()}), self.longest, frozenset(kinds))


class SigningServer:
    """Answers what comes over connections."""

    def __init__(
        self, signers: Mapping[str, Signer], ledger: ReadableLedger, witness: Witness, rules: SignRules, clock: Clock
    ) -> None:
        self._signers = signers
        self._ledger = ledger
        self._witness = witness
        self._rules = rules
        self._clock = clock
        self._connections: set[asyncio.StreamWriter] = set()
        # Those of them that have not asked yet, or do not take their answer, oldest first, and their users.
        self._silent: dict[asyncio.StreamWriter, int] = {}
        self._signing: dict[tuple[str, str], asyncio.Task[tuple[Signer, Certificate]]] = {}
        self._distrusted = ""

    async def answer(self, question: Question) -> Answer:
        """What is answered to a question; it does not raise."""
        try:
            signer, certificate = await self._sign(question)
        except UndecidedError as err:
            return self._refused(question, "undecided", err)
        except PolicyError as err:
            return self._refused(question, "refused", err)
        except (SigningStopped, IssuedMismatchError, LedgerDamaged) as err:
            return self._refused(question, "stopped", err)
        except SignerUnavailable as err:
            return Answer(problem="unavailable", message=str(err), retry_after=err.retry_after)
        except LedgerError as err:
            log.error("the ledger cannot be read", err=str(err))
            return Answer(problem="unavailable", message=f"the ledger cannot be read: {err}")
        except (PKIError, SignerError) as err:
            return self._refused(question, "failed", err)
        chain = (certificate, *signer.chain_of(certificate))
        return Answer(certificate=b"".join(each.pem() for each in chain).decode())

    def _refused(self, question: Question, problem: str, err: Exception) -> Answer:
        log.warning("not signed", uid=question.uid, digest=question.digest, problem=problem, why=loggable(err))
        return msgspec.convert({"problem": problem, "message": str(err)}, Answer)

    async def _sign(self, question: Question) -> tuple[Signer, Certificate]:
        key = question.uid, question.digest
        running = self._signing.get(key)
        if running is None:
            running = self._signing[key] = asyncio.ensure_future(self._sign_new(question))
            # Who asked may have hung up, and nobody else looks at what went wrong.
            running.add_done_callback(lambda task: task.cancelled() or task.exception())
            while len(self._signing) > KEPT_ANSWERS and next(iter(self._signing.values())).done():
                del self._signing[next(iter(self._signing))]
        try:
            # Who hangs up does not take along what others wait for.
            signer, certificate = await asyncio.shield(running)
        except BaseException:
            if running.done():
                self._signing.pop(key, None)
            raise
        if certificate.not_after <= self._clock.now():
            self._signing.pop(key, None)
            return await self._sign(question)
        return signer, certificate

    async def _sign_new(self, question: Question) -> tuple[Signer, Certificate]:
        if self._distrusted:
            raise LedgerDamaged(self._distrusted)
        try:
            await self._witness.look()
        except LedgerDamaged as err:
            self._distrusted = str(err)
            log.critical("signing has stopped: the ledger is not what it was", err=str(err))
            raise
        signer, certificate = await sign_recorded(
            self._signers,
            self._ledger,
            question.uid,
            question.digest,
            now=self._clock.now(),
            longest=self._rules.longest,
            kinds=self._rules.kinds,
        )
        # A record of its own, which who writes the ledger cannot reach.
        log.info(
            "certificate signed", uid=question.uid, digest=question.digest, serial=f"{certificate.serial:x}",
            subject=certificate.subject.common_name, not_after=certificate.not_after.isoformat(),
        )  # fmt: skip
        return signer, certificate

    # -------------------------------------------------------- connections

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, to its end."""
        user = unix_sockets.peer_user(writer.get_extra_info("socket"))
        if user not in self._rules.users:
            log.warning("a user that may not ask has connected", user=user)
            writer.close()
            return
        if len(self._connections) >= MAX_CONNECTIONS and not self._make_room():
            writer.close()
            return
        self._connections.add(writer)
        self._silent[writer] = user
        try:
            body = await wait_at_most(self._clock, read_frame(reader, MAX_QUESTION), QUESTION_SECONDS)
            question = msgspec.json.decode(body, type=Question)
            self._silent.pop(writer, None)
            writer.write(frame(await self.answer(question)))
            self._silent[writer] = user
            await wait_at_most(self._clock, writer.drain(), QUESTION_SECONDS)
        except (FramingError, msgspec.MsgspecError, UnicodeDecodeError, TimeoutError) as err:
            if writer in self._connections:
                log.warning("what came is no question", user=user, err=loggable(err))
        except OSError:
            log.debug("a client has gone", user=user)
        finally:
            self._connections.discard(writer)
            self._silent.pop(writer, None)
            writer.close()

    def _make_room(self) -> bool:
        """Hang up on who holds a connection and says nothing; False where nobody does."""
        users = list(self._silent.values())
        if not users:
            return False
        loudest = max(users, key=users.count)
        oldest = next(writer for writer, user in self._silent.items() if user == loudest)
        log.warning("a silent connection gives way to a new one", user=loudest, connections=users.count(loudest))
        del self._silent[oldest]
        self._connections.discard(oldest)
        oldest.transport.abort()
        return True


@asynccontextmanager
async def listening(server: SigningServer, path: Path) -> AsyncIterator[None]:
    """Answer on the socket at ``path`` until the end of the block.

    Everybody may connect as far as its folder lets them: the kernel says who it is.

    Raises:
        SignProcessError: another process has the socket, or it cannot be made.
    """
    with contextlib.ExitStack() as stack:
        try:
            make_folder(path.parent)
            stack.enter_context(locked(path.with_name(f".{path.name}.lock")))
            sock = unix_sockets.bound(path, 0o666)
        except FileInUseError as err:
            raise SignProcessError(f"another signing process listens on {path}", "stop it, or name another") from err
        except OSError as err:
            why = (err.strerror or str(err)).lower()
            raise SignProcessError(
                f"cannot listen on {path}: {why}", "choose a --socket that this user may make"
            ) from err
        stack.callback(path.unlink, missing_ok=True)
        listener = await asyncio.start_unix_server(
            server.serve, sock=sock, limit=MAX_QUESTION, backlog=MAX_CONNECTIONS
        )  # fmt: skip
        async with listener:
            yield


@asynccontextmanager
async def running(options: SignOptions, clock: Clock) -> AsyncIterator[Sequence[str]]:
    """Signs until the end of the block; the names of the signers.

    Raises:
        SignProcessError: a setting, a key or the ledger cannot be used.
    """
    signing = options.signing
    if signing.socket is not None:
        raise SignProcessError(
            "got --signing-socket, expected the key itself", "the socket of this process is --socket"
        )
    if not (signing.default or signing.pairs or signing.outside):
        raise SignProcessError("got no key", "--cluster-signing-cert-file and --cluster-signing-key-file name one")
    rules = SigningRules(signing_duration=signing.duration, profile=options.profile, post_quantum=signing.post_quantum)
    try:
        signers = build_signers(
            SigningOptions(
                signing.default, signing.pairs, rules, signing.keys, clock,
                durations=signing.durations, outside=signing.outside,
            )
        )  # fmt: skip
    except SignerError as err:
        raise SignProcessError(str(err)) from err
    try:
        ledger = LedgerBeside(options.ledger, options.state, clock)
    except (LedgerError, OSError) as err:
        raise SignProcessError(f"what was seen of the ledger cannot be read: {err}") from err
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(ledger.close)
        server = SigningServer(signers, ledger, ledger, options.rules, clock)
        await stack.enter_async_context(listening(server, options.socket))
        try:
            await ledger.look()
        except LedgerDamaged as err:
            raise SignProcessError(str(err), "look at who has written the ledger before anything is signed") from err
        except LedgerError as err:
            # Who writes it may come later, and each question looks again.
            log.warning("the ledger cannot be read yet", err=str(err))
        yield sorted(signers)
