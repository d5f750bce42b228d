"""What the objects of Cluster API say of machines, in v1beta1 and v1beta2 alike.

They are read as trees: whoever has them stored has checked them, by definitions of many versions. What is malformed
counts as absent, and nothing that is absent opens anything.

Source: sigs.k8s.io/cluster-api api/core/{v1beta1,v1beta2}, api/bootstrap/kubeadm/{v1beta1,v1beta2} (1.12), and the
proposal "kubelet authentication" (docs/proposals/20210222-kubelet-authentication.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from kubevouch import wellknown
from kubevouch.config.attestation_config import INSECURE
from kubevouch.machinery.custom_object import CustomObject
from kubevouch.machinery.text import names
from kubevouch.pki import rotation
from kubevouch.pki.x509.subject_alt_names import SubjectAltNames
from kubevouch.policy.inventory import Identity, Machine

GROUP, BOOTSTRAP_GROUP = "cluster.x-k8s.io", "bootstrap.cluster.x-k8s.io"
INFRASTRUCTURE_GROUP = "infrastructure.cluster.x-k8s.io"
INFRASTRUCTURE_CLUSTERS = (
    "awsclusters", "azureclusters", "byohclusters", "devclusters", "dockerclusters", "gcpclusters", "hetznerclusters",
    "ibmpowervsclusters", "ibmvpcclusters", "kubevirtclusters", "metal3clusters", "nutanixclusters",
    "openstackclusters", "proxmoxclusters", "tinkerbellclusters", "vsphereclusters",
)  # fmt: skip
"""Of providers that are known; the operator allows others."""
CLUSTERS, MACHINES, MACHINE_POOLS, KUBEADM_CONFIGS = "clusters", "machines", "machinepools", "kubeadmconfigs"
MACHINE, MACHINE_POOL = "Machine", "MachinePool"

CLUSTER_LABEL = f"{GROUP}/cluster-name"
CONTROL_PLANE_LABEL = f"{GROUP}/control-plane"
POOL_LABEL = f"{GROUP}/pool-name"
# The narrowest that a person has named.
_GROUP_LABELS = (f"{GROUP}/deployment-name", POOL_LABEL, f"{GROUP}/control-plane-name", f"{GROUP}/set-name")
PAUSED_ANNOTATION = f"{GROUP}/paused"

MAX_POOL = 10_000
"""Machines of a MachinePool that are known: as many as its definition takes (v1beta2)."""
_MOST_ADDRESSES = 100
_MOST_ATTESTORS = 16
_MOST_IDENTITIES = 16
_MAX_TEXT = 1024


class Reference(NamedTuple):
    """Which object: by ``apiVersion`` in v1beta1, by ``apiGroup`` in v1beta2."""

    group: str
    kind: str
    namespace: str
    name: str


class ClusterFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a Cluster says about how its machines become nodes.

    Args:
        attests: machines have to prove what they are; None: that cannot be read, so that nothing is to change.
        attestors: the methods that count; None is all that the server has.
        infrastructure: the object that tells of the signers.
        paused: its controllers are to keep still.
    """

    namespace: str
    name: str
    attests: bool | None = False
    attestors: tuple[str, ...] | None = None
    infrastructure: Reference | None = None
    paused: bool = False

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


class Bootstrap(msgspec.Struct, frozen=True, kw_only=True):
    """A KubeadmConfig with which a Machine, or the machines of a MachinePool, join.

    Args:
        token: the bootstrap token in it; empty while there is none.
        data_secret: the name of the Secret with what machines are started with; empty while there is none.
        owner: whose it is.
    """

    namespace: str
    name: str
    owner: Reference
    token: str = ""
    data_secret: str = ""
    paused: bool = False


# ------------------------------------------------------------------ Cluster


def cluster_of(obj: CustomObject) -> ClusterFacts:
    """What a Cluster says.

    ``spec.security`` is the proposal's, which no released definition has: a server prunes it. Two annotations say the
    same, and count where the field is absent.
    """
    spec = _mapping(obj.content.get("spec"))
    security = _mapping(spec.get("security"))
    annotations = obj.metadata.annotations
    meta = obj.metadata
    return ClusterFacts(
        namespace=meta.namespace,
        name=meta.name,
        attests=_switch(
            security.get("kubeletAuthentication"), annotations.get(wellknown.KUBELET_AUTHENTICATION_ANNOTATION)
        ),
        attestors=_attestors(
            security.get("authorizedAttestors"), annotations.get(wellknown.AUTHORIZED_ATTESTORS_ANNOTATION)
        ),
        infrastructure=_reference(spec.get("infrastructureRef"), meta.namespace),
        paused=_is_paused(obj, spec),
    )


