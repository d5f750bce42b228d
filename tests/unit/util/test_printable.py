"""util/printable.py: which characters show as themselves, and how the others are written."""

from __future__ import annotations

import json
import sys
import unicodedata

import pytest

from kubevouch.util.printable import escaped, is_plain, json_escaped, printed_width, shortened


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ä ✓ 字", "plain ä ✓ 字"),
        ("\x1b[31m\x07", r"\x1b[31m\x07"),
        ("\n\r\t", r"\n\r\t"),
        ("\x7f\x85\x9b", r"\x7f\x85\x9b"),
        ("\u202e\u2066\u200b\ufeff\u2028", r"\u202e\u2066\u200b\ufeff\u2028"),
        ("\ufe0f\u3164\u2800\u034f", r"\ufe0f\u3164\u2800\u034f"),
        ("\U000e0041\udc80", r"\U000e0041\udc80"),
        ("\\", "\\"),
    ],
)
def test_escapes(text: str, shown: str) -> None:
    assert escaped(text) == shown
    assert is_plain(shown)


def test_no_control_format_or_surrogate_is_plain() -> None:
    for number in range(sys.maxunicode + 1):
        if unicodedata.category(chr(number)) in ("Cc", "Cf", "Cs", "Zl", "Zp"):
            assert not is_plain(chr(number)), hex(number)


def test_escaped_json_means_the_same() -> None:
    tree = {"a": "\x1b\x7f\x9b\u202e\U000e0041 ä\n"}
    text = json_escaped(json.dumps(tree, ensure_ascii=False, indent=1))
    assert json.loads(text) == tree
    assert is_plain(text.replace("\n", ""))
    assert json_escaped('{"a": "ä"}') == '{"a": "ä"}'
    # What a shell is told of a command: kubectl's completion separates by a tab.
    assert json_escaped("list\tList\n") == "list\tList\n"


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [
        ("abcdefg", 7, "abcdefg"), ("abcdefg", 6, "abc…fg"), ("abcdefg", 5, "ab…fg"), ("abcdefg", 2, "a…"),
        ("abcdefg", 1, "…"), ("", 1, ""), ("字字字字", 8, "字字字字"), ("字字字字", 7, "字…字"),
        ("a字字字b", 6, "a字…b"),
        ("e\u0301e\u0301", 2, "e\u0301e\u0301"),
    ],
)  # fmt: skip
def test_the_middle_gives_way(text: str, width: int, shown: str) -> None:
    assert shortened(text, width) == shown
    assert printed_width(shown) <= width
