from __future__ import annotations

import pytest

from kubevouch.cel.regular_expressions import compiled_pattern
from kubevouch.cel.values import EvaluationError


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("(abc", "missing closing ): `(abc`"),
        ("x[a-z", "missing closing ]: `[a-z`"),
        ("abc)", "unexpected ): `abc)`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("*a", "missing argument to repetition operator: `*`"),
        ("a{1001}", "invalid repeat count: `{1001}`"),
        ("a{2,1}", "invalid repeat count: `{2,1}`"),
        ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
        ("(?!a)b", "invalid or unsupported Perl syntax: `(?!`"),
        ("x(?<=a)b", "invalid named capture: `(?<=a)b`"),
        ("(?<!a>)b", "invalid named capture: `(?<!a>`"),
        ("(?P<n", "invalid named capture: `(?P<n`"),
        (r"(a)\1", r"invalid escape sequence: `\1`"),
        (r"a\C", r"invalid escape sequence: `\C`"),
        ("[z-a]", "invalid character class range: `z-a`"),
        ("[[:foo:]]", "invalid character class range: `[:foo:]`"),
        ("a\\", "trailing backslash at end of expression: ``"),
    ],
)
def test_what_is_wrong_with_a_pattern_is_said_in_go_words(pattern: str, why: str) -> None:
    with pytest.raises(EvaluationError) as raised:
        compiled_pattern(pattern)
    assert str(raised.value) == f"error parsing regexp: {why}"


@pytest.mark.parametrize("pattern", [r"\\C", r"\Q\C", r"\Q\C\E", "(?<name>a)"])
def test_what_go_takes_is_taken(pattern: str) -> None:
    assert compiled_pattern(pattern) is not None
