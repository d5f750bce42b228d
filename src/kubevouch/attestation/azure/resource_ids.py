"""Names of virtual machines in Azure's API: ``/subscriptions/…/providers/Microsoft.Compute/virtualMachines/…``.

They compare without regard to case, and services write them in any.
"""

from __future__ import annotations

import re

import msgspec

_GUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
GUID = re.compile(_GUID, re.ASCII | re.IGNORECASE)
_NAME = r"[a-z0-9_](?:[a-z0-9_.()-]{0,88}[a-z0-9_()-])?"
_MACHINE = re.compile(
    rf"/subscriptions/(?P<subscription>{_GUID})/resourcegroups/(?P<group>{_NAME})/providers/microsoft\.compute/"
    rf"(?:virtualmachinescalesets/(?P<set>{_NAME})(?:/virtualmachines/(?P<number>[0-9]{{1,10}}))?|"
    rf"virtualmachines/(?P<name>{_NAME}))",
    re.ASCII | re.IGNORECASE,
)
_INTERFACE = re.compile(
    rf"/subscriptions/{_GUID}/resourcegroups/{_NAME}/providers/"
    rf"(?:microsoft\.network|microsoft\.compute/virtualmachinescalesets/{_NAME}/virtualmachines/[0-9]{{1,10}})/"
    rf"networkinterfaces/{_NAME}",
    re.ASCII | re.IGNORECASE,
)


class MachineID(msgspec.Struct, frozen=True):
    """The parts of the name of a machine, or of a scale set of machines; subscription and group in lower case."""

    subscription: str
    group: str
    canonical: str
    is_set: bool = False

    def covers(self, other: MachineID) -> bool:
        """Whether it is that machine, or the set that it is of."""
        own, name = self.canonical.lower(), other.canonical.lower()
        return own == name or (self.is_set and name.startswith(f"{own}/virtualmachines/"))


def parse_machine(text: str) -> MachineID | None:
    """The machine of this name; None if it is none: that of an identity, a disk, or a path that leads elsewhere."""
    found = parse_holder(text)
    return None if found is None or found.is_set else found


def parse_holder(text: str) -> MachineID | None:
    """As :func:`parse_machine`, of what has an identity of its own: a machine, or a scale set with all its machines."""
    found = _MACHINE.fullmatch(text)
    if found is None or ".." in text:
        return None
    subscription, group = found["subscription"].lower(), found["group"].lower()
    machine = f"virtualMachines/{found['name']}"
    if found["set"]:
        machine = f"virtualMachineScaleSets/{found['set']}"
        machine += f"/virtualMachines/{found['number']}" if found["number"] else ""
    return MachineID(
        subscription,
        group,
        # As the cloud provider has it in provider ids: the group in lower case, for services differ most in that.
        f"/subscriptions/{subscription}/resourceGroups/{group}/providers/Microsoft.Compute/{machine}",
        is_set=bool(found["set"]) and not found["number"],
    )


def is_interface(text: str) -> bool:
    """Whether it names a network interface, so that nothing else is asked for with our credentials."""
    return _INTERFACE.fullmatch(text) is not None and ".." not in text
