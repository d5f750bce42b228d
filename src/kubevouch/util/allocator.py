"""Settings of the C library's allocator for a process that runs for months."""

from __future__ import annotations

import ctypes
import sys

# mallopt(3): <malloc.h> of glibc.
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
# uvloop has a buffer of 256 KiB for each TLS connection, most of which stays empty.
LARGE_BYTES = 64 * 1024
TRIM_BYTES = 1 << 20


def return_large_blocks() -> None:
    """Have the memory of large blocks go back to the system as soon as it is freed.

    Left alone, glibc raises the size from which it does so to that of the largest block it has seen freed. From then
    on a crowd of connections leaves holes behind that stay the process's for ever. Without glibc nothing happens.

    What was freed before goes back at once: reading a store with hundreds of definitions leaves a tenth of the
    process's memory as holes between what stays.
    """
    if sys.platform != "linux":
        return
    library = ctypes.CDLL(None)
    mallopt = getattr(library, "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, LARGE_BYTES)
        mallopt(_M_TRIM_THRESHOLD, TRIM_BYTES)
        library.malloc_trim(0)
