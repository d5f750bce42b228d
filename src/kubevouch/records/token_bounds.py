"""What a bootstrap token may be used for beyond Kubernetes' rules: how often, by whom, from where, with which key.

The bounds are annotations of the token's Secret: type and keys stay Kubernetes', whose components ignore annotations.

TokenBoundsError     bounds that no token may have, or that cannot be read
TokenBoundError      a request that is outside of them; ``str()`` is for whoever asked

Source: kubevouch's own; docs/adr/0009-bounds-of-bootstrap-tokens.md.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping

import msgspec

from kubevouch.machinery.text import names
from kubevouch.pki import pins
from kubevouch.pki.errors import PinError
from kubevouch.pki.node_user import checked_node_name

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_PREFIX = "bootstrap-token.kubevouch.io/"
USES_ANNOTATION = f"{_PREFIX}uses"
NODE_NAMES_ANNOTATION = f"{_PREFIX}node-names"
SOURCE_RANGES_ANNOTATION = f"{_PREFIX}source-ranges"
PUBLIC_KEYS_ANNOTATION = f"{_PREFIX}public-keys"
ANNOTATIONS = (USES_ANNOTATION, NODE_NAMES_ANNOTATION, SOURCE_RANGES_ANNOTATION, PUBLIC_KEYS_ANNOTATION)

SOURCE_ADDRESS_ANNOTATION = "kubevouch.io/source-address"
"""On a CertificateSigningRequest: from where it was sent. kubevouch's API server sets it, and lets nobody change it."""

TOKEN_UID_EXTRA = "authentication.kubevouch.io/token-uid"
"""Of users that came with a bounded token: the UID of its Secret, so that its end does not end the bounds."""

# Each use takes some 300 bytes of the 256 KiB that an object's annotations may have.
MAX_USES = 500
_NUMBER = re.compile(r"[1-9][0-9]{0,2}", re.ASCII)


class TokenBoundsError(ValueError):
    """Bounds that no token may have, or that cannot be read."""


class TokenBoundError(Exception):
    """A request that is outside of a token's bounds."""


DENIED_REASON = "OutsideTokenBounds"
"""Of the condition of a request that its token does not allow."""


class Bounds(msgspec.Struct, frozen=True):
    """Empty or None is without bound.

    Args:
        uses: how many machines may get a certificate.
        node_names: names, in which ``*`` stands for any characters.
        source_ranges: from where the token is accepted.
        public_keys: ``sha256:`` and the hex digest of the SubjectPublicKeyInfo that a request must be for.
    """

    uses: int | None = None
    node_names: tuple[str, ...] = ()
    source_ranges: tuple[Network, ...] = ()
    public_keys: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.uses is not None or bool(self.node_names or self.source_ranges or self.public_keys)

    def verify_request(self, node_name: str, public_key: str) -> None:
        """Raises :class:`TokenBoundError` for a certificate that the token is not for, uses apart.

        Args:
            public_key: as in ``public_keys``.
        """
        if not self.allows_node(node_name):
            raise TokenBoundError(f"the token is for {_list(self.node_names)}, not for {node_name or 'no name'}")
        if self.public_keys and public_key not in self.public_keys:
            raise TokenBoundError(f"the token is for the key {_list(self.public_keys)}, got one with {public_key}")

    def allows_node(self, node_name: str) -> bool:
        """Whether the token is for this name. What no node can be called matches no wild card."""
        if not self.node_names:
            return True
        return bool(checked_node_name(node_name)) and any(_matches(node_name, each) for each in self.node_names)

    def names_node(self, node_name: str) -> bool:
        """Whether the token is bound to this very name, not to whatever fits a wild card."""
        return bool(checked_node_name(node_name)) and node_name in self.node_names

    def told(self) -> list[str]:
        """A phrase for each bound."""
        found = [] if self.uses is None else ["1 use" if self.uses == 1 else f"{self.uses} uses"]
        if self.node_names:
            found.append(f"node name {_list(self.node_names)}")
        if self.source_ranges:
            found.append(f"from {_list(map(str, self.source_ranges))}")
        if self.public_keys:
            found.append(f"key {_list(self.public_keys)}")
        return found


