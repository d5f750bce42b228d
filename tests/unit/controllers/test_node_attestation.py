"""controllers/node_attestation.py: who makes room where one requester has too many challenges."""

from __future__ import annotations

from asynctest import async_test
from attested_world import Machine, configured
from controller_world import World, world
from kubevouch.admission.attestation_challenge_budget import OpenChallenges
from kubevouch.api.catalog import CERTIFICATE_SIGNING_REQUESTS
from kubevouch.api.certificates_v1 import CertificateSigningRequest
from kubevouch.api.kubevouch_v1alpha1.attestation_challenges import AttestationChallenge, AttestationChallengeSpec
from kubevouch.api.kubevouch_v1alpha1.catalog import ATTESTATION_CHALLENGES
from kubevouch.attestation.interface import Evidence
from kubevouch.client.cache.indexer import Indexer
from kubevouch.client.cache.lister import Lister
from kubevouch.controllers import node_attestation
from kubevouch.controllers.attestation import Attestation
from kubevouch.controllers.interface import request_of
from kubevouch.controllers.node_attestation import CHALLENGE_INDEX, UID_INDEX, ChallengeMaker
from kubevouch.machinery.meta import ObjectMeta, replace_metadata
from kubevouch.records.token_bounds import SOURCE_ADDRESS_ANNOTATION

THIEF, HONEST = "198.51.100.7", "203.0.113.1"


class Asked:
    """Challenges of one token that came from several addresses, as the controller's caches have them."""

    def __init__(self, at: World, most: int) -> None:
        self.at = at
        self.machine = Machine(at, "worker-7", "m-1")
        self.open = OpenChallenges(most=most)
        self._challenges: Indexer[AttestationChallenge] = Indexer()
        self.requests: Indexer[CertificateSigningRequest] = Indexer()
        self.requests.add_index(UID_INDEX, lambda csr: (csr.metadata.uid,))
        self.requests.add_index(CHALLENGE_INDEX, node_attestation._named)
        self._maker = ChallengeMaker(
            at.client, Lister(self._challenges), Lister(self.requests), Attestation(configured().config, {}), at.clock,
            self.open,
        )  # fmt: skip

    async def ask(self, source: str) -> str:
        """One more; the name of the challenge."""
        spec = AttestationChallengeSpec(provider="null", version="v1", key_fingerprint="0" * 64)
        made = AttestationChallenge(metadata=ObjectMeta(generate_name="attest-"), spec=spec)
        made = await self.machine.client.create(ATTESTATION_CHALLENGES, made)
        stored: AttestationChallenge = replace_metadata(made, annotations={SOURCE_ADDRESS_ANNOTATION: source})
        self._challenges.put(stored)
        self.open.changed(stored.metadata.name, stored)
        self.at.clock.advance(1)
        await self._maker.reconcile(request_of(stored))
        return stored.metadata.name

    async def left(self) -> set[str]:
        return {each.metadata.name for each in (await self.at.client.list(ATTESTATION_CHALLENGES)).items}


@async_test
async def test_the_oldest_unanswered_one_of_the_largest_source_goes_first() -> None:
    async with world() as at:
        asked = Asked(at, most=4)
        stolen = [await asked.ask(THIEF) for _ in range(3)]
        honest = [await asked.ask(HONEST) for _ in range(2)]
        assert await asked.left() == {*stolen[1:], *honest}
        more = await asked.ask(THIEF)
        assert await asked.left() == {stolen[2], more, *honest}


@async_test
async def test_one_that_an_open_request_answers_is_not_taken_away() -> None:
    async with world() as at:
        asked = Asked(at, most=2)
        first, second = await asked.ask(THIEF), await asked.ask(THIEF)
        proof = Evidence(provider="null", version="v1", data=b"{}", challenge=first)
        filed = await asked.machine.post(asked.machine.request(proof))
        asked.requests.put(await at.client.get(CERTIFICATE_SIGNING_REQUESTS, filed))
        third = await asked.ask(HONEST)
        assert await asked.left() == {first, third}
        assert second not in await asked.left()
