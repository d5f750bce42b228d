"""kube-apiserver's flags for encryption at rest, and what speaks against what they name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from kubevouch.cli import ui
from kubevouch.cli.exit_codes import ExitCode
from kubevouch.cli.flags import Decorator, together
from kubevouch.standalone.encryption_options import EncryptionOptions

_FILE = click.Path(path_type=Path, dir_okay=False)

encryption_flags = together(
    click.option(
        "--encryption-provider-config",
        type=_FILE,
        help="EncryptionConfiguration: what is stored encrypted, and with which keys.",
    ),
    click.option(
        "--encryption-provider-config-automatic-reload",
        is_flag=True,
        help="Use the file anew when it changes.",
    ),
    click.option(
        "--encryption-allow-cleartext",
        is_flag=True,
        help="Store resources in clear text although they were stored encrypted before.",
    ),
)


def configuration_option(text: str, *, required: bool = False) -> Decorator:
    """The file, for commands that look at a store themselves; ``text`` is the flag's help."""
    return click.option("--encryption-provider-config", "config", type=_FILE, required=required, help=text)


@contextmanager
def refusing() -> Iterator[None]:
    """A file or plug-in that cannot be used ends the command as it would end ``kubevouch up``."""
    from kubevouch.standalone.errors import InvalidOptionsError, StartError

    try:
        yield
    except StartError as err:
        code = ExitCode.INVALID if isinstance(err, InvalidOptionsError) else ExitCode.PREFLIGHT
        raise ui.CLIError(str(err), hint=err.hint, code=code) from err


def take_encryption(flags: dict[str, Any]) -> EncryptionOptions:
    """The options that the flags say; takes them out of ``flags``."""
    return EncryptionOptions(
        flags.pop("encryption_provider_config"),
        flags.pop("encryption_provider_config_automatic_reload"),
        flags.pop("encryption_allow_cleartext"),
    )
