"""What controllers may do: Kubernetes' own and those that run inside kubevouch.

Kubernetes' roles are here for the controllers whose resources are served, as in plugin/pkg/auth/authorizer/rbac/
bootstrappolicy/controller_policy.go and namespace_policy.go (Kubernetes 1.36).

Kubernetes lets one identity, ``certificate-controller``, approve and sign. Whoever gets hold of it can make any client
certificate, so kubevouch's controllers have an identity each, and none of them may do both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

from kubevouch.api.catalog import EVENTS as STORED_EVENTS
from kubevouch.api.catalog import STORED
from kubevouch.api.kubevouch_v1alpha1.catalog import ALLOWED_MACHINES, OWN_KINDS
from kubevouch.api.kubevouch_v1alpha1.guards import APPROVERS
from kubevouch.api.kubevouch_v1alpha1.revoked_writes import REVOKED_WRITES
from kubevouch.api.kubevouch_v1alpha1.writer_guards import SIGNER_WRITERS, WRITER_RECORDS, WRITERS
from kubevouch.api.rbac_v1 import PolicyRule
from kubevouch.authorization.policy import (
    EVENTS,
    Policy,
    cluster_role,
    cluster_role_binding,
    namespaced_role,
    role_binding,
    rule,
    service_account,
)
from kubevouch.policy import approval_bindings, cluster_api
from kubevouch.records import certificate_ledger, decision_releases
from kubevouch.revocation import node_records
from kubevouch.wellknown import (
    APPROVAL_BINDINGS_CONTROLLER,
    BOOTSTRAP_SIGNER_CONTROLLER,
    CERTIFICATE_LEDGER_CONTROLLER,
    CERTIFICATE_POLICY_STATUS_CONTROLLER,
    CERTIFICATE_REVOCATION_CONTROLLER,
    CERTIFICATE_SIGNERS_CONTROLLER,
    CLUSTER_API_CONTROLLER,
    CLUSTER_INFO_CONFIGMAP,
    CLUSTER_ROLE_AGGREGATION_CONTROLLER,
    CLUSTER_TRUST_BUNDLE_PUBLISHER_CONTROLLER,
    CRL_NUMBERS_CONFIGMAP,
    CRL_PUBLISHER_CONTROLLER,
    CSR_APPROVING_CONTROLLER,
    CSR_CLEANER_CONTROLLER,
    CSR_SIGNING_CONTROLLER,
    DECISION_PROTECTION_CONTROLLER,
    DEFAULT_NAMESPACE,
    GARBAGE_COLLECTOR_CONTROLLER,
    JOIN_STATUS_CONTROLLER,
    JOIN_TOKENS_NAMESPACE,
    KUBE_APISERVER_CLIENT_KUBELET_SIGNER,
    KUBE_APISERVER_CLIENT_SIGNER,
    KUBE_APISERVER_SERVING_SIGNER,
    KUBE_CONTROLLER_MANAGER,
    KUBE_NODE_LEASE_NAMESPACE,
    KUBE_PUBLIC_NAMESPACE,
    KUBE_SYSTEM_NAMESPACE,
    KUBELET_SERVING_SIGNER,
    LEDGER_CHECKPOINT_CONFIGMAP,
    LEDGER_CHECKPOINT_CONTROLLER,
    LEGACY_UNKNOWN_SIGNER,
    MACHINE_INVENTORY_CONTROLLER,
    NAMESPACE_CONTROLLER,
    NODE_ATTESTATION_CONTROLLER,
    NODE_LIFECYCLE_CONTROLLER,
    NODE_RECOVERY_CONTROLLER,
    NODE_REMOVAL_CONTROLLER,
    POD_CERTIFICATE_CLEANER_CONTROLLER,
    POD_CERTIFICATE_SIGNING_CONTROLLER,
    REMOVED_BINDINGS_CONFIGMAP,
    RESOURCE_QUOTA_CONTROLLER,
    ROOT_CA_CONFIGMAP,
    ROOT_CA_PUBLISHER_CONTROLLER,
    SERVICE_ACCOUNT_CONTROLLER,
    SIGNERS_NAMESPACE,
    TOKEN_CLEANER_CONTROLLER,
    TOKEN_ROTATION_CONTROLLER,
    TOKEN_USES_CONTROLLER,
    VALIDATING_ADMISSION_POLICY_STATUS_CONTROLLER,
)

CONTROLLERS = (
    CSR_APPROVING_CONTROLLER,
    CSR_SIGNING_CONTROLLER,
    CERTIFICATE_SIGNERS_CONTROLLER,
    CSR_CLEANER_CONTROLLER,
    POD_CERTIFICATE_SIGNING_CONTROLLER,
    POD_CERTIFICATE_CLEANER_CONTROLLER,
    CERTIFICATE_LEDGER_CONTROLLER,
    LEDGER_CHECKPOINT_CONTROLLER,
    CERTIFICATE_REVOCATION_CONTROLLER,
    DECISION_PROTECTION_CONTROLLER,
    CRL_PUBLISHER_CONTROLLER,
    BOOTSTRAP_SIGNER_CONTROLLER,
    TOKEN_CLEANER_CONTROLLER,
    TOKEN_USES_CONTROLLER,
    JOIN_STATUS_CONTROLLER,
    NODE_RECOVERY_CONTROLLER,
    NODE_ATTESTATION_CONTROLLER,
    NODE_REMOVAL_CONTROLLER,
    MACHINE_INVENTORY_CONTROLLER,
    CLUSTER_API_CONTROLLER,
    APPROVAL_BINDINGS_CONTROLLER,
    TOKEN_ROTATION_CONTROLLER,
    CERTIFICATE_POLICY_STATUS_CONTROLLER,
    NODE_LIFECYCLE_CONTROLLER,
    ROOT_CA_PUBLISHER_CONTROLLER,
    SERVICE_ACCOUNT_CONTROLLER,
    CLUSTER_TRUST_BUNDLE_PUBLISHER_CONTROLLER,
    GARBAGE_COLLECTOR_CONTROLLER,
    RESOURCE_QUOTA_CONTROLLER,
    VALIDATING_ADMISSION_POLICY_STATUS_CONTROLLER,
    CLUSTER_ROLE_AGGREGATION_CONTROLLER,
    NAMESPACE_CONTROLLER,
)
"""The identities of kubevouch's own controllers; the last four are Kubernetes' too and have their roles from there."""

_READ = "get list watch"

_ADMISSION = "admissionregistration.k8s.io"
_CERTIFICATES = "certificates.k8s.io"
_KUBEVOUCH = "kubevouch.io"
_REQUESTS = "certificatesigningrequests"
_OWN_DEFINITIONS = tuple(kind.definition_name for kind in OWN_KINDS)
_ACCESS_REVIEWS = rule("create", "authorization.k8s.io", "subjectaccessreviews")
_WRITER_GUARD = rule("get", _ADMISSION, "mutatingadmissionpolicies mutatingadmissionpolicybindings", [WRITERS])
_GUARD_KINDS = "validatingadmissionpolicies validatingadmissionpolicybindings"
_WRITER_RECORDS = rule("get", _ADMISSION, _GUARD_KINDS, [WRITER_RECORDS])
_SIGNED = (
    LEGACY_UNKNOWN_SIGNER,
    KUBE_APISERVER_CLIENT_SIGNER,
    KUBE_APISERVER_CLIENT_KUBELET_SIGNER,
    KUBELET_SERVING_SIGNER,
)
_SIGN = rule("sign", _CERTIFICATES, "signers", _SIGNED)
_RBAC = "rbac.authorization.k8s.io"
_AGGREGATE = rule(f"escalate patch update {_READ}", _RBAC, "clusterroles")


def _role_name(controller: str) -> str:
    return f"system:controller:{controller}"


def _cluster_wide(controller: str, *rules: PolicyRule) -> Policy:
    name = _role_name(controller)
    return Policy((cluster_role(name, *rules),), (cluster_role_binding(name, service_account(controller)),))


def _in_namespace(namespace: str, controller: str, *rules: PolicyRule) -> Policy:
    name = _role_name(controller)
    return Policy(
        roles=(namespaced_role(namespace, name, *rules),),
        role_bindings=(role_binding(namespace, name, service_account(controller)),),
    )


@cache
def kubernetes_controller_policy() -> Policy:
    """For a kube-controller-manager that runs against this server with ``--use-service-account-credentials``."""
    return (
        _cluster_wide(
            "certificate-controller",
            rule(f"delete {_READ}", _CERTIFICATES, _REQUESTS),
            rule("update", _CERTIFICATES, f"{_REQUESTS}/status {_REQUESTS}/approval"),
            rule("approve", _CERTIFICATES, "signers", [KUBE_APISERVER_CLIENT_KUBELET_SIGNER]),
            _SIGN,
            _ACCESS_REVIEWS,
            EVENTS,
        )
        + _cluster_wide(CLUSTER_ROLE_AGGREGATION_CONTROLLER, _AGGREGATE)
        + _cluster_wide("generic-garbage-collector", rule(f"delete patch update {_READ}", "*", "*"), EVENTS)
        + _cluster_wide(
            NAMESPACE_CONTROLLER,
            rule(f"delete {_READ}", "", "namespaces"),
            rule("update", "", "namespaces/finalize namespaces/status"),
            rule(f"delete deletecollection {_READ}", "*", "*"),
        )
        + _cluster_wide(
            "node-controller",
            rule(f"delete patch update {_READ}", "", "nodes"),
            rule("patch update", "", "nodes/status"),
            rule("patch update", "", "pods/status"),
            rule(f"delete {_READ}", "", "pods"),
            EVENTS,
        )
        + _cluster_wide(
            RESOURCE_QUOTA_CONTROLLER,
            rule("list watch", "*", "*"),
            rule("update", "", "resourcequotas/status"),
            EVENTS,
        )
        + _cluster_wide("root-ca-cert-publisher", rule("create update", "", "configmaps"), EVENTS)
        + _cluster_wide("service-account-controller", rule("create", "", "serviceaccounts"), EVENTS)
        + _cluster_wide("ttl-controller", rule("list patch update watch", "", "nodes"), EVENTS)
        + _cluster_wide(
            VALIDATING_ADMISSION_POLICY_STATUS_CONTROLLER,
            rule(_READ, _ADMISSION, "validatingadmissionpolicies"),
            rule("get patch update", _ADMISSION, "validatingadmissionpolicies/status"),
            EVENTS,
        )
        + _tokens("bootstrap-signer", "token-cleaner")
    )


def _tokens(signer: str, cleaner: str) -> Policy:
    """The two controllers that read bootstrap tokens, which no rule for the whole cluster should let anybody do."""
    return (
        _in_namespace(KUBE_SYSTEM_NAMESPACE, signer, rule(_READ, "", "secrets"))
        + _in_namespace(
            KUBE_PUBLIC_NAMESPACE,
            signer,
            rule(_READ, "", "configmaps"),
            rule("update", "", "configmaps", [CLUSTER_INFO_CONFIGMAP]),
            EVENTS,
        )
        + _in_namespace(KUBE_SYSTEM_NAMESPACE, cleaner, rule(f"delete {_READ}", "", "secrets"), EVENTS)
    )


@cache
def kubevouch_controller_policy() -> Policy:
    """One identity for each controller inside kubevouch, ``kube-system/<canonical name>``, with what it needs."""
    policy = (
        _cluster_wide(
            CSR_APPROVING_CONTROLLER,
            rule(_READ, _CERTIFICATES, _REQUESTS),
            rule("update", _CERTIFICATES, f"{_REQUESTS}/approval"),
            # Policies may be about any signer.
            rule("approve", _CERTIFICATES, "signers"),
            rule(_READ, _KUBEVOUCH, "certificaterequestpolicies certificateapprovals certificaterevocations"),
            _ACCESS_REVIEWS,
            _WRITER_GUARD,
            rule("get", _ADMISSION, _GUARD_KINDS, [WRITER_RECORDS, APPROVERS]),
            rule(_READ, "", "nodes"),
            # What machines have, and whether such objects are served.
            rule(_READ, "cluster.x-k8s.io", "machines"),
            rule(_READ, "apiextensions.k8s.io", "customresourcedefinitions"),
            # What is revoked: read as itself where no server is beside it.
            rule(_READ, _KUBEVOUCH, "certificaterevocations"),
            EVENTS,
        )
        # Where API servers are, whose names no kubelet gets.
        + _in_namespace(
            DEFAULT_NAMESPACE,
            CSR_APPROVING_CONTROLLER,
            rule(_READ, "discovery.k8s.io", "endpointslices"),
            rule(_READ, "", "services"),
        )
        + _in_namespace(KUBE_PUBLIC_NAMESPACE, CSR_APPROVING_CONTROLLER, rule(_READ, "", "configmaps"))
        # To whom a name belongs: the ledger, the records of Nodes, and the Lease of a Node.
        + _in_namespace(KUBE_SYSTEM_NAMESPACE, CSR_APPROVING_CONTROLLER, rule(_READ, "", "configmaps"))
        + _in_namespace(
            KUBE_NODE_LEASE_NAMESPACE, CSR_APPROVING_CONTROLLER, rule("get", "coordination.k8s.io", "leases")
        )
        + _cluster_wide(
            CSR_SIGNING_CONTROLLER,
            rule(_READ, _CERTIFICATES, _REQUESTS),
            rule("update", _CERTIFICATES, f"{_REQUESTS}/status"),
            # Of any name: that of a CertificateSigner is not known before. It is the right to write a certificate down;
            # who has no key of the CA has none that anybody believes.
            rule("sign", _CERTIFICATES, "signers"),
            # What is revoked: read as itself where no server is beside it.
            rule(_READ, _KUBEVOUCH, "certificaterevocations"),
            # What may be signed for machines that have proven what they are.
            rule("get", _KUBEVOUCH, "nodeidentities"),
            EVENTS,
        )
        # Who is locked out.
        + _in_namespace(
            KUBE_SYSTEM_NAMESPACE,
            CSR_SIGNING_CONTROLLER,
            rule(_READ, "", "configmaps"),
            # Whether somebody came who has signed for Kubernetes' own names.
            rule(_READ, "coordination.k8s.io", "leases", (KUBE_CONTROLLER_MANAGER,)),
        )
        + _cluster_wide(
            CERTIFICATE_SIGNERS_CONTROLLER,
            rule(_READ, "kubevouch.io", "certificatesigners"),
            rule("update", "kubevouch.io", "certificatesigners/status"),
            rule("attest", _CERTIFICATES, "signers"),
            rule("create delete get list", _CERTIFICATES, "clustertrustbundles"),
            # Whether its writer was held to the right to sign.
            rule("get", _ADMISSION, _GUARD_KINDS, [SIGNER_WRITERS]),
            EVENTS,
        )
        # Their CAs, and no other Secret: a namespace of their own.
        + _in_namespace(
            SIGNERS_NAMESPACE,
            CERTIFICATE_SIGNERS_CONTROLLER,
            rule(_READ, "", "secrets"),
            rule("create get update", "", "configmaps"),
        )
        + _cluster_wide(
            CERTIFICATE_POLICY_STATUS_CONTROLLER,
            rule(_READ, _KUBEVOUCH, "certificaterequestpolicies"),
            rule("update", _KUBEVOUCH, "certificaterequestpolicies/status"),
            # Whether a policy's writer may approve, and who recorded the writer.
            _ACCESS_REVIEWS,
            _WRITER_GUARD,
            _WRITER_RECORDS,
            EVENTS,
        )
        + _cluster_wide(CSR_CLEANER_CONTROLLER, rule(f"delete {_READ}", _CERTIFICATES, _REQUESTS))
        # What the ledger has recorded.
        + _in_namespace(KUBE_SYSTEM_NAMESPACE, CSR_CLEANER_CONTROLLER, rule(_READ, "", "configmaps"))
        # For any signer of one's own: which they are, objects say that come and go.
        + _cluster_wide(
            POD_CERTIFICATE_SIGNING_CONTROLLER,
            rule(_READ, _CERTIFICATES, "podcertificaterequests"),
            rule("update", _CERTIFICATES, "podcertificaterequests/status"),
            rule("sign", _CERTIFICATES, "signers"),
            rule("get", "", "nodes pods serviceaccounts"),
            rule(_READ, _KUBEVOUCH, "certificatesigners"),
            EVENTS,
        )
        + _cluster_wide(
            POD_CERTIFICATE_CLEANER_CONTROLLER, rule(f"delete {_READ}", _CERTIFICATES, "podcertificaterequests")
        )
        + _cluster_wide(CERTIFICATE_LEDGER_CONTROLLER, rule(_READ, _CERTIFICATES, _REQUESTS), EVENTS)
        + _kept_in(CERTIFICATE_LEDGER_CONTROLLER, certificate_ledger.LAYOUT.names)
        + _in_namespace(
            KUBE_PUBLIC_NAMESPACE,
            LEDGER_CHECKPOINT_CONTROLLER,
            rule("create", "", "configmaps"),
            rule("get update", "", "configmaps", [LEDGER_CHECKPOINT_CONFIGMAP]),
        )
        + _cluster_wide(
            CERTIFICATE_REVOCATION_CONTROLLER,
            rule(_READ, _KUBEVOUCH, "certificaterevocations nodeidentities"),
            rule("update", _KUBEVOUCH, "certificaterevocations/status"),
            # Whether a server that is not ours refuses what is revoked.
            _ACCESS_REVIEWS,
            rule(
                "get",
                "admissionregistration.k8s.io",
                "validatingadmissionpolicies validatingadmissionpolicybindings",
                [REVOKED_WRITES],
            ),
            # What others have signed, and for whom.
            rule(_READ, _CERTIFICATES, _REQUESTS),
            EVENTS,
        )
        # The records of what was issued.
        + _in_namespace(KUBE_SYSTEM_NAMESPACE, CERTIFICATE_REVOCATION_CONTROLLER, rule(_READ, "", "configmaps"))
        # What went without an admitted request is put back, and the definitions before it.
        + _cluster_wide(
            DECISION_PROTECTION_CONTROLLER,
            rule(
                f"create update {_READ}", _KUBEVOUCH, "certificaterequestpolicies certificaterevocations nodeidentities"
            ),
            rule("update", _KUBEVOUCH, "nodeidentities/status"),
            rule("get update", "apiextensions.k8s.io", "customresourcedefinitions", _OWN_DEFINITIONS),
            # No rule can say of which name what is created may be.
            rule("create", "apiextensions.k8s.io", "customresourcedefinitions"),
            EVENTS,
        )
        + _kept_in(DECISION_PROTECTION_CONTROLLER, decision_releases.LAYOUT.names)
        + _kept_in(CRL_PUBLISHER_CONTROLLER, [CRL_NUMBERS_CONFIGMAP])
        + _cluster_wide(
            NODE_REMOVAL_CONTROLLER,
            rule(_READ, "", "nodes"),
            rule("create", _KUBEVOUCH, "certificaterevocations"),
            EVENTS,
        )
        # What machines have proven; it decides to whom a name belongs, and approves nothing.
        + _cluster_wide(
            NODE_ATTESTATION_CONTROLLER,
            rule(f"delete {_READ}", _KUBEVOUCH, "attestationchallenges"),
            rule(f"create delete {_READ}", _KUBEVOUCH, "nodeidentities"),
            rule("update", _KUBEVOUCH, "attestationchallenges/status nodeidentities/status"),
            rule(f"patch {_READ}", _CERTIFICATES, _REQUESTS),
            rule("create", _KUBEVOUCH, "certificaterevocations"),
            # Labels, and the taint of one that did not prove again what it is.
            rule(f"update {_READ}", "", "nodes"),
            rule("get", "", "namespaces", [KUBE_SYSTEM_NAMESPACE]),
            EVENTS,
        )
        # Which CAs the cluster has, for proofs that are made for one of them.
        + _in_namespace(
            KUBE_PUBLIC_NAMESPACE,
            NODE_ATTESTATION_CONTROLLER,
            rule("get", "", "configmaps", [CLUSTER_INFO_CONFIGMAP, ROOT_CA_CONFIGMAP]),
        )
        # Join tokens, which are used up, and no other Secret: a namespace of their own.
        + _in_namespace(JOIN_TOKENS_NAMESPACE, NODE_ATTESTATION_CONTROLLER, rule("get update", "", "secrets"))
        + _kept_in(NODE_REMOVAL_CONTROLLER, node_records.CONFIG_MAPS)
        # Objects of other kinds that an inventory is told to look at are the operator's to allow.
        + _cluster_wide(MACHINE_INVENTORY_CONTROLLER, rule(_READ, ALLOWED_MACHINES.group, ALLOWED_MACHINES.plural))
        # Where Cluster API's objects are. The Secrets that machines start with are the operator's to allow.
        + _cluster_wide(
            CLUSTER_API_CONTROLLER,
            rule(_READ, "apiextensions.k8s.io", "customresourcedefinitions"),
            rule(
                _READ, cluster_api.GROUP, f"{cluster_api.CLUSTERS} {cluster_api.MACHINES} {cluster_api.MACHINE_POOLS}"
            ),
            rule(f"patch {_READ}", cluster_api.BOOTSTRAP_GROUP, cluster_api.KUBEADM_CONFIGS),
            rule("get patch", cluster_api.INFRASTRUCTURE_GROUP, " ".join(cluster_api.INFRASTRUCTURE_CLUSTERS)),
            rule(
                "patch",
                cluster_api.INFRASTRUCTURE_GROUP,
                " ".join(f"{each}/status" for each in cluster_api.INFRASTRUCTURE_CLUSTERS),
            ),
        )
        # It gives back what it took, and can bind nothing else.
        + _cluster_wide(
            APPROVAL_BINDINGS_CONTROLLER,
            rule(f"create {_READ}", _RBAC, "clusterrolebindings"),
            rule("delete", _RBAC, "clusterrolebindings", sorted(approval_bindings.NAMES.values())),
            rule("bind", _RBAC, "clusterroles", sorted(approval_bindings.ROLES.values())),
        )
        + _kept_in(APPROVAL_BINDINGS_CONTROLLER, [REMOVED_BINDINGS_CONFIGMAP])
        + _cluster_wide(TOKEN_ROTATION_CONTROLLER, rule(_READ, "", "nodes"))
        + _in_namespace(KUBE_SYSTEM_NAMESPACE, TOKEN_ROTATION_CONTROLLER, rule(f"create update {_READ}", "", "secrets"))
        + _cluster_wide(
            NODE_LIFECYCLE_CONTROLLER, rule(f"update {_READ}", "", "nodes"), rule("update", "", "nodes/status"), EVENTS
        )
        + _in_namespace(
            KUBE_NODE_LEASE_NAMESPACE, NODE_LIFECYCLE_CONTROLLER, rule(_READ, "coordination.k8s.io", "leases")
        )
        + _tokens(BOOTSTRAP_SIGNER_CONTROLLER, TOKEN_CLEANER_CONTROLLER)
        # Neither may the approver read tokens, nor who reads and writes them approve.
        + _cluster_wide(TOKEN_USES_CONTROLLER, rule(_READ, _CERTIFICATES, _REQUESTS))
        + _in_namespace(KUBE_SYSTEM_NAMESPACE, TOKEN_USES_CONTROLLER, rule(f"update {_READ}", "", "secrets"))
        # Not of status or approval: it annotates, and decides nothing.
        + _cluster_wide(
            JOIN_STATUS_CONTROLLER, rule(f"update {_READ}", _CERTIFICATES, _REQUESTS), _ACCESS_REVIEWS, EVENTS
        )
        # Its records are in a namespace of their own, which is there only where recovery is on.
        + _cluster_wide(NODE_RECOVERY_CONTROLLER, rule(_READ, _CERTIFICATES, _REQUESTS), EVENTS)
        + _cluster_wide(
            ROOT_CA_PUBLISHER_CONTROLLER,
            rule(_READ, "", "namespaces"),
            rule("create", "", "configmaps"),
            rule(f"update {_READ}", "", "configmaps", [ROOT_CA_CONFIGMAP]),
            EVENTS,
        )
        + _cluster_wide(
            SERVICE_ACCOUNT_CONTROLLER,
            rule(_READ, "", "namespaces"),
            rule(f"create {_READ}", "", "serviceaccounts"),
            EVENTS,
        )
        + _cluster_wide(
            CLUSTER_TRUST_BUNDLE_PUBLISHER_CONTROLLER,
            rule("attest", _CERTIFICATES, "signers", [KUBE_APISERVER_SERVING_SIGNER, KUBELET_SERVING_SIGNER]),
            rule(f"create delete update {_READ}", _CERTIFICATES, "clustertrustbundles"),
            EVENTS,
        )
        + _cluster_wide(GARBAGE_COLLECTOR_CONTROLLER, *_collecting(), EVENTS)
    )
    for controller in CONTROLLERS:
        policy += _leader_election(controller)
    return policy


def _kept_in(controller: str, config_maps: Sequence[str]) -> Policy:
    """ConfigMaps by name; their creation cannot be limited to names."""
    rules = (rule("create", "", "configmaps"), rule("get update", "", "configmaps", config_maps))
    return _in_namespace(KUBE_SYSTEM_NAMESPACE, controller, *rules)


def _collecting() -> Iterator[PolicyRule]:
    """By name, unlike Kubernetes', so that no subresource is among them: neither an approval nor a certificate."""
    for name in sorted({resource.group for resource in STORED}):
        plurals = [resource.plural for resource in STORED if resource.group == name and resource != STORED_EVENTS]
        yield rule(f"delete patch {_READ}", name, " ".join(plurals))


def _leader_election(controller: str) -> Policy:
    """The Lease of the same name in ``kube-system``; its creation cannot be limited to a name."""
    name = f"system::leader-locking-{controller}"
    leases = "coordination.k8s.io"
    rules = (rule("create", leases, "leases"), rule("get update", leases, "leases", [controller]))
    return Policy(
        roles=(namespaced_role(KUBE_SYSTEM_NAMESPACE, name, *rules),),
        role_bindings=(role_binding(KUBE_SYSTEM_NAMESPACE, name, service_account(controller)),),
    )
