"""The files that all servers of a store share: whoever made them anew would be another cluster over the same store."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from kubevouch import wellknown
from kubevouch.api.catalog import SECRETS
from kubevouch.authorization.kubeadm_policy import KUBEADM_CERTS
from kubevouch.phases import upload_certs
from kubevouch.phases.certificates.certs import CertsError
from kubevouch.phases.certificates.control_plane_files import Layout
from kubevouch.pki import certificate_key
from kubevouch.pki.control_plane import CA, FRONT_PROXY_CA
from kubevouch.pki.errors import KeyMaterialError
from kubevouch.standalone.errors import InvalidOptionsError, NotHereError
from kubevouch.storage.interface import Store

# Without these a start makes them. Keys of CAs may be elsewhere.
_NEEDED = (f"{CA}.crt", f"{FRONT_PROXY_CA}.crt", "sa.key")
# Every start of ours makes it: a store without it was begun by others, and need not have servers of ours.
MARK = f"/registry/namespaces/{wellknown.SIGNERS_NAMESPACE}"
_SECRET_KEY = f"/registry/secrets/{wellknown.KUBE_SYSTEM_NAMESPACE}/{KUBEADM_CERTS}"
_COPY = (
    "copy pki/ of another server here without its apiserver.crt and apiserver.key, or give the --certificate-key that "
    "kubevouch init phase upload-certs --upload-certs prints"
)


async def ensure(store: Store, folder: Path, given_key: str, *, may_begin: bool) -> None:
    """Have in ``folder`` what servers share.

    Args:
        given_key: 64 hexadecimal digits, under which another server has uploaded its files; empty if they are here.
        may_begin: where no server of ours has been at work, what is missing may be made.

    Raises:
        InvalidOptionsError, NotHereError
        CertsError: what was uploaded is not what is needed, or not what is here.
        StoreError, OSError
    """
    missing = _missing(folder)
    if missing and given_key:
        await _download(store, folder, given_key)
        missing = _missing(folder)
    if not missing:
        return
    files = ", ".join(missing)
    if not may_begin:
        raise NotHereError(f"{folder} lacks what all servers share: {files}", _COPY)
    if await store.get(MARK) is not None:
        raise NotHereError(f"the store is that of a running cluster, and {folder} lacks its {files}", _COPY)


def _missing(folder: Path) -> Sequence[str]:
    return [name for name in _NEEDED if not (folder / name).exists()]


async def _download(store: Store, folder: Path, given_key: str) -> None:
    try:
        key = certificate_key.parse(given_key)
    except KeyMaterialError as err:
        raise InvalidOptionsError(f"the --certificate-key cannot be used: {err}", _COPY) from err
    found = await store.get(_SECRET_KEY)
    if found is None:
        raise CertsError(
            f"the Secret {KUBEADM_CERTS} is not in the store; it goes after two hours",
            "kubevouch init phase upload-certs --upload-certs on another server uploads it again",
        )
    try:
        secret = SECRETS.codec.from_value(found.value, SECRETS.api_version, SECRETS.kind)
    except ValueError as err:
        raise CertsError(f"the Secret {KUBEADM_CERTS} in the store cannot be read", _COPY) from err
    shared = upload_certs.files(Layout(pki=folder, kubeconfigs=folder.parent))
    contents = upload_certs.decrypted(secret, list(shared), key)
    await asyncio.to_thread(upload_certs.write, contents, shared)
