"""What decides about requests for certificates, as its files say.

ApprovalOptionsError    a file cannot be used; nothing was begun
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kubevouch.config import inventory_config
from kubevouch.config.config_file import ConfigFileError
from kubevouch.config.inventory_config import Source
from kubevouch.policy.kubelet_serving import Network


class ApprovalOptionsError(Exception):
    """A file cannot be used."""


@dataclass(frozen=True, slots=True)
class ServingApproval:
    """What is declared of kubelets' serving certificates.

    Args:
        networks: where kubelets serve; none believes Nodes about every address that nobody else has.
        domains: under which nodes have names; none believes Nodes likewise.
    """

    networks: tuple[Network, ...] = ()
    domains: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ApprovalOptions:
    """What ``up`` and ``controllers`` can be told.

    Args:
        inventory_config: an InventoryConfiguration; None has AllowedMachine objects only.
        serving: by what kubelets' serving certificates are approved; None leaves them to people.
    """

    inventory_config: Path | None = None
    serving: ServingApproval | None = field(default_factory=ServingApproval)

    def inventory_sources(self) -> Sequence[Source]:
        """Raises :class:`ApprovalOptionsError`."""
        path = self.inventory_config
        if path is None:
            return ()
        try:
            return inventory_config.decode(path.read_bytes()).sources
        except OSError as err:
            raise ApprovalOptionsError(f"the inventory configuration {path} cannot be read: {err.strerror}") from err
        except ConfigFileError as err:
            raise ApprovalOptionsError(f"the inventory configuration {path} cannot be used: {err}") from err