NONE = Bounds()


def _matches(name: str, pattern: str) -> bool:
    # Not fnmatch: a bracket is no wild card in a name, and the number of wild cards must not blow up the match.
    first, *rest = pattern.split("*")
    if not rest:
        return name == pattern
    if not name.startswith(first):
        return False
    position = len(first)
    for part in rest[:-1]:
        found = name.find(part, position)
        if found < 0:
            return False
        position = found + len(part)
    return len(name) - position >= len(rest[-1]) and name.endswith(rest[-1])


def _list(texts: Iterable[str]) -> str:
    return " or ".join(texts)


# ------------------------------------------------------------------ from people


def parse(
    *,
    uses: int | None = None,
    node_names: Iterable[str] = (),
    source_ranges: Iterable[str] = (),
    public_keys: Iterable[str] = (),
) -> Bounds:
    """Bounds as a person writes them. Raises :class:`TokenBoundsError`."""
    if uses is not None and not 1 <= uses <= MAX_USES:
        raise TokenBoundsError(f"got {uses} uses, expected 1 to {MAX_USES}")
    return Bounds(
        uses,
        _distinct(_node_name(text.strip().lower()) for text in node_names),
        tuple(dict.fromkeys(_network(text.strip()) for text in source_ranges)),
        _distinct(_public_key(text.strip()) for text in public_keys),
    )


def _distinct(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(texts))


def _node_name(text: str) -> str:
    # A wild card stands for at least something that a name may hold.
    if names.subdomain(text.replace("*", "x")):
        raise TokenBoundsError(f'got the node name "{text}", expected a DNS name in which * may stand for any part')
    return text


def _network(text: str) -> Network:
    try:
        return ipaddress.ip_network(text)
    except ValueError as err:
        raise TokenBoundsError(f'got the address range "{text}", expected one such as 192.0.2.0/24: {err}') from err


def _public_key(text: str) -> str:
    try:
        (digest,) = pins.parse([text]).digests
    except PinError as err:
        raise TokenBoundsError(f'got the key "{text}": {err}') from err
    return f"{pins.FORMAT}:{digest.hex()}"


# ------------------------------------------------------------------ annotations


def to_annotations(bounds: Bounds) -> dict[str, str]:
    lists = {
        NODE_NAMES_ANNOTATION: bounds.node_names,
        SOURCE_RANGES_ANNOTATION: tuple(map(str, bounds.source_ranges)),
        PUBLIC_KEYS_ANNOTATION: bounds.public_keys,
    }
    found = {key: ",".join(values) for key, values in lists.items() if values}
    if bounds.uses is not None:
        found[USES_ANNOTATION] = str(bounds.uses)
    return found


def from_annotations(annotations: Mapping[str, str]) -> Bounds:
    """Raises :class:`TokenBoundsError`: a bound that cannot be read must not become none."""
    if annotations.keys().isdisjoint(ANNOTATIONS):
        return NONE
    uses = annotations.get(USES_ANNOTATION)
    if uses is not None and not _NUMBER.fullmatch(uses):
        raise TokenBoundsError(f'got "{uses[:20]}" in {USES_ANNOTATION}, expected 1 to {MAX_USES}')
    return parse(
        uses=None if uses is None else int(uses),
        node_names=_parts(annotations, NODE_NAMES_ANNOTATION),
        source_ranges=_parts(annotations, SOURCE_RANGES_ANNOTATION),
        public_keys=_parts(annotations, PUBLIC_KEYS_ANNOTATION),
    )


def _parts(annotations: Mapping[str, str], key: str) -> list[str]:
    # An empty list is a bound that admits nobody, or a mistake; either way not the absence of one.
    return annotations[key].split(",") if key in annotations else []


def covers(ranges: Iterable[Network], address: str) -> bool:
    """Whether ``address`` is in one of ``ranges``; IPv4 in IPv6 counts as IPv4. What is no address is in none."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is not None:
        parsed = parsed.ipv4_mapped
    return any(parsed in network for network in ranges)
