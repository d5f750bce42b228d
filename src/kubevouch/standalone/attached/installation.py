"""Puts objects into a cluster by server-side apply, after it has shown what that changes.

``plan_of`` asks the server with dry runs and changes nothing; ``carry_out`` does what the plan says. What a former
version has put there and this one has not is taken away: objects with our labels, names and part, and nothing else.

    NotEstablishedError    a definition was applied, and the server does not serve the kind
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from enum import StrEnum
from typing import Final

import msgspec

from kubevouch.api.apiextensions_v1.conditions import ESTABLISHED, is_true
from kubevouch.api.catalog import CUSTOM_RESOURCE_DEFINITIONS
from kubevouch.client.discovery import Discovered
from kubevouch.client.interface import APPLY_PATCH, Client, ListOptions, WriteOptions
from kubevouch.client.pager import list_all
from kubevouch.machinery.custom_object import CustomObject
from kubevouch.machinery.errors import APIStatusError, Reason
from kubevouch.machinery.scheme import GroupVersion, Resource
from kubevouch.standalone.attached.manifest_parts import COMPONENT, NAME, SELECTOR, Tree
from kubevouch.util.clock import Clock

FIELD_MANAGER: Final = NAME
ESTABLISHED_SECONDS: Final = 60.0
_LOOK_SECONDS = 0.2
_AT_ONCE = 8


class NotEstablishedError(Exception):
    """A definition was applied, and the server does not serve the kind."""

    hint = "kubectl get crd NAME -o yaml says why; installing again goes on"


def _kind(api_version: str, kind: str, plural: str, *, namespaced: bool = False) -> Resource[CustomObject]:
    version = GroupVersion.parse(api_version)
    return Resource(version.group, version.version, kind, plural, CustomObject, namespaced=namespaced)


_ADMISSION, _RBAC = "admissionregistration.k8s.io", "rbac.authorization.k8s.io/v1"
_POLICIES = (
    ("ValidatingAdmissionPolicy", "validatingadmissionpolicies"),
    ("ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings"),
    ("MutatingAdmissionPolicy", "mutatingadmissionpolicies"),
    ("MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings"),
)
KINDS: Final = (
    _kind("v1", "Namespace", "namespaces"),
    _kind("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions"),
    _kind("v1", "ServiceAccount", "serviceaccounts", namespaced=True),
    _kind(_RBAC, "ClusterRole", "clusterroles"),
    _kind(_RBAC, "ClusterRoleBinding", "clusterrolebindings"),
    _kind(_RBAC, "Role", "roles", namespaced=True),
    _kind(_RBAC, "RoleBinding", "rolebindings", namespaced=True),
    *(_kind(f"{_ADMISSION}/{version}", *each) for version in ("v1", "v1beta1", "v1alpha1") for each in _POLICIES),
    _kind(f"{_ADMISSION}/v1", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations"),
    _kind(f"{_ADMISSION}/v1", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations"),
    _kind("v1", "ConfigMap", "configmaps", namespaced=True),
    _kind("v1", "Service", "services", namespaced=True),
    _kind("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets", namespaced=True),
    _kind("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies", namespaced=True),
    _kind("apps/v1", "Deployment", "deployments", namespaced=True),
    _kind("apps/v1", "StatefulSet", "statefulsets", namespaced=True),
    _kind("apps/v1", "DaemonSet", "daemonsets", namespaced=True),
)
"""What may be among manifests, in the order in which it is applied: what others need comes first."""
_BY_NAME = {(each.api_version, each.kind): each for each in KINDS}
# With them would go what people have made.
_KEPT = ("Namespace", "CustomResourceDefinition")


class Action(StrEnum):
    CREATE = "create"
    CHANGE = "change"
    UNCHANGED = "unchanged"
    REMOVE = "remove"
    KEEP = "keep"
    """A former version has made it, and there may be people's objects in it."""
    NOT_SERVED = "not served"
    """The server has no such kind."""
    CONFLICT = "conflict"
    """Somebody else has set a field otherwise."""


class Step(msgspec.Struct, frozen=True):
    """What becomes of one object. ``note`` is the server's sentence, or ours."""

    action: Action
    resource: Resource[CustomObject]
    name: str
    namespace: str = ""
    tree: Tree = msgspec.field(default_factory=dict)
    note: str = ""

    @property
    def told(self) -> str:
        where = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.resource.kind} {where}"

    @property
    def is_work(self) -> bool:
        return self.action in (Action.CREATE, Action.CHANGE, Action.REMOVE)


def resource_of(tree: Tree) -> Resource[CustomObject]:
    return _BY_NAME[tree["apiVersion"], tree["kind"]]


def served_kinds(found: Discovered) -> list[Resource[CustomObject]]:
    """Each kind of ours that the server has, once."""
    chosen: dict[tuple[str, str], Resource[CustomObject]] = {}
    for each in KINDS:
        if found.serves(each):
            chosen.setdefault((each.group, each.plural), each)
    return list(chosen.values())


