"""The kinds of our own: handles for clients, and the definitions that serve them.

``make reference`` writes the definitions to ``deploy/crds/``; ``kubevouch up`` applies them at each start.
"""

from __future__ import annotations

from kubevouch.api.kubevouch_v1alpha1 import GROUP, VERSION
from kubevouch.api.kubevouch_v1alpha1.allowed_machines import AllowedMachine
from kubevouch.api.kubevouch_v1alpha1.attestation_challenges import AttestationChallenge
from kubevouch.api.kubevouch_v1alpha1.certificate_approvals import CertificateApproval
from kubevouch.api.kubevouch_v1alpha1.certificate_request_policies import CertificateRequestPolicy
from kubevouch.api.kubevouch_v1alpha1.certificate_revocations import CertificateRevocation
from kubevouch.api.kubevouch_v1alpha1.certificate_signers import CertificateSigner
from kubevouch.api.kubevouch_v1alpha1.node_identities import NodeIdentity
from kubevouch.api.kubevouch_v1alpha1.own_kind import AGE, Column, OwnKind
from kubevouch.machinery.scheme import Resource

ALLOWED_MACHINES = Resource(
    GROUP, VERSION, "AllowedMachine", "allowedmachines", AllowedMachine, namespaced=False, short_names=("am",)
)
ATTESTATION_CHALLENGES = Resource(
    GROUP, VERSION, "AttestationChallenge", "attestationchallenges", AttestationChallenge, namespaced=False,
    short_names=("attch",),
)  # fmt: skip
CERTIFICATE_APPROVALS = Resource(
    GROUP, VERSION, "CertificateApproval", "certificateapprovals", CertificateApproval, namespaced=False,
    short_names=("certapp",),
)  # fmt: skip
CERTIFICATE_REQUEST_POLICIES = Resource(
    GROUP,
    VERSION,
    "CertificateRequestPolicy",
    "certificaterequestpolicies",
    CertificateRequestPolicy,
    namespaced=False,
    short_names=("crp",),
)
CERTIFICATE_REVOCATIONS = Resource(
    GROUP, VERSION, "CertificateRevocation", "certificaterevocations", CertificateRevocation, namespaced=False,
    short_names=("certrev",),
)  # fmt: skip

CERTIFICATE_SIGNERS = Resource(
    GROUP, VERSION, "CertificateSigner", "certificatesigners", CertificateSigner, namespaced=False,
    short_names=("csigner",),
)  # fmt: skip
NODE_IDENTITIES = Resource(
    GROUP, VERSION, "NodeIdentity", "nodeidentities", NodeIdentity, namespaced=False, short_names=("nid",)
)

ALLOWED_MACHINE_KIND = OwnKind(
    ALLOWED_MACHINES,
    columns=(
        Column("Node", ".spec.nodeName"),
        Column("Addresses", ".spec.addresses"),
        Column("Until", ".spec.notAfter"),
        AGE,
    ),
    selectable=(".spec.nodeName",),
)
ATTESTATION_CHALLENGE_KIND = OwnKind(
    ATTESTATION_CHALLENGES,
    columns=(
        Column("Provider", ".spec.provider"),
        Column("Requester", ".spec.requester"),
        Column("Ready", '.status.conditions[?(@.type=="Ready")].status'),
        Column("Refused", '.status.conditions[?(@.type=="Refused")].reason'),
        Column("Ends", ".status.expiresAt"),
        Column("Used By", ".status.usedBy", wide=True),
        AGE,
    ),
)
CERTIFICATE_APPROVAL_KIND = OwnKind(
    CERTIFICATE_APPROVALS,
    columns=(
        Column("Request", ".spec.requestName"),
        Column("Approver", ".spec.approver"),
        Column("Decision", ".spec.decision"),
        Column("Comment", ".spec.comment", wide=True),
        AGE,
    ),
    selectable=(".spec.requestName",),
)
CERTIFICATE_REQUEST_POLICY_KIND = OwnKind(
    CERTIFICATE_REQUEST_POLICIES,
    columns=(
        Column("Effect", ".spec.effect"),
        Column("Mode", ".spec.mode"),
        Column("Signers", ".spec.selector.signerNames"),
        Column("Ready", '.status.conditions[?(@.type=="Ready")].status'),
        Column("Authorized", '.status.conditions[?(@.type=="Authorized")].status'),
        Column("Reason", '.status.conditions[?(@.type=="Ready")].message', wide=True),
        Column("Writer", '.status.conditions[?(@.type=="Authorized")].message', wide=True),
        AGE,
    ),
)

CERTIFICATE_REVOCATION_KIND = OwnKind(
    CERTIFICATE_REVOCATIONS,
    columns=(
        Column("Reason", ".spec.reason"),
        Column("Certificates", ".status.matched", "integer"),
        Column("InForce", '.status.conditions[?(@.type=="InForce")].status'),
        Column("Enforcement", '.status.conditions[?(@.type=="InForce")].reason'),
        Column("Until", ".status.until"),
        Column("By", ".spec.requestedBy", wide=True),
        Column("Message", ".spec.message", wide=True),
        Column("Seen", '.status.conditions[?(@.type=="InForce")].message', wide=True),
        AGE,
    ),
    selectable=(".spec.reason",),
)

CERTIFICATE_SIGNER_KIND = OwnKind(
    CERTIFICATE_SIGNERS,
    columns=(
        Column("Signer", ".spec.signerName"),
        Column("Ready", '.status.conditions[?(@.type=="Ready")].status'),
        Column("CA", ".status.authorities[*].subject"),
        Column("Ends", ".status.authorities[*].notAfter", wide=True),
        Column("Reason", '.status.conditions[?(@.type=="Ready")].message', wide=True),
        AGE,
    ),
    selectable=(".spec.signerName",),
)

NODE_IDENTITY_KIND = OwnKind(
    NODE_IDENTITIES,
    columns=(
        Column("Provider", ".status.provider"),
        Column("Identity", ".status.identity"),
        Column("Strength", ".status.strength"),
        Column("Last Seen", ".status.lastSeen"),
        Column("Banned", ".spec.banned", "boolean"),
        Column("Provider ID", ".status.providerID", wide=True),
        Column("First Seen", ".status.firstSeen", wide=True),
        AGE,
    ),
    selectable=(".status.identity",),
)

OWN_KINDS = (
    ALLOWED_MACHINE_KIND,
    ATTESTATION_CHALLENGE_KIND,
    CERTIFICATE_APPROVAL_KIND,
    CERTIFICATE_REQUEST_POLICY_KIND,
    CERTIFICATE_REVOCATION_KIND,
    CERTIFICATE_SIGNER_KIND,
    NODE_IDENTITY_KIND,
)
