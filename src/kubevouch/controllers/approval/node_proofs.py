"""The proofs that a request carries, verified by their methods, each as the answer to a challenge for this key.

RefusedEvidenceError, UnsupportedVersionError, UnavailableError    as the methods raise them
"""

from __future__ import annotations

import datetime as dt
import functools
from collections.abc import Sequence

import msgspec

from kubevouch import wellknown
from kubevouch.api.certificates_v1 import CertificateSigningRequest
from kubevouch.api.kubevouch_v1alpha1.attestation_challenges import READY, AttestationChallenge
from kubevouch.api.kubevouch_v1alpha1.catalog import ATTESTATION_CHALLENGES
from kubevouch.api.kubevouch_v1alpha1.node_identities import MAX_IDENTITY
from kubevouch.attestation import request as blocks
from kubevouch.attestation.interface import (
    Attested,
    Binding,
    Challenge,
    Evidence,
    RefusedEvidenceError,
    UnsupportedVersionError,
    Verifier,
)
from kubevouch.client.interface import Client, TransportError
from kubevouch.client.stored import find
from kubevouch.controllers.approval.node_claims import unwritten
from kubevouch.controllers.attestation import Attestation, ClusterID
from kubevouch.controllers.outside_questions import RequestQuestions
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.text import names
from kubevouch.pki.x509.x509_request import CertificateRequest
from kubevouch.policy.facts import RequestFacts
from kubevouch.records.cluster_identity import CLUSTER_ANNOTATION

_REMEMBERED = 4096


