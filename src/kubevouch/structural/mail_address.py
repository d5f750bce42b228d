"""Mail addresses, as Go reads one.

Source: RFC 5322 section 3.4; Go's net/mail, ParseAddress (Go 1.26).
"""

from __future__ import annotations

import ipaddress
import re

_ATOM = re.compile(r"[!#-'*+\-./0-9=?A-Z^-~\x80-\U0010ffff]+")
# In the name before an address most special characters may stand.
_LOOSE_ATOM = re.compile(r"[!#-9;=?-~\x80-\U0010ffff]+")
# Possessive: a long text that is none is read once.
_QUOTED = re.compile(r'"((?:[!#-\[\]-~\x80-\U0010ffff \t]++|\\[!-~\x80-\U0010ffff \t])*+)"')
_LITERAL = re.compile(r"\[([!-Z^-~\x80-\U0010ffff]*)\]")


class _NoAddress(Exception):
    pass


def is_mail_address(text: str) -> bool:
    """Whether ``text`` is one address, with or without a name; a group of one counts."""
    try:
        parser = _Parser(text)
        found = parser.address(groups=True)
        parser.comments()
        return parser.at == len(text) and found == 1
    except _NoAddress:
        return False


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def take(self, char: str) -> bool:
        found = self.text.startswith(char, self.at)
        self.at += found
        return found

    def next_is(self, char: str) -> bool:
        return self.text.startswith(char, self.at)

    def spaces(self) -> None:
        while self.text[self.at : self.at + 1] in (" ", "\t"):
            self.at += 1

    def comments(self) -> None:
        self.spaces()
        while self.next_is("("):
            self.comment()
            self.spaces()

    def comment(self) -> None:
        depth = 0
        while self.at < len(self.text):
            char = self.text[self.at]
            self.at += 1
            if char == "\\":
                self.at += 1
            elif char == "(":
                depth += 1
            elif char == ")":
                depth -= 1
                if not depth:
                    return
        raise _NoAddress

    def address(self, *, groups: bool) -> int:
        """How many addresses there are."""
        self.spaces()
        if self.bare():
            self.spaces()
            if self.next_is("("):
                self.comment()
            if not self.next_is("<"):
                return 1
        if not self.next_is("<"):
            self.name()
        self.spaces()
        if groups and self.take(":"):
            return self.group()
        if not self.take("<") or not self.bare() or not self.take(">"):
            raise _NoAddress
        return 1

    def group(self) -> int:
        self.spaces()
        found = 0
        if not self.take(";"):
            while True:
                self.spaces()
                found += self.address(groups=False)
                self.comments()
                if self.take(";"):
                    break
                if not self.take(","):
                    raise _NoAddress
        self.comments()
        return found

    def bare(self) -> bool:
        """An address without a name; if there is none, nothing is read."""
        start = self.at
        self.spaces()
        if self.next_is('"'):
            is_local = bool(self.quoted())
        else:
            is_local = self.dotted_atom()
        if is_local and self.take("@"):
            self.spaces()
            if self.literal() if self.next_is("[") else self.dotted_atom():
                return True
        self.at = start
        return False

    def quoted(self) -> str | None:
        match = _QUOTED.match(self.text, self.at)
        if match is None:
            return None
        self.at = match.end()
        return match[1]

    def dotted_atom(self) -> bool:
        match = _ATOM.match(self.text, self.at)
        if match is None:
            return False
        self.at = match.end()
        return not match[0].startswith(".") and not match[0].endswith(".") and ".." not in match[0]

    def literal(self) -> bool:
        match = _LITERAL.match(self.text, self.at)
        if match is None or "%" in match[1]:
            return False
        self.at = match.end()
        try:
            ipaddress.ip_address(match[1])
        except ValueError:
            return False
        return True

    def name(self) -> None:
        words = 0
        while True:
            self.spaces()
            if self.next_is('"'):
                if self.quoted() is None:
                    break
            elif (match := _LOOSE_ATOM.match(self.text, self.at)) is not None:
                self.at = match.end()
            else:
                break
            words += 1
        if not words:
            raise _NoAddress
