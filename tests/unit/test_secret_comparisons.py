"""Secrets are compared in constant time: nobody learns from the time of an answer how much of a guess was right."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import kubevouch

_SOURCES = Path(kubevouch.__file__).parent
_OBJECTS = ("secret", "proof")
_SECRET_WORDS = ("secret", "password", "hmac", "mac", "proof")


def holds_a_secret(node: ast.expr) -> bool:
    """Whether a name in it ends in such a word. A ``secret`` or ``proof`` is an object, whose members are looked at by
    their own names; constants name types."""
    for part in ast.walk(node):
        name = part.attr if isinstance(part, ast.Attribute) else part.id if isinstance(part, ast.Name) else ""
        if name not in _OBJECTS and not name.isupper() and name.rpartition("_")[2] in _SECRET_WORDS:
            return True
        if isinstance(part, ast.Attribute) and name in _OBJECTS:
            return True
    return False


def plain_comparisons(source: str) -> Iterator[int]:
    """The lines that compare a secret with something that is not a constant, other than by ``compare_digest``."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Compare) and any(isinstance(op, (ast.Eq, ast.NotEq)) for op in node.ops):
            sides = [node.left, *node.comparators]
            if any(map(holds_a_secret, sides)) and not any(isinstance(side, ast.Constant) for side in sides):
                yield node.lineno


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("token.secret == given", [1]),
        ("if given != token_secret:\n    pass", [1]),
        ("expected_mac == x.mac", [1]),
        ("secret.data.get(KEY, b'') != token_secret.encode()", [1]),
        ("hmac.new(a, b).digest() == given", [1]),
        ("hmac.compare_digest(secret, given)", []),
        ("secret == ''", []),
        ("secret_name == other", []),
        ("secret.type == wellknown.TLS_SECRET", []),
        ("proof.version != VERSION_READ", []),
        ("answer.proof == expected", [1]),
        ("recovery_proof == expected", [1]),
    ],
)
def test_the_rule_itself(source: str, lines: list[int]) -> None:
    assert list(plain_comparisons(source)) == lines


def test_no_secret_is_compared_in_plain() -> None:
    found = [
        f"{path.relative_to(_SOURCES)}:{line}"
        for path in sorted(_SOURCES.rglob("*.py"))
        for line in plain_comparisons(path.read_text())
    ]
    assert found == []
