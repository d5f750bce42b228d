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
    rf"(?:virtualmachinescalesets/(?P<set>{_NAME})/virtualmachines/(?P<number>[0-9]{{1,10}})|"
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
    """The parts of the name of a machine, subscription and group in lower case."""

    subscription: str
    group: str
    canonical: str


def parse_machine(text: str) -> MachineID | None:
    """The machine of this name; None if it is none: that of an identity, a disk, or a path that leads elsewhere."""
    found = _MACHINE.fullmatch(text)
    if found is None or ".." in text:
        return None
    subscription, group = found["subscription"].lower(), found["group"].lower()
    if found["set"]:
        machine = f"virtualMachineScaleSets/{found['set']}/virtualMachines/{found['number']}"
    else:
        machine = f"virtualMachines/{found['name']}"
    return MachineID(
        subscription,
        group,
        # As the cloud provider has it in provider ids: the group in lower case, for services differ most in that.
        f"/subscriptions/{subscription}/resourceGroups/{group}/providers/Microsoft.Compute/{machine}",
    )


def is_interface(text: str) -> bool:
    """Whether it names a network interface, so that nothing else is asked for with our credentials."""
    return _INTERFACE.fullmatch(text) is not None and ".." not in text


def same(one: str, other: str) -> bool:
    return one.lower() == other.lower()
