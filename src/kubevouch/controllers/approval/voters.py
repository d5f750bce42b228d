"""Whether those who have spoken about a request still may: asked at the decision, not when they spoke.

A vote lies in the store for as long as its request waits, and much can happen to who cast it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from kubevouch.api.authorization_v1 import ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec
from kubevouch.api.catalog import SUBJECT_ACCESS_REVIEWS
from kubevouch.api.kubevouch_v1alpha1.catalog import CERTIFICATE_APPROVALS
from kubevouch.api.kubevouch_v1alpha1.certificate_approvals import CertificateApproval
from kubevouch.api.kubevouch_v1alpha1.guards import APPROVERS
from kubevouch.client.interface import Client
from kubevouch.controllers.guards import Guards
from kubevouch.policy import revoked_requests
from kubevouch.revocation.revocations import Revocations
from kubevouch.wellknown import AUTHENTICATED_GROUP

MOST, MOST_OF_ONE = 64, 4
"""Questions to the API server about the voters of one request, and about one voter, whose votes can be any number and
may differ in their groups. The oldest votes are asked about, and those behind count for nothing."""

_RIGHT = ResourceAttributes(
    group=CERTIFICATE_APPROVALS.group, version="*", resource=CERTIFICATE_APPROVALS.plural, verb="create"
)


class Voters:
    """Args:
    revocations: known before any controller runs.
    guards: whether the API server lets anybody vote in another's name.
    """

    def __init__(self, client: Client, revocations: Revocations, guards: Guards) -> None:
        self._client = client
        self._guards = guards
        self._revocations = revocations

    async def void(self, votes: Iterable[CertificateApproval]) -> Mapping[str, str]:
        """Of ``votes``, those that count no more, by their names: why.

        The right is the one that it took to vote, with the groups that the vote has of its author: whoever has left a
        group is in it here until the request is decided.

        Raises:
            APIStatusError, TransportError: that cannot be asked now.
        """
        votes = tuple(votes)
        if votes and (fault := await self._guards.fault(APPROVERS)):
            return {each.metadata.name: f"anybody may have said it in that name here: {fault}" for each in votes}
        found: dict[str, str] = {}
        allowed: dict[tuple[str, frozenset[str]], bool] = {}
        of_one: Counter[str] = Counter()
        for vote in sorted(votes, key=_age):
            why = revoked_requests.voter_refusal(vote, self._revocations)
            if not why:
                user, who = vote.spec.approver, (vote.spec.approver, frozenset(vote.spec.groups))
                if who not in allowed and len(allowed) < MOST and of_one[user] < MOST_OF_ONE:
                    of_one[user] += 1
                    allowed[who] = await self._may_vote(*who)
                if who not in allowed:
                    why = "comes behind too many other votes about this request"
                elif not allowed[who]:
                    why = f"may no longer create {CERTIFICATE_APPROVALS.plural}"
            if why:
                found[vote.metadata.name] = why
        return found

    async def _may_vote(self, user: str, groups: frozenset[str]) -> bool:
        asked = SubjectAccessReviewSpec(
            user=user, groups=sorted(groups | {AUTHENTICATED_GROUP}), resource_attributes=_RIGHT
        )
        answer = await self._client.create(SUBJECT_ACCESS_REVIEWS, SubjectAccessReview(spec=asked))
        return answer.status.allowed


def _age(vote: CertificateApproval) -> tuple[int, str]:
    created = vote.metadata.creation_timestamp
    return (0 if created is None else created.seconds, vote.metadata.name)
