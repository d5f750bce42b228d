"""What an existing cluster is given so that controllers run in it: accounts with the rights that are used, and pods.

Approver and signer are two programs with an account each: whoever gets hold of one can either approve or sign, and not
make certificates of his own. The signer is there only for signers that are named. What is applied together, and how, is
in :mod:`kubevouch.standalone.attached.manifest_parts`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from kubevouch import __version__, wellknown
from kubevouch.authorization.attestation_policy import attested_joining_policy
from kubevouch.authorization.ledger_policy import CLUSTER_LEDGER, cluster_ledger_policy
from kubevouch.authorization.policy import Policy
from kubevouch.controllers import catalog
from kubevouch.machinery.codec import json_codec
from kubevouch.standalone.attached.options import DEFAULT_PORT, IN_CLUSTER
from kubevouch.standalone.attached.rights import DEFAULT_NAMES, SignerNames, identities, policy_of

Tree = dict[str, Any]

NAMESPACE = "kubevouch-system"
IMAGE = f"kubevouch:{__version__}"
SIGNING_SECRET = "kubevouch-signing-ca"
API_SERVER_PORTS = (443, 6443)
"""Those of Services and clouds, and of kubeadm."""
_RBAC = "rbac.authorization.k8s.io"
_SIGNING_FOLDER = "/etc/kubevouch/signing"
_UID = 65532  # the image's
_POD_SECURITY = "pod-security.kubernetes.io/enforce"


class Program(msgspec.Struct, frozen=True):
    """One Deployment, the account it runs as, and its Lease, all of one name.

    Args:
        controllers: its ``--controllers`` list.
        signs: Kubernetes' signers for which it is given the CA in the Secret.
    """

    name: str
    controllers: tuple[str, ...]
    signs: tuple[str, ...] = ()


# What signs for CertificateSigners comes with certificatesigners.
_SIGNING = ("certificatesigners", "podcertificaterequestsigning")
# Named, it takes kubernetes.io/* from kube-controller-manager, which signs in nearly every cluster.
_OF_KUBERNETES = "csrsigning"
PROGRAMS = (Program("kubevouch-controllers", ("*", *(f"-{each}" for each in (_OF_KUBERNETES, *_SIGNING)))),)
"""Those that run in every cluster: they approve, and sign nothing."""

CA_FLAGS = {
    wellknown.KUBELET_SERVING_SIGNER: "kubelet-serving",
    wellknown.KUBE_APISERVER_CLIENT_KUBELET_SIGNER: "kubelet-client",
    wellknown.KUBE_APISERVER_CLIENT_SIGNER: "kube-apiserver-client",
    wellknown.LEGACY_UNKNOWN_SIGNER: "legacy-unknown",
}
"""The word of each of Kubernetes' signers in ``--cluster-signing-*-cert-file``."""


def programs_for(signers: Sequence[str]) -> tuple[Program, ...]:
    """Those for a cluster in which ``signers`` are signed for: the second one only if there are any."""
    if not signers:
        return PROGRAMS
    of_kubernetes = tuple(each for each in signers if each in CA_FLAGS)
    words = (_OF_KUBERNETES, *_SIGNING) if of_kubernetes else _SIGNING
    return (*PROGRAMS, Program("kubevouch-signer", words, of_kubernetes))


def access(
    programs: Sequence[Program] = PROGRAMS, namespace: str = NAMESPACE, names: SignerNames = DEFAULT_NAMES
) -> list[Tree]:
    """Namespace, accounts, roles and bindings. Raises :class:`UnknownControllerError`."""
    whose: dict[str, list[str]] = {}
    for program in programs:
        for identity in identities(catalog.select_attached(program.controllers), program.controllers):
            whose.setdefault(identity, []).append(program.name)
    roles = [
        tree for identity, accounts in whose.items() for tree in _of_identity(identity, accounts, namespace, names)
    ]
    others = sorted({*_others_than(namespace, roles), wellknown.LEDGER_NAMESPACE})
    return [
        _namespace(namespace, {_POD_SECURITY: "restricted"}),
        *map(_namespace, others),
        *(
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _named(each.name, namespace)}
            for each in programs
        ),
        *roles,
        *_of_ledger([each.name for each in programs], namespace),
        *(tree for each in programs for tree in _of_process(each.name, namespace)),
    ]


