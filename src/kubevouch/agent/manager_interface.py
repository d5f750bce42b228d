"""What a certificate manager needs around it, and what it tells of itself."""

from __future__ import annotations

import datetime as dt
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol

from kubevouch.agent.certificate_request import Poster
from kubevouch.agent.certificate_store import StoredPair
from kubevouch.agent.interface import Step
from kubevouch.pki.client_certificate import TrustAnchors
from kubevouch.records.ca_rotation import RenewalOrder
from kubevouch.util.logger import get_logger

log = get_logger("agent.certificates")


class Access(Protocol):
    """How a manager reaches the cluster."""

    def anchors(self) -> TrustAnchors | None:
        """The CA certificates that are trusted now; None where they are not known. Raises ``OSError``."""
        ...

    def connected(self, pair: StoredPair | None, /) -> AbstractAsyncContextManager[Poster]:
        """A connection for one attempt, with ``pair`` or with what is there to begin with.

        Raises:
            AgentError, TransportError, ClientConfigurationError: there is nothing to connect to or with.
        """
        ...

    def refused(self, pair: StoredPair | None, /) -> None:
        """The API server did not accept what :meth:`connected` has shown."""
        ...

    async def refresh(self) -> None:
        """The trust bundle may be out of date."""
        ...

    def renewal_order(self) -> RenewalOrder | None:
        """Whether the cluster wants certificates of another CA to be renewed, as last heard."""
        ...


@dataclass
class Standing:
    """How one certificate stands. Times are UTC."""

    name: str
    path: str
    subject: str = ""
    not_before: dt.datetime | None = None
    not_after: dt.datetime | None = None
    serial: str = ""
    next_rotation: dt.datetime | None = None
    ordered_renewal: dt.datetime | None = None
    """When it is renewed by the CA that the cluster wants; None where the cluster wants no other one."""
    waits_for: str = ""
    asking: str = ""
    last_rotation: dt.datetime | None = None
    rotations: int = 0
    failures: int = 0
    last_error: str = ""
    last_error_at: dt.datetime | None = None
    server_answers: bool | None = None
    refused: bool = False
    """The last attempt ended with the cluster's word that it knows the machine no more, or that it is banned."""
    hint: str = ""
    hooks: list[str] = field(default_factory=list)


class Manager(Protocol):
    """A certificate manager, as those know it who are told of renewals."""

    name: str
    standing: Standing
    pair: StoredPair | None


class Listener(Protocol):
    """Who is told of renewals."""

    async def renewed(self, manager: Manager, former: StoredPair | None, /) -> None:
        """``manager.pair`` is another one, by this program or by another one. ``former`` is None for the first."""
        ...

    def failed(self, manager: Manager, /) -> None:
        """An attempt has failed."""
        ...


class LoggingObserver:
    """A line for each step, with the same fields in all of an attempt."""

    def __init__(self, **fields: object) -> None:
        self._log = log.bind(**fields)

    def done(self, step: Step, detail: str = "") -> None:
        self._log.info(step.value, detail=detail)

    def waiting(self, why: str) -> None:
        self._log.info("waiting", reason=why)

    def warning(self, text: str) -> None:
        self._log.warning("warning", text=text)


class Listeners:
    """Several as one."""

    def __init__(self, *listeners: Listener) -> None:
        self._listeners = list(listeners)

    def add(self, *listeners: Listener) -> None:
        self._listeners += listeners

    async def renewed(self, manager: Manager, former: StoredPair | None, /) -> None:
        for listener in self._listeners:
            await listener.renewed(manager, former)

    def failed(self, manager: Manager, /) -> None:
        for listener in self._listeners:
            listener.failed(manager)
