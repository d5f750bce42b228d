"""Names that several layers have to spell alike: users, groups, namespaces, labels, annotations, signers, Secret keys.

Source: Kubernetes 1.36; each name is wire format.
"""

from __future__ import annotations

# ------------------------------------------------------------------ users and groups

ANONYMOUS_USER = "system:anonymous"
API_SERVER_USER = "system:apiserver"
KUBE_CONTROLLER_MANAGER_USER = "system:kube-controller-manager"
KUBE_SCHEDULER_USER = "system:kube-scheduler"
KUBE_PROXY_USER = "system:kube-proxy"

NODE_USER_PREFIX = "system:node:"
BOOTSTRAP_USER_PREFIX = "system:bootstrap:"
SERVICE_ACCOUNT_USER_PREFIX = "system:serviceaccount:"

AUTHENTICATED_GROUP = "system:authenticated"
UNAUTHENTICATED_GROUP = "system:unauthenticated"
MASTERS_GROUP = "system:masters"
MONITORING_GROUP = "system:monitoring"
NODES_GROUP = "system:nodes"
BOOTSTRAPPERS_GROUP = "system:bootstrappers"
BOOTSTRAPPERS_GROUP_PREFIX = "system:bootstrappers:"
SERVICE_ACCOUNTS_GROUP = "system:serviceaccounts"
SERVICE_ACCOUNTS_GROUP_PREFIX = "system:serviceaccounts:"
# kubeadm's group for joining nodes.
DEFAULT_NODE_TOKEN_GROUP = "system:bootstrappers:kubeadm:default-node-token"
# kubeadm's group behind admin.conf since 1.29.
CLUSTER_ADMINS_GROUP = "kubeadm:cluster-admins"

CREDENTIAL_ID_EXTRA = "authentication.kubernetes.io/credential-id"
NODE_NAME_EXTRA = "authentication.kubernetes.io/node-name"
NODE_UID_EXTRA = "authentication.kubernetes.io/node-uid"
POD_NAME_EXTRA = "authentication.kubernetes.io/pod-name"
POD_UID_EXTRA = "authentication.kubernetes.io/pod-uid"

# ------------------------------------------------------------------ namespaces

DEFAULT_NAMESPACE = "default"
KUBE_SYSTEM_NAMESPACE = "kube-system"
KUBE_PUBLIC_NAMESPACE = "kube-public"
KUBE_NODE_LEASE_NAMESPACE = "kube-node-lease"
# Ours: the CAs of CertificateSigners, and what is published of them.
SIGNERS_NAMESPACE = "kubevouch-signers"
# Ours: one-time join tokens, apart from every other Secret, so that who judges them reads nothing else.
JOIN_TOKENS_NAMESPACE = "kubevouch-join-tokens"
# Ours: a ledger that is kept in the cluster, apart from every other ConfigMap, so that its writers change nothing else.
LEDGER_NAMESPACE = "kubevouch-ledger"
# Made at start and made again whenever one is missing.
SYSTEM_NAMESPACES = (
    DEFAULT_NAMESPACE, KUBE_SYSTEM_NAMESPACE, KUBE_PUBLIC_NAMESPACE, KUBE_NODE_LEASE_NAMESPACE,
)  # fmt: skip
# kube-node-lease is not among them.
UNDELETABLE_NAMESPACES = (DEFAULT_NAMESPACE, KUBE_SYSTEM_NAMESPACE, KUBE_PUBLIC_NAMESPACE)

# Ours: of kube-system, whether certificates of deleted nodes are refused.
LOCK_OUT_DELETED_NODES_ANNOTATION = "kubevouch.io/lock-out-deleted-nodes"

# ------------------------------------------------------------------ signer names

KUBE_APISERVER_CLIENT_SIGNER = "kubernetes.io/kube-apiserver-client"
KUBE_APISERVER_CLIENT_KUBELET_SIGNER = "kubernetes.io/kube-apiserver-client-kubelet"
KUBELET_SERVING_SIGNER = "kubernetes.io/kubelet-serving"
LEGACY_UNKNOWN_SIGNER = "kubernetes.io/legacy-unknown"
KUBE_APISERVER_SERVING_SIGNER = "kubernetes.io/kube-apiserver-serving"
# Cluster API's "kubelet authentication": a signer for each method of attestation, and annotations around them.
ATTESTED_CLIENT_SIGNER_PREFIX = "cluster.x-k8s.io/kube-apiserver-client-kubelet-"
ATTESTED_SERVING_SIGNER_PREFIX = "cluster.x-k8s.io/kubelet-serving-"
# On a request whose evidence is of a version that is not read: those that are, "v2,v1", newest first.
SUPPORTED_VERSIONS_ANNOTATION = "cluster.x-k8s.io/kubelet-authenticator-supported-versions"
# On a Cluster of Cluster API, whose definition has no spec.security: "true" or "false"; methods, by commas.
KUBELET_AUTHENTICATION_ANNOTATION = "kubevouch.io/kubelet-authentication"
AUTHORIZED_ATTESTORS_ANNOTATION = "kubevouch.io/authorized-attestors"
# On a Machine: what it has to prove that it is, "tpm=sha256:07", by commas.
IDENTITIES_ANNOTATION = "kubevouch.io/attested-identities"
# On a KubeadmConfig: the token whose place another one takes, until what machines start with has that one.
REPLACES_TOKEN_ANNOTATION = "kubevouch.io/replaces-bootstrap-token"
# On its infrastructure object, whose definition has no such fields of its status.
CLIENT_SIGNER_ANNOTATION = "kubevouch.io/kubelet-client-certificate-signer"
SERVING_SIGNER_ANNOTATION = "kubevouch.io/kubelet-serving-certificate-signer"

