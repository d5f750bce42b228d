"""The flag for a key that was made beforehand, for tokens that are bound to one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kubevouch.cli import ui
from kubevouch.cli.exit_codes import ExitCode

if TYPE_CHECKING:
    from kubevouch.pki.x509.signature import PrivateKey

_LONGEST_KEY = 1 << 16

key_file_option = click.option(
    "--key-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="PEM file with the private key of the node's first certificate, for a token of `token create --key`, which is "
    "good for that key alone. It is copied beside the certificate.  [default: a new key is made on this machine]",
)


def load_key(path: Path | None) -> PrivateKey | None:
    """Raises :class:`CLIError`: it is no key that a certificate can be asked for with, or others can read it."""
    from kubevouch.pki import keys
    from kubevouch.pki.errors import KeyMaterialError
    from kubevouch.util.files import UnsafeFileError, read_private

    if path is None:
        return None
    try:
        found = keys.load_pem(read_private(path, _LONGEST_KEY))
        keys.algorithm_of(found)
    except UnsafeFileError as err:
        raise ui.CLIError(f"{path} cannot be used: {err}", hint=err.hint, code=ExitCode.INVALID) from err
    except KeyMaterialError as err:
        hint = "openssl ecparam -name prime256v1 -genkey -noout makes one"
        raise ui.CLIError(f"{path} holds no private key: {err}", hint=hint, code=ExitCode.INVALID) from err
    except OSError as err:
        why = (err.strerror or str(err)).lower()
        raise ui.CLIError(f"{path} cannot be read: {why}", code=ExitCode.INVALID) from err
    return found
