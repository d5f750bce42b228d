"""What plug-ins put on record (k8s.io/apiserver/pkg/admission/attributes.go, Kubernetes 1.36)."""

from __future__ import annotations

from kubevouch.admission.interface import Request
from kubevouch.machinery.text import names
from kubevouch.util.logger import get_logger

PATCH = "patch.webhook.admission.k8s.io"
"""Prefix of annotations that show what was written: for events that hold the request's object, and only for them."""

VALIDATION_FAILURE = "validation.policy.admission.k8s.io/validation_failure"
"""What policies with the action Audit have found; their messages may hold values of the object."""

log = get_logger("admission")


def annotate(request: Request, key: str, value: str) -> None:
    """Add an annotation to the request's audit event; what is there already stays."""
    if key.count("/") != 1 or names.qualified_name(key):
        log.warning("an audit annotation has a key that is none", key=key)
    elif request.annotations.setdefault(key, value) != value:
        log.warning("an audit annotation is there already", key=key)
