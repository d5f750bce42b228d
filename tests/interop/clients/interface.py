"""What every client library is asked to do, so that one suite holds for all of them.

Refused    the server answered with a Status that is a failure
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Protocol

Manifest = dict[str, Any]
PatchKind = Literal["json", "merge", "strategic"]
CONTENT_TYPES: dict[PatchKind, str] = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}
APPLY = "application/apply-patch+yaml"
GROUP, VERSION, PLURAL = "certificates.k8s.io", "v1", "certificatesigningrequests"
Hear = Callable[[str], bool]


class Refused(Exception):
    """A Status of the server, with its code and reason."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"{code} {reason}")
        self.code = code
        self.reason = reason


class Driver(Protocol):
    """CertificateSigningRequests through one library. Every call raises :class:`Refused`."""

    def create(self, manifest: Manifest) -> Manifest: ...

    def get(self, name: str) -> Manifest: ...

    def pages(self, selector: str, limit: int) -> list[list[str]]:
        """The names of all pages; one page only where the library does not show them."""
        ...

    def replace(self, manifest: Manifest, subresource: str = "") -> Manifest: ...

    def patch(self, name: str, patch: Any, kind: PatchKind) -> Manifest: ...

    def apply(self, manifest: Manifest, manager: str, *, force: bool = False) -> Manifest:
        """Server-side."""
        ...

    def delete(self, name: str) -> None: ...

    def delete_all(self, selector: str) -> None: ...

    def watch(self, selector: str, hear: Hear) -> None:
        """Call ``hear`` with the name of each object seen until it returns True, whatever happens to connections."""
        ...