def _switch(field: object, annotation: str | None) -> bool | None:
    if field is not None:
        return field if isinstance(field, bool) else None
    if annotation is None:
        return False
    return {"true": True, "false": False}.get(annotation)


def _attestors(field: object, annotation: str | None) -> tuple[str, ...] | None:
    listed = field if isinstance(field, list) else (annotation or "").split(",")
    found = tuple(each.strip() for each in listed[:_MOST_ATTESTORS] if isinstance(each, str) and each.strip())
    # A list of nothing readable is no leave for everything.
    return found or (("",) if isinstance(field, list) and field else None)


class Signers(NamedTuple):
    """The names of the signers that a Cluster's machines are to ask; empty for none."""

    client: str = ""
    serving: str = ""


def client_signer(attestor: str) -> str:
    return f"{wellknown.ATTESTED_CLIENT_SIGNER_PREFIX}{attestor}"


def signers_of(cluster: ClusterFacts, attestors: Sequence[str] | None) -> Signers:
    """Those of the first method that the Cluster authorises and that is verified here.

    Args:
        attestors: the methods that are verified; None where nobody does.
    """
    if not cluster.attests or attestors is None:
        return Signers()
    listed = attestors if cluster.attestors is None else cluster.attestors
    chosen = next((each for each in listed if each in attestors), "")
    if not chosen:
        return Signers()
    # What proves nothing gets no serving certificate either, says the proposal.
    serving = "" if chosen == INSECURE else f"{wellknown.ATTESTED_SERVING_SIGNER_PREFIX}{chosen}"
    return Signers(client_signer(chosen), serving)


# ------------------------------------------------------------------ Machine


def machine_of(obj: CustomObject, cluster: ClusterFacts) -> Machine | None:
    """What a Machine says of the machine that it stands for; None if it is one of another Cluster."""
    spec, status = _mapping(obj.content.get("spec")), _mapping(obj.content.get("status"))
    if not _belongs(obj, spec, cluster):
        return None
    meta = obj.metadata
    node = node_of(obj)
    listed = tuple(_addresses(status.get("addresses")))
    # As a kubelet makes of them: an address under the type of a name is an address.
    reported = rotation.serving_names(listed, allow_dns_only=True) or SubjectAltNames()
    dns_names = tuple(each for each in reported.dns_names if not _is_bad(each))
    infrastructure = _reference(spec.get("infrastructureRef"), meta.namespace)
    called = (*dns_names, meta.name, "" if infrastructure is None else infrastructure.name)
    waits_for = "" if node else _waits_for(obj, status, MACHINE)
    return Machine(
        node_name=node,
        names=() if node else tuple(dict.fromkeys(name for name in called if not _is_bad(name))),
        provider_id=_text(spec, "providerID"),
        identities=_identities(meta.annotations.get(wellknown.IDENTITIES_ANNOTATION)),
        ready=not waits_for,
        waits_for=waits_for,
        cluster=cluster.key,
        group=next((meta.labels[each] for each in _GROUP_LABELS if meta.labels.get(each)), ""),
        control_plane=CONTROL_PLANE_LABEL in meta.labels,
        attestors=cluster.attestors,
        addresses=tuple(map(str, reported.ip_addresses)),
        dns_names=dns_names,
        source=f"machine/{meta.namespace}/{meta.name}",
    )


def _identities(annotation: str | None) -> tuple[Identity, ...]:
    """Those in a text such as ``tpm=sha256:07,x509pop=sha256:ab``; of one that cannot be read, one that nobody has."""
    if annotation is None:
        return ()
    found = [each.strip().partition("=") for each in annotation.split(",")]
    if len(found) > _MOST_IDENTITIES or not all(provider and identity for provider, _, identity in found):
        return (Identity("", ""),)
    return tuple(Identity(provider, identity) for provider, _, identity in found)


def node_of(obj: CustomObject) -> str:
    """The name of a Machine's Node; empty before it has one."""
    name = _text(_mapping(_mapping(obj.content.get("status")).get("nodeRef")), "name")
    return "" if _is_bad(name) else name


def _waits_for(obj: CustomObject, status: Mapping[str, Any], kind: str) -> str:
    if obj.metadata.deletion_timestamp is not None:
        return f"its {kind} is being deleted"
    return "" if _bootstrap_is_ready(status) else f"the bootstrap data of its {kind} is not ready"


def _bootstrap_is_ready(status: Mapping[str, Any]) -> bool:
    """BootstrapReady: the condition where there is one, under either version's name, else what stands beside it."""
    for condition in _list(status.get("conditions")):
        tree = _mapping(condition)
        if tree.get("type") in ("BootstrapReady", "BootstrapConfigReady"):
            return tree.get("status") == wellknown.CONDITION_TRUE
    initialization = _mapping(status.get("initialization"))
    return status.get("bootstrapReady") is True or initialization.get("bootstrapDataSecretCreated") is True


