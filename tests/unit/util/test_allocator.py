"""Asked of the C library itself, in a process of its own."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
from pathlib import Path
from kubevouch.util.allocator import LARGE_BYTES, return_large_blocks

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

small = [bytearray(b"x") * 8192 for _ in range(4000)]
kept = small[::8]
before = resident()
del small
return_large_blocks()
assert before - resident() > 20 << 20, (before, resident())
once = bytearray(b"x") * (8 << 20)
del once
blocks = [bytearray(b"x") * (2 * LARGE_BYTES) for _ in range(200)]
between = [bytearray(b"x") * 1000 for _ in range(20)]
full = resident()
del blocks[::2]
half = resident()
del blocks
assert full - half > 150 * LARGE_BYTES, (full, half)
assert full - resident() > 350 * LARGE_BYTES, (full, resident())
"""


def test_freed_blocks_go_back_to_the_system_from_between_others() -> None:
    subprocess.run([sys.executable, "-c", PROGRAM], check=True)
