"""The roles and bindings that every Kubernetes API server makes at its start.

Source: plugin/pkg/auth/authorizer/rbac/bootstrappolicy (Kubernetes 1.36, default feature gates). The roles of
kube-controller-manager's controllers are in ``controller_policy.py``.
"""

from __future__ import annotations

from functools import cache

from kubevouch import wellknown
from kubevouch.api.rbac_v1 import ClusterRole, PolicyRule
from kubevouch.authorization.controller_policy import kubernetes_controller_policy
from kubevouch.authorization.policy import (
    EVENTS,
    Policy,
    aggregated_cluster_role,
    cluster_role,
    cluster_role_binding,
    group,
    namespaced_role,
    path_rule,
    role_binding,
    rule,
    service_account,
    user,
)
from kubevouch.wellknown import (
    AUTHENTICATED_GROUP,
    CLUSTER_ADMIN_ROLE,
    KUBE_CONTROLLER_MANAGER_USER,
    KUBE_PROXY_USER,
    KUBE_SCHEDULER_USER,
    KUBE_SYSTEM_NAMESPACE,
    MASTERS_GROUP,
    MONITORING_GROUP,
    SERVICE_ACCOUNTS_GROUP,
    UNAUTHENTICATED_GROUP,
)

AGGREGATE_TO_ADMIN = "rbac.authorization.k8s.io/aggregate-to-admin"
AGGREGATE_TO_EDIT = "rbac.authorization.k8s.io/aggregate-to-edit"
AGGREGATE_TO_VIEW = "rbac.authorization.k8s.io/aggregate-to-view"

_READ = "get list watch"
_WRITE = "create delete deletecollection patch update"
_READ_WRITE = f"{_READ} {_WRITE}"

_AUTHENTICATION = "authentication.k8s.io"
_AUTHORIZATION = "authorization.k8s.io"
_CERTIFICATES = "certificates.k8s.io"
_COORDINATION = "coordination.k8s.io"
_NETWORKING = "networking.k8s.io"
_RESOURCE = "resource.k8s.io"
_STORAGE = "storage.k8s.io"

_TOKEN_REVIEWS = rule("create", _AUTHENTICATION, "tokenreviews")
_ACCESS_REVIEWS = rule("create", _AUTHORIZATION, "subjectaccessreviews")


@cache
def bootstrap_policy(*gated: str) -> Policy:
    """Everything that is made and kept complete at each start; ``gated`` as for :func:`node_rules`."""
    return (
        Policy(
            cluster_roles=(*_users(), *_aggregated(), *_components(*gated), *_certificates()),
            cluster_role_bindings=(
                cluster_role_binding(CLUSTER_ADMIN_ROLE, group(MASTERS_GROUP)),
                cluster_role_binding("system:monitoring", group(MONITORING_GROUP)),
                cluster_role_binding("system:discovery", group(AUTHENTICATED_GROUP)),
                cluster_role_binding("system:basic-user", group(AUTHENTICATED_GROUP)),
                cluster_role_binding(
                    "system:public-info-viewer", group(AUTHENTICATED_GROUP), group(UNAUTHENTICATED_GROUP)
                ),
                cluster_role_binding("system:node-proxier", user(KUBE_PROXY_USER)),
                cluster_role_binding("system:kube-controller-manager", user(KUBE_CONTROLLER_MANAGER_USER)),
                cluster_role_binding("system:kube-dns", service_account("kube-dns")),
                cluster_role_binding("system:kube-scheduler", user(KUBE_SCHEDULER_USER)),
                cluster_role_binding("system:volume-scheduler", user(KUBE_SCHEDULER_USER)),
                # Nobody: the node authorizer does this role's work, and does it object by object.
                cluster_role_binding("system:node"),
                cluster_role_binding("system:service-account-issuer-discovery", group(SERVICE_ACCOUNTS_GROUP)),
            ),
        )
        + _namespaced()
        + kubernetes_controller_policy()
    )


@cache
def cluster_trust_bundle_policy() -> Policy:
    """What comes with the ClusterTrustBundle gate: every service account may read the bundles."""
    name = "system:cluster-trust-bundle-discovery"
    return Policy(
        cluster_roles=(cluster_role(name, rule(_READ, _CERTIFICATES, "clustertrustbundles")),),
        cluster_role_bindings=(cluster_role_binding(name, group(SERVICE_ACCOUNTS_GROUP)),),
    )


# ------------------------------------------------------------------ for people


