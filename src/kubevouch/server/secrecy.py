"""Requests about objects that hold credentials, and what may be written down when one of them fails.

An error tells a client which value is wrong, and what a patch made of the object: Kubernetes' own texts print values.
The client has sent them, or would have been answered with the object. Whoever reads the audit log or the traces may
not read Secrets.
"""

from __future__ import annotations

import msgspec

from kubevouch.machinery.errors import Reason
from kubevouch.machinery.meta import Status, StatusDetails
from kubevouch.server.request_info import RequestInfo

# Their bodies are never recorded, whatever a policy asks for.
SECRET_BODIES = frozenset(
    {
        ("", "secrets", ""),
        ("", "serviceaccounts", "token"),
        ("authentication.k8s.io", "tokenreviews", ""),
        ("authentication.k8s.io", "tokenrequests", ""),
    }
)
# ConfigMaps hold kubeconfigs and whatever else people put there: recorded where a policy asks for bodies.
_DISCREET = SECRET_BODIES | {("", "configmaps", "")}
_REASONS = frozenset(str(reason) for reason in Reason)


def is_discreet(info: RequestInfo) -> bool:
    """Whether an error's text may hold a credential."""
    return info.is_resource and (info.group, info.resource, info.subresource) in _DISCREET


def recorded(status: Status, info: RequestInfo) -> Status:
    """What may be written down of a failure: what is in the request's own path, and Kubernetes' word for the reason.

    A webhook writes message, reason and details as it likes, so that nothing else is taken over.
    """
    reason = status.reason if status.reason in _REASONS else ""
    details = StatusDetails(name=info.name, group=info.group, kind=info.resource)
    what = f'{info.resource} "{info.name}"' if info.name else info.resource
    message = f"{what}: {reason or 'refused'}; the text may hold values of the object and is not recorded"
    return msgspec.structs.replace(status, message=message, reason=reason, details=details)
