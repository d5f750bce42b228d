"""Which machines the operator expects, and what is known of each: a source for policies, whatever wrote it down.

InventoryError    a document lists no machines; the text says which part, and what was expected
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec

from kubevouch.api.kubevouch_v1alpha1.allowed_machines import AllowedMachine
from kubevouch.api.kubevouch_v1alpha1.catalog import ALLOWED_MACHINE_KIND
from kubevouch.api.kubevouch_v1alpha1.own_kind import InvalidObject, read_object
from kubevouch.machinery.codec import yamltext

MAX_MACHINES = 100_000
"""Of one document."""
MAX_BYTES = 64 << 20
"""Of one document: some 600 bytes a machine."""


class InventoryError(ValueError):
    """A document lists no machines."""


class Identity(NamedTuple):
    """As ``Attested`` has them: a method, and one machine among those of this method."""

    provider: str
    identity: str


class Machine(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A machine that is expected.

    Args:
        node_name: the name of its Node; empty while nobody knows it, which is until it has joined.
        names: where ``node_name`` is empty, the names that its Node may have; none leaves that to the evidence.
        provider_id: as ``spec.providerID`` of its Node will have it; empty where nobody knows it.
        identities: what it has to prove that it is, at most one for each method; none means any.
        ready: it may join. Before that it is expected, and waits; ``waits_for`` says what for.
        cluster: the Cluster of Cluster API that it is a machine of, ``namespace/name``.
        group: the group of machines that it was made for, such as a MachinePool, by its name.
        control_plane: it is to be a node of the control plane.
        attestors: the methods of attestation that count for it; None is all that the server has.
        keys: hexadecimal SHA-256 of the public keys that it may use; none means any.
        not_after: after this moment it is expected no more.
        source: who says so, such as ``allowedmachine/rack-3`` or ``file/racks``.
    """

    node_name: str = ""
    names: tuple[str, ...] = ()
    provider_id: str = ""
    identities: tuple[Identity, ...] = ()
    ready: bool = True
    waits_for: str = ""
    cluster: str = ""
    group: str = ""
    control_plane: bool = False
    attestors: tuple[str, ...] | None = None
    addresses: tuple[str, ...] = ()
    dns_names: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    attributes: Mapping[str, str] = {}
    not_after: dt.datetime | None = None
    source: str = ""


class Inventory(Protocol):
    """What approvers ask. All that it holds is in memory."""

    def machines(self, node_name: str) -> Sequence[Machine]:
        """What each source says of the machine, in the order of the sources; nothing for one that none expects."""
        ...

    def candidates(self, node_name: str) -> Sequence[Machine]:
        """As ``machines``, with those that have no Node yet and may have this name."""
        ...

    def provided(self, provider_id: str) -> Sequence[Machine]:
        """The machines with this provider id."""
        ...

    def identified(self, identity: Identity) -> Sequence[Machine]:
        """The machines that are to prove that they are this one."""
        ...

    def has_loaded(self) -> bool:
        """Whether every source has been read once: before that, nobody knows who is missing."""
        ...

    def on_change(self, changed: Callable[[str], None]) -> None:
        """Have ``changed`` called with the name of each Node whose machine was added, changed or removed.

        Of a machine whose Node has no name yet: with each name that it may have, and with ``""`` where it may have any.
        """
        ...


def current(machines: Iterable[Machine], now: dt.datetime) -> tuple[Machine, ...]:
    """Those that are still expected."""
    return tuple(each for each in machines if each.not_after is None or now <= each.not_after)


def may_be_called(machine: Machine, node_name: str) -> bool:
    """Whether the Node of ``machine`` may have this name."""
    if machine.node_name:
        return machine.node_name == node_name
    return not machine.names or node_name in machine.names


def machine_of(obj: AllowedMachine, source: str) -> Machine:
    spec = obj.spec
    return Machine(
        node_name=spec.node_name,
        provider_id=spec.provider_id,
        identities=tuple(Identity(each.provider, each.identity) for each in spec.identities),
        group=spec.group,
        addresses=tuple(spec.addresses),
        dns_names=tuple(spec.dns_names),
        keys=tuple(spec.keys),
        attributes=spec.attributes,
        not_after=None if spec.not_after is None else spec.not_after.datetime(),
        source=source,
    )


def read(text: bytes, source: str) -> tuple[Machine, ...]:
    """The machines in a document: AllowedMachine objects as ``kubectl apply`` takes them, in YAML or JSON, or a List.

    Raises:
        InventoryError: anything else is in it, or too much. Nothing of such a document counts: who is missing from half
            of a list is not known.
    """
    if len(text) > MAX_BYTES:
        raise InventoryError(f"got {len(text)} bytes, expected at most {MAX_BYTES}")
    try:
        documents = yamltext.load_documents(text)
    except yamltext.YAMLError as err:
        raise InventoryError(f"no YAML: {err}") from err
    found = []
    for number, tree in enumerate(_objects(documents), 1):
        if number > MAX_MACHINES:
            raise InventoryError(f"got more than {MAX_MACHINES} machines")
        try:
            found.append(machine_of(read_object(ALLOWED_MACHINE_KIND, tree), source))
        except InvalidObject as err:
            raise InventoryError(f"machine {number}: {err}") from err
    return tuple(found)


def _objects(documents: Iterable[Any]) -> Iterator[Any]:
    for document in documents:
        if isinstance(document, dict) and str(document.get("kind", "")).endswith("List"):
            items = document.get("items")
            yield from items if isinstance(items, list) else [items]
        elif document is not None:
            yield document
