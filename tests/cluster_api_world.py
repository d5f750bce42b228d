"""Definitions of Cluster API's kinds and objects of them, and clusters that have them.

The definitions have the fields, the requirements and the bounds of sigs.k8s.io/cluster-api 1.11 (config/crd/bases,
bootstrap/kubeadm/config/crd/bases, test/infrastructure/docker/config/crd/bases) as far as anything here reads or writes
them, without their descriptions. Theirs are converted by a webhook; here each version has its own content.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from controller_world import World
from kubevouch.api.catalog import CUSTOM_RESOURCE_DEFINITIONS
from kubevouch.client.interface import MERGE_PATCH, Client
from kubevouch.machinery.custom_object import CustomObject
from kubevouch.machinery.meta import ObjectMeta, OwnerReference
from kubevouch.machinery.scheme import Resource
from kubevouch.standalone.cluster_api import ManagementCluster
from kubevouch.standalone.cluster_api_options import ClusterAPIOptions
from kubevouch.standalone.controllers import RunningControllers
from kubevouch.testing.crds import put as put_definitions

Tree = dict[str, Any]

NAMESPACE, CLUSTER = "default", "prod"
STRING: Tree = {"type": "string"}
BOOL: Tree = {"type": "boolean"}


def text(most: int) -> Tree:
    return {"type": "string", "minLength": 1, "maxLength": most}


def struct(*required: str, **properties: Any) -> Tree:
    return {"type": "object", "properties": properties, **({"required": list(required)} if required else {})}


def array(items: Tree, **more: Any) -> Tree:
    return {"type": "array", "items": items, **more}


_OBJECT_REFERENCE = struct(
    apiVersion=STRING, kind=STRING, name=STRING, namespace=STRING, uid=STRING, fieldPath=STRING, resourceVersion=STRING
)
_CONTRACT_REFERENCE = struct("apiGroup", "kind", "name", apiGroup=text(253), kind=text(63), name=text(253))
_OLD_CONDITION = struct(
    "status", "type",
    lastTransitionTime={"type": "string", "format": "date-time"}, message=STRING, reason=STRING, severity=STRING,
    status=STRING, type=STRING,
)  # fmt: skip
_CONDITION = struct(
    "lastTransitionTime", "message", "reason", "status", "type",
    lastTransitionTime={"type": "string", "format": "date-time"}, message=STRING, reason=text(1024),
    observedGeneration={"type": "integer", "format": "int64"}, type=text(316),
    status={"type": "string", "enum": ["True", "False", "Unknown"]},
)  # fmt: skip
_ADDRESSES = array(
    struct("address", "type", address=text(256), type={
        "type": "string", "enum": ["Hostname", "ExternalIP", "InternalIP", "ExternalDNS", "InternalDNS"],
    }),
    maxItems=32,
)  # fmt: skip


def _conditions(version: str) -> Tree:
    if version == "v1beta1":
        return array(_OLD_CONDITION)
    return array(_CONDITION, **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}, maxItems=32)


def _reference(version: str) -> Tree:
    return _OBJECT_REFERENCE if version == "v1beta1" else _CONTRACT_REFERENCE


def _initialized(version: str, old: str, initialization: str, infrastructure: str) -> Tree:
    if version == "v1beta1":
        return {old: BOOL, infrastructure: BOOL}
    return {"initialization": struct(**{initialization: BOOL, "infrastructureProvisioned": BOOL})}


def _machine_spec(version: str) -> Tree:
    return struct(
        "bootstrap", "clusterName", "infrastructureRef",
        bootstrap=struct(configRef=_reference(version), dataSecretName={"type": "string", "maxLength": 253}),
        clusterName=text(63), failureDomain=text(256), infrastructureRef=_reference(version), providerID=text(512),
        version=text(256),
    )  # fmt: skip


def _schema(kind: str, version: str) -> Tree:
    conditions = _conditions(version)
    if kind == "Cluster":
        spec = struct(
            controlPlaneEndpoint=struct(host=STRING, port={"type": "integer", "format": "int32"}),
            controlPlaneRef=_reference(version), infrastructureRef=_reference(version), paused=BOOL,
        )  # fmt: skip
        status = struct(conditions=conditions, phase=STRING, **_initialized(
            version, "controlPlaneReady", "controlPlaneInitialized", "infrastructureReady"))  # fmt: skip
    elif kind == "Machine":
        spec = _machine_spec(version)
        node = _OBJECT_REFERENCE if version == "v1beta1" else struct("name", name=text(253))
        status = struct(addresses=_ADDRESSES, conditions=conditions, nodeRef=node, phase=STRING, **_initialized(
            version, "bootstrapReady", "bootstrapDataSecretCreated", "infrastructureReady"))  # fmt: skip
    elif kind == "MachinePool":
        spec = struct(
            "clusterName", "template",
            clusterName=text(63), providerIDList=array(text(512), maxItems=10000),
            replicas={"type": "integer", "format": "int32"},
            template=struct("spec", spec=_machine_spec(version)),
        )  # fmt: skip
        nodes = array(_OBJECT_REFERENCE, maxItems=10000)
        status = struct(conditions=conditions, nodeRefs=nodes, phase=STRING, **_initialized(
            version, "bootstrapReady", "bootstrapDataSecretCreated", "infrastructureReady"))  # fmt: skip
    elif kind == "KubeadmConfig":
        token = struct(
            token=text(512), apiServerEndpoint=text(512), caCertHashes=array(text(512), maxItems=100),
            unsafeSkipCAVerification=BOOL,
        )  # fmt: skip
        spec = struct(
            joinConfiguration=struct(discovery=struct(bootstrapToken=token, tlsBootstrapToken=STRING)),
            clusterConfiguration=struct(clusterName=STRING),
        )
        ready = {"ready": BOOL} if version == "v1beta1" else {"initialization": struct(dataSecretCreated=BOOL)}
        status = struct(conditions=conditions, dataSecretName=text(253), **ready)
    else:
        spec = struct(controlPlaneEndpoint=struct("host", "port", host=STRING, port={"type": "integer"}))
        status = struct("ready", ready=BOOL, conditions=conditions)
        if version != "v1beta1":
            status = struct(initialization=struct(provisioned=BOOL), conditions=conditions)
    return struct(apiVersion=STRING, kind=STRING, metadata={"type": "object"}, spec=spec, status=status)


KINDS = {
    "Cluster": ("cluster.x-k8s.io", "clusters"),
    "Machine": ("cluster.x-k8s.io", "machines"),
    "MachinePool": ("cluster.x-k8s.io", "machinepools"),
    "KubeadmConfig": ("bootstrap.cluster.x-k8s.io", "kubeadmconfigs"),
    "DockerCluster": ("infrastructure.cluster.x-k8s.io", "dockerclusters"),
}


def definitions(*versions: str) -> list[Tree]:
    """All kinds, served in ``versions``; the last one is stored."""
    return [_definition(kind, versions) for kind in KINDS]


def with_proposal(definition: Tree) -> Tree:
    """A definition that has the fields of the proposal, which nobody has released."""
    kind = definition["spec"]["names"]["kind"]
    for version in definition["spec"]["versions"]:
        properties = version["schema"]["openAPIV3Schema"]["properties"]
        if kind == "Cluster":
            properties["spec"]["properties"]["security"] = struct(
                kubeletAuthentication=BOOL, authorizedAttestors=array(STRING)
            )
        elif kind == "DockerCluster":
            properties["status"]["properties"] |= {
                "kubeletClientCertificateSigner": STRING, "kubeletServingCertificateSigner": STRING,
            }  # fmt: skip
    return definition


def _definition(kind: str, versions: tuple[str, ...]) -> Tree:
    group, plural = KINDS[kind]
    return {
        "apiVersion": CUSTOM_RESOURCE_DEFINITIONS.api_version,
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "names": {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()},
            "scope": "Namespaced",
            "versions": [
                {
                    "name": version, "served": True, "storage": version == versions[-1],
                    "schema": {"openAPIV3Schema": _schema(kind, version)}, "subresources": {"status": {}},
                }
                for version in versions
            ],
        },
    }  # fmt: skip


class Objects:
    """Makes and changes objects of Cluster API, in one version, as its controllers do."""

    def __init__(self, client: Client, version: str = "v1beta2") -> None:
        self._client = client
        self._version = version

    def resource(self, kind: str) -> Resource[CustomObject]:
        group, plural = KINDS[kind]
        return Resource(group, self._version, kind, plural, CustomObject, namespaced=True)

    def reference(self, kind: str, name: str) -> Tree:
        group = KINDS[kind][0] if kind in KINDS else "infrastructure.cluster.x-k8s.io"
        if self._version == "v1beta1":
            return {"apiVersion": f"{group}/v1beta1", "kind": kind, "name": name}
        return {"apiGroup": group, "kind": kind, "name": name}

    async def create(self, kind: str, name: str, spec: Tree, **metadata: Any) -> CustomObject:
        resource = self.resource(kind)
        meta = ObjectMeta(name=name, namespace=NAMESPACE, **metadata)
        obj = CustomObject(kind=kind, api_version=resource.api_version, metadata=meta, content={"spec": spec})
        return await self._client.create(resource, obj)

    async def change(self, kind: str, name: str, patch: Tree) -> CustomObject:
        return await self._client.patch(self.resource(kind), name, patch, MERGE_PATCH, NAMESPACE)

    async def set_status(self, kind: str, name: str, status: Tree) -> CustomObject:
        patch = {"status": status}
        return await self._client.patch(self.resource(kind), name, patch, MERGE_PATCH, NAMESPACE, subresource="status")

    async def get(self, kind: str, name: str) -> CustomObject:
        return await self._client.get(self.resource(kind), name, NAMESPACE)

    async def delete(self, kind: str, name: str) -> None:
        await self._client.delete(self.resource(kind), name, NAMESPACE)

    async def cluster(self, **metadata: Any) -> None:
        """``prod``, whose infrastructure is ``prod`` of DockerCluster."""
        await self.create("DockerCluster", CLUSTER, {})
        spec = {"infrastructureRef": self.reference("DockerCluster", CLUSTER)}
        await self.create("Cluster", CLUSTER, spec, **metadata)

    def machine_spec(self, name: str) -> Tree:
        return {
            "clusterName": CLUSTER, "infrastructureRef": self.reference("DockerMachine", name),
            "bootstrap": {"configRef": self.reference("KubeadmConfig", name)},
        }  # fmt: skip

    async def machine(self, name: str, provider_id: str, **metadata: Any) -> CustomObject:
        """One whose bootstrap data is ready."""
        made = await self.create("Machine", name, self.machine_spec(name) | {"providerID": provider_id}, **metadata)
        await self.set_status("Machine", name, self.ready)
        return made

    async def pool(self, name: str, *provider_ids: str) -> CustomObject:
        spec = {
            "clusterName": CLUSTER,
            "template": {"spec": self.machine_spec(name)},
            "providerIDList": list(provider_ids),
        }
        made = await self.create("MachinePool", name, spec)
        await self.set_status("MachinePool", name, self.ready)
        return made

    @property
    def ready(self) -> Tree:
        if self._version == "v1beta1":
            return {"bootstrapReady": True}
        return {"initialization": {"bootstrapDataSecretCreated": True}}

    async def config(self, owner: CustomObject, token: str) -> None:
        """What the bootstrap provider makes of a machine or a pool, of the same name."""
        name = owner.metadata.name
        reference = OwnerReference(api_version=owner.api_version, kind=owner.kind, name=name, uid=owner.metadata.uid)
        discovery = {"bootstrapToken": {"token": token, "apiServerEndpoint": "10.0.0.1:6443"}}
        await self.create(
            "KubeadmConfig", name, {"joinConfiguration": {"discovery": discovery}},
            labels={"cluster.x-k8s.io/cluster-name": CLUSTER}, owner_references=[reference],
        )  # fmt: skip
        await self.set_status("KubeadmConfig", name, {"dataSecretName": name})


HERE = ManagementCluster(ClusterAPIOptions(NAMESPACE, CLUSTER), None)
"""Cluster API's objects are in the cluster itself."""


async def serve(at: World, *versions: str, changed: Callable[[Tree], Tree] = lambda tree: tree) -> Objects:
    """Have a server have the kinds. Returns what makes objects of the last of ``versions``."""
    found = [("definition", changed(each)) for each in definitions(*versions)]
    await put_definitions(at.client, found)
    return Objects(at.client, versions[-1])


async def calm(running: RunningControllers) -> None:
    """Until nothing is left to do: kinds that come are told of one in a turn, and their objects after that."""
    for _ in range(3):
        for _ in range(40):
            await asyncio.sleep(0)
        await running.settle()
