"""The flags for what decides about requests for certificates, of ``kubevouch up`` and of controllers elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kubevouch.cli.flags import together

if TYPE_CHECKING:
    from kubevouch.standalone.approval_options import ApprovalOptions

_FLAGS = (
    click.option(
        "--inventory-config",
        type=click.Path(path_type=Path),
        help="An InventoryConfiguration: files, URLs and objects that list the machines to expect.",
    ),
)


approval_flags = together(*_FLAGS)


def take_approval(flags: dict[str, Any]) -> ApprovalOptions:
    """What the flags say; takes them out of ``flags``."""
    from kubevouch.standalone.approval_options import ApprovalOptions

    return ApprovalOptions(inventory_config=flags.pop("inventory_config"))
