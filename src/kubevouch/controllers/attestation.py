"""What verifies the proofs of machines, as controllers have it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kubevouch.api.catalog import CONFIG_MAPS, NAMESPACES
from kubevouch.attestation.interface import Attested, RefusedEvidenceError, Verifier
from kubevouch.client.interface import Client
from kubevouch.client.stored import find
from kubevouch.config.attestation_config import INSECURE, AttestationConfiguration
from kubevouch.records import cluster_identity
from kubevouch.records.cluster_info import ClusterInfoError, kubeconfig_of, parse_kubeconfig
from kubevouch.wellknown import (
    ATTESTED_CLIENT_SIGNER_PREFIX,
    ATTESTED_SERVING_SIGNER_PREFIX,
    CA_CERTIFICATE_KEY,
    CLUSTER_INFO_CONFIGMAP,
    KUBE_PUBLIC_NAMESPACE,
    KUBE_SYSTEM_NAMESPACE,
    ROOT_CA_CONFIGMAP,
)


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
    """What the cluster is known by: the UID of the Namespace kube-system, and the pins of its CAs of now."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._found = ""

    async def get(self) -> str:
        """Raises APIStatusError, TransportError."""
        if not self._found:
            self._found = (await self._client.get(NAMESPACES, KUBE_SYSTEM_NAMESPACE)).metadata.uid
        return self._found

    async def verify(self, claimed: str) -> str:
        """The identity that a proof has to be made for, if that is one of this cluster's.

        Nothing else is looked at before: whoever asks learns which cluster this is, which everybody may know, and
        nothing of its machines, tokens and keys.

        Args:
            claimed: for which cluster the machine says that it has made its proofs; empty is for the UID.

        Raises:
            RefusedEvidenceError: ``cluster``.
            APIStatusError, TransportError
        """
        own = await self.get()
        if claimed in ("", own):
            return own
        pins = await self._pins()
        if claimed in pins:
            return claimed
        known = " or ".join((own, *sorted(pins)))
        shown = claimed[: cluster_identity.MAX_LENGTH]
        raise RefusedEvidenceError("cluster", f"the evidence was made for cluster {shown!r}, this is {known}")

    async def _pins(self) -> frozenset[str]:
        """Of the CAs that machines are told now; while one takes over from another, of both."""
        info = await find(self._client, CONFIG_MAPS, CLUSTER_INFO_CONFIGMAP, KUBE_PUBLIC_NAMESPACE)
        roots = await find(self._client, CONFIG_MAPS, ROOT_CA_CONFIGMAP, KUBE_PUBLIC_NAMESPACE)
        found = frozenset[str]()
        if roots is not None:
            found |= cluster_identity.pins_in(roots.data.get(CA_CERTIFICATE_KEY, "").encode())
        if info is not None:
            try:
                told = parse_kubeconfig(kubeconfig_of(info))
            except ClusterInfoError:
                return found
            found |= cluster_identity.pins_in(told.certificate_authority_data)
        return found
