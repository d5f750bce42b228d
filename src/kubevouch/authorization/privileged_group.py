"""Groups whose members may do everything, asked before any configured authorizer.

Source: k8s.io/apiserver/pkg/authorization/authorizerfactory (Kubernetes 1.36).
"""

from __future__ import annotations

from kubevouch.authorization.interface import Attributes, Decision, Verdict
from kubevouch.wellknown import MASTERS_GROUP

_ALLOW = Verdict(Decision.ALLOW)
_NO_OPINION = Verdict(Decision.NO_OPINION)


class PrivilegedGroupAuthorizer:
    """Allows the members of ``group`` everything, whatever RBAC says: the way back in when RBAC is broken."""

    def __init__(self, group: str = MASTERS_GROUP) -> None:
        self._group = group

    async def authorize(self, attributes: Attributes) -> Verdict:
        return _ALLOW if self._group in attributes.user.groups else _NO_OPINION
