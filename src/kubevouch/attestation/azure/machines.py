"""What Azure knows of its virtual machines: by the API of its Resource Manager, or from a file in the API's form.

``az vm list --show-details --output json`` writes the file.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

import msgspec

from kubevouch.attestation import api_access
from kubevouch.attestation.api_access import AccessToken, Listing, TokenOfThisMachine
from kubevouch.attestation.api_answers import APIAnswers
from kubevouch.attestation.azure import resource_ids
from kubevouch.attestation.azure.metadata import MetadataService
from kubevouch.attestation.azure.resource_ids import MachineID
from kubevouch.attestation.http import Web
from kubevouch.attestation.interface import UnavailableError
from kubevouch.util.clock import Clock

API = "https://management.azure.com"
MAX_INTERFACES = 8
"""Of a machine, as Azure has it at most."""
_COMPUTE = "2024-07-01"
_NETWORK = "2024-05-01"


class VirtualMachine(msgspec.Struct, frozen=True, kw_only=True):
    """A machine as the cloud knows it.

    Args:
        computer_name: what its operating system is called, which nobody can change after the machine was made.
        interfaces: resource ids; their addresses are asked for when they are needed.
        tags: whoever may change the machine writes them.
    """

    identifier: MachineID
    vm_id: str
    name: str
    computer_name: str = ""
    location: str = ""
    addresses: tuple[str, ...] = ()
    interfaces: tuple[str, ...] = ()
    tags: Mapping[str, str] = {}


class VirtualMachines(Protocol):
    """The cloud behind one interface."""

    async def find(self, vm_id: str, resource_id: str) -> VirtualMachine | None:
        """The machine with this ``vmId``; None if there is none.

        Args:
            resource_id: where to look: canonical, or empty if nobody has said.

        Raises:
            UnavailableError: nobody could say.
        """
        ...

    async def addresses(self, machine: VirtualMachine) -> tuple[str, ...]:
        """Of all its interfaces. Raises likewise."""
        ...


class _OSProfile(msgspec.Struct, rename="camel"):
    computer_name: str = ""


class _Reference(msgspec.Struct):
    id: str = ""


class _NetworkProfile(msgspec.Struct, rename="camel"):
    network_interfaces: list[_Reference] = []


class _Properties(msgspec.Struct, rename="camel"):
    vm_id: str = ""
    os_profile: _OSProfile = msgspec.field(default_factory=_OSProfile)
    network_profile: _NetworkProfile = msgspec.field(default_factory=_NetworkProfile)


class _Resource(msgspec.Struct):
    """Microsoft.Compute/virtualMachines, as far as it matters here."""

    id: str
    name: str = ""
    location: str = ""
    tags: dict[str, str] | None = None
    properties: _Properties = msgspec.field(default_factory=_Properties)


class _Listed(_Properties, rename="camel"):
    """The same, as the command line flattens it."""

    id: str = ""
    name: str = ""
    location: str = ""
    tags: dict[str, str] | None = None
    private_ips: str = ""
    public_ips: str = ""


class _PublicAddress(msgspec.Struct, rename="camel"):
    ip_address: str = ""


class _Public(msgspec.Struct):
    properties: _PublicAddress = msgspec.field(default_factory=_PublicAddress)


class _IPProperties(msgspec.Struct):
    private_address: str = msgspec.field(default="", name="privateIPAddress")
    public_address: _Public = msgspec.field(default_factory=_Public, name="publicIPAddress")


class _IPConfiguration(msgspec.Struct):
    properties: _IPProperties = msgspec.field(default_factory=_IPProperties)


class _InterfaceProperties(msgspec.Struct, rename="camel"):
    ip_configurations: list[_IPConfiguration] = []


class _Interface(msgspec.Struct):
    properties: _InterfaceProperties = msgspec.field(default_factory=_InterfaceProperties)


def token_of_this_machine(metadata: MetadataService, clock: Clock, api: str) -> AccessToken:
    """That of the managed identity of the machine that this runs on, for the API."""

    async def ask() -> tuple[str, float]:
        granted = await metadata.token(f"{api.rstrip('/')}/")
        return granted.access_token, granted.seconds

    return TokenOfThisMachine(ask, clock)


class VirtualMachinesAPI:
    """:class:`VirtualMachines` by the Resource Manager."""

    def __init__(self, web: Web, clock: Clock, token: AccessToken, base: str = API) -> None:
        self._web = web
        self._base = base.rstrip("/")
        self._token = token
        self._machines: APIAnswers[str, VirtualMachine] = APIAnswers(clock)
        self._interfaces: APIAnswers[str, tuple[str, ...]] = APIAnswers(clock)

    async def find(self, vm_id: str, resource_id: str) -> VirtualMachine | None:
        if resource_ids.parse_machine(resource_id) is None:
            return None

        async def ask() -> VirtualMachine | None:
            body = await self._ask(resource_id, _COMPUTE)
            return None if body is None else _machine(api_access.read(body, _Resource))

        found = await self._machines.get(resource_id, ask)
        if found is None or found.vm_id != vm_id:
            # The name may have gone to another machine since.
            found = await self._machines.get(resource_id, ask, fresh=True)
        return found if found is not None and found.vm_id == vm_id else None

    async def addresses(self, machine: VirtualMachine) -> tuple[str, ...]:
        found: list[str] = []
        for interface in machine.interfaces:
            found += await self._interfaces.get(interface, partial(self._addresses, interface)) or ()
        return tuple(found)

    async def _addresses(self, interface: str) -> tuple[str, ...] | None:
        body = await self._ask(interface, f"{_NETWORK}&$expand=ipConfigurations/publicIPAddress")
        if body is None:
            return None
        settings = [each.properties for each in api_access.read(body, _Interface).properties.ip_configurations]
        return tuple(
            _addresses(
                text for each in settings for text in (each.private_address, each.public_address.properties.ip_address)
            )
        )

    async def _ask(self, resource_id: str, version: str) -> bytes | None:
        url = f"{self._base}{quote(resource_id, safe='/()')}?api-version={version}"
        return await api_access.ask(self._web, url, self._token)


class VirtualMachinesFile:
    """:class:`VirtualMachines` from a file."""

    def __init__(self, path: Path) -> None:
        self._listing = Listing(path, _parsed)

    async def find(self, vm_id: str, resource_id: str) -> VirtualMachine | None:  # noqa: ARG002 - all are known
        found: VirtualMachine | None = self._listing.find(vm_id)
        return found

    async def addresses(self, machine: VirtualMachine) -> tuple[str, ...]:
        return machine.addresses


def _parsed(text: bytes) -> dict[str, VirtualMachine]:
    return {each.vm_id: each for each in map(_listed, msgspec.json.decode(text, type=list[_Listed]))}


def _machine(resource: _Resource) -> VirtualMachine:
    identifier = resource_ids.parse_machine(resource.id)
    if identifier is None:
        raise UnavailableError(f"the cloud answered with {resource.id[:200]!r}, which is no machine", 30.0)
    said = resource.properties
    interfaces = [each.id for each in said.network_profile.network_interfaces]
    return VirtualMachine(
        identifier=identifier,
        vm_id=said.vm_id.lower(),
        name=resource.name,
        computer_name=said.os_profile.computer_name,
        location=resource.location,
        interfaces=tuple(filter(resource_ids.is_interface, interfaces))[:MAX_INTERFACES],
        tags=resource.tags or {},
    )


def _listed(listed: _Listed) -> VirtualMachine:
    found = _machine(_Resource(listed.id, listed.name, listed.location, listed.tags, listed))
    return msgspec.structs.replace(
        found, addresses=tuple(_addresses(f"{listed.private_ips},{listed.public_ips}".split(",")))
    )


def _addresses(texts: Iterable[str]) -> Iterable[str]:
    for text in texts:
        try:
            yield str(ipaddress.ip_address(text.strip()))
        except ValueError:
            continue
