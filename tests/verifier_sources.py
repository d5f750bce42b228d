"""What a verifier may reach, for a test."""

from __future__ import annotations

from dataclasses import dataclass

from kubevouch.client.interface import Client
from kubevouch.testing.clock import FakeClock
from kubevouch.util.clock import Clock


@dataclass(frozen=True)
class AnySources:
    """See :class:`kubevouch.attestation.interface.Sources`."""

    clock: Clock
    client: Client | None = None


AROUND = AnySources(FakeClock())
