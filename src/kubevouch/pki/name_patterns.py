"""Patterns of names, as whoever runs a signer writes them. One grammar for every kind of name.

    PatternError    a pattern that would match in a way that its reader does not expect

``*`` stands for one or more characters of one part; parts end at ``.``, ``/``, ``:`` and ``@``. ``**`` stands for one
or more of any characters. So ``*.example.com`` is every host right under the domain, ``**.example.com`` every one below
it, and neither is ``evilexample.com``. All else stands for itself; there are no regular expressions, and a match takes
time that grows with the name alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum

MAX_PATTERN = 1024

_SEPARATORS = "./:@"
_TOKENS = re.compile(r"\*+|[^*]+", re.ASCII)


class PatternError(ValueError):
    """A pattern that would match in a way that its reader does not expect."""


class Kind(Enum):
    """How names compare: DNS names without regard to case, e-mail addresses so behind the ``@``."""

    TEXT = "text"
    DNS = "DNS name"
    EMAIL = "e-mail address"


class Patterns:
    """What a name is held against. No pattern permits nothing."""

    def __init__(self, patterns: Iterable[str], kind: Kind = Kind.TEXT, *, wildcards: bool = False) -> None:
        """``wildcards``: the stars also stand for the ``*`` of a wildcard's name. Raises :class:`PatternError`."""
        self._kind = kind
        self.texts = tuple(patterns)
        self._compiled = [re.compile(_expression(self._folded(each), wildcards), re.DOTALL) for each in self.texts]

    def __bool__(self) -> bool:
        return bool(self.texts)

    def permit(self, name: str) -> bool:
        folded = self._folded(name)
        return any(each.fullmatch(folded) for each in self._compiled)

    def _folded(self, text: str) -> str:
        if self._kind is Kind.DNS:
            return text.lower()
        if self._kind is Kind.EMAIL:
            local, at, domain = text.rpartition("@")
            return f"{local}{at}{domain.lower()}"
        return text


def _expression(pattern: str, wildcards: bool) -> str:
    if not pattern:
        raise PatternError("a pattern is empty; leave the list empty to permit nothing")
    if len(pattern) > MAX_PATTERN:
        raise PatternError(f"a pattern has {len(pattern)} characters, expected {MAX_PATTERN} at most")
    star = "" if wildcards else "*"
    parts = [each.group() for each in _TOKENS.finditer(pattern)]
    expression = ""
    for number, part in enumerate(parts):
        behind = parts[number + 1] if number + 1 < len(parts) else ""
        if part == "*":
            # Possessive: with a separator behind it there is one way to match, so that nothing is tried twice.
            if behind and behind[0] not in _SEPARATORS:
                raise PatternError(f"{pattern!r}: behind * goes one of {' '.join(_SEPARATORS)}, or nothing")
            expression += f"[^{star}./:@]++"
        elif part == "**":
            if number not in (0, len(parts) - 1):
                raise PatternError(f"{pattern!r}: ** goes to the beginning or to the end")
            if number == 0 and behind and behind[0] not in _SEPARATORS:
                raise PatternError(f"{pattern!r}: behind ** goes one of {' '.join(_SEPARATORS)}, or nothing")
            expression += f"[^{star}]+" if star else ".+"
        elif part.startswith("**"):
            raise PatternError(f"{pattern!r}: got {part}, expected * or **")
        else:
            expression += re.escape(part)
    return expression
