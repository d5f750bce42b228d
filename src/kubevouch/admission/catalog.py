"""Which plug-ins exist, and the order in which they run.

The order is Kubernetes' (pkg/kubeapiserver/options/plugins.go, Kubernetes 1.36); its plug-ins for resources that are
not served here are left out. Our own are OwnKindProtection, WriterRights, NodeRecoveryRestriction,
CertificateRequestBudget, and AttestationChallengeBudget, which comes first, so that little is done about what is
refused.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection

import msgspec

from kubevouch.admission.attestation_challenge_budget import AttestationChallengeBudget, OpenChallenges
from kubevouch.admission.certificate_approval import CertificateApproval
from kubevouch.admission.certificate_request_budget import CertificateRequestBudget, OpenRequests
from kubevouch.admission.certificate_signing import CertificateSigning
from kubevouch.admission.certificate_subject_restriction import CertificateSubjectRestriction
from kubevouch.admission.chain import AdmissionChain
from kubevouch.admission.cluster_trust_bundle_attest import ClusterTrustBundleAttest
from kubevouch.admission.dynamic.configured import ConfiguredAdmission
from kubevouch.admission.dynamic.mutating_admission_policy import MutatingAdmissionPolicyPlugin
from kubevouch.admission.dynamic.mutating_webhook import MutatingAdmissionWebhook
from kubevouch.admission.dynamic.validating_admission_policy import ValidatingAdmissionPolicyPlugin
from kubevouch.admission.dynamic.validating_webhook import ValidatingAdmissionWebhook
from kubevouch.admission.interface import MutatingPlugin, ValidatingPlugin
from kubevouch.admission.namespace_lifecycle import NamespaceLifecycle
from kubevouch.admission.node_recovery_restriction import NodeRecoveryRestriction
from kubevouch.admission.node_restriction import NodeGetter, NodeRestriction, PodGetter, ServiceAccountGetter
from kubevouch.admission.own_kind_protection import OwnKindProtection
from kubevouch.admission.resource_quota import ObjectsIn, QuotasOf, ResourceQuotaPlugin
from kubevouch.admission.taint_nodes_by_condition import TaintNodesByCondition
from kubevouch.admission.writer_rights import WriterRights
from kubevouch.api.core_v1.namespaces import Namespace
from kubevouch.authorization.interface import Authorizer
from kubevouch.util.clock import Clock

MUTATING = (
    AttestationChallengeBudget.name,
    NamespaceLifecycle.name,
    NodeRestriction.name,
    TaintNodesByCondition.name,
    MutatingAdmissionPolicyPlugin.name,
    MutatingAdmissionWebhook.name,
)
VALIDATING = (
    CertificateApproval.name,
    CertificateSigning.name,
    ClusterTrustBundleAttest.name,
    CertificateSubjectRestriction.name,
    OwnKindProtection.name,
    WriterRights.name,
    ValidatingAdmissionPolicyPlugin.name,
    ValidatingAdmissionWebhook.name,
    ResourceQuotaPlugin.name,
    NodeRecoveryRestriction.name,
    CertificateRequestBudget.name,
)


class Dependencies(msgspec.Struct, frozen=True):
    """What the plug-ins need of the server.

    Args:
        authorizer: the server's own.
        namespace_named: a namespace from the watch cache, or None.
        refresh: waits until the watch cache holds every write acknowledged so far.
        clock: the server's.
        node_named: a node from the watch cache, or None.
        pod_named: a pod from the watch cache, or None; left out where no pods are served.
        account_named: a ServiceAccount from the watch cache, or None.
        configured: webhooks and policies; left out where none can be configured.
        open_requests: the undecided certificate signing requests.
        open_challenges: the attestation challenges that nobody has answered.
        quotas: the quotas of a namespace, and what is in it of a kind; left out where there are no quotas.
    """

    authorizer: Authorizer
    namespace_named: Callable[[str], Namespace | None]
    refresh: Callable[[], Awaitable[object]]
    clock: Clock
    node_named: NodeGetter | None = None
    pod_named: PodGetter | None = None
    account_named: ServiceAccountGetter | None = None
    configured: ConfiguredAdmission | None = None
    open_requests: OpenRequests = msgspec.field(default_factory=OpenRequests)
    open_challenges: OpenChallenges = msgspec.field(default_factory=OpenChallenges)
    quotas: tuple[QuotasOf, ObjectsIn] | None = None


def default_chain(needs: Dependencies, disabled: Collection[str] = ()) -> AdmissionChain:
    """All plug-ins but those named in ``disabled``. NodeRestriction is among them, as with kubeadm.

    Raises:
        ValueError: a name in ``disabled`` is no plug-in.
    """
    unknown = sorted(set(disabled) - {*MUTATING, *VALIDATING})
    if unknown:
        known = ", ".join((*MUTATING, *VALIDATING))
        raise ValueError(f"got admission plug-in {unknown[0]!r}, expected one of {known}")
    mutating: list[MutatingPlugin] = [
        AttestationChallengeBudget(needs.open_challenges),
        NamespaceLifecycle(needs.namespace_named, needs.refresh, needs.clock),
        NodeRestriction(needs.pod_named, needs.node_named, needs.account_named),
        TaintNodesByCondition(),
    ]
    validating: list[ValidatingPlugin] = [
        CertificateApproval(needs.authorizer),
        CertificateSigning(needs.authorizer),
        ClusterTrustBundleAttest(needs.authorizer),
        CertificateSubjectRestriction(),
        OwnKindProtection(needs.authorizer),
        WriterRights(needs.authorizer),
    ]
    if needs.configured is not None:
        mutating += (needs.configured.mutating_policy, needs.configured.mutating_webhook)
        validating += (needs.configured.validating_policy, needs.configured.validating_webhook)
    if needs.quotas is not None:
        validating.append(ResourceQuotaPlugin(*needs.quotas, needs.refresh))
    validating += (NodeRecoveryRestriction(), CertificateRequestBudget(needs.open_requests))
    return AdmissionChain(
        [plugin for plugin in mutating if plugin.name not in disabled],
        [plugin for plugin in validating if plugin.name not in disabled],
    )