def attestation_access(
    programs: Sequence[Program] = PROGRAMS, namespace: str = NAMESPACE, names: SignerNames = DEFAULT_NAMES
) -> list[Tree]:
    """What ``--attestation-config`` needs beside :func:`access`: the controllers, and the machines that join.

    Raises :class:`UnknownControllerError`.
    """
    whose: dict[str, list[str]] = {}
    for program in programs:
        selected = catalog.select_attached(program.controllers)
        usual = identities(selected, program.controllers)
        for identity in identities(selected, program.controllers, attests=True):
            if identity not in usual:
                whose.setdefault(identity, []).append(program.name)
    roles = [
        tree for identity, accounts in whose.items() for tree in _of_identity(identity, accounts, namespace, names)
    ]
    approver = "kubevouch:attested-approver"
    roles.append(_object("ClusterRole", {"name": approver}, rules=[_approves(ATTESTED)]))
    subjects = [{"kind": "ServiceAccount", "name": programs[0].name, "namespace": namespace}]
    roles.append(
        _object("ClusterRoleBinding", {"name": approver}, roleRef=_ref("ClusterRole", approver), subjects=subjects)
    )
    return [*map(_namespace, _others_than(namespace, roles)), *roles, *_granted(attested_joining_policy())]


def cluster_api_access(namespace: str = NAMESPACE) -> list[Tree]:
    """What ``--cluster-api`` with tokenrotation needs beside :func:`access`, in the cluster that machines join."""
    program = PROGRAMS[0]
    words = (*program.controllers, "tokenrotation")
    usual = identities(catalog.select_attached(program.controllers), program.controllers)
    found = identities(catalog.select_attached(words), words, elsewhere=set())
    return [
        tree
        for identity in found
        if identity not in usual
        for tree in _of_identity(identity, (program.name,), namespace)
    ]


def management_access(namespace: str = NAMESPACE) -> list[Tree]:
    """What it needs in the cluster in which Cluster API is: an account of the same name."""
    program, elsewhere = PROGRAMS[0], set[str]()
    words = (*program.controllers, "tokenrotation")
    identities(catalog.select_attached(words), words, elsewhere=elsewhere)
    return [
        _namespace(namespace),
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _named(program.name, namespace)},
        *(tree for identity in sorted(elsewhere) for tree in _of_identity(identity, (program.name,), namespace)),
    ]


def deployments(
    programs: Sequence[Program] = PROGRAMS,
    namespace: str = NAMESPACE,
    image: str = IMAGE,
    ca_secret: str = SIGNING_SECRET,
) -> list[Tree]:
    return [_deployment(each, namespace, image, ca_secret) for each in programs]


def kustomization(files: Sequence[str]) -> Tree:
    """Of these files. No ``namespace`` field: roles are in several."""
    return {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": list(files)}


# ------------------------------------------------------------------ rights

ATTESTED = (
    wellknown.KUBE_APISERVER_CLIENT_KUBELET_SIGNER,
    f"{wellknown.ATTESTED_CLIENT_SIGNER_PREFIX.partition('/')[0]}/*",
)
"""Whose requests are decided where machines prove what they are: those of each method, and the usual one, which is
denied to a machine that has to prove itself."""


def _approves(signers: Sequence[str]) -> Tree:
    return {
        "apiGroups": ["certificates.k8s.io"], "resourceNames": sorted(signers), "resources": ["signers"],
        "verbs": ["approve"],
    }  # fmt: skip


def _others_than(namespace: str, roles: Sequence[Tree]) -> list[str]:
    """The further namespaces in which there are roles."""
    found = {each["metadata"]["namespace"] for each in roles if "namespace" in each["metadata"]}
    return sorted(found - {*wellknown.SYSTEM_NAMESPACES, namespace})


def _namespace(name: str, labels: Tree | None = None) -> Tree:
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name} | ({"labels": labels} if labels else {}),
    }


