"""Authorizers that do not look.

Source: k8s.io/apiserver/pkg/authorization/authorizerfactory (Kubernetes 1.36).
"""

from __future__ import annotations

from kubevouch.authentication.interface import UserInfo
from kubevouch.authorization.interface import Attributes, Decision, Rule, Rules, Verdict
from kubevouch.util.logger import get_logger

log = get_logger("authorization.always")

_EVERYTHING = Rules((Rule(("*",), ("*",), ("*",)), Rule(("*",), non_resource_urls=("*",))))


class InsecureAlwaysAllowAuthorizer:
    """Allows everybody everything (AlwaysAllow), and says so each time it allows what nothing else had allowed."""

    async def authorize(self, attributes: Attributes) -> Verdict:
        log.warning(
            "allowed without authorization: AlwaysAllow is on",
            user=attributes.user.name,
            verb=attributes.verb,
            resource=attributes.resource,
            path=attributes.path,
        )
        return Verdict(Decision.ALLOW)

    async def rules_for(self, user: UserInfo, namespace: str) -> Rules:  # noqa: ARG002 - the interface's
        return _EVERYTHING


class AlwaysDenyAuthorizer:
    """Allows nobody anything (AlwaysDeny). It abstains, as Kubernetes' does, so others may still allow."""

    async def authorize(self, attributes: Attributes) -> Verdict:  # noqa: ARG002 - the interface's
        return Verdict(Decision.NO_OPINION, "Everything is forbidden.")

    async def rules_for(self, user: UserInfo, namespace: str) -> Rules:  # noqa: ARG002 - the interface's
        return Rules(())
