"""What encrypts values, and what those say that cannot be read.

    TransformError
    └── SeedMissing     a plug-in has to be asked for a key first

A value is ``prefix + body``; each provider knows its own by the prefix, as Kubernetes does
(k8s.io/apiserver/pkg/storage/value, Kubernetes 1.36).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Protocol


class TransformError(Exception):
    """A value cannot be encrypted or decrypted; the text is Kubernetes', and says nothing of value or key.

    ``code`` is that of a plug-in's answer, if there was one.
    """

    def __init__(self, message: str, code: str = "unknown-non-grpc") -> None:
        super().__init__(message)
        self.code = code


class SeedMissing(TransformError):
    """The value can be read after ``fetch``, which asks a plug-in; nothing is wrong with it so far."""

    def __init__(self, fetch: Callable[[], Awaitable[None]]) -> None:
        super().__init__("the key of the value has not been fetched yet")
        self.fetch = fetch


@dataclass(frozen=True, slots=True)
class Read:
    """A value that was decrypted; ``stale``: not in the way in which it would be encrypted now."""

    plain: bytes
    stale: bool


class Provider(Protocol):
    """One way to encrypt."""

    @property
    def prefix(self) -> bytes:
        """What all its values begin with."""
        ...

    def read(self, body: bytes, key: bytes) -> Read:
        """The value in ``body``, which stands behind the prefix.

        Args:
            key: under which it is stored, as the medium has it.

        Raises:
            TransformError
        """
        ...

    def write(self, plain: bytes, key: bytes) -> bytes:
        """The body for ``plain``. Raises ``TransformError``."""
        ...


class TransformRecorder(Protocol):
    """Where encryption reports."""

    def transformed(self, direction: str, prefix: str, seconds: float, code: str) -> None:
        """``direction`` is from_storage or to_storage; ``code`` is OK, a gRPC code, or unknown-non-grpc."""
        ...


def aggregate(errors: Iterable[TransformError]) -> str:
    """The only one as it is, several as ``[a, b]`` without repeats."""
    texts = list(dict.fromkeys(map(str, errors)))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