def _of_identity(
    identity: str, accounts: Sequence[str], namespace: str, names: SignerNames = DEFAULT_NAMES
) -> Iterator[Tree]:
    """What one controller may do, for the accounts that act as it."""
    yield from _of_policy(identity, policy_of(identity, names), accounts, namespace)


def _of_ledger(accounts: Sequence[str], namespace: str) -> Iterator[Tree]:
    """What ``--ledger cluster`` takes. Its head is made here, so that nobody needs the right to create it."""
    head = _named(wellknown.LEDGER_HEAD_CONFIGMAP, wellknown.KUBE_PUBLIC_NAMESPACE)
    yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": head}
    yield from _of_policy(CLUSTER_LEDGER, cluster_ledger_policy(), accounts, namespace)


def _of_policy(identity: str, policy: Policy, accounts: Sequence[str], namespace: str) -> Iterator[Tree]:
    name = f"kubevouch:{identity}"
    subjects = [{"kind": "ServiceAccount", "name": each, "namespace": namespace} for each in accounts]
    if policy.cluster_roles:
        rules = [rule for role in policy.cluster_roles for rule in _rules(role.rules)]
        yield _object("ClusterRole", {"name": name}, rules=rules)
        yield _object("ClusterRoleBinding", {"name": name}, roleRef=_ref("ClusterRole", name), subjects=subjects)
    for role in policy.roles:
        meta = _named(name, role.metadata.namespace)
        yield _object("Role", meta, rules=_rules(role.rules))
        yield _object("RoleBinding", meta, roleRef=_ref("Role", name), subjects=subjects)


def _granted(policy: Policy) -> Iterator[Tree]:
    """As it stands, for whom it names."""
    for role in policy.cluster_roles:
        yield _object("ClusterRole", {"name": role.metadata.name}, rules=_rules(role.rules))
    for each in policy.cluster_role_bindings:
        subjects = [json_codec.to_builtins(subject) for subject in each.subjects]
        yield _object(
            "ClusterRoleBinding",
            {"name": each.metadata.name},
            roleRef=_ref("ClusterRole", each.role_ref.name),
            subjects=subjects,
        )


def _of_process(name: str, namespace: str) -> Iterator[Tree]:
    """The Lease, what tells who leads, and asking who asks for metrics."""
    subjects = [{"kind": "ServiceAccount", "name": name, "namespace": namespace}]
    leases = "coordination.k8s.io"
    lease = [
        # Creation cannot be limited to a name.
        {"apiGroups": [leases], "resources": ["leases"], "verbs": ["create"]},
        {"apiGroups": [leases], "resourceNames": [name], "resources": ["leases"], "verbs": ["get", "update"]},
        {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]},
    ]
    role = f"{name}:leader-election"
    yield _object("Role", _named(role, namespace), rules=lease)
    yield _object("RoleBinding", _named(role, namespace), roleRef=_ref("Role", role), subjects=subjects)
    yield _object(
        "ClusterRoleBinding",
        {"name": f"{name}:auth-delegator"},
        roleRef=_ref("ClusterRole", "system:auth-delegator"),
        subjects=subjects,
    )


def _rules(rules: Any) -> list[Tree]:
    return [dict(sorted(json_codec.to_builtins(each).items())) for each in rules]


def _ref(kind: str, name: str) -> Tree:
    return {"apiGroup": _RBAC, "kind": kind, "name": name}


def _named(name: str, namespace: str) -> Tree:
    return {"name": name, "namespace": namespace}


def _object(kind: str, metadata: Tree, **members: Any) -> Tree:
    return {"apiVersion": f"{_RBAC}/v1", "kind": kind, "metadata": metadata, **members}


# ------------------------------------------------------------------ pods


def arguments(program: Program, namespace: str = NAMESPACE) -> list[str]:
    """Of ``kubevouch``."""
    found = [
        "controllers",
        f"--controllers={','.join(program.controllers)}",
        f"--leader-elect-resource-name={program.name}",
        f"--leader-elect-resource-namespace={namespace}",
        f"--secure-port={DEFAULT_PORT}",
        f"--ledger={IN_CLUSTER}",
    ]
    for signer in program.signs:
        found += [
            f"--cluster-signing-{CA_FLAGS[signer]}-cert-file={_SIGNING_FOLDER}/tls.crt",
            f"--cluster-signing-{CA_FLAGS[signer]}-key-file={_SIGNING_FOLDER}/tls.key",
        ]
    return found


