"""Kubernetes' order of API versions: v10, v2, v1, v11beta2, v10beta3, v3beta1, v12alpha1, foo1, foo10.

Source: k8s.io/apimachinery/pkg/version/helpers.go (Kubernetes 1.36).
"""

from __future__ import annotations

import re

_VERSION = re.compile(r"v([1-9][0-9]*)(?:(alpha|beta)([1-9][0-9]*))?", re.ASCII)
_STAGES = {None: 3, "beta": 2, "alpha": 1}
Priority = tuple[int, int, int, tuple[int, ...]]


def version_priority(name: str) -> Priority:
    """What sorts versions, the preferred one highest."""
    found = _VERSION.fullmatch(name)
    if found is None or len(name) > 40:
        # Other names come last, in the order of the alphabet.
        return 0, 0, 0, (*(-ord(char) for char in name), 1)
    return _STAGES[found[2]], int(found[1]), int(found[3] or 0), ()
