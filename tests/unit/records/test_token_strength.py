"""What a guesser knows of a secret; what people choose is in tests/attacks/test_s19_tokens.py."""

from __future__ import annotations

import pytest

from kubevouch.records.token_strength import FLOOR_BITS, estimated_bits


@pytest.mark.parametrize(
    ("secret", "bits"),
    [
        ("k7wq2nx4mz8tbr5h", 82.7),  # as random as it gets
        ("9f86d081884c7d65", 64.0),  # hexadecimal digits
        ("4820593717602841", 53.2),  # decimal ones
        ("aaaaaaaaaaaaaaaa", 0.0),
        ("abababababababab", 16.0),  # two letters, whatever their order
        ("k7wq2nx4k7wq2nx4", 8 * 5.17 + 8),  # half of it is the other half
        ("k7wq2npasswordx4", 8 * 5.17 + 10),
        ("k7wq2nxabc123zbr", 10 * 5.17 + 10),  # the token's ID
        ("k7wq2nxfghijkzbr", 12 * 5.17 + 4),  # a run through the alphabet
        ("k7wq2nxkjihgfzbr", 12 * 5.17 + 4),  # and back
        ("k7wq2nxasdfghzbr", 12 * 5.17 + 4),  # along the keyboard
    ],
)
def test_bits(secret: str, bits: float) -> None:
    assert estimated_bits("abc123", secret) == pytest.approx(bits, abs=0.2)


def test_the_floor_lies_between_hexadecimal_and_decimal_digits() -> None:
    assert estimated_bits("abc123", "9f86d081884c7d65") >= FLOOR_BITS > estimated_bits("abc123", "4821059371602847")
