"""Which methods are installed: entry points, so that a package of somebody else's adds one.

SettingsError    no method of that name is installed
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points

from kubevouch.attestation.interface import MakeAttestor, MakeVerifier, SettingsError

VERIFIERS = "kubevouch.verifiers"
ATTESTORS = "kubevouch.attestors"


def verifier(name: str) -> MakeVerifier:
    """Raises :class:`SettingsError`."""
    made: MakeVerifier = _found(VERIFIERS, name).load()
    return made


def attestor(name: str) -> MakeAttestor:
    """Raises :class:`SettingsError`."""
    made: MakeAttestor = _found(ATTESTORS, name).load()
    return made


def names(group: str) -> tuple[str, ...]:
    """Of the methods that are installed."""
    return tuple(sorted({each.name for each in entry_points(group=group)}))


def _found(group: str, name: str) -> EntryPoint:
    for each in entry_points(group=group, name=name):
        return each
    raise SettingsError(f"got {name!r}, expected one of {', '.join(names(group))}")
