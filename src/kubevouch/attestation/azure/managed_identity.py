"""The token of a machine's own managed identity: which resource it is, in the words of Microsoft's directory.

Source: Microsoft Entra, "Access token claims reference"; ``xms_mirid`` is the resource whose system-assigned identity
the token is of. Nothing in it is of this key, and a token is good for a day, so that it counts beside a document only.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection

import msgspec

from kubevouch.attestation import jwt
from kubevouch.attestation.azure import resource_ids
from kubevouch.attestation.azure.resource_ids import MachineID
from kubevouch.attestation.interface import RefusedEvidenceError

AUDIENCE = "https://management.azure.com/"
ISSUERS = ("https://sts.windows.net/{tenant}/", "https://login.microsoftonline.com/{tenant}/v2.0")
MAX_LIFE = dt.timedelta(hours=29)
"""Between 24 and 28 hours, as Microsoft grants them."""


class _Claims(jwt.Claims):
    tid: str = ""
    oid: str = ""
    xms_mirid: str = ""


class ManagedIdentity(msgspec.Struct, frozen=True):
    """``principal`` is the object of the identity in the directory of ``tenant``; ``holder`` is whose it is."""

    tenant: str
    principal: str
    holder: MachineID


def verify(
    payload: bytes,
    *,
    tenants: Collection[str],
    now: dt.datetime,
    audience: str = AUDIENCE,
    resource_id: str = "",
    issuers: Collection[str] = ISSUERS,
) -> ManagedIdentity:
    """The identity that a token is of, whose signature was verified.

    Args:
        tenants: whose identities count.
        resource_id: of the machine that it has to be of; empty for any.
        issuers: of tokens, with ``{tenant}`` where the tenant is.

    Raises:
        RefusedEvidenceError: ``structure``, ``duplicate-key``, ``tenant``, ``issuer``, ``audience``, ``time``,
            ``resource``.
    """
    said = jwt.claims(payload, _Claims)
    # 1. 2. It is of the directory that we trust: all directories sign with the same keys, so that the tenant is what
    #       tells ours from anybody's.
    tenant = said.tid.lower()
    if tenant not in {each.lower() for each in tenants}:
        raise RefusedEvidenceError("tenant", f"got {said.tid[:64]!r}, whose identities do not count")
    if said.iss.lower() not in {each.format(tenant=tenant) for each in issuers}:
        raise RefusedEvidenceError("issuer", f"got {said.iss[:128]!r}, expected that of tenant {tenant}")
    # 3. 4.
    jwt.verify_audience(said, audience)
    jwt.verify_times(said, now, MAX_LIFE)
    # 5. It is of a machine, or of the scale set that it is of, and of this one.
    holder = resource_ids.parse_holder(said.xms_mirid)
    if holder is None:
        raise RefusedEvidenceError(
            "resource", f"got the identity of {said.xms_mirid[:200]!r}, expected a machine's own"
        )
    machine = resource_ids.parse_machine(resource_id)
    if resource_id and (machine is None or not holder.covers(machine)):
        raise RefusedEvidenceError(
            "resource", f"got the identity of {said.xms_mirid!r}, expected {resource_id[:200]!r}"
        )
    return ManagedIdentity(tenant, said.oid, holder)
