"""The settings of encryption at rest."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class EncryptionOptions:
    """kube-apiserver's ``--encryption-provider-config`` flags.

    Args:
        config: an EncryptionConfiguration; None stores everything as it is.
        automatic_reload: whether a change of the file counts while the server runs.
    """

    config: Path | None = None
    automatic_reload: bool = False
