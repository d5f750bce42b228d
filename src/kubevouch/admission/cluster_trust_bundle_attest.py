"""ClusterTrustBundleAttest: who writes a bundle that speaks for a signer needs verb ``attest`` on it.

Source: plugin/pkg/admission/certificates/ctbattest (Kubernetes 1.36).
"""

from __future__ import annotations

from kubevouch.admission.interface import Operation, Request
from kubevouch.admission.refusal import refused
from kubevouch.admission.signer_permission import may_use_signer
from kubevouch.api.catalog import CLUSTER_TRUST_BUNDLES
from kubevouch.authorization.interface import Authorizer
from kubevouch.authorization.rbac_escalation import only_lifecycle_changes
from kubevouch.machinery.scheme import GroupResource
from kubevouch.machinery.text.gotext import quote


class ClusterTrustBundleAttest:
    """A validating plug-in. Updates that only let the garbage collector do its work are free."""

    name = "ClusterTrustBundleAttest"

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def handles(self, operation: Operation, resource: GroupResource, subresource: str) -> bool:
        return (
            operation in (Operation.CREATE, Operation.UPDATE)
            and resource == CLUSTER_TRUST_BUNDLES.group_resource
            and not subresource
        )

    async def validate(self, request: Request) -> None:
        if request.operation is Operation.UPDATE and only_lifecycle_changes(request.obj, request.old):
            return
        signer_name = request.obj.spec.signer_name
        if signer_name and not await may_use_signer(self._authorizer, request.user, "attest", signer_name):
            raise refused(request, f"user not permitted to attest for signerName {quote(signer_name)}")
