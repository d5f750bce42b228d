"""What a client is told when authorization refuses.

Source: k8s.io/apiserver/pkg/endpoints/handlers/responsewriters/errors.go (Kubernetes 1.36).
"""

from __future__ import annotations

from kubevouch.authorization.interface import Attributes
from kubevouch.machinery import errors
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.scheme import GroupResource
from kubevouch.machinery.text.gotext import quote

_HTML = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def forbidden(attributes: Attributes, reason: str = "") -> APIStatusError:
    """The 403 for what was asked, with the authorizers' reason behind it."""
    # Names of users and paths come from outside and may end in a browser; the reason is our own.
    message = sentence(attributes).translate(_HTML)
    if reason:
        message = f"{message}: {reason}"
    if not attributes.is_resource_request:
        return errors.forbidden_path(message)
    return errors.forbidden(GroupResource(attributes.group, attributes.resource), attributes.name, message)


def sentence(attributes: Attributes) -> str:
    """Who cannot do what, in Kubernetes' words."""
    subject = f"User {quote(attributes.user.name)} cannot {attributes.verb}"
    if not attributes.is_resource_request:
        return f"{subject} path {quote(attributes.path)}"
    resource = attributes.resource
    if attributes.subresource:
        resource = f"{resource}/{attributes.subresource}"
    scope = f"in the namespace {quote(attributes.namespace)}" if attributes.namespace else "at the cluster scope"
    return f"{subject} resource {quote(resource)} in API group {quote(attributes.group)} {scope}"
