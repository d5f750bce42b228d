"""How a plug-in refuses a request.

Source: k8s.io/apiserver/pkg/admission/errors.go (Kubernetes 1.36).
"""

from __future__ import annotations

from kubevouch.admission.interface import Request
from kubevouch.machinery import errors
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import ObjectMeta


def refused(request: Request, why: str) -> APIStatusError:
    """The 403 for a request. A creation may not have its name yet: then the prefix of the name stands for it."""
    return errors.forbidden(request.resource, requested_name(request) or "Unknown", why)


def requested_name(request: Request) -> str:
    """The object's name, or the prefix from which the server will make one."""
    if request.name or request.obj is None:
        return request.name
    metadata: ObjectMeta = request.obj.metadata
    return metadata.name or metadata.generate_name
