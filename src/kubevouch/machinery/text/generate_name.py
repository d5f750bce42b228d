"""Names made from ``metadata.generateName``: the prefix and five random characters.

Source: k8s.io/apiserver/pkg/storage/names, k8s.io/apimachinery/pkg/util/rand (Kubernetes 1.36).
"""

from __future__ import annotations

import secrets
from collections.abc import Callable

# No vowels, so that no words appear; no 0, 1 and 3, which look like letters.
ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
MAX_PREFIX_BYTES = 58
SUFFIX_LENGTH = 5


def generate_name(prefix: str, choose: Callable[[str], str] = secrets.choice) -> str:
    """A name that starts with ``prefix``, cut so that prefix and suffix have at most 63 bytes.

    Args:
        choose: picks one of the characters it is given; a test may pin it.
    """
    cut = prefix.encode("utf-8", "surrogatepass")[:MAX_PREFIX_BYTES].decode("utf-8", "ignore")
    return cut + "".join(choose(ALPHABET) for _ in range(SUFFIX_LENGTH))
