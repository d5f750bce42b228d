"""For whom a controller works on a request for a certificate, so that requesters take turns.

As flow control on the way in (``server/flow_control/lanes.py``): a user, and of a bootstrap token, which the machines
of a fleet share, a user at an address.
"""

from __future__ import annotations

from collections.abc import Callable

from kubevouch import wellknown
from kubevouch.api.certificates_v1 import CertificateSigningRequest
from kubevouch.client.cache.lister import Lister
from kubevouch.controllers.interface import Context, Request
from kubevouch.records.node_recovery import RECOVERERS_GROUP
from kubevouch.records.token_bounds import SOURCE_ADDRESS_ANNOTATION
from kubevouch.util.addresses import source_prefix


def requester_flows(context: Context, csrs: Lister[CertificateSigningRequest]) -> Callable[[Request], str]:
    """The flow of a request that is named as its CertificateSigningRequest."""
    # Elsewhere the requester writes the annotation, and would have a flow for each address that he makes up.
    trusts_annotations = context.is_own_server

    def flow_of(request: Request) -> str:
        csr = csrs.get(request.name)
        return "" if csr is None else requester_flow(csr, trusts_annotations=trusts_annotations)

    return flow_of


def requester_flow(csr: CertificateSigningRequest, *, trusts_annotations: bool) -> str:
    user = csr.spec.username
    is_shared = user.startswith(wellknown.BOOTSTRAP_USER_PREFIX) or RECOVERERS_GROUP in csr.spec.groups
    if not (is_shared and trusts_annotations):
        return user
    return f"{user} {source_prefix(csr.metadata.annotations.get(SOURCE_ADDRESS_ANNOTATION, ''))}"
