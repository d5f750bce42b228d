"""Keys of files that stay in a TPM: the files do not say in which, and it is this machine's."""

from __future__ import annotations

from pathlib import Path

_MOST = 1 << 20
_IN_TPM = b"-----BEGIN TSS2 PRIVATE KEY-----"


def know_tpm_of(private_key: bytes | Path) -> None:
    """Let TLS sign with ``private_key``, PEM or a file of it, if it is in a TPM.

    Whoever reads the key says what is wrong with it.
    """
    try:
        if isinstance(private_key, Path):
            with private_key.open("rb") as file:
                private_key = file.read(_MOST)
    except OSError:
        return
    if _IN_TPM in private_key:
        # Few machines have such keys.
        from kubevouch.attestation.tpm import node_keys

        node_keys.use_own_tpm()
