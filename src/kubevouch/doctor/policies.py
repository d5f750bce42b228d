"""Whether policies for certificate requests may approve what they would."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kubevouch.api.kubevouch_v1alpha1.catalog import CERTIFICATE_REQUEST_POLICIES
from kubevouch.api.kubevouch_v1alpha1.certificate_request_policies import AUTHORIZED, CertificateRequestPolicy
from kubevouch.api.kubevouch_v1alpha1.writer_guards import WRITER_ANNOTATION
from kubevouch.client.interface import Client
from kubevouch.client.pager import PAGES, list_all
from kubevouch.doctor.findings import Code, Finding, argument
from kubevouch.machinery.errors import APIStatusError
from kubevouch.wellknown import CONDITION_FALSE, CONDITION_UNKNOWN

_CODES = {CONDITION_FALSE: Code.POLICY_NOT_AUTHORIZED, CONDITION_UNKNOWN: Code.POLICY_WRITER_UNKNOWN}


def judge(policies: Iterable[CertificateRequestPolicy]) -> Iterator[Finding]:
    """What their status says of their writers."""
    for policy in policies:
        name = policy.metadata.name
        for each in policy.status.conditions:
            if each.type == AUTHORIZED and each.status in _CODES:
                fix = f"kubectl annotate --overwrite certificaterequestpolicy {argument(name)} {WRITER_ANNOTATION}=me"
                yield _CODES[each.status].found(f"policy {name}: {each.message}", fix)


async def examine(client: Client) -> list[Finding]:
    """Raises APIStatusError, TransportError."""
    try:
        return list(judge((await list_all(client, CERTIFICATE_REQUEST_POLICIES, options=PAGES)).items))
    except APIStatusError as err:
        if err.code != 404:
            raise
        return []  # the kind is not installed there
