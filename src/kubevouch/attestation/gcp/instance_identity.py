"""The extension in which Google writes an instance: in certificates of its attestation keys, and in requests of nodes.

Two programs of Google's wrote it in two orders, of the same types, so that what one wrote the other read with instance
and project swapped. Read here is the order of go-tpm-tools, and nothing is believed of it that was not held against
what the API says (:func:`verify`).
"""

from __future__ import annotations

import msgspec

from kubevouch.attestation.gcp.identity_token import INSTANCE_ID, NAME, PROJECT, ZONE
from kubevouch.attestation.interface import RefusedEvidenceError
from kubevouch.pki.errors import DERError
from kubevouch.pki.x509 import der

OID = "1.3.6.1.4.1.11129.2.1.21"
_TAG_0 = 0xA0
_TAG_1 = 0xA1


class InstanceIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """What the extension says. ``security_version`` and ``is_production`` are None where it does not say."""

    zone: str
    project_number: int
    project_id: str
    instance_id: int
    instance_name: str
    security_version: int | None = None
    is_production: bool | None = None


def parse(value: bytes) -> InstanceIdentity:
    """The value of the extension, of which nothing has been verified.

    Raises:
        RefusedEvidenceError: ``structure``.
    """
    try:
        position, end = der.expect(value, 0, len(value), der.SEQUENCE)
        if end != len(value):
            raise der.syntax_error("trailing data")
        zone, position = _text(value, position, end)
        project_number, position = _number(value, position, end)
        project_id, position = _text(value, position, end)
        instance_id, position = _number(value, position, end)
        instance_name, position = _text(value, position, end)
        security_version, is_production = _security(value, position, end)
    except (DERError, UnicodeDecodeError) as err:
        raise RefusedEvidenceError("structure", f"the instance identity: {err}") from err
    return InstanceIdentity(
        zone=zone,
        project_number=project_number,
        project_id=project_id,
        instance_id=instance_id,
        instance_name=instance_name,
        security_version=security_version,
        is_production=is_production,
    )


def verify(
    identity: InstanceIdentity,
    *,
    project_number: int,
    project_id: str = "",
    zone: str = "",
    instance_id: int = 0,
    instance_name: str = "",
) -> None:
    """It is of the instance that the API knows. Empty and 0 are not compared.

    Raises:
        RefusedEvidenceError: ``instance-identity``; also for the other order, in which names and numbers of instance
            and project have changed places.
    """
    said = (
        ("project number", identity.project_number, project_number),
        ("project", identity.project_id, project_id),
        ("zone", identity.zone, zone),
        ("instance id", identity.instance_id, instance_id),
        ("instance name", identity.instance_name, instance_name),
    )
    for what, got, expected in said:
        if expected and got != expected:
            raise RefusedEvidenceError("instance-identity", f"got the {what} {got!r}, expected {expected!r}")
    forms = (
        (ZONE, identity.zone),
        (PROJECT, identity.project_id),
        (NAME, identity.instance_name),
        (INSTANCE_ID, str(identity.instance_id)),
    )
    for pattern, text in forms:
        if not pattern.fullmatch(text):
            raise RefusedEvidenceError("instance-identity", f"got {text[:64]!r}")


def _text(octets: bytes, position: int, end: int) -> tuple[str, int]:
    start, stop = der.expect(octets, position, end, der.UTF8_STRING)
    return octets[start:stop].decode("utf-8"), stop


def _number(octets: bytes, position: int, end: int) -> tuple[int, int]:
    """Ids of instances use all of 64 bits, so that their INTEGER may have nine octets."""
    start, stop = der.expect(octets, position, end, der.INTEGER)
    value = der.integer(octets[start:stop])
    if not 0 <= value < 1 << 64:
        raise der.structure_error("integer too large")
    return value, stop


def _security(octets: bytes, position: int, end: int) -> tuple[int | None, bool | None]:
    if position == end:
        return None, None
    start, stop = der.expect(octets, position, end, _TAG_0)
    if stop != end:
        raise der.syntax_error("trailing data")
    position, end = der.expect(octets, start, stop, der.SEQUENCE)
    if end != stop:
        raise der.syntax_error("trailing data")
    version: int | None = None
    production: bool | None = None
    if position < end and octets[position] == _TAG_0:
        start, position = der.expect(octets, position, end, _TAG_0)
        version, behind = _number(octets, start, position)
        if behind != position:
            raise der.syntax_error("trailing data")
    if position < end:
        start, position = der.expect(octets, position, end, _TAG_1)
        begin, behind = der.expect(octets, start, position, der.BOOLEAN)
        production = der.boolean(octets[begin:behind])
        if behind != position:
            raise der.syntax_error("trailing data")
    if position != end:
        raise der.syntax_error("trailing data")
    return version, production
