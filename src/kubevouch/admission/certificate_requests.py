"""Which requests make a CertificateSigningRequest: several plug-ins look at these alone."""

from __future__ import annotations

from kubevouch.admission.interface import Operation
from kubevouch.api.catalog import CERTIFICATE_SIGNING_REQUESTS
from kubevouch.machinery.scheme import GroupResource


def creates_one(operation: Operation, resource: GroupResource, subresource: str) -> bool:
    return operation is Operation.CREATE and resource == CERTIFICATE_SIGNING_REQUESTS.group_resource and not subresource
