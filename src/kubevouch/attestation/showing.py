"""What the node's sides of methods have in common that prove with what is there already."""

from __future__ import annotations

from kubevouch.pki.x509.signature import PrivateKey


class Showing:
    """Part of an :class:`~kubevouch.attestation.interface.Attestor`: it says nothing first, makes no key, and holds
    nothing between two calls."""

    async def opening(self, version: str) -> bytes:  # noqa: ARG002 - the protocol
        return b""

    async def make_key(self) -> PrivateKey | None:
        return None

    async def provider_id(self) -> str:
        """None is known."""
        return ""

    async def close(self) -> None:
        return None
