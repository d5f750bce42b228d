"""signing.kubevouch.io SigningConfiguration: CAs whose keys other programs hold, for ``--signing-config``.

Where keys, URLs and credentials are is said here, in a file of this machine, and not in objects of the API: who may
write those shall not learn of files of this machine, nor have it ask other URLs.
"""

from __future__ import annotations

import re
from typing import Annotated

from kubevouch.config import config_file
from kubevouch.config.config_file import ConfigFileError
from kubevouch.machinery import field
from kubevouch.machinery.declaration import Struct, wire
from kubevouch.machinery.field import FieldError
from kubevouch.pki.errors import UsageError
from kubevouch.pki.x509.usages import resolve

KIND, API_VERSION = "SigningConfiguration", "signing.kubevouch.io/v1alpha1"
MOST_SECONDS = 600


class ProcessSettings(Struct):
    """``kubevouch sign``."""

    socket: Annotated[str, wire(1, "Path of its Unix socket.")] = ""


class WebhookSettings(Struct):
    """A service that answers a request with a certificate."""

    kubeconfig_file: Annotated[str, wire(1, "The service as cluster, this program's certificate as user.")] = ""


class CFSSLSettings(Struct):
    """cfssl serve."""

    kubeconfig_file: Annotated[
        str, wire(1, "The server with /api/v1/cfssl/sign, or authsign, as cluster; a client certificate as user.")
    ] = ""
    profile: Annotated[str, wire(2, "The profile of its configuration; its default otherwise.")] = ""
    auth_key_file: Annotated[str, wire(3, "File with the key of its authentication, in hexadecimal digits.")] = ""


class VaultSettings(Struct):
    """The PKI engine of Vault or OpenBao."""

    kubeconfig_file: Annotated[
        str, wire(1, "The server with /v1/MOUNT/sign/ROLE as cluster; as user a token, or a client certificate.")
    ] = ""


class ACMESettings(Struct):
    """A CA that speaks ACME (RFC 8555)."""

    directory: Annotated[str, wire(1, "URL of its directory.")] = ""
    ca_file: Annotated[str, wire(2, "CA of its HTTPS certificate; the machine's CAs otherwise.")] = ""
    account_key_file: Annotated[str, wire(3, "Private key of the account, which is made if it is missing.")] = ""
    contact: Annotated[list[str], wire(4, "Such as mailto:pki@example.com.")] = []
    terms_of_service_agreed: Annotated[bool, wire(5, "Whether you agree to the terms of the CA.")] = False
    eab_key_id: Annotated[str, wire(6, "Key ID of an external account.")] = ""
    eab_hmac_key_file: Annotated[str, wire(7, "File with its MAC key, as base64url.")] = ""
    challenge_folder: Annotated[
        str, wire(8, "Where answers to http-01 challenges are written, for who serves them; not needed for names that "
                     "the CA knows to be yours.")
    ] = ""  # fmt: skip


class AuthoritySettings(Struct):
    """A CA: how it is reached, what it is believed, and what it signs."""

    name: Annotated[str, wire(1, "How it is called.")] = ""
    signer_names: Annotated[list[str], wire(2, "Kubernetes' signers that it signs for.")] = []
    trust_file: Annotated[str, wire(3, "PEM file with the CAs to one of which each certificate has to lead.")] = ""
    tolerated_usages: Annotated[list[str], wire(4, "Extended key usages that it adds to those asked for.")] = []
    timeout_seconds: Annotated[int, wire(5, "How long an answer may take.")] = 30
    process: Annotated[ProcessSettings | None, wire(6, "A signing process on this machine.")] = None
    webhook: Annotated[WebhookSettings | None, wire(7, "A service of one's own.")] = None
    cfssl: Annotated[CFSSLSettings | None, wire(8, "A CFSSL server.")] = None
    vault: Annotated[VaultSettings | None, wire(9, "Vault or OpenBao.")] = None
    acme: Annotated[ACMESettings | None, wire(10, "A CA that speaks ACME.")] = None
    tolerated_extensions: Annotated[
        list[str], wire(11, "Extensions that it adds, as OIDs, beside those that every CA may add.")
    ] = []


class SigningConfiguration(Struct):
    """The file."""

    authorities: Annotated[list[AuthoritySettings], wire(1, "The CAs.")] = []


def decode(text: bytes) -> SigningConfiguration:
    """Raises :class:`ConfigFileError`."""
    found = config_file.decode(text, KIND, {API_VERSION: SigningConfiguration})
    errors = _problems(found)
    if errors:
        raise ConfigFileError.of(errors)
    return found


_OID = re.compile(r"[0-2](?:\.(?:0|[1-9][0-9]{0,38})){1,30}", re.ASCII)
_WAYS = ("process", "webhook", "cfssl", "vault", "acme")
_REQUIRED = (
    ("process", "socket"), ("webhook", "kubeconfig_file"), ("cfssl", "kubeconfig_file"), ("vault", "kubeconfig_file"),
    ("acme", "directory"), ("acme", "account_key_file"),
)  # fmt: skip
_WIRE_NAMES = {"kubeconfig_file": "kubeconfigFile", "account_key_file": "accountKeyFile"}


def _problems(found: SigningConfiguration) -> list[FieldError]:
    errors: list[FieldError] = []
    names: set[str] = set()
    signers: set[str] = set()
    for index, authority in enumerate(found.authorities):
        where = f"authorities[{index}]"
        if not authority.name:
            errors.append(field.required(f"{where}.name", ""))
        elif authority.name in names:
            errors.append(field.duplicate(f"{where}.name", authority.name))
        names.add(authority.name)
        for position, signer in enumerate(authority.signer_names):
            if signer in signers:
                errors.append(field.duplicate(f"{where}.signerNames[{position}]", signer))
            signers.add(signer)
        if not authority.trust_file:
            errors.append(field.required(f"{where}.trustFile", "without it nobody's certificate is believed"))
        if not 1 <= authority.timeout_seconds <= MOST_SECONDS:
            why = f"must be between 1 and {MOST_SECONDS}"
            errors.append(field.invalid(f"{where}.timeoutSeconds", authority.timeout_seconds, why))
        errors += _usage_problems(authority, where) + _way_problems(authority, where)
    return errors


def _usage_problems(authority: AuthoritySettings, where: str) -> list[FieldError]:
    try:
        resolve(authority.tolerated_usages)
    except UsageError as err:
        return [field.invalid(f"{where}.toleratedUsages", authority.tolerated_usages, str(err))]
    return [
        field.invalid(f"{where}.toleratedExtensions[{position}]", oid, "expected an OID, such as 1.3.6.1.4.1.311.21.7")
        for position, oid in enumerate(authority.tolerated_extensions)
        if not _OID.fullmatch(oid)
    ]


def _way_problems(authority: AuthoritySettings, where: str) -> list[FieldError]:
    ways = [way for way in _WAYS if getattr(authority, way) is not None]
    if len(ways) != 1:
        return [field.invalid(where, ways, f"must have exactly one of {', '.join(_WAYS)}")]
    return [
        field.required(f"{where}.{way}.{_WIRE_NAMES.get(name, name)}", "")
        for way, name in _REQUIRED
        if way in ways and not getattr(getattr(authority, way), name)
    ]