# ------------------------------------------------------------------ condition types of a CSR

CSR_APPROVED = "Approved"
CSR_DENIED = "Denied"
CSR_FAILED = "Failed"
# A PodCertificateRequest has Denied and Failed as well.
POD_CERTIFICATE_ISSUED = "Issued"
# Ours: nothing approves the request, and why.
JOIN_STUCK_ANNOTATION = "kubevouch.io/join-stuck"
# On a request that was decided, and on one that was signed, by controllers of ours beside other programs'.
APPROVED_ANNOTATION = "kubevouch.io/approved"
SIGNED_ANNOTATION = "kubevouch.io/signed"
# The reason it begins with where machines prove what they are, and this one has shown a token only.
PROOF_MISSING_REASON = "ProofMissing"

CONDITION_TRUE = "True"
CONDITION_FALSE = "False"
CONDITION_UNKNOWN = "Unknown"

# ------------------------------------------------------------------ controllers

KUBE_CONTROLLER_MANAGER = "kube-controller-manager"
"""The program; its Lease has the same name."""
CSR_APPROVING_CONTROLLER = "certificatesigningrequest-approving-controller"
CSR_SIGNING_CONTROLLER = "certificatesigningrequest-signing-controller"
CERTIFICATE_SIGNERS_CONTROLLER = "certificate-signers-controller"
CSR_CLEANER_CONTROLLER = "certificatesigningrequest-cleaner-controller"
POD_CERTIFICATE_SIGNING_CONTROLLER = "podcertificaterequest-signing-controller"
POD_CERTIFICATE_CLEANER_CONTROLLER = "podcertificaterequest-cleaner-controller"
BOOTSTRAP_SIGNER_CONTROLLER = "bootstrap-signer-controller"
CERTIFICATE_REVOCATION_CONTROLLER = "certificate-revocation-controller"
DECISION_PROTECTION_CONTROLLER = "decision-protection-controller"
# Of ConfigMaps in kube-system, with a digit of a hash at the end.
DECISION_RELEASES_PREFIX = "kubevouch-decision-releases-"
DECISION_PROTECTION_FINALIZER = "kubevouch.io/decision-protection"
CRL_PUBLISHER_CONTROLLER = "crl-publisher-controller"
TOKEN_CLEANER_CONTROLLER = "token-cleaner-controller"
TOKEN_USES_CONTROLLER = "token-uses-controller"
JOIN_STATUS_CONTROLLER = "join-status-controller"
ROOT_CA_PUBLISHER_CONTROLLER = "root-ca-certificate-publisher-controller"
SERVICE_ACCOUNT_CONTROLLER = "serviceaccount-controller"
SERVICE_ACCOUNT_TOKEN_CONTROLLER = "serviceaccount-token-controller"
CLUSTER_TRUST_BUNDLE_PUBLISHER_CONTROLLER = "kube-apiserver-serving-clustertrustbundle-publisher-controller"
CLUSTER_ROLE_AGGREGATION_CONTROLLER = "clusterrole-aggregation-controller"
NAMESPACE_CONTROLLER = "namespace-controller"
CERTIFICATE_POLICY_STATUS_CONTROLLER = "certificaterequestpolicy-status-controller"
VALIDATING_ADMISSION_POLICY_STATUS_CONTROLLER = "validatingadmissionpolicy-status-controller"
GARBAGE_COLLECTOR_CONTROLLER = "garbage-collector-controller"
CERTIFICATE_LEDGER_CONTROLLER = "certificate-ledger-controller"
LEDGER_CHECKPOINT_CONTROLLER = "ledger-checkpoint-controller"
LEDGER_CHECKPOINT_CONFIGMAP = "kubevouch-ledger-checkpoint"
LEDGER_HEAD_CONFIGMAP = "kubevouch-ledger-head"
NODE_RECOVERY_CONTROLLER = "node-recovery-controller"
MACHINE_INVENTORY_CONTROLLER = "machine-inventory-controller"
NODE_ATTESTATION_CONTROLLER = "node-attestation-controller"
# Also as whom others ask the cluster in which Cluster API has its objects.
CLUSTER_API_CONTROLLER = "cluster-api-controller"
APPROVAL_BINDINGS_CONTROLLER = "approval-bindings-controller"
TOKEN_ROTATION_CONTROLLER = "token-rotation-controller"
NODE_REMOVAL_CONTROLLER = "node-removal-controller"
NODE_LIFECYCLE_CONTROLLER = "node-lifecycle-controller"
RESOURCE_QUOTA_CONTROLLER = "resourcequota-controller"

