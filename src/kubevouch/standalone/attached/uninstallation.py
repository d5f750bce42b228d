"""Takes out of a cluster what an installation and its controllers have put there, and nothing that people have.

``look`` asks, changing nothing; ``judge`` says what becomes of each thing. Ours is what has our labels and our names,
and what has a name from our manifests, as an older version applied it without labels.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from kubevouch import wellknown
from kubevouch.api.catalog import CERTIFICATE_SIGNING_REQUESTS, CLUSTER_ROLE_BINDINGS, CONFIG_MAPS
from kubevouch.api.certificates_v1 import CertificateSigningRequest
from kubevouch.api.core_v1 import ConfigMap
from kubevouch.api.kubevouch_v1alpha1.catalog import OWN_KINDS
from kubevouch.api.rbac_v1 import ClusterRoleBinding
from kubevouch.client.discovery import Discovered
from kubevouch.client.interface import Client, ListOptions
from kubevouch.client.pager import list_all
from kubevouch.client.stored import find
from kubevouch.machinery.custom_object import CustomObject
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.scheme import Resource
from kubevouch.pki.errors import PKIError
from kubevouch.pki.x509 import x509_certificate
from kubevouch.policy import approval_bindings
from kubevouch.records import certificate_ledger, decision_releases
from kubevouch.revocation import node_records
from kubevouch.standalone.attached import manifest_parts, manifests
from kubevouch.standalone.attached.installation import KINDS, PODS, Action, Step, labelled, resource_of
from kubevouch.standalone.attached.manifest_parts import PARTS, Settings

RECORDS: Final = (
    *((wellknown.KUBE_SYSTEM_NAMESPACE, each) for each in certificate_ledger.LAYOUT.names),
    *((wellknown.KUBE_SYSTEM_NAMESPACE, each) for each in node_records.CONFIG_MAPS),
    *((wellknown.KUBE_SYSTEM_NAMESPACE, each) for each in decision_releases.LAYOUT.names),
    (wellknown.KUBE_SYSTEM_NAMESPACE, wellknown.CRL_NUMBERS_CONFIGMAP),
    (wellknown.KUBE_SYSTEM_NAMESPACE, wellknown.REMOVED_BINDINGS_CONFIGMAP),
    (wellknown.KUBE_PUBLIC_NAMESPACE, wellknown.LEDGER_CHECKPOINT_CONFIGMAP),
)
"""ConfigMaps that controllers make, by namespace and name."""

# What Kubernetes or a distribution makes in each namespace is in these, too, by the same name.
_OTHER_NAMESPACES = (wellknown.DEFAULT_NAMESPACE, wellknown.KUBE_NODE_LEASE_NAMESPACE)
_FLEETING = ("events", "leases", "endpoints", "endpointslices")
_SHOWN = 3


class Issued(msgspec.Struct, frozen=True):
    """A certificate that is valid still."""

    common_name: str
    signer_name: str
    not_after: dt.datetime


class Seen(msgspec.Struct, frozen=True):
    """What a cluster shows.

    Args:
        objects: what is ours.
        people: how many objects there are of each of our kinds, by the definition's name.
        contents: what is in each of our namespaces and not of ours.
        records: the ConfigMaps of controllers, with how many entries each has.
        bindings: those that a controller has taken away, and that are not back.
        issued: certificates that are valid, by what is recorded and by the requests that are still there.
    """

    objects: tuple[tuple[Resource[CustomObject], CustomObject], ...]
    people: dict[str, int]
    contents: dict[str, tuple[str, ...]]
    records: tuple[tuple[ConfigMap, int], ...]
    bindings: tuple[ClusterRoleBinding, ...]
    issued: tuple[Issued, ...]


# ------------------------------------------------------------------ looking


async def look(client: Client, found: Discovered, settings: Settings, now: dt.datetime) -> Seen:
    """Raises :class:`APIStatusError`, :class:`TransportError`."""
    objects = {_key(resource, obj): (resource, obj) for resource, obj in await labelled(client, found)}
    for tree in manifest_parts.trees(tuple(PARTS), settings):
        resource, meta = resource_of(tree), tree["metadata"]
        key = (resource.group, resource.plural, meta.get("namespace", ""), meta["name"])
        if key not in objects and found.serves(resource):
            obj = await find(client, resource, meta["name"], meta.get("namespace", ""))
            if obj is not None:
                objects[key] = (resource, obj)
    people = {}
    for kind in OWN_KINDS:
        if found.serves(kind.resource):
            people[kind.definition_name] = len((await list_all(client, kind.resource)).items)
    records = [each for place in RECORDS if (each := await find(client, CONFIG_MAPS, place[1], place[0])) is not None]
    namespaces = [obj.metadata.name for resource, obj in objects.values() if resource.kind == "Namespace"]
    return Seen(
        objects=tuple(objects.values()),
        people=people,
        contents={each: await _contents(client, found, each, objects.keys()) for each in namespaces},
        records=tuple((each, len(each.data or {})) for each in records),
        bindings=await _taken_away(client, records),
        issued=tuple(_valid(records, (await list_all(client, CERTIFICATE_SIGNING_REQUESTS)).items, now)),
    )


def _key(resource: Resource[Any], obj: CustomObject) -> tuple[str, str, str, str]:
    return (resource.group, resource.plural, obj.metadata.namespace, obj.metadata.name)


async def _contents(
    client: Client, found: Discovered, namespace: str, ours: Iterable[tuple[str, str, str, str]]
) -> tuple[str, ...]:
    """What is in a namespace and goes with it, by kind and name; of ours and of Kubernetes nothing."""
    known, others = set(ours), []
    for each in found.preferred:
        verbs = found.verbs.get((each.group, each.version, each.plural), frozenset())
        if not each.namespaced or "list" not in verbs or each.plural in _FLEETING:
            continue
        resource = Resource(each.group, each.version, each.kind, each.plural, CustomObject, namespaced=True)
        try:
            listed = await list_all(client, resource, namespace)
        except APIStatusError as err:
            others.append(f"{each.plural}, which cannot be read: {err}")
            continue
        # What has an owner ends with it.
        left = [obj for obj in listed.items if _key(each, obj) not in known and not obj.metadata.owner_references]
        if left:
            there = [{obj.metadata.name for obj in (await list_all(client, resource, other)).items}
                     for other in _OTHER_NAMESPACES]  # fmt: skip
            made = set.intersection(*there)
            others += (f"{each.kind} {obj.metadata.name}" for obj in left if obj.metadata.name not in made)
    return tuple(others)


async def _taken_away(client: Client, records: Sequence[ConfigMap]) -> tuple[ClusterRoleBinding, ...]:
    data = next((each.data for each in records if each.metadata.name == wellknown.REMOVED_BINDINGS_CONFIGMAP), None)
    if not data:
        return ()
    present = (await list_all(client, CLUSTER_ROLE_BINDINGS)).items
    return approval_bindings.plan(frozenset(), data, present).restore


def _valid(
    records: Sequence[ConfigMap], requests: Iterable[CertificateSigningRequest], now: dt.datetime
) -> list[Issued]:
    found: set[tuple[dt.datetime, str, str]] = set()
    for record in records:
        if record.metadata.name in certificate_ledger.LAYOUT.names:
            for each in certificate_ledger.decode(record.data or {}).values():
                found.add((each.not_after, each.common_name, each.signer_name))
    for csr in requests:
        if csr.status.certificate:
            try:
                leaf = x509_certificate.parse_bundle(csr.status.certificate)[0]
            except (PKIError, IndexError):
                continue
            found.add((leaf.not_after, leaf.subject.common_name, csr.spec.signer_name))
    return [Issued(name, signer, after) for after, name, signer in sorted(found) if after > now]


# ------------------------------------------------------------------ judging


def judge(seen: Seen, *, keep_crds: bool, delete_data: bool) -> tuple[Step, ...]:
    """What becomes of each thing, in the order in which it is done: first what runs, last what holds the rest."""
    ranks = {(each.group, each.plural): rank for rank, each in reversed(list(enumerate(KINDS)))}
    steps = []
    for resource, obj in sorted(seen.objects, key=lambda each: -ranks[each[0].group, each[0].plural]):
        name, note = obj.metadata.name, ""
        if resource.kind == "CustomResourceDefinition":
            count = seen.people.get(name, 0)
            if keep_crds:
                note = "--keep-crds"
            elif count and not delete_data:
                note = (
                    f"{count} {'object' if count == 1 else 'objects'} of this kind would go; --delete-data deletes them"
                )
        elif resource.kind == "Namespace" and (inside := seen.contents.get(name, ())) and not delete_data:
            more = f" and {len(inside) - _SHOWN} more" if len(inside) > _SHOWN else ""
            note = f"it has {', '.join(inside[:_SHOWN])}{more}, which would go; --delete-data deletes it all"
        action = Action.KEEP if note else Action.REMOVE
        steps.append(Step(action, resource, name, obj.metadata.namespace, note=note))
    config_map = next(each for each in KINDS if each.kind == "ConfigMap")
    for record, count in seen.records:
        meta, keeps = record.metadata, bool(count) and not delete_data
        if meta.name == wellknown.REMOVED_BINDINGS_CONFIGMAP:
            keeps = False  # what it remembers is put back
        note = f"{count} {'record' if count == 1 else 'records'}; --delete-data deletes them" if keeps else ""
        action = Action.KEEP if keeps else Action.REMOVE
        steps.append(Step(action, config_map, meta.name, meta.namespace, note=note))
    return tuple(steps)


def default_settings(namespace: str) -> Settings:
    """By which an installation without labels is found: with both programs."""
    return Settings(namespace=namespace, signers=tuple(manifests.CA_FLAGS))


async def pods_of(client: Client, found: Discovered, namespaces: Iterable[str]) -> list[str]:
    """The pods of ours that are there still. Raises :class:`APIStatusError`, ``TransportError``."""
    if not found.serves(PODS):
        return []
    names = ",".join((*(each.name for each in manifests.programs_for(tuple(manifests.CA_FLAGS))), "kubevouch-agent"))
    options = ListOptions(label_selector=f"app.kubernetes.io/name in ({names})")
    return [
        f"{each.metadata.namespace}/{each.metadata.name}"
        for namespace in namespaces
        for each in (await list_all(client, PODS, namespace, options)).items
    ]
