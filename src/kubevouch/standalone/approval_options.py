"""What ``up`` and ``controllers`` can be told of who decides about requests for certificates."""

from __future__ import annotations

from pathlib import Path

import msgspec

from kubevouch.policy.kubelet_serving import Network


class ServingApproval(msgspec.Struct, frozen=True):
    """What is declared of kubelets' serving certificates.

    Args:
        networks: where kubelets serve; none believes Nodes about every address that nobody else has.
        domains: under which nodes have names; none believes Nodes likewise.
        dns: ask this machine's name servers about what nothing else justifies.
    """

    networks: tuple[Network, ...] = ()
    domains: tuple[str, ...] = ()
    dns: bool = False


class ApprovalOptions(msgspec.Struct, frozen=True):
    """What ``up`` and ``controllers`` can be told.

    Args:
        inventory_config: an InventoryConfiguration; None has AllowedMachine objects only.
        webhook_config: an ApproverWebhookConfiguration; None asks no service.
        attestation_config: an AttestationConfiguration; None takes no proofs of machines.
        serving: by what kubelets' serving certificates are approved; None leaves them to people.
    """

    inventory_config: Path | None = None
    webhook_config: Path | None = None
    attestation_config: Path | None = None
    serving: ServingApproval | None = msgspec.field(default_factory=ServingApproval)
