"""The identity token of an instance: which one it is, in Google's words.

Source: Google Cloud, "Verifying the identity of a VM"; the metadata service writes ``google.compute_engine`` only in
tokens of the full format.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Collection

import msgspec

from kubevouch.attestation import jwt
from kubevouch.attestation.interface import RefusedEvidenceError

ISSUER = "https://accounts.google.com"
MAX_LIFE = dt.timedelta(hours=1, minutes=5)
"""Google's are good for an hour."""

NAME = re.compile(r"[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
"""Of an instance (RFC 1035 label)."""
PROJECT = re.compile(r"(?:[a-z0-9][a-z0-9.-]{0,61}:)?[a-z][a-z0-9-]{0,61}", re.ASCII)
"""The id of a project; ``example.com:`` before it in those that belong to a domain."""
ZONE = re.compile(r"[a-z][a-z0-9-]{0,61}", re.ASCII)
INSTANCE_ID = re.compile(r"[1-9][0-9]{0,19}", re.ASCII)


class ComputeEngine(msgspec.Struct, frozen=True):
    """The claims ``google.compute_engine``, and whose token it is: ``service_account`` is its address."""

    project_id: str
    project_number: int
    zone: str
    instance_id: str
    instance_name: str
    service_account: str = ""


class _Google(msgspec.Struct):
    compute_engine: ComputeEngine | None = None


class _Claims(jwt.Claims):
    google: _Google = msgspec.field(default_factory=_Google)
    email: str = ""
    email_verified: bool = False


def verify(
    payload: bytes,
    *,
    audience: str,
    projects: Collection[str],
    now: dt.datetime,
    zones: Collection[str] = (),
    issuer: str = ISSUER,
) -> ComputeEngine:
    """The instance that a token is of, whose signature was verified.

    Args:
        projects: ids of those whose instances may join.
        zones: in which; none means any.

    Raises:
        RefusedEvidenceError: ``structure``, ``duplicate-key``, ``issuer``, ``audience``, ``time``, ``claims``,
            ``project``, ``zone``.
    """
    said = jwt.claims(payload, _Claims)
    # 5. It is Google's.
    jwt.verify_issuer(said, issuer)
    # 6. It was made for this key, in this cluster, for this challenge.
    jwt.verify_audience(said, audience)
    # 7. Now.
    jwt.verify_times(said, now, MAX_LIFE)
    # 8. It says of which instance. The standard format says only of which service account, which any number of
    #    machines and people may use.
    instance = said.google.compute_engine
    if instance is None:
        raise RefusedEvidenceError("claims", "got no google.compute_engine, expected a token with format=full")
    for pattern, what, text in (
        (PROJECT, "project_id", instance.project_id),
        (ZONE, "zone", instance.zone),
        (NAME, "instance_name", instance.instance_name),
        (INSTANCE_ID, "instance_id", instance.instance_id),
    ):
        if not pattern.fullmatch(text):
            raise RefusedEvidenceError("claims", f"got the {what} {text[:64]!r}")
    # 9. 10. It is one of ours.
    if instance.project_id not in projects:
        raise RefusedEvidenceError("project", f"got {instance.project_id!r}, which may not join")
    if zones and instance.zone not in zones:
        raise RefusedEvidenceError("zone", f"got {instance.zone!r}, which may not join")
    return msgspec.structs.replace(instance, service_account=said.email if said.email_verified else "")
