"""What EC2 knows of an instance now: that it is there, is of that account, and still has the disk it was started with.

A document says what was true when the instance was started. Who can stop an instance can give it another root volume,
and start what he wants under its name (SPIRE's ``aws_iid`` compares attach times for the same reason).
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import msgspec

from kubevouch.attestation.aws.identity_document import Document
from kubevouch.attestation.interface import RefusedEvidenceError, UnavailableError

MAX_FILE = 16 << 20
"""Octets of a file with instances: some 4,000 of them."""
SETTLING = dt.timedelta(minutes=5)
"""For how long after its start an instance may be unknown to EC2's API, which is eventually consistent."""
MAX_SKEW = dt.timedelta(seconds=60)
"""Between root volume and first network interface: those of one start are attached within seconds."""
_RUNNING = ("pending", "running")


class Instance(msgspec.Struct, frozen=True, kw_only=True):
    """Of an instance, what counts.

    Args:
        state: ``pending``, ``running``, ``stopping`` …
        addresses: of all its network interfaces.
        root_attached, interface_attached: when root volume and first network interface were; None if EC2 does not say.
        tags: those that begin with ``aws:`` are AWS's own, the others anybody's in the account.
    """

    id: str
    account: str
    state: str
    zone: str = ""
    private_dns_name: str = ""
    addresses: tuple[str, ...] = ()
    root_device_type: str = "ebs"
    root_attached: dt.datetime | None = None
    interface_attached: dt.datetime | None = None
    tags: dict[str, str] = {}


class Instances(Protocol):
    """Who knows instances."""

    async def describe(self, region: str, instance_id: str) -> Instance | None:
        """The instance, or None if there is none of that id.

        Raises:
            UnavailableError
        """
        ...


def verify_instance(told: Document, found: Instance | None, *, now: dt.datetime, check_root_volume: bool) -> Instance:
    """The instance that a document is about, as it is now.

    Raises:
        UnavailableError: it has been started so lately that it need not be known yet.
        RefusedEvidenceError: with the step, in this order: ``instance``, ``instance-account``, ``instance-state``,
            ``address``, ``root-volume``.
    """
    if found is None:
        if told.pending_time is not None and now - told.pending_time < SETTLING:
            raise UnavailableError(f"{told.instance_id} is not known yet", retry_after=15.0)
        raise RefusedEvidenceError("instance", f"{told.instance_id} is not known in {told.region}")
    if found.account != told.account_id:
        raise RefusedEvidenceError("instance-account", f"{found.id} is of account {found.account}")
    if found.state not in _RUNNING:
        raise RefusedEvidenceError("instance-state", f"{found.id} is {found.state[:32]}, expected it to run")
    if told.private_ip and told.private_ip not in found.addresses:
        raise RefusedEvidenceError("address", f"{found.id} does not have the address {told.private_ip[:64]} now")
    if check_root_volume and found.root_device_type != "instance-store":
        _verify_root_volume(found)
    return found


def _verify_root_volume(found: Instance) -> None:
    if found.root_attached is None or found.interface_attached is None:
        raise RefusedEvidenceError("root-volume", f"it is not told when the root volume of {found.id} was attached")
    apart = abs(found.root_attached - found.interface_attached)
    if apart > MAX_SKEW:
        raise RefusedEvidenceError(
            "root-volume", f"the root volume of {found.id} was attached {apart} apart from its first network interface"
        )


# ------------------------------------------------------------------ from a file


class _Pascal(msgspec.Struct, rename="pascal"):
    pass


class _Named(_Pascal):
    name: str = ""


class _Placement(_Pascal):
    availability_zone: str = ""


class _Volume(_Pascal):
    attach_time: dt.datetime | None = None


class _Device(_Pascal):
    device_name: str = ""
    ebs: _Volume = msgspec.field(default_factory=_Volume)


class _Attachment(_Pascal):
    device_index: int = -1
    attach_time: dt.datetime | None = None


class _Address(_Pascal):
    private_ip_address: str = ""
    ipv6_address: str = msgspec.field(default="", name="Ipv6Address")


class _Interface(_Pascal):
    attachment: _Attachment = msgspec.field(default_factory=_Attachment)
    private_ip_addresses: list[_Address] = []
    ipv6_addresses: list[_Address] = msgspec.field(default_factory=list, name="Ipv6Addresses")


class _Tag(_Pascal):
    key: str
    value: str = ""


class _Instance(_Pascal):
    instance_id: str
    state: _Named = msgspec.field(default_factory=_Named)
    placement: _Placement = msgspec.field(default_factory=_Placement)
    private_dns_name: str = ""
    private_ip_address: str = ""
    root_device_type: str = "ebs"
    root_device_name: str = ""
    block_device_mappings: list[_Device] = []
    network_interfaces: list[_Interface] = []
    tags: list[_Tag] = []


class _Reservation(_Pascal):
    owner_id: str
    instances: list[_Instance]


class _Reservations(_Pascal):
    reservations: list[_Reservation]


def _read(account: str, given: _Instance) -> Instance:
    first = next((each for each in given.network_interfaces if each.attachment.device_index == 0), _Interface())
    roots = [each.ebs for each in given.block_device_mappings if each.device_name == given.root_device_name]
    return Instance(
        id=given.instance_id,
        account=account,
        state=given.state.name,
        zone=given.placement.availability_zone,
        private_dns_name=given.private_dns_name,
        addresses=tuple(dict.fromkeys(_addresses(given))),
        root_device_type=given.root_device_type,
        root_attached=roots[0].attach_time if len(roots) == 1 else None,
        interface_attached=first.attachment.attach_time,
        tags={each.key: each.value for each in given.tags},
    )


def _addresses(given: _Instance) -> Iterator[str]:
    for interface in given.network_interfaces:
        for each in (*interface.private_ip_addresses, *interface.ipv6_addresses):
            yield each.private_ip_address or each.ipv6_address
    if given.private_ip_address:
        yield given.private_ip_address


def read_reservations(tree: Any) -> dict[str, Instance]:
    """The instances in what ``aws ec2 describe-instances`` prints. Raises ``msgspec.ValidationError``."""
    reservations = msgspec.convert(tree, _Reservations, strict=False).reservations
    return {each.instance_id: _read(some.owner_id, each) for some in reservations for each in some.instances}


class InstancesFile:
    """Instances as a file has them that somebody keeps up to date: what ``aws ec2 describe-instances`` prints.

    It is read anew when it has changed. A file that cannot be read knows nothing, rather than what it said before.
    """

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._seen: tuple[int, int] | None = None
        self._instances: dict[str, Instance] = {}

    async def describe(self, region: str, instance_id: str) -> Instance | None:
        try:
            status = self._path.stat()
            seen = (status.st_mtime_ns, status.st_size)
            if seen != self._seen:
                if status.st_size > MAX_FILE:
                    raise ValueError(f"expected at most {MAX_FILE} bytes")
                self._instances = read_reservations(json.loads(self._path.read_bytes()))
                self._seen = seen
        except (OSError, ValueError) as err:  # msgspec.ValidationError and json.JSONDecodeError too
            self._seen = None
            raise UnavailableError(f"{self._path}: no instances can be read: {str(err)[:200]}") from err
        found = self._instances.get(instance_id)
        # Ids are of a region, and one file may have those of several.
        return found if found is not None and found.zone.startswith(region) else None
