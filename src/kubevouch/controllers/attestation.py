"""What verifies the proofs of machines, as controllers have it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kubevouch.api.catalog import NAMESPACES
from kubevouch.attestation.interface import Attested, Verifier
from kubevouch.client.interface import Client
from kubevouch.config.attestation_config import INSECURE, AttestationConfiguration
from kubevouch.wellknown import ATTESTED_CLIENT_SIGNER_PREFIX, ATTESTED_SERVING_SIGNER_PREFIX, KUBE_SYSTEM_NAMESPACE


class Attestation(msgspec.Struct, frozen=True):
    """Which methods count, with their verifiers, by name.

    Args:
        rules: hexadecimal SHA-256 of the configuration.
        proven: by the UID of a request that nobody has decided yet, what its machine has proven.
    """

    config: AttestationConfiguration
    verifiers: Mapping[str, Verifier]
    rules: str = ""
    proven: dict[str, tuple[Attested, ...]] = msgspec.field(default_factory=dict)

    def signer_names(self) -> tuple[str, ...]:
        """Those for client certificates, and those for serving certificates, of each method but insecure.

        "An insecure provider CANNOT implement … kubelet serving certificate signing" (Cluster API proposal "Kubelet
        authentication", 2021): nothing signs for that name, whoever approves.
        """
        return tuple(
            f"{prefix}{name}"
            for name in self.verifiers
            for prefix in (ATTESTED_CLIENT_SIGNER_PREFIX, ATTESTED_SERVING_SIGNER_PREFIX)
            if (name, prefix) != (INSECURE, ATTESTED_SERVING_SIGNER_PREFIX)
        )


class ClusterID:
    """The UID of the Namespace kube-system: the same for as long as the cluster is."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._found = ""

    async def get(self) -> str:
        """Raises APIStatusError, TransportError."""
        if not self._found:
            self._found = (await self._client.get(NAMESPACES, KUBE_SYSTEM_NAMESPACE)).metadata.uid
        return self._found
