"""Real processes with a wrong clock (libfaketime). Their monotonic clock and the times of files stay right."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from peers import ROOT


def _library() -> Path:
    for path in (ROOT / ".peers/debian").glob("usr/lib/*/faketime/libfaketime.so.1"):
        return path
    pytest.fail("libfaketime is not in .peers; run: make peers", pytrace=False)


@dataclass(frozen=True)
class WrongClock:
    """A clock that processes with :attr:`environment` go by; :meth:`set` moves it while they run.

    Args:
        file: where it stands how wrong it is; an offset as libfaketime has it, such as ``-5m``, ``+3d``, ``-10y``.
    """

    file: Path

    def set(self, offset: str) -> None:
        # In one step: a process may look at any moment.
        written = self.file.with_suffix(".next")
        written.write_text(f"{offset}\n")
        written.replace(self.file)

    @property
    def environment(self) -> dict[str, str]:
        return {
            "LD_PRELOAD": str(_library()),
            "FAKETIME_TIMESTAMP_FILE": str(self.file),
            "FAKETIME_NO_CACHE": "1",
            "DONT_FAKE_MONOTONIC": "1",
            "NO_FAKE_STAT": "1",
        }


def wrong_clock(folder: Path, offset: str) -> WrongClock:
    clock = WrongClock(folder / "clock")
    clock.set(offset)
    return clock
