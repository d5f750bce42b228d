"""What Google knows of its instances: by its API, or from a file in the API's form.

Both say the same in the same words: ``gcloud compute instances list --format=json`` writes the file.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

import msgspec

from kubevouch.attestation.api_answers import APIAnswers
from kubevouch.attestation.gcp.metadata import METADATA, MetadataService
from kubevouch.attestation.http import Web
from kubevouch.attestation.interface import AttestationError, UnavailableError
from kubevouch.util.clock import Clock

API = "https://compute.googleapis.com/compute/v1"
MAX_FILE = 4 << 20
"""Bytes of a file of instances: some 600 of them."""
_MAX_ANSWER = 256 << 10
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
    """:class:`Instances` by the API of Compute Engine.

    Args:
        token: what the API is asked with, an OAuth 2.0 access token.
    """

    def __init__(self, web: Web, clock: Clock, token: AccessToken, base: str = API) -> None:
        self._web = web
        self._base = base.rstrip("/")
        self._token = token
        self._instances: APIAnswers[tuple[str, ...], Instance] = APIAnswers(clock)
        self._keys: APIAnswers[tuple[str, ...], str] = APIAnswers(clock)

    async def get(self, project: str, zone: str, name: str, *, fresh: bool = False) -> Instance | None:
        async def ask() -> Instance | None:
            body = await self._ask(f"{_path(project, zone, name)}")
            return None if body is None else _instance(_read(body, _Resource), project)

        return await self._instances.get((project, zone, name), ask, fresh=fresh)

    async def signing_key(self, project: str, zone: str, name: str) -> str | None:
        async def ask() -> str | None:
            body = await self._ask(f"{_path(project, zone, name)}/getShieldedInstanceIdentity")
            return None if body is None else _read(body, _ShieldedIdentity).signing_key.ek_pub or None

        return await self._keys.get((project, zone, name), ask)

    async def _ask(self, path: str) -> bytes | None:
        headers = {"Accept": "application/json", "Authorization": f"Bearer {await self._token.get()}"}
        answer = await self._web.send("GET", f"{self._base}{path}", headers, limit=_MAX_ANSWER)
        if answer.status == 404:
            return None
        if answer.status != 200:
            # Whether it is the credentials or the permission: a machine must not be refused for what we lack.
            raise UnavailableError(f"the API of Compute Engine answered {answer.status}: {answer.text[:200]}", 30.0)
        return answer.body


class InstancesFile:
    """:class:`Instances` from a file, which is read again when it has changed; it knows no keys."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, int] | None = None
        self._known: dict[tuple[str, str, str], Instance] = {}

    async def get(self, project: str, zone: str, name: str, *, fresh: bool = False) -> Instance | None:  # noqa: ARG002 - it is
        try:
            status = self._path.stat()
            if (status.st_mtime_ns, status.st_size) != self._seen:
                self._known = _listed(_file(self._path))
                self._seen = (status.st_mtime_ns, status.st_size)
        except (OSError, msgspec.MsgspecError, ValueError) as err:
            raise UnavailableError(f"the instances in {self._path} cannot be read: {err}", 30.0) from err
        return self._known.get((project, zone, name))

    async def signing_key(self, project: str, zone: str, name: str) -> str | None:  # noqa: ARG002 - it has none
        return None


class AccessToken(Protocol):
    """What an API is asked with."""

    async def get(self) -> str:
        """One that is good for a while. Raises :class:`UnavailableError`."""
        ...


class TokenFile:
    """An access token that somebody else keeps fresh in a file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def get(self) -> str:
        try:
            return _file(self._path).decode("ascii").strip()
        except (OSError, UnicodeDecodeError) as err:
            raise UnavailableError(f"the access token in {self._path} cannot be read: {err}", 30.0) from err


class _Granted(msgspec.Struct):
    access_token: str
    expires_in: float


class TokenOfThisInstance:
    """The access token of the service account of the instance that this runs on."""

    def __init__(self, web: Web, clock: Clock, base: str = METADATA) -> None:
        self._metadata = MetadataService(web, base)
        self._clock = clock
        self._token = ""
        self._until = 0.0

    async def get(self) -> str:
        if not self._token or self._clock.monotonic() >= self._until:
            try:
                text = await self._metadata.get("/instance/service-accounts/default/token")
            except AttestationError as err:
                raise UnavailableError(f"no access token for the API: {err}", 30.0) from err
            granted = _read(text.encode(), _Granted)
            # The metadata service has a new one five minutes before the former one ends.
            self._token, self._until = granted.access_token, self._clock.monotonic() + granted.expires_in - 240
        return self._token


def _path(*parts: str) -> str:
    project, zone, name = (quote(each, safe=":") for each in parts)
    return f"/projects/{project}/zones/{zone}/instances/{name}"


def _read(body: bytes, into: Any) -> Any:
    try:
        return msgspec.json.decode(body, type=into)
    except (msgspec.MsgspecError, RecursionError) as err:
        raise UnavailableError(f"the cloud answered what cannot be read: {str(err)[:200]}", 30.0) from err


def _file(path: Path) -> bytes:
    with path.open("rb") as file:
        contents = file.read(MAX_FILE + 1)
    if len(contents) > MAX_FILE:
        raise ValueError(f"expected at most {MAX_FILE} bytes")
    return contents


def _listed(text: bytes) -> dict[tuple[str, str, str], Instance]:
    found = [_instance(each) for each in msgspec.json.decode(text, type=list[_Resource])]
    return {(each.project, each.zone, each.name): each for each in found}


def _instance(resource: _Resource, project: str = "") -> Instance:
    # https://www.googleapis.com/compute/v1/projects/P/zones/Z
    parts = resource.zone.split("/")
    if not project and "projects" in parts[:-1]:
        project = parts[parts.index("projects") + 1]
    return Instance(
        project=project,
        zone=parts[-1],
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
