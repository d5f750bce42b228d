"""util/clock.py: how old this process is."""

from __future__ import annotations

import subprocess
import sys

from kubevouch.util.clock import SystemClock, process_age

ASK = "from kubevouch.util.clock import process_age; print(process_age(), process_age())"


def test_a_process_is_as_old_as_its_start_is_past() -> None:
    """What it loads before it asks counts: it is younger than the call that made it, and never gets younger."""
    clock = SystemClock()
    begun = clock.monotonic()
    first, second = map(float, subprocess.check_output([sys.executable, "-c", ASK]).split())
    assert 0 < first <= second <= clock.monotonic() - begun + 0.02  # its start is known to a hundredth
    assert process_age() > second