def is_ours(obj: CustomObject) -> bool:
    """By labels and name: of one alone, somebody else may have put it there."""
    name, labels = obj.metadata.name, obj.metadata.labels or {}
    pairs = dict(each.split("=") for each in SELECTOR.split(","))
    has_name = name.startswith(NAME) or name.endswith(f".{NAME}.io")
    return has_name and all(labels.get(key) == value for key, value in pairs.items())


# ------------------------------------------------------------------ planning


async def plan_of(
    client: Client, found: Discovered, trees: Sequence[Tree], components: Iterable[str], *, force: bool = False
) -> tuple[Step, ...]:
    """What applying ``trees`` does, in the order in which it is done.

    Args:
        components: the parts that ``trees`` are; what else there is of these is removed.
        force: fields that somebody else has set otherwise are taken over.

    Raises:
        APIStatusError, TransportError
    """
    turns = asyncio.Semaphore(_AT_ONCE)

    async def one(tree: Tree) -> Step:
        async with turns:
            return await _step(client, found, tree, force=force)

    ranks = {(each.api_version, each.kind): rank for rank, each in enumerate(KINDS)}
    ordered = sorted(trees, key=lambda tree: ranks[tree["apiVersion"], tree["kind"]])
    steps = await asyncio.gather(*map(one, ordered))
    wanted = {(each.resource.group, each.resource.plural, each.namespace, each.name) for each in steps}
    left: list[Step] = []
    for resource, obj in await labelled(client, found):
        meta = obj.metadata
        known = (resource.group, resource.plural, meta.namespace, meta.name) in wanted
        if known or (meta.labels or {}).get(COMPONENT, "") not in components:
            continue
        action = Action.KEEP if resource.kind in _KEPT else Action.REMOVE
        left.append(Step(action, resource, meta.name, meta.namespace, note="this version has it no more"))
    return (*steps, *reversed(left))


async def labelled(client: Client, found: Discovered) -> list[tuple[Resource[CustomObject], CustomObject]]:
    """Everything that was put there with our labels. Raises :class:`APIStatusError`, ``TransportError``."""
    options = ListOptions(label_selector=SELECTOR)
    objects: list[tuple[Resource[CustomObject], CustomObject]] = []
    for resource in served_kinds(found):
        listed = await list_all(client, resource, options=options)
        objects += ((resource, each) for each in listed.items if is_ours(each))
    return objects


async def _step(client: Client, found: Discovered, tree: Tree, *, force: bool) -> Step:
    resource, meta = resource_of(tree), tree["metadata"]
    name, namespace = meta["name"], meta.get("namespace", "")

    def step(action: Action, note: str = "") -> Step:
        return Step(action, resource, name, namespace, tree, note)

    if not found.serves(resource):
        return step(Action.NOT_SERVED, f"this server does not serve {resource.api_version}")
    live = await _live(client, resource, name, namespace)
    try:
        tried = await _apply(client, resource, tree, dry_run=True, force=force)
    except APIStatusError as err:
        if err.reason == Reason.CONFLICT and live is not None:
            return step(Action.CONFLICT, " ".join(str(err).split()))
        if err.code == 404 and live is None and namespace:  # its namespace is made before it
            return step(Action.CREATE)
        if err.code == 405:  # the kind is announced, and none is taken
            return step(Action.NOT_SERVED, " ".join(str(err).split()))
        raise
    if live is None:
        return step(Action.CREATE)
    return step(Action.UNCHANGED if _bare(tried) == _bare(live) else Action.CHANGE)


def _bare(obj: CustomObject) -> CustomObject:
    """Without what every write changes."""
    meta = msgspec.structs.replace(obj.metadata, managed_fields=[], resource_version="", generation=0)
    return msgspec.structs.replace(obj, metadata=meta)


async def _live(client: Client, resource: Resource[CustomObject], name: str, namespace: str) -> CustomObject | None:
    try:
        return await client.get(resource, name, namespace)
    except APIStatusError as err:
        if err.code == 404:
            return None
        raise


async def _apply(
    client: Client, resource: Resource[CustomObject], tree: Tree, *, dry_run: bool, force: bool
) -> CustomObject:
    meta = tree["metadata"]
    options = WriteOptions(dry_run=dry_run, field_manager=FIELD_MANAGER, field_validation="Warn")
    return await client.patch(
        resource, meta["name"], tree, APPLY_PATCH, meta.get("namespace", ""), options, force=force
    )  # fmt: skip


# ------------------------------------------------------------------ doing