class NodeProofs:
    """Verifies each request once: what it says never changes, and a cloud is not asked again while it waits."""

    def __init__(self, client: Client, attestation: Attestation, questions: RequestQuestions) -> None:
        self._client = client
        self._questions = questions
        self._verifiers = attestation.verifiers
        self._cluster = ClusterID(client)
        self._verified = attestation.proven

    async def verified(
        self,
        csr: CertificateSigningRequest,
        provider: str,
        facts: RequestFacts,
        request: CertificateRequest,
        now: dt.datetime,
    ) -> tuple[Attested, ...]:
        """All that the request shows, the method of its signer, ``provider``, first.

        Raises:
            RefusedEvidenceError, UnsupportedVersionError, UnavailableError, UnansweredError, ReconcileError,
            APIStatusError, TransportError
        """
        found = self._verified.get(facts.uid)
        if found is None:
            found = await self._verify(csr, self._evidence(csr, provider), facts, request, now)
            self._verified[facts.uid] = found
            if len(self._verified) > _REMEMBERED:
                del self._verified[next(iter(self._verified))]
        return found

    def _evidence(self, csr: CertificateSigningRequest, provider: str) -> tuple[Evidence, ...]:
        evidence = blocks.parse(csr.spec.request or b"")
        if evidence[0].provider != provider:
            raise RefusedEvidenceError(
                "provider", f"got evidence of {evidence[0].provider} at the signer of {provider}"
            )
        for each in evidence:
            verifier = self._verifiers.get(each.provider)
            if verifier is None:
                raise RefusedEvidenceError("provider", f"{each.provider} is no method that counts here")
            if each.version not in verifier.versions:
                # Of one proof among several it has to be said whose versions they are.
                prefix = f"{each.provider}/" if len(evidence) > 1 else ""
                supported = [f"{prefix}{version}" for version in verifier.versions]
                raise UnsupportedVersionError(each.provider, each.version, supported)
        return evidence

    async def _verify(
        self,
        csr: CertificateSigningRequest,
        evidence: Sequence[Evidence],
        facts: RequestFacts,
        request: CertificateRequest,
        now: dt.datetime,
    ) -> tuple[Attested, ...]:
        # 1. Before anything is used up or looked for: so a proof for another cluster finds out nothing about this one.
        cluster = await self._cluster.verify(csr.metadata.annotations.get(CLUSTER_ANNOTATION, ""))
        # 2. All challenges are used up before the first proof is looked at, so that none is left for another try.
        answered = [await self._challenge(facts, each, self._verifiers[each.provider]) for each in evidence]
        came, proofs = came_at(facts, now), []
        for place, (each, (challenge, nonce)) in enumerate(zip(evidence, answered, strict=True)):
            binding = Binding(request.public_key.canonical_info, cluster, nonce)
            verifier = self._verifiers[each.provider]
            verify = functools.partial(verifier.verify_client, each, binding, challenge, came)
            asked = _destination(verifier, each)
            found = self._questions.answer(csr, each.provider, asked, verify, place) if asked else await verify()
            if found.provider != each.provider or not found.identity:
                raise RefusedEvidenceError("identity", f"{each.provider} names no machine")
            # A claim that cannot be written down would be tried for ever.
            if len(found.identity.encode()) > MAX_IDENTITY:
                raise RefusedEvidenceError(
                    "identity", f"{each.provider} names a machine with more than {MAX_IDENTITY} octets"
                )
            proofs.append(found)
        return tuple(proofs)

    async def _challenge(
        self, facts: RequestFacts, evidence: Evidence, verifier: Verifier
    ) -> tuple[Challenge | None, bytes]:
        """What the evidence answers, used up by this request from now on."""
        name = evidence.challenge
        if not name:
            if verifier.needs_challenge:
                raise RefusedEvidenceError("challenge", f"{evidence.provider} counts only as the answer to a challenge")
            return None, b""
        # Whoever asks chooses it: what no object can be called is not even looked for.
        found = None if names.subdomain(name) else await find(self._client, ATTESTATION_CHALLENGES, name)
        if found is None:
            raise RefusedEvidenceError("challenge", f"there is no challenge {name[:253]!r}: it has ended")
        spec, status = found.spec, found.status
        asked = (spec.provider, spec.version, spec.key_fingerprint)
        if asked != (evidence.provider, evidence.version, facts.key_fingerprint):
            raise RefusedEvidenceError("challenge", f"{name} is for another key, method or version")
        if not any(each.type == READY and each.status == wellknown.CONDITION_TRUE for each in status.conditions):
            raise RefusedEvidenceError("challenge", f"{name} was not to be answered")
        # By when the request came, and not by when it is looked at: who has answered in time may have to wait.
        created, ends = facts.created, status.expires_at
        if ends is None or created is None or created > ends.datetime():
            raise RefusedEvidenceError("challenge-expired", f"{name} ended at {ends}")
        if status.used_by and status.used_by != facts.uid:
            raise RefusedEvidenceError("challenge-used", f"{name} was answered by another request")
        if not status.used_by:
            await self._use(found, facts.uid)
        return Challenge(content=status.content, secret_digest=status.secret_digest, state=status.state), status.nonce

    async def _use(self, challenge: AttestationChallenge, uid: str) -> None:
        """Of two that come at once the second finds another version, and looks again. Raises ReconcileError."""
        status = msgspec.structs.replace(challenge.status, used_by=uid)
        try:
            await self._client.update(
                ATTESTATION_CHALLENGES, msgspec.structs.replace(challenge, status=status), subresource="status"
            )
        except (APIStatusError, TransportError) as err:
            raise unwritten(f"the use of challenge {challenge.metadata.name}", err) from err


def came_at(facts: RequestFacts, now: dt.datetime) -> dt.datetime:
    """When the request came, which its proofs are held to however long it waits.

    Objects have whole seconds: what was made in the rest of that one was not made later.
    """
    return now if facts.created is None else min(now, facts.created + dt.timedelta(seconds=1))


def _destination(verifier: Verifier, evidence: Evidence) -> str:
    # A plug-in of before has no such method, and may ask anybody.
    destination = getattr(verifier, "destination", None)
    return verifier.name if destination is None else str(destination(evidence))
