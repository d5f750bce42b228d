"""Text from elsewhere, made so that a terminal shows it and does nothing else.

A name, a message or a common name can hold escape sequences that move the cursor, set the clipboard or hide what
follows, and letters without width or against the direction of reading that make one name look like another.
"""

from __future__ import annotations

import json
import re
import unicodedata

# Letters that Python counts as printable and no screen shows (Unicode's Default_Ignorable_Code_Point, and two blanks).
_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)


def is_plain(text: str) -> bool:
    """Whether every character shows as itself: no controls, no bidi or zero-width ones, no lone surrogates."""
    return text.isprintable() and _UNSEEN.search(text) is None


def escaped(text: str) -> str:
    """``text`` with every other character as Python writes it: ``\\x1b``, ``\\n``, ``\\u202e``."""
    return text if is_plain(text) else "".join(map(_escaped, text))


def json_escaped(text: str) -> str:
    """JSON ``text`` that means the same, with only plain characters, tabs and line ends in it."""
    if is_plain(text.replace("\n", "").replace("\t", "")):
        return text
    return "".join(char if char in "\n\t" or is_plain(char) else json.dumps(char)[1:-1] for char in text).replace(
        "\x7f", "\\u007f"
    )


def printed_width(text: str) -> int:
    """Cells of a terminal that plain ``text`` takes: two for East Asian wide letters, none for combining marks."""
    return len(text) if text.isascii() else sum(map(_cells, text))


def shortened(text: str, width: int) -> str:
    """``text`` in at most ``width`` cells (1 or more); of a longer one the middle gives way to ``…``."""
    if printed_width(text) <= width:
        return text
    tail = (width - 1) // 2
    return f"{_begin(text, width - 1 - tail)}…{_begin(text[::-1], tail)[::-1]}"


def _begin(text: str, width: int) -> str:
    """As many characters of its beginning as fit into ``width`` cells."""
    if text.isascii():
        return text[:width]
    taken = 0
    for at, char in enumerate(text):
        taken += _cells(char)
        if taken > width:
            return text[:at]
    return text


def _cells(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def _escaped(char: str) -> str:
    if is_plain(char):
        return char
    found = ascii(char)[1:-1]
    return found if found != char else f"\\u{ord(char):04x}"
