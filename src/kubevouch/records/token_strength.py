"""How hard the secret of a bootstrap token is to guess.

``cluster-info`` is public and signed with each token that is for it, so that anybody can try secrets at home, billions
a second (NCC-E003660-WHE, kubernetes/kubernetes#119639). A random secret of sixteen characters has 82.7 bits.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

FLOOR_BITS = 60.0
"""What tools of ours take: sixteen hexadecimal digits are 64 bits, sixteen decimal ones 53."""

# What a character costs a guesser who has found out how the secret goes on, and what a word does.
_GOES_ON_BITS, _WORD_BITS = 1.0, 10.0
_DIGITS, _HEX = set("0123456789"), set("0123456789abcdef")
_LETTERS = set("abcdefghijklmnopqrstuvwxyz")
# So few different characters are an alphabet of their own; random hexadecimal digits have more but once in 30,000.
_FEW = 5
_ROWS = ("0123456789abcdefghijklmnopqrstuvwxyz", "1234567890", "qwertyuiop", "asdfghjkl", "zxcvbnm")
_WORDS = (
    "admin", "bootstrap", "changeme", "cluster", "default", "kubeadm", "kubelet", "kubernetes", "letmein", "master",
    "password", "secret", "token", "welcome",
)  # fmt: skip
# Characters in a row that have to repeat what came before: fewer do so by chance.
_REPEAT = 3


def estimated_bits(token_id: str, secret: str) -> float:
    """At most what guessing the secret costs: log2 of the tries.

    A low value is certain to be weak, a high one is not certain to be strong: only a random choice is.
    """
    each = math.log2(_alphabet(set(secret)))
    word_bits, covered = _words(secret, (*_WORDS, token_id))
    rest = [at for at in range(len(secret)) if at not in covered]
    known = covered | set(_runs(secret)) | set(_repeats(secret))
    bits = sum(_GOES_ON_BITS if at in known else each for at in rest)
    return min(bits + word_bits, len(secret) * each)


def _alphabet(used: set[str]) -> int:
    if len(used) <= _FEW:
        return max(len(used), 1)
    for alphabet in (_DIGITS, _HEX, _LETTERS):
        if used <= alphabet:
            return len(alphabet)
    return len(_DIGITS | _LETTERS)


def _words(secret: str, words: tuple[str, ...]) -> tuple[float, set[int]]:
    bits, covered = 0.0, set[int]()
    for word in words:
        at = secret.find(word)
        while at >= 0:
            bits += _WORD_BITS
            covered |= set(range(at, at + len(word)))
            at = secret.find(word, at + 1)
    return bits, covered


def _runs(secret: str) -> Iterator[int]:
    """Characters that continue a row of the keyboard or the alphabet, either way, or stay the same; also two runs
    through the alphabet that take turns.
    """
    for stride, rows in ((1, _ROWS), (2, _ROWS[:1])):
        for at in range(2 * stride, len(secret)):
            three = secret[at - 2 * stride : at + 1 : stride]
            if len(set(three)) == 1 or any(three in row or three[::-1] in row for row in rows):
                yield at


def _repeats(secret: str) -> Iterator[int]:
    """Characters that stand in at least three which came before in the same order."""
    for start in range(1, len(secret) - _REPEAT + 1):
        if secret.find(secret[start : start + _REPEAT]) < start:
            yield from range(start, start + _REPEAT)
