"""NodeRecoveryRestriction: who recovers a node makes the one request that its session is for.

Not a plug-in of Kubernetes. The approving controller checks the same; here the request is not even stored.
"""

from __future__ import annotations

from kubevouch.admission.certificate_requests import creates_one
from kubevouch.admission.interface import Operation, Request
from kubevouch.admission.refusal import refused
from kubevouch.machinery.scheme import GroupResource
from kubevouch.records.node_recovery import RecoveryRefusedError, node_of_user, verify_request


class NodeRecoveryRestriction:
    """A validating plug-in."""

    name = "NodeRecoveryRestriction"

    def handles(self, operation: Operation, resource: GroupResource, subresource: str) -> bool:
        return creates_one(operation, resource, subresource)

    async def validate(self, request: Request) -> None:
        """Raises ``APIStatusError`` (403)."""
        if not node_of_user(request.user.name):
            return
        try:
            verify_request(request.obj.spec, request.user.name, request.user.extra)
        except RecoveryRefusedError as err:
            raise refused(request, str(err)) from err
