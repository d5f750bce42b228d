"""The settings of encryption at rest."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

RECORD = "encrypted-resources.json"
"""In the data directory: what was stored encrypted when a server last ran."""


@dataclass(frozen=True, slots=True)
class EncryptionOptions:
    """kube-apiserver's ``--encryption-provider-config`` flags.

    Args:
        config: an EncryptionConfiguration; None stores everything as it is.
        automatic_reload: whether a change of the file counts while the server runs.
        allow_cleartext: whether resources may be stored in clear text that were stored encrypted before.
    """

    config: Path | None = None
    automatic_reload: bool = False
    allow_cleartext: bool = False
