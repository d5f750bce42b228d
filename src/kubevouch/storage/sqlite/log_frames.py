"""What SQLite's write-ahead log proves about commits that SQLite no longer reads (sqlite.org/walformat.html).

With ``synchronous=FULL`` the frames of a commit are synced before the first frame of the next is written. So a whole
frame behind a whole commit frame proves that this commit, and every one before it, once was on the disk: if SQLite
stops before it, something in between was damaged and acknowledged writes are lost. The last commit proves nothing
about itself: a power cut may tear it as well as damage, and then it never was acknowledged.

A frame's checksum goes on from that of the frame before it. A frame is whole here if it fits what its predecessor
says, be that damaged or not, and bears the salts of this log: older logs left theirs in the same file.
"""

from __future__ import annotations

import mmap
import struct

HEADER_BYTES = 32
_FRAME_HEADER = 24
_MAGIC = 0x377F0682  # with 1 in the last bit, checksums take words in big-endian order
_FRAMES_AT = 16  # mxFrame in the header of the index
INDEX_BYTES = 48
"""The header of a log's index."""

Checksum = tuple[int, int]
Content = bytes | mmap.mmap


def salts_of(log: Content) -> bytes:
    """The salts in the header of a log."""
    return log[16:24]


def frames_read(index: bytes) -> int:
    """How many frames SQLite takes from the log, by the header of its index (``PATH-shm``)."""
    (frames,) = struct.unpack_from("=I", index, _FRAMES_AT)
    return int(frames)


class Log:
    """The bytes of a log of pages of ``page_bytes``."""

    def __init__(self, content: Content, page_bytes: int) -> None:
        self._content = content
        self._frame_bytes = _FRAME_HEADER + page_bytes
        self.frames = max(len(content) - HEADER_BYTES, 0) // self._frame_bytes
        self._words = "<"
        self._salts = salts_of(content)
        self._begin = _words_at(content, 24)
        self.header_whole = False
        if len(content) >= HEADER_BYTES:
            self._find_header()

    def _find_header(self) -> None:
        """What the first frame goes on from.

        A header is synced before a frame follows. If it is damaged, one of the checksum that it bears and the one that
        its other fields give is still that of the header as it was written.
        """
        (magic,) = struct.unpack_from(">I", self._content)
        borne = self._begin
        self._words = ">" if magic & 1 else "<"
        self.header_whole = magic & ~1 == _MAGIC and self._sum(self._content[:24], (0, 0)) == borne
        if self.header_whole or not self.frames:
            return
        self._salts = self._frame(0)[8:16]
        for order in "<>":
            self._words = order
            for begin in (borne, self._sum(self._content[:24], (0, 0))):
                self._begin = begin
                if self.is_whole(0):
                    return
        self.frames = 0  # a header that was never finished; what follows is of an older log

    def lost_behind(self, read: int) -> int | None:
        """A frame of a commit that was synced and that SQLite does not reach, if it reads ``read`` frames."""
        commit: int | None = None
        for number in range(read, self.frames):
            if self._frame(number)[8:16] != self._salts or not self.is_whole(number):
                continue
            if commit is not None:
                return commit
            if self._pages_after_commit(number):
                commit = number
        return None

    def is_whole(self, number: int) -> bool:
        frame = self._frame(number)
        before = self._begin if number == 0 else _words_at(self._frame(number - 1), 16)
        found = self._sum(frame[_FRAME_HEADER:], self._sum(frame[:8], before))
        return found == _words_at(frame, 16)

    def _pages_after_commit(self, number: int) -> int:
        return _words_at(self._frame(number), 0)[1]

    def _frame(self, number: int) -> bytes:
        at = HEADER_BYTES + number * self._frame_bytes
        return self._content[at : at + self._frame_bytes]

    def _sum(self, content: bytes, before: Checksum) -> Checksum:
        first, second = before
        words = struct.unpack(f"{self._words}{len(content) // 4}I", content)
        for at in range(0, len(words), 2):
            first = (first + words[at] + second) & 0xFFFF_FFFF
            second = (second + words[at + 1] + first) & 0xFFFF_FFFF
        return first, second


def _words_at(content: Content, at: int) -> Checksum:
    if len(content) < at + 8:
        return 0, 0
    first, second = struct.unpack_from(">II", content, at)
    return first, second
