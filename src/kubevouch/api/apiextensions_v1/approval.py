"""Whether a kind in one of Kubernetes' own groups was approved.

Source: k8s.io/apiextensions-apiserver pkg/apihelpers/helpers.go (Kubernetes 1.36).
"""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Mapping
from enum import Enum

ANNOTATION = "api-approved.kubernetes.io"
_RULES = f'protected groups must have approval annotation "{ANNOTATION}"'
_SEE = "see https://github.com/kubernetes/enhancements/pull/1111"
_UNPRINTABLE = re.compile(r"[\x00-\x20\x7f]")


class Approval(Enum):
    """What the annotation says, with the reason of the condition."""

    MISSING = "MissingAnnotation"
    INVALID = "InvalidAnnotation"
    BYPASSED = "UnapprovedAnnotation"
    APPROVED = "ApprovedAnnotation"


def is_protected(group: str) -> bool:
    """Whether kinds of the group need approval."""
    return f".{group}".endswith((".k8s.io", ".kubernetes.io"))


def approval_of(annotations: Mapping[str, str]) -> tuple[Approval, str]:
    """What is said of a kind, and the sentence for it."""
    text = annotations.get(ANNOTATION, "")
    if not text:
        return Approval.MISSING, f"{_RULES}, {_SEE}"
    if text.startswith("unapproved"):
        return Approval.BYPASSED, f'not approved: "{text}"'
    if _is_absolute(text):
        return Approval.APPROVED, f"approved in {text}"
    return Approval.INVALID, f'{_RULES} with either a URL or a reason starting with "unapproved", {_SEE}'


def _is_absolute(text: str) -> bool:
    """With scheme and host (``net/url.ParseRequestURI``)."""
    if _UNPRINTABLE.search(text):
        return False
    try:
        parts = urllib.parse.urlsplit(text)
        port = parts.port
    except ValueError:
        return False
    del port  # asked for because only then it is looked at
    return bool(parts.scheme and parts.netloc.rpartition("@")[2])
