"""The upload-certs phase: the authorities' keys, encrypted, for control planes that join (kubeadm 1.36).

The Secret belongs to a token that ends after two hours and is for nothing else: whoever collects garbage then removes
both.
"""

from __future__ import annotations

import datetime as dt
from pathlib import Path

from kubevouch import wellknown
from kubevouch.api import catalog
from kubevouch.api.core_v1 import Secret
from kubevouch.authorization.kubeadm_policy import KUBEADM_CERTS, kubeadm_certs_policy
from kubevouch.client.interface import Client
from kubevouch.client.stored import create_or_update
from kubevouch.config.kubeadm_v1beta4 import ExternalEtcd
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import ObjectMeta, OwnerReference
from kubevouch.phases.certificates.certs import CertsError
from kubevouch.phases.certificates.control_plane_files import Layout, display_name
from kubevouch.pki import certificate_key
from kubevouch.pki.control_plane import CA, ETCD_CA, FRONT_PROXY_CA
from kubevouch.pki.errors import KeyMaterialError
from kubevouch.records.bootstrap_tokens import BootstrapToken, generate_token, to_secret
from kubevouch.server.bootstrap import rbac
from kubevouch.util.files import PRIVATE, PUBLIC, make_folder, write_atomically

TTL = dt.timedelta(hours=2)
DESCRIPTION = "Proxy for managing TTL for the kubeadm-certs secret"
_NOT_FOUND = (
    'Secret "kubeadm-certs" was not found in the "kube-system" Namespace. This Secret might have expired. Please, run '
    '"kubevouch init phase upload-certs --upload-certs" on a control plane to generate a new one'
)


def files(layout: Layout, external_etcd: ExternalEtcd | None = None, *, rootfs: Path | None = None) -> dict[str, Path]:
    """What is shared, by its key in the Secret."""
    found: dict[str, Path] = {}
    for base_name in (CA, FRONT_PROXY_CA, *(() if external_etcd else (ETCD_CA,))):
        pair = layout.authority(base_name)
        found[f"{display_name(base_name)}.crt"] = pair.certificate
        found[f"{display_name(base_name)}.key"] = pair.key
    for name in ("sa.pub", "sa.key"):
        found[name] = layout.pki / name
    if external_etcd is not None:
        for name, path in (
            ("external-etcd-ca.crt", external_etcd.ca_file),
            ("external-etcd.crt", external_etcd.cert_file),
            ("external-etcd.key", external_etcd.key_file),
        ):
            found[name] = Path(path) if rootfs is None else rootfs / Path(path).relative_to("/")
    return found


def build_secret(contents: dict[str, bytes], key: bytes, owner: Secret) -> Secret:
    """The Secret ``kubeadm-certs``. What is empty stays empty: there was no such file."""
    reference = OwnerReference(
        api_version="v1",
        kind="Secret",
        name=owner.metadata.name,
        uid=owner.metadata.uid,
        controller=True,
        block_owner_deletion=True,
    )
    return Secret(
        metadata=ObjectMeta(
            name=KUBEADM_CERTS, namespace=wellknown.KUBE_SYSTEM_NAMESPACE, owner_references=[reference]
        ),
        type=wellknown.OPAQUE_SECRET,
        data={name: certificate_key.encrypt(key, plain) if plain else b"" for name, plain in contents.items()},
    )


def owner_token(now: dt.datetime) -> BootstrapToken:
    """The token whose end is the Secret's."""
    return BootstrapToken(generate_token(), DESCRIPTION, now + TTL)


async def upload(client: Client, shared: dict[str, Path], key: bytes, *, now: dt.datetime) -> None:
    """Encrypt and store what there is of ``shared``, and let joining machines read it.

    Raises:
        APIStatusError, TransportError, OSError
    """
    contents = {name: path.read_bytes() if path.exists() else b"" for name, path in shared.items()}
    owner = await client.create(catalog.SECRETS, to_secret(owner_token(now)))
    await create_or_update(client, catalog.SECRETS, build_secret(contents, key, owner))
    policy = kubeadm_certs_policy()
    await rbac.reconcile(client, (*policy.roles, *policy.role_bindings))


async def download(client: Client, names: list[str], key: bytes) -> dict[str, bytes]:
    """The decrypted files; one that the first control plane did not have is left out.

    Raises:
        CertsError: there is no such Secret, a file lacks in it, or the key is another one.
        APIStatusError, TransportError
    """
    try:
        stored = await client.get(catalog.SECRETS, KUBEADM_CERTS, wellknown.KUBE_SYSTEM_NAMESPACE)
    except APIStatusError as err:
        if err.code != 404:
            raise
        raise CertsError(f"error downloading certs: {_NOT_FOUND}") from err
    return decrypted(stored, names, key)


def decrypted(stored: Secret, names: list[str], key: bytes) -> dict[str, bytes]:
    """As :func:`download`, out of the Secret."""
    contents = {}
    for name in names:
        if name not in stored.data:
            raise CertsError(
                f"the Secret does not include the required certificate or key - name: {name}",
                "the control plane that uploaded is set up in another way; upload again from one with that file",
            )
        if not stored.data[name]:
            continue
        try:
            contents[name] = certificate_key.decrypt(key, stored.data[name])
        except KeyMaterialError as err:
            raise CertsError(
                f"error decrypting {name}: {err}", "give the --certificate-key that the last upload has printed"
            ) from err
    return contents


def write(contents: dict[str, bytes], shared: dict[str, Path]) -> list[Path]:
    """Put the files in their places, where they are not there already. Returns what was written.

    Raises:
        CertsError: another file is in one of the places; nothing was changed.
        OSError
    """
    missing = {}
    for name, content in contents.items():
        path = shared[name]
        if not path.exists():
            missing[path] = content
        elif path.read_bytes() != content:
            raise CertsError(
                f"{path} is there and differs from what the control planes share",
                "this machine may belong to another cluster; kubevouch reset removes what is here",
            )
    for path, content in missing.items():
        make_folder(path.parent)
        write_atomically(path, content, mode=PUBLIC if path.suffix == ".crt" else PRIVATE)
    return list(missing)
