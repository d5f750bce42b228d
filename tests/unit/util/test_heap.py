"""What is freed goes back to the system."""

import subprocess
import sys

_PROGRAM = """
import os, sys
from pathlib import Path
from kubevouch.util import heap

if sys.argv[1] == "set":
    assert heap.give_back_what_is_freed()
del sys.argv[1:]
bytearray(24 << 20)  # from here on the C library puts blocks of up to this size between the others


def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


before = resident()
large, small = [], []
for _ in range(100):
    large.append(bytearray(1 << 20))
    large[-1][::4096] = bytes(256)
    small.append(bytearray(b"x" * 5000))
large.clear()
print(resident() - before)
"""


def _left(setting: str) -> int:
    done = subprocess.run([sys.executable, "-c", _PROGRAM, setting], capture_output=True, text=True, check=True)
    return int(done.stdout)


def test_large_blocks_do_not_stay_between_small_ones() -> None:
    assert _left("set") < 8 << 20
    assert _left("unset") > 50 << 20  # else glibc does so by itself, and the module can go
