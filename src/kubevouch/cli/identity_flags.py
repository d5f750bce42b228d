"""The flags of ``kubevouch up`` for what machines' identities are worth."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from kubevouch.pki.profile import Profile

_FLAGS = (
    click.option(
        "--signing-profile",
        type=click.Choice([each.value for each in Profile]),
        default=Profile.STRICT.value,
        show_default=True,
        callback=lambda _ctx, _param, value: Profile(value),
        help="strict signs no weak keys, SHA-1 or malformed names; compatible signs whatever Kubernetes signs.",
    ),
)


def identity_flags(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the flags to a command; they are settings of :class:`StandaloneOptions` by name."""
    for flag in reversed(_FLAGS):
        command = flag(command)
    return command
