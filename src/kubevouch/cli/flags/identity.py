"""The flags of ``kubevouch up`` for what machines' identities are worth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kubevouch.cli.flags import together
from kubevouch.pki.profile import Profile

if TYPE_CHECKING:
    from kubevouch.standalone.options import IdentityOptions

profile_option = click.option(
    "--signing-profile",
    type=click.Choice([each.value for each in Profile]),
    default=Profile.STRICT.value,
    show_default=True,
    callback=lambda _ctx, _param, value: Profile(value),
    help="strict signs no weak keys, SHA-1 or malformed names; compatible signs whatever Kubernetes signs.",
)
_FLAGS = (
    profile_option,
    click.option(
        "--allow-name-takeover",
        is_flag=True,
        help="As Kubernetes: a bootstrap token gives any node's name, also one that another machine has.",
    ),
    click.option(
        "--lock-out-deleted-nodes/--no-lock-out-deleted-nodes",
        default=None,
        help="Refuse the certificates of a node from the moment its Node is deleted. up stores the choice in the "
        "cluster; without the flag the stored one counts: on since the first start, off in clusters of older versions.",
    ),
)


identity_flags = together(*_FLAGS)


def take_identity(flags: dict[str, Any]) -> IdentityOptions:
    """What the flags say; takes them out of ``flags``."""
    from kubevouch.standalone.options import IdentityOptions

    return IdentityOptions(
        signing_profile=flags.pop("signing_profile"),
        allow_name_takeover=flags.pop("allow_name_takeover"),
        lock_out_deleted_nodes=flags.pop("lock_out_deleted_nodes"),
    )
