"""JSON that a machine or a cloud has written: read in one way only, or not at all.

Readers that keep the last of two values of one name, and those that keep the first, see two machines in one document.
"""

from __future__ import annotations

import json
import math
from typing import Any, TypeVar

import msgspec

from kubevouch.attestation.interface import RefusedEvidenceError

T = TypeVar("T")

_DEEPEST = 32


class _Repeated(ValueError):
    pass


def decode(text: bytes | str, into: type[T], what: str) -> T:
    """The document in ``text``. Unknown names are passed over unless ``into`` forbids them.

    Args:
        what: what it is called in errors.

    Raises:
        RefusedEvidenceError: ``duplicate-key``; ``structure`` for anything else that is no such document.
    """
    try:
        # Of octets json would also take UTF-16 and UTF-32, and find out by itself which it is.
        plain = text if isinstance(text, str) else text.decode()
        tree = json.loads(plain, object_pairs_hook=_once, parse_constant=_no_number)
        _verify_plain(tree, _DEEPEST)
        return msgspec.convert(tree, into)
    except _Repeated as err:
        raise RefusedEvidenceError("duplicate-key", f"{what} has {str(err)[:64]!r} twice") from err
    except (ValueError, RecursionError, msgspec.ValidationError) as err:
        raise RefusedEvidenceError("structure", f"{what}: {str(err)[:200]}") from err


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise _Repeated(name)
        found[name] = value
    return found


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is no JSON")


def _verify_plain(tree: Any, left: int) -> None:
    """Whether all of it can be written down again: half a surrogate pair cannot, nor a number that others round."""
    if not left:
        raise ValueError(f"deeper than {_DEEPEST} levels")
    if isinstance(tree, dict):
        for name, value in tree.items():
            name.encode()
            _verify_plain(value, left - 1)
    elif isinstance(tree, list):
        for each in tree:
            _verify_plain(each, left - 1)
    elif isinstance(tree, str):
        tree.encode()
    elif isinstance(tree, float) and not math.isfinite(tree):
        raise ValueError("a number is too large")
    elif isinstance(tree, int) and not -(1 << 63) <= tree < 1 << 64:
        raise ValueError("an integer is too large")
