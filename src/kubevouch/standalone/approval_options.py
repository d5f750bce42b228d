"""What decides about requests for certificates, as its files say.

ApprovalOptionsError    a file cannot be used; nothing was begun
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kubevouch.config import inventory_config
from kubevouch.config.config_file import ConfigFileError
from kubevouch.config.inventory_config import Source


class ApprovalOptionsError(Exception):
    """A file cannot be used."""


@dataclass(frozen=True, slots=True)
class ApprovalOptions:
    """What ``up`` and ``controllers`` can be told.

    Args:
        inventory_config: an InventoryConfiguration; None has AllowedMachine objects only.
    """

    inventory_config: Path | None = None

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
