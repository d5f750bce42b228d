"""What a CA rotation says to agents, in an annotation of cluster-info.

    RenewalOrderError    an annotation that cannot be understood

cluster-info is what every agent reads anyway, over a connection that it has verified, so that no right is added.
"""

from __future__ import annotations

import datetime as dt
import hashlib

import msgspec

STATE_CONFIGMAP = "kubevouch-ca-rotation"
"""In ``kube-system``: how far the rotation is; ``phases.certificates.ca_rotation`` reads and writes it."""
STATE_KEY = "rotation"
RENEWAL_ANNOTATION = "ca.kubevouch.io/renewal"
_MAX_LENGTH = 1024
_LONGEST_WINDOW = 366 * 86400


class RenewalOrderError(ValueError):
    """An annotation that cannot be understood."""


class RenewalOrder(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=False):
    """Renew what another CA than this has issued, each machine at its own moment of the window.

    Args:
        authority: ``sha256:`` and the fingerprint of the CA certificate that issues from now on.
        begins: when the window begins.
        window_seconds: how long it is; zero is all at once.
    """

    authority: str
    begins: dt.datetime
    window_seconds: int


def encode(order: RenewalOrder) -> str:
    return msgspec.json.encode(order).decode()


def parse(text: str) -> RenewalOrder:
    """Raises :class:`RenewalOrderError`."""
    if len(text) > _MAX_LENGTH:
        raise RenewalOrderError(f"got {len(text)} characters, expected {_MAX_LENGTH} at most")
    try:
        order = msgspec.json.decode(text, type=RenewalOrder)
    except msgspec.MsgspecError as err:
        raise RenewalOrderError(f"no renewal order: {err}") from err
    if order.begins.tzinfo is None or not 0 <= order.window_seconds <= _LONGEST_WINDOW:
        raise RenewalOrderError("no renewal order: begins has no zone, or windowSeconds is out of range")
    return order


def due_at(order: RenewalOrder, node_name: str) -> dt.datetime:
    """The machine's moment in the window. It follows from the name, so that a restart changes nothing."""
    place = int.from_bytes(hashlib.sha256(node_name.encode()).digest()[:8]) / 2**64
    try:
        return order.begins + dt.timedelta(seconds=order.window_seconds * place)
    except OverflowError:
        return dt.datetime.max.replace(tzinfo=dt.UTC)


def fingerprint(digest: bytes) -> str:
    """How a CA certificate is named in an order and in a rotation's state."""
    return f"sha256:{digest.hex()}"
