"""Making signers of one's own, exchanging their CAs, and letting one sign again that has stopped.

SignerCommandError    what was asked for cannot be done; ``hint`` says what can
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence

import msgspec

from kubevouch import wellknown
from kubevouch.api.catalog import NAMESPACES, SECRETS
from kubevouch.api.core_v1 import Namespace, Secret
from kubevouch.api.kubevouch_v1alpha1.catalog import CERTIFICATE_SIGNERS
from kubevouch.api.kubevouch_v1alpha1.certificate_signers import (
    STOPPED,
    CertificateSigner,
    CertificateSignerSpec,
)
from kubevouch.client import stored
from kubevouch.client.interface import Client, WriteOptions
from kubevouch.client.pager import PAGES, list_all
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.pki import authority, keys
from kubevouch.pki.authority import CertificateAuthority
from kubevouch.pki.errors import AuthorityError
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509.certificate_builder import key_identifier
from kubevouch.signers.authorities import FORMER_CERTIFICATE_KEY, FORMER_PRIVATE_KEY_KEY, of_secret
from kubevouch.signers.definition import DefinitionError, rules_of

_PATH = re.compile(r"[^a-z0-9.-]+", re.ASCII)


class SignerCommandError(Exception):
    """What was asked for cannot be done."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class NewCA(msgspec.Struct, frozen=True):
    """A CA that is made: how long it is valid, and the kind of its key."""

    validity: dt.timedelta
    algorithm: KeyAlgorithm


def name_of(signer_name: str) -> str:
    """How the object of a signer is called unless somebody says otherwise: as the path of its name."""
    return _PATH.sub("-", signer_name.partition("/")[2].lower()).strip("-.")


def planned(
    name: str, spec: CertificateSignerSpec, made: NewCA | None, now: dt.datetime
) -> tuple[CertificateSigner, Secret | None]:
    """The object, and the Secret with its CA if one is made.

    Raises:
        SignerCommandError: the spec cannot be meant.
    """
    try:
        rules_of(spec)
    except DefinitionError as err:
        raise SignerCommandError(str(err)) from err
    secret = None
    if made is not None:
        ca = _new_ca(spec.signer_name, made, now)
        secret = _secret(spec.ca.secret_name, ca)
    return CertificateSigner(metadata=ObjectMeta(name=name), spec=spec), secret


def _new_ca(signer_name: str, made: NewCA, now: dt.datetime) -> CertificateAuthority:
    key = keys.generate(made.algorithm)
    # The key's identifier tells one from the next. 64 characters are the most that X.520 has for a common name.
    identifier = key_identifier(keys.public_key_of(key)).hex()[:8]
    name = f"{signer_name[-44:]} {now:%Y-%m-%d} {identifier}"
    return authority.create_authority(name, key, now=now, validity=made.validity, as_kubeadm=False)


def _secret(name: str, ca: CertificateAuthority) -> Secret:
    values = {
        wellknown.TLS_CERTIFICATE_KEY: ca.certificate.pem(),
        wellknown.TLS_PRIVATE_KEY_KEY: keys.to_pem(ca.key),
    }
    meta = ObjectMeta(name=name, namespace=wellknown.SIGNERS_NAMESPACE)
    return Secret(metadata=meta, data=values, type=wellknown.TLS_SECRET)


async def create(client: Client, obj: CertificateSigner, secret: Secret | None) -> None:
    """Raises APIStatusError, TransportError; SignerCommandError: there is such a Secret already."""
    if secret is not None:
        where = secret.metadata
        if await stored.find(client, SECRETS, where.name, where.namespace) is not None:
            raise SignerCommandError(
                f"there is a secret {where.namespace}/{where.name}", hint="--ca-secret takes the CA in it"
            )
        if await stored.find(client, NAMESPACES, where.namespace) is None:
            await client.create(NAMESPACES, Namespace(metadata=ObjectMeta(name=where.namespace)))
        # Tried first: of an object that is refused no key would be left.
        await client.create(CERTIFICATE_SIGNERS, obj, WriteOptions(dry_run=True))
        # Before the object, which otherwise says of itself that its CA is missing.
        await client.create(SECRETS, secret)
    await client.create(CERTIFICATE_SIGNERS, obj)


async def find(client: Client, name: str) -> CertificateSigner:
    """By the name of the object, or by the signer name.

    Raises:
        SignerCommandError: there is none.
    """
    for obj in (await list_all(client, CERTIFICATE_SIGNERS, options=PAGES)).items:
        if name in (obj.metadata.name, obj.spec.signer_name):
            return obj
    raise SignerCommandError(f"there is no CertificateSigner {name}", hint="kubevouch signer list shows all")


async def rotate(client: Client, name: str, made: NewCA, now: dt.datetime) -> CertificateAuthority:
    """Put the next CA in the place of the one in the signer's Secret, which signs on until the next one is known.

    The former one signs the next one, so that whoever trusts it verifies what the next one issues.

    Raises:
        SignerCommandError: the CA is in no Secret, or cannot be used.
    """
    obj = await find(client, name)
    if not obj.spec.ca.secret_name:
        raise SignerCommandError(
            f"the CA of {name} is not in a Secret", hint="exchange its files: the controller publishes them first"
        )
    secret = await stored.find(client, SECRETS, obj.spec.ca.secret_name, wellknown.SIGNERS_NAMESPACE)
    if secret is None:
        raise SignerCommandError(f"there is no secret {wellknown.SIGNERS_NAMESPACE}/{obj.spec.ca.secret_name}")
    coming = [each.subject for each in obj.status.authorities if each.signs_since is None]
    if coming:
        raise SignerCommandError(f"{coming[0]} is published and does not sign yet", hint="wait until it does")
    try:
        former = of_secret(secret).authority
        later = _new_ca(obj.spec.signer_name, made, now)
        cross = authority.cross_sign(former, later.certificate, now=now)
    except AuthorityError as err:
        raise SignerCommandError(f"the CA of {name} cannot be exchanged: {err}") from err
    values = {
        wellknown.TLS_CERTIFICATE_KEY: later.certificate.pem() + cross.pem(),
        wellknown.TLS_PRIVATE_KEY_KEY: keys.to_pem(later.key),
        FORMER_CERTIFICATE_KEY: secret.data[wellknown.TLS_CERTIFICATE_KEY],
        FORMER_PRIVATE_KEY_KEY: secret.data[wellknown.TLS_PRIVATE_KEY_KEY],
    }
    await client.update(SECRETS, msgspec.structs.replace(secret, data={**secret.data, **values}))
    return later


async def resume(client: Client, name: str) -> CertificateSigner:
    """Let a signer sign again that has stopped.

    Raises:
        SignerCommandError: it has not.
    """
    obj = await find(client, name)
    left = [each for each in obj.status.conditions if each.type != STOPPED]
    if len(left) == len(obj.status.conditions):
        raise SignerCommandError(f"{obj.spec.signer_name} has not stopped")
    status = msgspec.structs.replace(obj.status, conditions=left)
    return await client.update(CERTIFICATE_SIGNERS, msgspec.structs.replace(obj, status=status), subresource="status")


def trust_of(obj: CertificateSigner) -> str:
    """The published CAs, in PEM. Raises :class:`SignerCommandError`: there are none yet."""
    texts: Sequence[str] = list(dict.fromkeys(each.certificate for each in obj.status.authorities))
    if not texts:
        raise SignerCommandError(f"{obj.spec.signer_name} has published no CA yet")
    return "".join(texts)
