"""AttestationChallenges have the budgets of certificate signing requests: so many that nobody has answered, and bytes.

From where a challenge was asked for is written down as it is on requests. Of a token that has as many as it may, an
address with fewer than another one is let in all the same: then node-attestation-controller deletes the oldest one of
the largest source that nobody has answered. Whoever has stolen the fleet's token so pays with its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

from kubevouch import wellknown
from kubevouch.admission.certificate_request_budget import (
    DEFAULT_BUDGET,
    NAME_BUDGET,
    NODE_BUDGET,
    RETRY_AFTER_SECONDS,
    SOURCE_BUDGET,
)
from kubevouch.admission.interface import Operation, Request
from kubevouch.admission.open_objects import OpenObject, OpenObjects
from kubevouch.api.kubevouch_v1alpha1.attestation_challenges import AttestationChallenge
from kubevouch.api.kubevouch_v1alpha1.catalog import ATTESTATION_CHALLENGES
from kubevouch.machinery import errors
from kubevouch.machinery.meta import replace_metadata
from kubevouch.machinery.scheme import GroupResource
from kubevouch.records.token_bounds import SOURCE_ADDRESS_ANNOTATION
from kubevouch.util.addresses import source_prefix

BYTES_BUDGET = 32 << 20
"""Of what the challenges of one requester open with, in base64: a fleet joins with one token."""
SOURCE_BYTES_BUDGET = 4 << 20
"""Of those from one address."""
_MACHINES = (wellknown.BOOTSTRAP_USER_PREFIX, wellknown.NODE_USER_PREFIX)


class OpenChallenges:
    """Challenges that nobody has answered.

    Args:
        trusts_annotations: the API server has written down from where they came.
        most: of one requester.
    """

    def __init__(self, *, trusts_annotations: bool = True, most: int = DEFAULT_BUDGET) -> None:
        self.objects = OpenObjects()
        self._most = most
        self._trusts_annotations = trusts_annotations

    def load(self, challenges: Iterable[AttestationChallenge]) -> None:
        """Start from all there are."""
        self.objects.clear()
        for each in challenges:
            self.changed(each.metadata.name, each)

    def changed(self, name: str, challenge: AttestationChallenge | None) -> None:
        """The challenge ``name`` is now this, or gone."""
        if challenge is None or challenge.status.used_by:
            self.objects.discard(name)
        else:
            self.objects.add(name, self._counted(challenge))

    def _counted(self, challenge: AttestationChallenge) -> OpenObject:
        spec, meta = challenge.spec, challenge.metadata
        source = meta.annotations.get(SOURCE_ADDRESS_ANNOTATION, "") if self._trusts_annotations else ""
        created = 0 if meta.creation_timestamp is None else meta.creation_timestamp.seconds
        size = (len(spec.opening) + 2) // 3 * 4
        return OpenObject(spec.requester, _source(spec.requester, source), _digest(spec.key_fingerprint), size, created)

    def are_too_many(self, requester: str, most: int | None = None, more: int = 0) -> bool:
        """Whether the requester has more than it may, ``most`` or what any may, with ``more`` that are yet to count."""
        allowed = self._most if most is None else most
        return self.objects.count(requester) + more > allowed or self.objects.size(requester) > BYTES_BUDGET


def _source(requester: str, address: str) -> str:
    """What counts as one source: of tokens, which many have, and of nobody else."""
    return source_prefix(address) if address and requester.startswith(wellknown.BOOTSTRAP_USER_PREFIX) else ""


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode(errors="surrogatepass")).digest()


class AttestationChallengeBudget:
    """Refuses a creation over the budget with 429. Members of ``system:masters`` have none."""

    name = "AttestationChallengeBudget"

    def __init__(
        self,
        challenges: OpenChallenges,
        *,
        node: int = NODE_BUDGET,
        default: int = DEFAULT_BUDGET,
        source: int = SOURCE_BUDGET,
        key: int = NAME_BUDGET,
    ) -> None:
        self._challenges = challenges
        self._node = node
        self._default = default
        self._source = source
        self._key = key

    def handles(self, operation: Operation, resource: GroupResource, subresource: str) -> bool:
        writes = operation in (Operation.CREATE, Operation.UPDATE)
        return writes and resource == ATTESTATION_CHALLENGES.group_resource and not subresource

    async def admit(self, request: Request) -> Any:
        """The challenge with the address that a machine asks from, or without one, whatever the client says.

        Before any other plug-in looks at what is too much. Raises ``APIStatusError`` (429).
        """
        if request.operation is Operation.CREATE:
            source = request.source if request.user.name.startswith(_MACHINES) else ""
            self._refuse_over_budget(request, source)
        else:
            source = request.old.metadata.annotations.get(SOURCE_ADDRESS_ANNOTATION, "")
        annotations = {
            key: value for key, value in request.obj.metadata.annotations.items() if key != SOURCE_ADDRESS_ANNOTATION
        }
        if source:
            annotations[SOURCE_ADDRESS_ANNOTATION] = source
        return replace_metadata(request.obj, annotations=annotations)

    def _refuse_over_budget(self, request: Request, address: str) -> None:
        user = request.user
        if wellknown.MASTERS_GROUP in user.groups:
            return
        source = _source(user.name, address)
        if source:
            self._refuse_over_source(request, source)
        budget = self._node if wellknown.NODES_GROUP in user.groups else self._default
        if self._challenges.are_too_many(user.name, budget, 1) and not self._may_displace(user.name, source):
            raise errors.too_many_requests(
                f"{user.name} has {self._challenges.objects.count(user.name)} attestation challenges that nobody has"
                f" answered, at most {budget} and {BYTES_BUDGET >> 20} MiB of them are allowed: each ends within two"
                " minutes",
                RETRY_AFTER_SECONDS,
            )

    def _refuse_over_source(self, request: Request, source: str) -> None:
        spec = request.obj.content.get("spec")
        key = spec.get("keyFingerprint", "") if isinstance(spec, dict) else ""
        objects = self._challenges.objects
        from_source, for_key = objects.count_from(source, _digest(str(key)))
        if from_source >= self._source or for_key >= self._key or objects.size_from(source) >= SOURCE_BYTES_BUDGET:
            what, most = (" for this key", self._key) if for_key >= self._key else ("", self._source)
            raise errors.too_many_requests(
                f"{source} has as many attestation challenges{what} that nobody has answered as an address may have:"
                f" {most}, or {SOURCE_BYTES_BUDGET >> 20} MiB; each ends within two minutes",
                RETRY_AFTER_SECONDS,
            )

    def _may_displace(self, requester: str, source: str) -> bool:
        """Whether another source of the requester has more, and one of those makes room."""
        objects = self._challenges.objects
        largest, _ = objects.largest_source(requester)
        return bool(source) and objects.weight(requester, largest) > objects.weight(requester, source)
