"""Who writes an admission policy or its binding has to be allowed to read the parameters that it refers to.

Expressions put what they read into messages, so a policy without this rule would show its author what RBAC hides.

Source: pkg/registry/admissionregistration/validatingadmissionpolicy{,binding}/authz.go (Kubernetes 1.36).
"""

from __future__ import annotations

from kubevouch.authentication.interface import UserInfo
from kubevouch.authorization.interface import Attributes, Authorizer, Decision
from kubevouch.wellknown import MASTERS_GROUP

ANY = "*"


class ParamAccess:
    """Asks the authorizer about parameters.

    Args:
        authorizer: the server's.
    """

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    async def may_read_kind(self, user: UserInfo, group: str, version: str, plural: str) -> bool:
        """Whether ``user`` may get every object of a kind; ``*`` where group, version or plural is not known."""
        return await self._may(user, Attributes(user, "get", group, version, plural, namespace=ANY, name=ANY))

    async def may_read_objects(self, user: UserInfo, namespace: str, name: str) -> bool:
        """Whether ``user`` may read the objects that a binding names, or selects when ``name`` is empty.

        The kind is the policy's business, which may be written after its binding: any kind is asked for.
        """
        verb = "get" if name else "list"
        return await self._may(
            user, Attributes(user, verb, ANY, ANY, ANY, namespace=namespace or ANY, name=name or ANY)
        )

    async def _may(self, user: UserInfo, attributes: Attributes) -> bool:
        if MASTERS_GROUP in user.groups:
            return True
        return (await self._authorizer.authorize(attributes)).decision is Decision.ALLOW
