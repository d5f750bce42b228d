"""JSON that a machine or a cloud has written: read in one way only, or not at all.

Readers that keep the last of two values of one name, and those that keep the first, see two machines in one document.
"""

from __future__ import annotations

import json
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
        tree = json.loads(text, object_pairs_hook=_once, parse_constant=_no_number)
        _verify_depth(tree, _DEEPEST)
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


def _verify_depth(tree: Any, left: int) -> None:
    if not left:
        raise ValueError(f"deeper than {_DEEPEST} levels")
    for each in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ():
        _verify_depth(each, left - 1)