async def carry_out(
    client: Client, plan: Sequence[Step], clock: Clock, done: Callable[[Step], None], *, force: bool = False
) -> None:
    """Do what the plan says; ``done`` is told of each step. What was done stays if a later step fails.

    Raises:
        APIStatusError, TransportError
        NotEstablishedError: a kind did not come to be served in time.
    """
    definitions: list[Step] = []
    for step in plan:
        if definitions and step.resource.kind != "CustomResourceDefinition":
            await until_established(client, definitions, clock)
            definitions = []
        if step.action in (Action.CREATE, Action.CHANGE):
            await _apply(client, step.resource, step.tree, dry_run=False, force=force)
            if step.resource.kind == "CustomResourceDefinition":
                definitions.append(step)
            done(step)
        elif step.action is Action.REMOVE:
            await remove(client, step)
            done(step)
    await until_established(client, definitions, clock)


async def remove(client: Client, step: Step) -> None:
    """What is gone already is none the worse for it. Raises :class:`APIStatusError`, ``TransportError``."""
    try:
        await client.delete(step.resource, step.name, step.namespace)
    except APIStatusError as err:
        if err.code != 404:
            raise


async def until_established(client: Client, steps: Sequence[Step], clock: Clock) -> None:
    """Raises :class:`NotEstablishedError`, :class:`APIStatusError`, ``TransportError``."""

    async def are() -> bool:
        found = [await client.get(CUSTOM_RESOURCE_DEFINITIONS, each.name) for each in steps]
        return all(is_true(each, ESTABLISHED) for each in found)

    if not await until(are, clock, ESTABLISHED_SECONDS):
        names = ", ".join(each.name for each in steps)
        raise NotEstablishedError(f"the server does not serve after {ESTABLISHED_SECONDS:.0f} s: {names}")


async def until(
    holds: Callable[[], Awaitable[bool]], clock: Clock, seconds: float, every: float = _LOOK_SECONDS
) -> bool:
    """Whether it held within that time."""
    end = clock.monotonic() + seconds
    while not await holds():
        if clock.monotonic() >= end:
            return False
        await clock.sleep(every)
    return True


# ------------------------------------------------------------------ pods


class Workload(msgspec.Struct, frozen=True):
    """How many pods one Deployment wants, and has. ``why`` says what keeps the others."""

    told: str
    wanted: int
    ready: int
    why: tuple[str, ...] = ()

    @property
    def is_ready(self) -> bool:
        return self.ready >= self.wanted


def state_of(workload: CustomObject, pods: Sequence[CustomObject]) -> Workload:
    """From a Deployment, as it is now, and the pods that its selector selects."""
    meta, spec, status = workload.metadata, workload.content.get("spec", {}), workload.content.get("status", {})
    wanted = int(spec.get("replicas", 1))
    seen = int(status.get("observedGeneration", 0)) >= (meta.generation or 0)
    ready = min(int(status.get("availableReplicas", 0)), int(status.get("updatedReplicas", 0))) if seen else 0
    conditions = status.get("conditions") or ()
    why = [each.get("message", "") for each in conditions if each.get("type") == "ReplicaFailure"]
    for pod in pods:
        found = pod.content.get("status", {})
        told = found.get("conditions") or ()
        why += [
            each.get("message", "")
            for each in told
            if (each.get("type"), each.get("status")) == ("PodScheduled", "False")
        ]
        for each in found.get("containerStatuses") or ():
            waiting = (each.get("state") or {}).get("waiting") or {}
            if waiting.get("reason"):
                why.append(": ".join(filter(None, (waiting["reason"], waiting.get("message", "")))))
    return Workload(f"{meta.namespace}/{meta.name}", wanted, ready, tuple(dict.fromkeys(filter(None, why))))


PODS: Final = _kind("v1", "Pod", "pods", namespaced=True)
NODES: Final = _kind("v1", "Node", "nodes")


async def workloads_of(client: Client, plan: Sequence[Step]) -> list[Workload]:
    """Of the Deployments in a plan. Raises :class:`APIStatusError`, ``TransportError``."""
    found = []
    for step in plan:
        if step.resource.kind == "Deployment" and step.tree and step.action is not Action.NOT_SERVED:
            live = await client.get(step.resource, step.name, step.namespace)
            labels = step.tree["spec"]["selector"]["matchLabels"]
            options = ListOptions(label_selector=",".join(f"{key}={value}" for key, value in sorted(labels.items())))
            pods = await list_all(client, PODS, step.namespace, options)
            found.append(state_of(live, pods.items))
    return found


async def api_server_ports(client: Client) -> frozenset[int]:
    """Where the Service ``default/kubernetes`` leads to: behind it pods reach the API server.

    Raises:
        APIStatusError, TransportError
    """
    slices = _kind("discovery.k8s.io/v1", "EndpointSlice", "endpointslices", namespaced=True)
    options = ListOptions(label_selector="kubernetes.io/service-name=kubernetes")
    try:
        found = await list_all(client, slices, "default", options)
    except APIStatusError as err:
        if err.code in (403, 404):
            return frozenset()
        raise
    ports = (each for item in found.items for each in item.content.get("ports") or ())
    return frozenset(each["port"] for each in ports if isinstance(each.get("port"), int))
