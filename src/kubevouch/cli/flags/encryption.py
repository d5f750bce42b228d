"""kube-apiserver's flags for encryption at rest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from kubevouch.cli.flags import together
from kubevouch.standalone.encryption_options import EncryptionOptions

encryption_flags = together(
    click.option(
        "--encryption-provider-config",
        type=click.Path(path_type=Path, dir_okay=False),
        help="EncryptionConfiguration: what is stored encrypted, and with which keys.",
    ),
    click.option(
        "--encryption-provider-config-automatic-reload",
        is_flag=True,
        help="Use the file anew when it changes.",
    ),
)


def take_encryption(flags: dict[str, Any]) -> EncryptionOptions:
    """The options that the flags say; takes them out of ``flags``."""
    return EncryptionOptions(
        flags.pop("encryption_provider_config"), flags.pop("encryption_provider_config_automatic_reload")
    )
