"""CertificateApproval: what one person says of one request, where several have to agree.

Whoever writes ``spec.approver`` is that user: an admission policy, which is applied beside the definition, holds it
against who is asking (:mod:`kubevouch.api.kubevouch_v1alpha1.guards`). Nothing of it can be changed afterwards.
"""

from __future__ import annotations

from typing import Annotated, Final

from kubevouch.machinery.declaration import Struct, always, named, wire
from kubevouch.machinery.meta import Object

APPROVE: Final = "Approve"
DENY: Final = "Deny"
MAX_GROUPS: Final = 64
"""Whoever has more says which of them count."""

_NAME = {"minLength": 1, "maxLength": 253}
_FIXED = {"x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "cannot be changed"}]}


class CertificateApprovalSpec(Struct):
    """Who says what, of which request."""

    request_name: Annotated[str, wire(1, "The name of the CertificateSigningRequest.", required=True, schema=_NAME)] = (
        always(str)
    )
    request_uid: Annotated[
        str,
        wire(2, "Its UID, so that nothing is said of another request of the same name.", required=True,
             schema={"minLength": 1, "maxLength": 128}),
    ] = named("requestUID")  # fmt: skip
    approver: Annotated[
        str,
        wire(3, "The user who says it: the one who creates this object.", required=True,
             schema={"minLength": 1, "maxLength": 1024}),
    ] = always(str)  # fmt: skip
    groups: Annotated[
        list[str],
        wire(4, "Groups of that user, which policies may ask for. The API server fills them in.", list_type="set",
             schema={"maxItems": MAX_GROUPS, "items": {"type": "string", "maxLength": 1024}}),
    ] = []  # fmt: skip
    decision: Annotated[str, wire(5, "Approve or Deny.", required=True, enum=(APPROVE, DENY))] = always(str)
    comment: Annotated[str, wire(6, "Why.", schema={"maxLength": 1024})] = ""
    credential: Annotated[
        str,
        wire(7, "The identifier of the credential with which it was said, as the API server fills it in.",
             schema={"maxLength": 1024}),
    ] = ""  # fmt: skip


class CertificateApproval(Object):
    """What one person says of one request for a certificate."""

    spec: Annotated[
        CertificateApprovalSpec, wire(2, "Who says what, of which request.", required=True, schema=_FIXED)
    ] = always(CertificateApprovalSpec)