def _deployment(program: Program, namespace: str, image: str, ca_secret: str) -> Tree:
    labels = _selected(program)
    # A serving pair of its own is made at start.
    mounts: list[Tree] = [{"mountPath": "/tmp", "name": "tmp"}]  # noqa: S108 - the pod's own
    volumes: list[Tree] = [{"emptyDir": {"medium": "Memory"}, "name": "tmp"}]
    if program.signs:
        mounts.append({"mountPath": _SIGNING_FOLDER, "name": "signing", "readOnly": True})
        volumes.append({"name": "signing", "secret": {"defaultMode": 0o440, "secretName": ca_secret}})
    container = {
        "args": arguments(program, namespace),
        "image": image,
        "livenessProbe": _probe("/livez", initialDelaySeconds=15, failureThreshold=8),
        "name": "kubevouch",
        "ports": [{"containerPort": DEFAULT_PORT, "name": "https", "protocol": "TCP"}],
        "readinessProbe": _probe("/readyz", periodSeconds=5),
        "resources": {"limits": {"memory": "512Mi"}, "requests": {"cpu": "50m", "memory": "128Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "readOnlyRootFilesystem": True,
        },
        "volumeMounts": mounts,
    }  # fmt: skip
    pod = {
        "containers": [container],
        # Variables of every Service of the namespace are of no use here.
        "enableServiceLinks": False,
        "nodeSelector": {wellknown.OS_LABEL: "linux"},
        "securityContext": {
            "fsGroup": _UID, "runAsGroup": _UID, "runAsNonRoot": True, "runAsUser": _UID,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "serviceAccountName": program.name,
        # Until the Lease is given back; then another one leads at once.
        "terminationGracePeriodSeconds": 30,
        # Two on one node would go with it.
        "topologySpreadConstraints": [
            {
                "labelSelector": {"matchLabels": labels}, "maxSkew": 1, "topologyKey": wellknown.HOSTNAME_LABEL,
                "whenUnsatisfiable": "ScheduleAnyway",
            }
        ],
        "volumes": volumes,
    }  # fmt: skip
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {**_named(program.name, namespace), "labels": labels},
        "spec": {
            # One acts, one stands by.
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def _probe(path: str, **more: int) -> Tree:
    return {"httpGet": {"path": path, "port": "https", "scheme": "HTTPS"}, **more}


def protections(
    programs: Sequence[Program] = PROGRAMS,
    namespace: str = NAMESPACE,
    api_server_ports: Sequence[int] = API_SERVER_PORTS,
) -> list[Tree]:
    """What keeps one pod of each program while nodes are drained, and what the pods may speak to."""
    return [
        tree for each in programs for tree in (_budget(each, namespace), _network(each, namespace, api_server_ports))
    ]


def _budget(program: Program, namespace: str) -> Tree:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": _named(program.name, namespace),
        "spec": {
            "maxUnavailable": 1,
            "selector": {"matchLabels": _selected(program)},
            # A pod that does not work keeps no node from being drained.
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    }


def _network(program: Program, namespace: str, api_server_ports: Sequence[int]) -> Tree:
    """Where the API server is, no rule can say for every cluster: its ports are open to any address."""
    servers = [{"port": port, "protocol": "TCP"} for port in sorted(api_server_ports)]
    names = [{"port": 53, "protocol": protocol} for protocol in ("TCP", "UDP")]
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": _named(program.name, namespace),
        "spec": {
            "egress": [{"ports": servers}, {"ports": names}],
            "ingress": [{"ports": [{"port": DEFAULT_PORT, "protocol": "TCP"}]}],
            "podSelector": {"matchLabels": _selected(program)},
            "policyTypes": ["Ingress", "Egress"],
        },
    }


def _selected(program: Program) -> Tree:
    return {"app.kubernetes.io/name": program.name}
