"""The server's side of azure: a document for this key's nonce, and what directory and API know of the machine."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec

from kubevouch.attestation import serving_names, settings
from kubevouch.attestation.answering import Answering, require
from kubevouch.attestation.api_access import TokenFile
from kubevouch.attestation.azure import attested_document, managed_identity, resource_ids
from kubevouch.attestation.azure.attested_document import PUBLIC_DOMAIN, AttestedData
from kubevouch.attestation.azure.evidence import NAME, VERSION, Proof, nonce, provider_id
from kubevouch.attestation.azure.intermediates import FOLDERS, Intermediates
from kubevouch.attestation.azure.machines import (
    API,
    VirtualMachine,
    VirtualMachines,
    VirtualMachinesAPI,
    VirtualMachinesFile,
    token_of_this_machine,
)
from kubevouch.attestation.azure.managed_identity import AUDIENCE, ISSUERS, ManagedIdentity
from kubevouch.attestation.azure.metadata import METADATA, MetadataService
from kubevouch.attestation.http import Web, counter
from kubevouch.attestation.interface import (
    Attested,
    Binding,
    Challenge,
    Claim,
    Evidence,
    RefusedEvidenceError,
    SettingsError,
    Sources,
    Strength,
    UnavailableError,
)
from kubevouch.attestation.published_keys import PublishedKeys, fetch_with
from kubevouch.machinery.text import names as name_rules
from kubevouch.pki.client_certificate import TrustAnchors
from kubevouch.pki.errors import ParseError

KEYS = "https://login.microsoftonline.com/common/discovery/keys"
_DOCUMENT = "azure-attested-document"
_TOKEN = "azure-managed-identity"
_API = "azure-virtual-machines"


class ManagedIdentityUse(StrEnum):
    """Whether the token of the machine's own identity has to be there beside the document."""

    NONE = "none"
    REQUIRED = "required"


