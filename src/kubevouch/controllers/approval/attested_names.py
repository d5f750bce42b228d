"""Names and addresses that belong to a node because its proof, or who verifies it, says so."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kubevouch.api.certificates_v1 import CertificateSigningRequest
from kubevouch.api.kubevouch_v1alpha1.node_identities import NodeIdentity
from kubevouch.attestation.interface import UnavailableError, Verifier
from kubevouch.client.cache.lister import Lister
from kubevouch.controllers.outside_questions import RequestQuestions
from kubevouch.policy import node_identities
from kubevouch.policy.kubelet_serving import normalized
from kubevouch.util.clock import Clock
from kubevouch.util.logger import get_logger

log = get_logger("controllers.attested_names")


class AttestedNames:
    """Args: ``verifiers``: by the name of the method."""

    def __init__(
        self,
        identities: Lister[NodeIdentity],
        verifiers: Mapping[str, Verifier],
        clock: Clock,
        questions: RequestQuestions,
    ) -> None:
        self._identities = identities
        self._verifiers = verifiers
        self._clock = clock
        self._questions = questions

    def of(self, csr: CertificateSigningRequest, node: str, wanted: Iterable[str]) -> frozenset[str]:
        """Those of ``wanted`` that belong to the machine that the node is, as ``kubelet_serving.normalized`` has them.

        Unless the record has all of them, whoever verifies the proof is asked about the whole request: what one name is
        worth may depend on the others.
        Of who cannot be asked now nothing is known: another source may say so, or the request waits.

        Raises:
            UnansweredError: the verifier is asked.
        """
        identity = self._identities.get(node)
        if identity is None or identity.spec.banned or not identity.status.identity:
            return frozenset()
        proof = node_identities.attested_of(identity.status)
        own = frozenset(map(normalized, (*proof.addresses, *proof.dns_names)))
        asked = frozenset(wanted)
        verifier = self._verifiers.get(proof.provider)
        if asked <= own or verifier is None:
            return own
        try:
            found = self._questions.answer(
                csr,
                proof.provider,
                proof.provider,
                lambda: verifier.verify_serving(proof, sorted(asked), self._clock.now()),
            )
        except UnavailableError as err:
            log.warning("nobody says which names are the machine's", node=node, provider=proof.provider, err=str(err))
            return own
        return own | (frozenset(map(normalized, found)) & asked)