def _users() -> tuple[ClusterRole, ...]:
    return (
        cluster_role(
            CLUSTER_ADMIN_ROLE,
            rule("*", "*", "*"),
            PolicyRule(verbs=["*"], non_resource_urls=["*"]),
        ),
        cluster_role(
            "system:discovery",
            path_rule("/livez /readyz /healthz /version /version/ /openapi /openapi/* /api /api/* /apis /apis/*"),
        ),
        cluster_role("system:public-info-viewer", path_rule("/livez /readyz /healthz /version /version/")),
        cluster_role(
            "system:monitoring",
            path_rule("/metrics /metrics/slis /livez /readyz /healthz /livez/* /readyz/* /healthz/* /statusz /flagz"),
            rule("get", "", "nodes/metrics"),
        ),
        cluster_role(
            "system:basic-user",
            rule("create", _AUTHORIZATION, "selfsubjectaccessreviews selfsubjectrulesreviews"),
            rule("create", _AUTHENTICATION, "selfsubjectreviews"),
        ),
        cluster_role("system:auth-delegator", _TOKEN_REVIEWS, _ACCESS_REVIEWS),
        cluster_role(
            "system:service-account-issuer-discovery",
            path_rule(
                "/.well-known/openid-configuration /.well-known/openid-configuration/ /openid/v1/jwks /openid/v1/jwks/"
            ),
        ),
    )


def _aggregated() -> tuple[ClusterRole, ...]:
    return (
        aggregated_cluster_role("admin", AGGREGATE_TO_ADMIN),
        aggregated_cluster_role("edit", AGGREGATE_TO_EDIT, {AGGREGATE_TO_ADMIN: "true"}),
        aggregated_cluster_role("view", AGGREGATE_TO_VIEW, {AGGREGATE_TO_EDIT: "true"}),
        cluster_role(
            "system:aggregate-to-admin",
            rule("create", _AUTHORIZATION, "localsubjectaccessreviews"),
            rule(_READ_WRITE, "rbac.authorization.k8s.io", "rolebindings roles"),
            labels={AGGREGATE_TO_ADMIN: "true"},
        ),
        cluster_role(
            "system:aggregate-to-edit",
            rule(_READ, "", "pods/attach pods/exec pods/portforward pods/proxy secrets services/proxy"),
            rule("impersonate", "", "serviceaccounts"),
            rule(_WRITE, "", "pods pods/attach pods/exec pods/portforward pods/proxy"),
            rule("create", "", "pods/eviction"),
            rule(
                _WRITE,
                "",
                "configmaps persistentvolumeclaims replicationcontrollers replicationcontrollers/scale secrets "
                "serviceaccounts services services/proxy",
            ),
            rule("create", "", "serviceaccounts/token"),
            PolicyRule(verbs=sorted(_WRITE.split()), api_groups=["", "events.k8s.io"], resources=["events"]),
            rule(
                _WRITE,
                "apps",
                "daemonsets deployments deployments/rollback deployments/scale replicasets replicasets/scale "
                "statefulsets statefulsets/scale",
            ),
            rule(_WRITE, "autoscaling", "horizontalpodautoscalers"),
            rule(_WRITE, "batch", "cronjobs jobs"),
            rule(
                _WRITE,
                "extensions",
                "daemonsets deployments deployments/rollback deployments/scale ingresses networkpolicies replicasets "
                "replicasets/scale replicationcontrollers/scale",
            ),
            rule(_WRITE, "policy", "poddisruptionbudgets"),
            rule(_WRITE, _NETWORKING, "ingresses networkpolicies"),
            rule(_READ_WRITE, _COORDINATION, "leases"),
            rule(_WRITE, _RESOURCE, "resourceclaims resourceclaimtemplates"),
            labels={AGGREGATE_TO_EDIT: "true"},
        ),
        cluster_role(
            "system:aggregate-to-view",
            rule(
                _READ,
                "",
                "configmaps endpoints persistentvolumeclaims persistentvolumeclaims/status pods "
                "replicationcontrollers replicationcontrollers/scale serviceaccounts services services/status",
            ),
            rule(
                _READ,
                "",
                "bindings limitranges namespaces/status pods/log pods/status replicationcontrollers/status "
                "resourcequotas resourcequotas/status",
            ),
            rule(_READ, "", "namespaces"),
            PolicyRule(verbs=sorted(_READ.split()), api_groups=["", "events.k8s.io"], resources=["events"]),
            rule(_READ, "discovery.k8s.io", "endpointslices"),
            rule(
                _READ,
                "apps",
                "controllerrevisions daemonsets daemonsets/status deployments deployments/scale deployments/status "
                "replicasets replicasets/scale replicasets/status statefulsets statefulsets/scale statefulsets/status",
            ),
            rule(_READ, "autoscaling", "horizontalpodautoscalers horizontalpodautoscalers/status"),
            rule(_READ, "batch", "cronjobs cronjobs/status jobs jobs/status"),
            rule(
                _READ,
                "extensions",
                "daemonsets daemonsets/status deployments deployments/scale deployments/status ingresses "
                "ingresses/status networkpolicies replicasets replicasets/scale replicasets/status "
                "replicationcontrollers/scale",
            ),
            rule(_READ, "policy", "poddisruptionbudgets poddisruptionbudgets/status"),
            rule(_READ, _NETWORKING, "ingresses ingresses/status networkpolicies"),
            rule(_READ, _RESOURCE, "resourceclaims resourceclaims/status resourceclaimtemplates"),
            labels={AGGREGATE_TO_VIEW: "true"},
        ),
    )


