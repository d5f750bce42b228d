"""The node's side as it is, against a standalone server whose controllers take proofs (``attested_world``)."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attested_world import BOOTSTRAPPERS
from controller_world import World
from join_world import Told
from kubevouch.agent.attestation_settings import AttestationSettings
from kubevouch.agent.attested_request import obtain
from kubevouch.agent.certificate_request import Poster, node_client
from kubevouch.agent.certificate_store import CertificateStore
from kubevouch.agent.signing_requests import SigningRequests
from kubevouch.api.catalog import NAMESPACES
from kubevouch.client.interface import Client
from kubevouch.pki.client_certificate import TrustAnchors
from kubevouch.pki.x509.x509_certificate import Certificate

USER = "system:bootstrap:p9k2zq"


class AskingMachine:
    """A machine with a certificate folder, and with a bootstrap token that lets it ask."""

    def __init__(self, at: World, folder: Path, name: str, settings: AttestationSettings) -> None:
        self.at = at
        self.store = CertificateStore(folder)
        self.name = name
        self.settings = settings
        self.told = Told()

    async def obtain(self, through: Callable[[Client], Any] = lambda client: client) -> Certificate:
        """A certificate, as the first thing or instead of the one that is there.

        Args:
            through: stands between the machine and the server.
        """
        client = through(self.at.as_user(USER, *BOOTSTRAPPERS))
        cluster_id = (await self.at.client.get(NAMESPACES, "kube-system")).metadata.uid
        with self.store.locked():
            chain = await obtain(
                self.store,
                Poster(SigningRequests(client), (USER,), cluster_id=cluster_id),
                node_client(self.name, attestation=self.settings),
                TrustAnchors([self.at.server.pki.authority.certificate]),
                self.at.clock,
                self.told,
                timeout=300.0,
                random=random.Random(1).random,
            )
        return chain[0]
