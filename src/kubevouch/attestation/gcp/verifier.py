"""The server's side of gcp: an identity token for this key, and what the API knows of the instance."""

from __future__ import annotations

import datetime as dt
import hashlib
import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from kubevouch.attestation import serving_names, settings
from kubevouch.attestation.answering import Answering, require
from kubevouch.attestation.api_access import TokenFile
from kubevouch.attestation.gcp import identity_token
from kubevouch.attestation.gcp.evidence import NAME, VERSION, TokenEvidence, audience, provider_id
from kubevouch.attestation.gcp.identity_token import ComputeEngine
from kubevouch.attestation.gcp.instances import (
    API,
    Instance,
    Instances,
    InstancesAPI,
    InstancesFile,
    internal_names,
    token_of_this_instance,
)
from kubevouch.attestation.gcp.metadata import METADATA, MetadataService
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

KEYS = "https://www.googleapis.com/oauth2/v3/certs"
_SOURCE = "gcp-identity-token"
_API_SOURCE = "gcp-instances"


class Settings(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Args:
    projects: ids of those whose instances may join.
    zones: in which; none means any.
    keys: the JWK Set that tokens are verified with, an https URL or the path of a file.
    issuer: that tokens have to name.
    instances: ``api``, or the path of a file that ``gcloud compute instances list --format=json`` wrote; empty asks
        nobody, so that there are no names and addresses for serving certificates.
    credentials: the path of a file with an access token for the API; empty is the service account of the instance
        that this runs on, by its metadata service at ``metadata``.
    node_name: whether the name of the instance is that of its Node.
    reattest: a machine may come with another key than its first, as after its disk was made anew, without an
        operator's word. Whatever runs on it and reaches the metadata service can then have a key of its own certified.
    api, ca_file, connect_to: the API's address, the roots for https and where to connect to in place of a host name:
        for private endpoints.
    """

    projects: frozenset[str]
    zones: frozenset[str] = frozenset()
    keys: str = KEYS
    issuer: str = identity_token.ISSUER
    instances: str = ""
    credentials: str = ""
    node_name: bool = True
    reattest: bool = False
    api: str = API
    metadata: str = METADATA
    ca_file: str = ""
    connect_to: dict[str, str] = {}


def make_verifier(settings_: Mapping[str, Any], sources: Sources) -> GCPVerifier:
    """Raises :class:`SettingsError`."""
    read = settings.read(settings_, Settings, NAME)
    if not read.projects:
        raise SettingsError(f"settings of {NAME}: got no projects", hint="name the projects whose instances may join")
    web = Web(ca_file=read.ca_file, connect_to=read.connect_to, asked=counter(sources))
    return GCPVerifier(
        read, PublishedKeys(read.keys, fetch_with(web), sources.clock), make_instances(read, web, sources)
    )


def make_instances(read: Settings, web: Web, sources: Sources) -> Instances | None:
    """What the settings say of the cloud's API. Raises :class:`SettingsError`."""
    if read.instances.startswith("/"):
        return InstancesFile(Path(read.instances))
    if read.instances not in ("", "api"):
        raise SettingsError(f"settings of {NAME}: got instances {read.instances!r}, expected api or an absolute path")
    if not read.instances:
        return None
    own = token_of_this_instance(MetadataService(web, read.metadata), sources.clock)
    token = TokenFile(Path(read.credentials)) if read.credentials else own
    return InstancesAPI(web, sources.clock, token, read.api)


class GCPVerifier(Answering):
    """A :class:`~kubevouch.attestation.interface.Verifier`."""

    name = NAME
    versions: Sequence[str] = (VERSION,)
    needs_challenge = True

    def __init__(self, settings_: Settings, keys: PublishedKeys, instances: Instances | None) -> None:
        self._settings = settings_
        self._keys = keys
        self._instances = instances

    def destination(self, evidence: Evidence) -> str:
        return NAME

    async def verify_client(
        self, evidence: Evidence, binding: Binding, challenge: Challenge | None, now: dt.datetime
    ) -> Attested:
        require(challenge)
        shown = self.shown(evidence, TokenEvidence, "an identity token")
        # 1. to 4. Google has signed it.
        payload = await self._keys.payload(shown.token)
        # 5. to 10.
        claimed = identity_token.verify(
            payload,
            audience=audience(binding),
            projects=self._settings.projects,
            zones=self._settings.zones,
            issuer=self._settings.issuer,
            now=now,
        )
        # 11. The API knows it.
        instance = None
        if self._instances is not None:
            instance = await known_instance(
                self._instances, claimed.project_id, claimed.zone, claimed.instance_name, claimed.instance_id
            )
        return Attested(
            provider=NAME,
            version=VERSION,
            identity=f"{claimed.project_id}/{claimed.instance_id}",
            strength=Strength.CLOUD,
            provider_id=provider_id(claimed.project_id, claimed.zone, claimed.instance_name),
            node_name=claimed.instance_name if self._settings.node_name else "",
            renewable=self._settings.reattest,
            addresses=instance.addresses if instance is not None else (),
            claims=(*_claims(claimed), *(instance_claims(instance) if instance is not None else ())),
            evidence_digest=hashlib.sha256(evidence.data).hexdigest(),
        )

    async def verify_serving(self, attested: Attested, names: Iterable[str], now: dt.datetime) -> Mapping[str, str]:
        return await serving(self._instances, attested, tuple(names))


async def known_instance(instances: Instances, project: str, zone: str, name: str, identifier: str) -> Instance:
    """The instance, as the API knows it.

    Raises:
        RefusedEvidenceError: ``instance``: there is none of that name, or it is another one: what has the name now is
            not what the token was given to.
        UnavailableError: it does not run (yet), or nobody could say.
    """
    found = await instances.get(project, zone, name)
    if found is None or found.id != identifier or not found.running:
        found = await instances.get(project, zone, name, fresh=True)
    if found is None:
        raise RefusedEvidenceError("instance", f"{project} has no instance {name!r} in {zone}")
    if found.id != identifier:
        raise RefusedEvidenceError("instance", f"the instance {name!r} is {found.id}, got {identifier}")
    if not found.running:
        raise UnavailableError(f"the instance {name!r} does not run")
    return found


async def serving(instances: Instances | None, attested: Attested, names: Sequence[str]) -> Mapping[str, str]:
    """Those of ``names`` that are the instance's by what the API says now.

    A request without an address has none: its names alone say nothing about where it is, and Google's own approver
    wants one, too.
    """
    if instances is None or not any(map(_is_address, names)):
        return {}
    parts = attested.provider_id.removeprefix("gce://").split("/")
    identifier = attested.identity.rpartition("/")[2]
    try:
        project, zone, name = parts
        found = await known_instance(instances, project, zone, name, identifier)
    except (ValueError, RefusedEvidenceError):
        return {}
    own = msgspec.structs.replace(attested, addresses=found.addresses, dns_names=internal_names(project, zone, name))
    return serving_names.among(own, names)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _claims(claimed: ComputeEngine) -> Iterable[Claim]:
    for name, value in (
        ("gcp.project", claimed.project_id),
        ("gcp.projectNumber", str(claimed.project_number)),
        ("gcp.zone", claimed.zone),
        ("gcp.instanceID", claimed.instance_id),
        ("gcp.instanceName", claimed.instance_name),
        ("gcp.serviceAccount", claimed.service_account),
    ):
        if value:
            yield Claim(name, value, _SOURCE, Strength.CLOUD)


def instance_claims(instance: Instance) -> Iterable[Claim]:
    """What the API says beside. Who may change the instance writes labels and metadata: they choose a policy only."""
    if instance.created_by:
        yield Claim("gcp.createdBy", instance.created_by, _API_SOURCE, Strength.CLOUD, tenant_controlled=True)
    for key, value in sorted(instance.labels.items()):
        yield Claim(f"gcp.label.{key}", value, _API_SOURCE, Strength.CLOUD, tenant_controlled=True)
