"""What somebody who has mistyped a word may have meant."""

from __future__ import annotations

from collections.abc import Iterable

_MOST = 2
_LIKENESS = 0.65  # of difflib's 1
_MOST_COMPARED = 5000  # each costs some microseconds; a cluster may have more names than anybody reads


def meant(word: str, among: Iterable[str], hint: str = "") -> str:
    """``hint`` with a question before it that names what is nearest to ``word``; ``hint`` alone if nothing is near."""
    # Half of what a command that is typed well would load.
    from difflib import get_close_matches
    from itertools import islice

    found = get_close_matches(word, islice(among, _MOST_COMPARED), n=_MOST, cutoff=_LIKENESS)
    if not found:
        return hint
    question = f"did you mean {' or '.join(found)}?"
    return f"{question} {hint}" if hint else question
