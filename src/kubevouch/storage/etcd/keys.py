"""Our keys as etcd's: ``/registry/…`` of the store is below the prefix that was set."""

from __future__ import annotations

from kubevouch.storage.write import check_key, check_text, prefix_end

ROOT = "/registry/"
_ROOT_END = "/registry0"


class Keys:
    """The way there and back."""

    def __init__(self, prefix: str) -> None:
        self.root = prefix.encode() + b"/"
        self.root_end = prefix.encode() + b"0"

    def of(self, key: str) -> bytes:
        """Raises ValueError for a key that the store does not hold."""
        check_key(key)
        if not key.startswith(ROOT):
            raise ValueError(f"got the key {key!r}, expected one that begins with {ROOT}")
        return self.root + key[len(ROOT) :].encode()

    def range(self, prefix: str, start: str) -> tuple[bytes, bytes] | None:
        """What begins with ``prefix`` and is not below ``start``; None if nothing of ours does."""
        check_text(prefix + start)
        if ROOT.startswith(prefix):
            prefix = ROOT
        elif not prefix.startswith(ROOT):
            return None
        end = prefix_end(prefix)
        first = max(prefix, start)
        if end is None or first >= end:
            return None
        return self.root + first[len(ROOT) :].encode(), self._end(end)

    def _end(self, end: str) -> bytes:
        return self.root + end[len(ROOT) :].encode() if end.startswith(ROOT) else self.root_end

    def text(self, key: bytes) -> str:
        """Ours again. Raises ValueError (UnicodeDecodeError) for one that we cannot have written."""
        text = ROOT + key[len(self.root) :].decode()
        check_key(text)
        return text
