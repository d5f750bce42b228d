"""Several errors in one sentence (k8s.io/apimachinery/pkg/util/errors, Kubernetes 1.36)."""

from __future__ import annotations

from collections.abc import Iterable


def aggregate(errors: Iterable[object]) -> str:
    """The only one as it is, several as ``[a, b]`` without repeats, none as an empty text."""
    texts = list(dict.fromkeys(map(str, errors)))
    if len(texts) > 1:
        return f"[{', '.join(texts)}]"
    return texts[0] if texts else ""