# ------------------------------------------------------------------ for programs


_GATED_NODE_RULES = {
    "clustertrustbundles": rule(_READ, _CERTIFICATES, "clustertrustbundles"),
    "podcertificaterequests": rule(f"create {_READ}", _CERTIFICATES, "podcertificaterequests"),
}


@cache
def node_rules(*gated: str) -> tuple[PolicyRule, ...]:
    """What every node may do: the role that nobody is bound to, and the node authorizer's static rules.

    Args:
        gated: those of clustertrustbundles and podcertificaterequests that are served.
    """
    return (
        *(granted for plural, granted in _GATED_NODE_RULES.items() if plural in gated),
        _TOKEN_REVIEWS,
        rule("create", _AUTHORIZATION, "localsubjectaccessreviews subjectaccessreviews"),
        rule(_READ, "", "services"),
        rule(f"create {_READ}", "", "nodes"),
        rule("patch update", "", "nodes/status"),
        rule("patch update", "", "nodes"),
        EVENTS,
        rule(_READ, "", "pods"),
        rule("create delete", "", "pods"),
        rule("patch update", "", "pods/status"),
        rule("create", "", "pods/eviction"),
        rule(_READ, "", "configmaps secrets"),
        rule("get", "", "persistentvolumeclaims persistentvolumes"),
        rule("get", "", "endpoints"),
        rule(f"create {_READ}", _CERTIFICATES, "certificatesigningrequests"),
        rule("create delete get patch update", _COORDINATION, "leases"),
        rule("get", _STORAGE, "volumeattachments"),
        rule("create", "", "serviceaccounts/token"),
        rule("get patch update", "", "persistentvolumeclaims/status"),
        rule(_READ, _STORAGE, "csidrivers"),
        rule("create delete get patch update", _STORAGE, "csinodes"),
        rule(_READ, "node.k8s.io", "runtimeclasses"),
        rule("get", _RESOURCE, "resourceclaims"),
        rule("deletecollection", _RESOURCE, "resourceslices"),
        rule("get", "", "serviceaccounts"),
    )


def _components(*gated: str) -> tuple[ClusterRole, ...]:
    return (
        cluster_role("system:node", *node_rules(*gated)),
        cluster_role(
            "system:node-proxier",
            rule("list watch", "", "services endpoints"),
            rule(_READ, "", "nodes"),
            EVENTS,
            rule("list watch", _NETWORKING, "servicecidrs"),
            rule("list watch", "discovery.k8s.io", "endpointslices"),
        ),
        cluster_role(
            "system:node-problem-detector", rule("get", "", "nodes"), rule("patch", "", "nodes/status"), EVENTS
        ),
        cluster_role(
            "system:kubelet-api-admin",
            rule(_READ, "", "nodes"),
            rule("proxy", "", "nodes"),
            rule("*", "", "nodes/log nodes/metrics nodes/proxy nodes/stats"),
            rule("*", "", "nodes/configz nodes/healthz nodes/pods"),
        ),
        cluster_role(
            "system:kube-controller-manager",
            EVENTS,
            rule("create", _COORDINATION, "leases"),
            rule("get update", _COORDINATION, "leases", ["kube-controller-manager"]),
            rule("create", "", "secrets serviceaccounts"),
            rule("delete", "", "secrets"),
            rule("get", "", "configmaps namespaces secrets serviceaccounts"),
            rule("update", "", "secrets serviceaccounts"),
            _TOKEN_REVIEWS,
            _ACCESS_REVIEWS,
            rule("list watch", "*", "*"),
            rule("create", "", "serviceaccounts/token"),
        ),
        _scheduler(),
        cluster_role("system:kube-dns", rule("list watch", "", "endpoints services")),
        cluster_role("system:kube-aggregator", rule(_READ, "", "endpoints services")),
        cluster_role(
            "system:heapster",
            rule(_READ, "", "events namespaces nodes pods"),
            rule(_READ, "extensions", "deployments"),
        ),
        cluster_role(
            "system:persistent-volume-provisioner",
            rule(f"create delete {_READ}", "", "persistentvolumes"),
            rule(f"update {_READ}", "", "persistentvolumeclaims"),
            rule(_READ, _STORAGE, "storageclasses"),
            rule("watch", "", "events"),
            EVENTS,
        ),
        cluster_role(
            "system:volume-scheduler",
            rule(f"patch update {_READ}", "", "persistentvolumes"),
            rule(_READ, _STORAGE, "storageclasses"),
            rule(f"patch update {_READ}", "", "persistentvolumeclaims"),
        ),
    )


