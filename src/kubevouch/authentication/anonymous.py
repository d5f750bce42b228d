"""Requests without a credential.

Source: k8s.io/apiserver/pkg/authentication/request/anonymous (Kubernetes 1.36).
"""

from __future__ import annotations

from collections.abc import Iterable

from kubevouch.authentication import bearer
from kubevouch.authentication.interface import Authentication, Credentials, UserInfo
from kubevouch.wellknown import ANONYMOUS_USER, UNAUTHENTICATED_GROUP

METHOD = "anonymous"

_USER = UserInfo(ANONYMOUS_USER, groups=(UNAUTHENTICATED_GROUP,))
_ANONYMOUS = Authentication(_USER, METHOD)


class AnonymousAuthenticator:
    """Takes everybody for ``system:anonymous``.

    Args:
        paths: if given, only requests for exactly these URL paths (AnonymousAuthConfig's conditions).
    """

    def __init__(self, paths: Iterable[str] | None = None) -> None:
        self._paths = None if paths is None else frozenset(paths)

    async def authenticate(self, credentials: Credentials, path: str = "") -> Authentication | None:
        if self._paths is not None and path not in self._paths:
            return None
        # Only who comes this far with a malformed header has been ignored, and deserves to hear of it.
        warnings = bearer.warnings_for(credentials.authorization)
        return Authentication(_USER, METHOD, warnings) if warnings else _ANONYMOUS