class Settings(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Args:
    subscriptions: whose machines may join.
    roots, roots_file: of the signers of documents, in PEM; one of them.
    domains: names of the signers: each itself, or with a region before it.
    intermediates: folders from which certificates between them may be fetched; none fetches none.
    managed_identity: whether a token is required. None is read otherwise.
    tenants: directories whose identities count.
    audience, issuers, keys: of tokens; ``keys`` is an https URL or the path of a file.
    resource_groups: of machines that may join; none means any. Needs ``machines``.
    machines: ``api``, or the path of a file that ``az vm list --show-details --output json`` wrote; empty asks nobody,
        so that there are no names and addresses for serving certificates.
    credentials: the path of a file with an access token for the API; empty is the managed identity of the machine that
        this runs on, by its metadata service at ``metadata``.
    node_name: whether the machine's computer name is that of its Node.
    reattest: a machine may come with another key than its first, as after its disk was made anew, without an
        operator's word. Whatever runs on it and reaches the metadata service can then have a key of its own certified.
    api, ca_file, connect_to: the API's address, the roots for https and where to connect to in place of a host name:
        for sovereign clouds and private endpoints.
    """

    subscriptions: frozenset[str]
    roots: str = ""
    roots_file: str = ""
    domains: tuple[str, ...] = (PUBLIC_DOMAIN,)
    intermediates: tuple[str, ...] = FOLDERS
    managed_identity: ManagedIdentityUse = ManagedIdentityUse.NONE
    tenants: frozenset[str] = frozenset()
    audience: str = AUDIENCE
    issuers: tuple[str, ...] = ISSUERS
    keys: str = KEYS
    resource_groups: frozenset[str] = frozenset()
    machines: str = ""
    credentials: str = ""
    node_name: bool = True
    reattest: bool = False
    api: str = API
    metadata: str = METADATA
    ca_file: str = ""
    connect_to: dict[str, str] = {}


def make_verifier(settings_: Mapping[str, Any], sources: Sources) -> AzureVerifier:
    """Raises :class:`SettingsError`."""
    read = settings.read(settings_, Settings, NAME)
    if not read.subscriptions or not read.domains:
        raise SettingsError(
            f"settings of {NAME}: got no subscriptions or no domains", hint="name those whose machines may join"
        )
    if read.managed_identity is ManagedIdentityUse.REQUIRED and not read.tenants:
        raise SettingsError(
            f"settings of {NAME}: got managedIdentity without tenants",
            hint="name the directory: all of them sign with the same keys",
        )
    if read.resource_groups and not read.machines:
        # A token says a group, too: of whatever machine it was stolen from.
        raise SettingsError(f"settings of {NAME}: got resourceGroups, which no document says", hint="set machines: api")
    text = settings.text_or_file(read.roots, read.roots_file, NAME, "roots")
    try:
        roots = TrustAnchors.from_pem(text)
    except ParseError as err:
        raise SettingsError(f"settings of {NAME}: roots: {err}", hint="give the roots of the signers in PEM") from err
    web = Web(ca_file=read.ca_file, connect_to=read.connect_to, asked=counter(sources))
    keys = PublishedKeys(read.keys, fetch_with(web), sources.clock)
    intermediates = Intermediates(web, sources.clock, roots, read.intermediates)
    return AzureVerifier(read, intermediates, keys, _machines(read, web, sources))


def _machines(read: Settings, web: Web, sources: Sources) -> VirtualMachines | None:
    if read.machines.startswith("/"):
        return VirtualMachinesFile(Path(read.machines))
    if read.machines not in ("", "api"):
        raise SettingsError(f"settings of {NAME}: got machines {read.machines!r}, expected api or an absolute path")
    if not read.machines:
        return None
    own = token_of_this_machine(MetadataService(web, read.metadata), sources.clock, read.api)
    token = TokenFile(Path(read.credentials)) if read.credentials else own
    return VirtualMachinesAPI(web, sources.clock, token, read.api)


class AzureVerifier(Answering):
    """A :class:`~kubevouch.attestation.interface.Verifier`."""

    name = NAME
    versions: Sequence[str] = (VERSION,)
    needs_challenge = True

    def __init__(
        self,
        settings_: Settings,
        intermediates: Intermediates,
        keys: PublishedKeys,
        machines: VirtualMachines | None,
    ) -> None:
        self._settings = settings_
        self._intermediates = intermediates
        self._keys = keys
        self._machines = machines

    def destination(self, evidence: Evidence) -> str:
        return NAME

    async def verify_client(
        self, evidence: Evidence, binding: Binding, challenge: Challenge | None, now: dt.datetime
    ) -> Attested:
        require(challenge)
        proof = self.shown(evidence, Proof, "the proof of azure")
        # 1. 2. Somebody has signed it.
        opened = attested_document.open_document(proof.document)
        # 3. 4. Azure has.
        await self._intermediates.verify_signer(opened, self._settings.domains, now)
        # 5. to 8.
        said = attested_document.verify_content(
            opened.content, nonce=nonce(binding), subscriptions=self._settings.subscriptions, now=now
        )
        # 9. The directory says which resource it is.
        identity = await self._identity(proof, said, now)
        # 10. The API knows it, under the same vmId.
        machine = await self._machine(proof, said, identity)
        # 11. It is in a group whose machines may join.
        groups = {each.lower() for each in self._settings.resource_groups}
        if groups and (machine is None or machine.identifier.group not in groups):
            got = machine.identifier.group if machine is not None else ""
            raise RefusedEvidenceError("resource-group", f"got {got!r}, whose machines may not join")
        return Attested(
            provider=NAME,
            version=VERSION,
            identity=f"{said.subscription_id}/{said.vm_id}",
            strength=Strength.CLOUD,
            # Nothing but the API ties a resource id to the vmId of the document.
            provider_id=provider_id(machine.identifier.canonical) if machine is not None else "",
            node_name=_node_name(machine) if self._settings.node_name else "",
            renewable=self._settings.reattest,
            addresses=await self._addresses(machine),
            claims=tuple(_claims(said, identity, machine)),
            evidence_digest=hashlib.sha256(evidence.data).hexdigest(),
        )

    async def verify_serving(self, attested: Attested, names: Iterable[str], now: dt.datetime) -> Mapping[str, str]:
        """Addresses of its interfaces, and its computer name, as the API has them now."""
        vm_id = attested.identity.rpartition("/")[2]
        if self._machines is None:
            return {}
        machine = await self._machines.find(vm_id, attested.provider_id.removeprefix("azure://"))
        if machine is None:
            return {}
        own = msgspec.structs.replace(
            attested,
            addresses=await self._machines.addresses(machine),
            dns_names=tuple(filter(None, (_node_name(machine),))),
        )
        return serving_names.among(own, names)

    async def _identity(self, proof: Proof, said: AttestedData, now: dt.datetime) -> ManagedIdentity | None:
        """Raises :class:`RefusedEvidenceError`: ``token`` for none, ``resource`` for that of another subscription."""
        if self._settings.managed_identity is ManagedIdentityUse.NONE:
            return None
        if not proof.token:
            raise RefusedEvidenceError("token", "got no token of a managed identity, expected one")
        identity = managed_identity.verify(
            await self._keys.payload(proof.token),
            tenants=self._settings.tenants,
            audience=self._settings.audience,
            issuers=self._settings.issuers,
            resource_id=proof.resource_id,
            now=now,
        )
        if identity.holder.subscription != said.subscription_id:
            raise RefusedEvidenceError(
                "resource", "the token is of a machine of another subscription than the document"
            )
        return identity

    async def _machine(
        self, proof: Proof, said: AttestedData, identity: ManagedIdentity | None
    ) -> VirtualMachine | None:
        """Raises :class:`RefusedEvidenceError`: ``vm``."""
        if self._machines is None:
            return None
        claimed = resource_ids.parse_machine(proof.resource_id)
        if claimed is not None and claimed.subscription != said.subscription_id:
            raise RefusedEvidenceError("vm", "got the resource id of a machine of another subscription")
        found = await self._machines.find(said.vm_id, claimed.canonical if claimed is not None else "")
        if (
            found is None
            or found.identifier.subscription != said.subscription_id
            or (identity is not None and not identity.holder.covers(found.identifier))
        ):
            raise RefusedEvidenceError(
                "vm", f"the machine {said.vm_id} is not {proof.resource_id[:200]!r}, or the API knows none such"
            )
        return found

    async def _addresses(self, machine: VirtualMachine | None) -> tuple[str, ...]:
        """None where they cannot be had now: for serving certificates they are asked for again."""
        if machine is None or self._machines is None:
            return ()
        try:
            return await self._machines.addresses(machine)
        except UnavailableError:
            return ()


def _node_name(machine: VirtualMachine | None) -> str:
    """What its kubelet calls it; a computer name may be what no Node can be called."""
    name = machine.computer_name.lower() if machine is not None else ""
    return "" if name_rules.subdomain(name) else name


def _claims(said: AttestedData, identity: ManagedIdentity | None, machine: VirtualMachine | None) -> Iterable[Claim]:
    yield Claim("azure.subscription", said.subscription_id, _DOCUMENT, Strength.CLOUD)
    yield Claim("azure.vmID", said.vm_id, _DOCUMENT, Strength.CLOUD)
    if identity is not None:
        yield Claim("azure.tenant", identity.tenant, _TOKEN, Strength.CLOUD)
        yield Claim("azure.principal", identity.principal, _TOKEN, Strength.CLOUD)
    if machine is not None:
        yield Claim("azure.resourceID", machine.identifier.canonical, _API, Strength.CLOUD)
        yield Claim("azure.resourceGroup", machine.identifier.group, _API, Strength.CLOUD)
        yield Claim("azure.location", machine.location, _API, Strength.CLOUD)
        for key, value in sorted(machine.tags.items()):
            # Whoever may change the machine writes them: they choose a policy only.
            yield Claim(f"azure.tag.{key}", value, _API, Strength.CLOUD, tenant_controlled=True)
