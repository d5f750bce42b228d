"""Puts whoever proved an identity into ``system:authenticated``.

Source: k8s.io/apiserver/pkg/authentication/group (Kubernetes 1.36).
"""

from __future__ import annotations

from msgspec.structs import replace

from kubevouch.authentication.interface import Authentication, UserInfo
from kubevouch.wellknown import ANONYMOUS_USER, AUTHENTICATED_GROUP, UNAUTHENTICATED_GROUP


def with_authenticated_group(found: Authentication) -> Authentication:
    """``found`` with the group, unless its user is anonymous or in one of the two special groups already."""
    user = found.user
    if user.name == ANONYMOUS_USER or AUTHENTICATED_GROUP in user.groups or UNAUTHENTICATED_GROUP in user.groups:
        return found
    widened = UserInfo(user.name, user.uid, (*user.groups, AUTHENTICATED_GROUP), user.extra)
    return replace(found, user=widened)
