"""Several authorizers in their order.

Source: k8s.io/apiserver/pkg/authorization/union (Kubernetes 1.36).
"""

from __future__ import annotations

from collections.abc import Sequence

from kubevouch.authentication.aggregate import aggregate
from kubevouch.authentication.interface import UserInfo
from kubevouch.authorization.interface import Attributes, Authorizer, Decision, Rule, RuleResolver, Rules, Verdict


class UnionAuthorizer:
    """The first that allows or denies decides; if all abstain, their reasons and errors are kept together.

    Args:
        authorizers: in their order, the privileged group first.
        resolvers: those that can list what they allow.
    """

    def __init__(self, authorizers: Sequence[Authorizer], resolvers: Sequence[RuleResolver] = ()) -> None:
        self._authorizers = tuple(authorizers)
        self._resolvers = tuple(resolvers)

    def replace(self, authorizers: Sequence[Authorizer], resolvers: Sequence[RuleResolver]) -> None:
        """Ask others from the next request on."""
        self._authorizers, self._resolvers = tuple(authorizers), tuple(resolvers)

    async def authorize(self, attributes: Attributes) -> Verdict:
        reasons: list[str] = []
        errors: list[str] = []
        for authorizer in self._authorizers:
            verdict = await authorizer.authorize(attributes)
            if verdict.decision is not Decision.NO_OPINION:
                return verdict
            if verdict.reason:
                reasons.append(verdict.reason)
            if verdict.error:
                errors.append(verdict.error)
        return Verdict(Decision.NO_OPINION, "\n".join(reasons), aggregate(errors))

    async def rules_for(self, user: UserInfo, namespace: str) -> Rules:
        rules: list[Rule] = []
        errors: list[str] = []
        incomplete = False
        for resolver in self._resolvers:
            resolved = await resolver.rules_for(user, namespace)
            rules += resolved.rules
            incomplete = incomplete or resolved.incomplete
            if resolved.error:
                errors.append(resolved.error)
        return Rules(tuple(rules), incomplete, aggregate(errors))
