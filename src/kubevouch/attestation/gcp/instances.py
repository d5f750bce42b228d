"""What Google knows of its instances: by its API, or from a file in the API's form.

Both say the same in the same words: ``gcloud compute instances list --format=json`` writes the file.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

import msgspec

from kubevouch.attestation import api_access
from kubevouch.attestation.api_access import AccessToken, Listing, TokenOfThisMachine
from kubevouch.attestation.api_answers import APIAnswers
from kubevouch.attestation.gcp.metadata import MetadataService
from kubevouch.attestation.http import Web
from kubevouch.util.clock import Clock

API = "https://compute.googleapis.com/compute/v1"
_RUNNING = frozenset({"PROVISIONING", "STAGING", "RUNNING"})


class Instance(msgspec.Struct, frozen=True, kw_only=True):
    """An instance as the cloud knows it.

    Args:
        id: in decimal.
        running: it has been started and not stopped.
        addresses: of all its interfaces, those by which others reach it included.
        labels, created_by: whoever may change the instance writes them.
    """

    project: str
    zone: str
    name: str
    id: str
    running: bool = True
    addresses: tuple[str, ...] = ()
    labels: Mapping[str, str] = {}
    created_by: str = ""


class Instances(Protocol):
    """The cloud behind one interface."""

    async def get(self, project: str, zone: str, name: str, *, fresh: bool = False) -> Instance | None:
        """The instance that has this name now; None if there is none.

        Raises:
            UnavailableError: nobody could say.
        """
        ...

    async def signing_key(self, project: str, zone: str, name: str) -> str | None:
        """The public key in PEM that a shielded instance's TPM signs with; None if there is none. Raises likewise."""
        ...


class _AccessConfig(msgspec.Struct, rename="camel"):
    nat_ip: str = msgspec.field(default="", name="natIP")
    external_ipv6: str = ""


class _Interface(msgspec.Struct, rename="camel"):
    network_ip: str = msgspec.field(default="", name="networkIP")
    ipv6_address: str = ""
    access_configs: list[_AccessConfig] = []
    ipv6_access_configs: list[_AccessConfig] = []


class _Item(msgspec.Struct):
    key: str = ""
    value: str = ""


class _Metadata(msgspec.Struct):
    items: list[_Item] = []


class _Resource(msgspec.Struct, rename="camel"):
    """compute#instance, as far as it matters here."""

    id: str | int
    name: str
    zone: str
    status: str = ""
    network_interfaces: list[_Interface] = []
    labels: dict[str, str] = {}
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


class _Key(msgspec.Struct, rename="camel"):
    ek_pub: str = ""


class _ShieldedIdentity(msgspec.Struct, rename="camel"):
    signing_key: _Key = msgspec.field(default_factory=_Key)


def internal_names(project: str, zone: str, name: str) -> tuple[str, str, str]:
    """What an instance is called inside its network: by itself, and in the global and the zonal DNS of its project.

    The project ``example.com:it`` of a domain is ``it.example.com`` there.
    """
    domain, colon, rest = project.partition(":")
    label = f"{rest}.{domain}" if colon else project
    return name, f"{name}.c.{label}.internal", f"{name}.{zone}.c.{label}.internal"


class InstancesAPI:
    """:class:`Instances` by the API of Compute Engine."""

    def __init__(self, web: Web, clock: Clock, token: AccessToken, base: str = API) -> None:
        self._web = web
        self._base = base.rstrip("/")
        self._token = token
        self._instances: APIAnswers[tuple[str, ...], Instance] = APIAnswers(clock)
        self._keys: APIAnswers[tuple[str, ...], str] = APIAnswers(clock)

    async def get(self, project: str, zone: str, name: str, *, fresh: bool = False) -> Instance | None:
        async def ask() -> Instance | None:
            body = await self._ask(_path(project, zone, name))
            return None if body is None else _instance(api_access.read(body, _Resource))

        return await self._instances.get((project, zone, name), ask, fresh=fresh)

    async def signing_key(self, project: str, zone: str, name: str) -> str | None:
        async def ask() -> str | None:
            body = await self._ask(f"{_path(project, zone, name)}/getShieldedInstanceIdentity")
            return None if body is None else api_access.read(body, _ShieldedIdentity).signing_key.ek_pub or None

        return await self._keys.get((project, zone, name), ask)

    async def _ask(self, path: str) -> bytes | None:
        return await api_access.ask(self._web, f"{self._base}{path}", self._token)


class InstancesFile:
    """:class:`Instances` from a file; it knows no keys."""

    def __init__(self, path: Path) -> None:
        self._listing = Listing(path, _listed)

    async def get(self, project: str, zone: str, name: str, *, fresh: bool = False) -> Instance | None:  # noqa: ARG002 - it is
        found: Instance | None = self._listing.find((project, zone, name))
        return found

    async def signing_key(self, project: str, zone: str, name: str) -> str | None:  # noqa: ARG002 - it has none
        return None


class _Granted(msgspec.Struct):
    access_token: str
    expires_in: float


def token_of_this_instance(metadata: MetadataService, clock: Clock) -> AccessToken:
    """That of the service account of the instance that this runs on."""

    async def ask() -> tuple[str, float]:
        text = await metadata.get("/instance/service-accounts/default/token")
        granted: _Granted = api_access.read(text.encode(), _Granted)
        return granted.access_token, granted.expires_in

    return TokenOfThisMachine(ask, clock)


def _path(*parts: str) -> str:
    project, zone, name = (quote(each, safe=":") for each in parts)
    return f"/projects/{project}/zones/{zone}/instances/{name}"


def _listed(text: bytes) -> dict[tuple[str, str, str], Instance]:
    found = [_instance(each) for each in msgspec.json.decode(text, type=list[_Resource])]
    return {(each.project, each.zone, each.name): each for each in found}


def _instance(resource: _Resource) -> Instance:
    # https://www.googleapis.com/compute/v1/projects/P/zones/Z
    place, _, zone = resource.zone.rpartition("/zones/")
    return Instance(
        project=place.rpartition("/projects/")[2],
        zone=zone,
        name=resource.name,
        id=str(resource.id),
        running=resource.status in _RUNNING,
        addresses=tuple(_addresses(resource.network_interfaces)),
        labels=resource.labels,
        created_by=next((each.value for each in resource.metadata.items if each.key == "created-by"), ""),
    )


def _addresses(interfaces: Iterable[_Interface]) -> Iterable[str]:
    for each in interfaces:
        found = [each.network_ip, each.ipv6_address]
        found += [access.nat_ip for access in each.access_configs]
        found += [access.external_ipv6 for access in each.ipv6_access_configs]
        for text in filter(None, found):
            try:
                yield str(ipaddress.ip_address(text))
            except ValueError:
                continue