def _scheduler() -> ClusterRole:
    return cluster_role(
        "system:kube-scheduler",
        EVENTS,
        rule("create", _COORDINATION, "leases"),
        rule(f"update {_READ}", _COORDINATION, "leases", ["kube-scheduler"]),
        rule(_READ_WRITE, _COORDINATION, "leasecandidates"),
        rule(_READ, "", "nodes"),
        rule(f"delete {_READ}", "", "pods"),
        rule("create", "", "bindings pods/binding"),
        rule("patch update", "", "pods/status"),
        rule(_READ, "", "replicationcontrollers services"),
        PolicyRule(verbs=sorted(_READ.split()), api_groups=["apps", "extensions"], resources=["replicasets"]),
        rule(_READ, "apps", "statefulsets"),
        rule(_READ, "policy", "poddisruptionbudgets"),
        rule(_READ, "", "persistentvolumeclaims persistentvolumes"),
        _TOKEN_REVIEWS,
        _ACCESS_REVIEWS,
        rule(_READ, _STORAGE, "csinodes"),
        rule(_READ, _STORAGE, "volumeattachments"),
        rule(_READ, "", "namespaces"),
        rule(_READ, _STORAGE, "csidrivers"),
        rule(_READ, _STORAGE, "csistoragecapacities"),
        rule(_READ, _RESOURCE, "deviceclasses"),
        rule(f"create delete patch update {_READ}", _RESOURCE, "resourceclaims"),
        rule("patch update", _RESOURCE, "resourceclaims/binding"),
        rule(f"patch update {_READ}", _RESOURCE, "resourceclaims/status"),
        rule("update", "", "pods/finalizers"),
        rule(_READ, _RESOURCE, "resourceslices"),
    )


def _certificates() -> tuple[ClusterRole, ...]:
    """Roles for joining and approving. Nobody is bound to them by default: that is for kubeadm or the operator."""
    prefix = "system:certificates.k8s.io:"
    requests = "certificatesigningrequests"
    signers = (
        wellknown.LEGACY_UNKNOWN_SIGNER,
        wellknown.KUBELET_SERVING_SIGNER,
        wellknown.KUBE_APISERVER_CLIENT_SIGNER,
        wellknown.KUBE_APISERVER_CLIENT_KUBELET_SIGNER,
    )
    return (
        cluster_role("system:node-bootstrapper", rule(f"create {_READ}", _CERTIFICATES, requests)),
        *(
            cluster_role(f"{prefix}{requests}:{kind}", rule("create", _CERTIFICATES, f"{requests}/{kind}"))
            for kind in ("nodeclient", "selfnodeclient")
        ),
        *(
            cluster_role(
                f"{prefix}{signer.removeprefix('kubernetes.io/')}-approver",
                rule("approve", _CERTIFICATES, "signers", [signer]),
            )
            for signer in signers
        ),
    )


# ------------------------------------------------------------------ in namespaces


def _namespaced() -> Policy:
    reader = "extension-apiserver-authentication-reader"
    locking = "system::leader-locking-"
    components = (
        ("kube-controller-manager", KUBE_CONTROLLER_MANAGER_USER, ("leader-election-controller",)),
        ("kube-scheduler", KUBE_SCHEDULER_USER, ()),
    )
    return Policy(
        roles=(
            namespaced_role(
                KUBE_SYSTEM_NAMESPACE,
                reader,
                rule(_READ, "", "configmaps", [wellknown.EXTENSION_APISERVER_AUTHENTICATION_CONFIGMAP]),
            ),
            namespaced_role(
                KUBE_SYSTEM_NAMESPACE,
                "system:controller:cloud-provider",
                rule(f"create {_READ}", "", "configmaps"),
            ),
            *(
                namespaced_role(
                    KUBE_SYSTEM_NAMESPACE,
                    f"{locking}{component}",
                    rule(f"create update {_READ}", _COORDINATION, "leases"),
                    rule(f"create update {_READ}", _COORDINATION, "leasecandidates"),
                )
                for component, _, _ in components
            ),
        ),
        role_bindings=(
            role_binding(
                KUBE_SYSTEM_NAMESPACE,
                f"system::{reader}",
                user(KUBE_CONTROLLER_MANAGER_USER),
                user(KUBE_SCHEDULER_USER),
                role=reader,
            ),
            role_binding(KUBE_SYSTEM_NAMESPACE, "system:controller:cloud-provider", service_account("cloud-provider")),
            *(
                role_binding(
                    KUBE_SYSTEM_NAMESPACE,
                    f"{locking}{component}",
                    user(name),
                    *map(service_account, (component, *others)),
                )
                for component, name, others in components
            ),
        ),
    )