# ------------------------------------------------------------------ labels and annotations

NAMESPACE_NAME_LABEL = "kubernetes.io/metadata.name"
HOSTNAME_LABEL = "kubernetes.io/hostname"
OS_LABEL = "kubernetes.io/os"
ARCH_LABEL = "kubernetes.io/arch"
NODE_ROLE_LABEL_PREFIX = "node-role.kubernetes.io/"
CONTROL_PLANE_LABEL = "node-role.kubernetes.io/control-plane"
BOOTSTRAPPING_LABEL = "kubernetes.io/bootstrapping"
RBAC_DEFAULTS = "rbac-defaults"

AUTOUPDATE_ANNOTATION = "rbac.authorization.kubernetes.io/autoupdate"
INITIAL_EVENTS_END_ANNOTATION = "k8s.io/initial-events-end"
LAST_APPLIED_ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"
SERVICE_ACCOUNT_NAME_ANNOTATION = "kubernetes.io/service-account.name"
SERVICE_ACCOUNT_UID_ANNOTATION = "kubernetes.io/service-account.uid"
ROOT_CA_DESCRIPTION_ANNOTATION = "kubernetes.io/description"

NOT_READY_TAINT = "node.kubernetes.io/not-ready"
UNREACHABLE_TAINT = "node.kubernetes.io/unreachable"
CONTROL_PLANE_TAINT = CONTROL_PLANE_LABEL

NAMESPACE_FINALIZER = "kubernetes"
ORPHAN_FINALIZER = "orphan"
FOREGROUND_FINALIZER = "foregroundDeletion"

# ------------------------------------------------------------------ Secret types and keys

OPAQUE_SECRET = "Opaque"
SERVICE_ACCOUNT_TOKEN_SECRET = "kubernetes.io/service-account-token"
DOCKERCFG_SECRET = "kubernetes.io/dockercfg"
DOCKER_CONFIG_JSON_SECRET = "kubernetes.io/dockerconfigjson"
BASIC_AUTH_SECRET = "kubernetes.io/basic-auth"
SSH_AUTH_SECRET = "kubernetes.io/ssh-auth"
TLS_SECRET = "kubernetes.io/tls"
BOOTSTRAP_TOKEN_SECRET = "bootstrap.kubernetes.io/token"

DOCKERCFG_KEY = ".dockercfg"
DOCKER_CONFIG_JSON_KEY = ".dockerconfigjson"
BASIC_AUTH_USERNAME_KEY = "username"
BASIC_AUTH_PASSWORD_KEY = "password"
SSH_PRIVATE_KEY_KEY = "ssh-privatekey"
TLS_CERTIFICATE_KEY = "tls.crt"
TLS_PRIVATE_KEY_KEY = "tls.key"
CA_CERTIFICATE_KEY = "ca.crt"

# ------------------------------------------------------------------ objects with fixed names

# Ours: the highest number of each authority's CRLs.
CRL_NUMBERS_CONFIGMAP = "kubevouch-crl-numbers"
# Ours: kubeadm's bindings that were taken away.
REMOVED_BINDINGS_CONFIGMAP = "kubevouch-removed-bindings"
CLUSTER_INFO_CONFIGMAP = "cluster-info"
KUBECONFIG_KEY = "kubeconfig"
# Before a token ID in the keys of cluster-info; the bootstrap signer owns every key that starts so.
JWS_KEY_PREFIX = "jws-kubeconfig-"
ROOT_CA_CONFIGMAP = "kube-root-ca.crt"
EXTENSION_APISERVER_AUTHENTICATION_CONFIGMAP = "extension-apiserver-authentication"
DEFAULT_SERVICE_ACCOUNT = "default"
CLUSTER_ADMIN_ROLE = "cluster-admin"

SIGNER_UNAVAILABLE, SIGNER_STOPPED, SIGNED_ELSEWHERE = "SignerUnavailable", "SignerStopped", "SignedElsewhere"
"""Reasons of Events on approved requests that have no certificate."""