# ------------------------------------------------------------------ MachinePool


def members_of(obj: CustomObject, cluster: ClusterFacts) -> tuple[Machine, ...]:
    """The machines of a MachinePool: it knows their provider ids, and not which of its Nodes is which."""
    spec, status = _mapping(obj.content.get("spec")), _mapping(obj.content.get("status"))
    if not _belongs(obj, spec, cluster):
        return ()
    meta = obj.metadata
    waits_for = _waits_for(obj, status, MACHINE_POOL)
    if has_nodes(obj) and meta.deletion_timestamp is None:
        # Its bootstrap data was ready once, and nodes renew whatever has become of it.
        waits_for = ""
    listed = _list(spec.get("providerIDList"))[:MAX_POOL]
    return tuple(
        Machine(
            provider_id=provider_id,
            ready=not waits_for,
            waits_for=waits_for,
            cluster=cluster.key,
            group=meta.name,
            attestors=cluster.attestors,
            source=f"machinepool/{meta.namespace}/{meta.name}",
        )
        for provider_id in dict.fromkeys(
            each for each in listed if isinstance(each, str) and 0 < len(each) <= _MAX_TEXT
        )
    )


def has_nodes(obj: CustomObject) -> bool:
    """Whether a Machine has become a node, or machines of a MachinePool have."""
    return bool(node_of(obj) or _list(_mapping(obj.content.get("status")).get("nodeRefs")))


def config_of(obj: CustomObject) -> str:
    """The bootstrap configuration of a Machine or MachinePool; empty for none."""
    spec = _mapping(obj.content.get("spec"))
    if "template" in spec:
        spec = _mapping(_mapping(spec["template"]).get("spec"))
    return _text(_mapping(_mapping(spec.get("bootstrap")).get("configRef")), "name")


def pool_of(obj: CustomObject) -> str:
    """The MachinePool that a Machine is one of; empty for none."""
    return obj.metadata.labels.get(POOL_LABEL, "")


# ------------------------------------------------------------------ KubeadmConfig


def bootstrap_of(obj: CustomObject, cluster: ClusterFacts) -> Bootstrap | None:
    """What a KubeadmConfig says; None if it is one of another Cluster, or nobody's."""
    meta = obj.metadata
    spec, status = _mapping(obj.content.get("spec")), _mapping(obj.content.get("status"))
    if meta.namespace != cluster.namespace or meta.labels.get(CLUSTER_LABEL) != cluster.name:
        return None
    owner = next(
        (
            Reference(GROUP, each.kind, meta.namespace, each.name)
            for each in meta.owner_references
            if each.kind in (MACHINE, MACHINE_POOL) and each.api_version.partition("/")[0] == GROUP
        ),
        None,
    )
    if owner is None:
        return None
    discovery = _mapping(_mapping(spec.get("joinConfiguration")).get("discovery"))
    return Bootstrap(
        namespace=meta.namespace,
        name=meta.name,
        owner=owner,
        token=_text(_mapping(discovery.get("bootstrapToken")), "token"),
        data_secret=_text(status, "dataSecretName"),
        paused=_is_paused(obj, {}),
    )


# ------------------------------------------------------------------ trees


def _belongs(obj: CustomObject, spec: Mapping[str, Any], cluster: ClusterFacts) -> bool:
    return obj.metadata.namespace == cluster.namespace and spec.get("clusterName") == cluster.name


def _is_paused(obj: CustomObject, spec: Mapping[str, Any]) -> bool:
    return spec.get("paused") is True or PAUSED_ANNOTATION in obj.metadata.annotations


def _reference(tree: object, namespace: str) -> Reference | None:
    found = _mapping(tree)
    group = _text(found, "apiGroup") or _text(found, "apiVersion").rpartition("/")[0]
    kind, name = _text(found, "kind"), _text(found, "name")
    return Reference(group, kind, namespace, name) if group and kind and name else None


def _addresses(listed: object) -> Iterator[tuple[str, str]]:
    for each in _list(listed)[:_MOST_ADDRESSES]:
        tree = _mapping(each)
        kind, address = _text(tree, "type"), _text(tree, "address")
        if kind and address:
            yield kind, address


def _is_bad(name: str) -> bool:
    """Whether no Node can have the name."""
    return not name or bool(names.subdomain(name))


def _text(tree: Mapping[str, Any], key: str) -> str:
    value = tree.get(key)
    return value if isinstance(value, str) and len(value) <= _MAX_TEXT else ""


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
