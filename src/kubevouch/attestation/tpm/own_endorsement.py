"""The endorsement key of this machine's TPM, and the certificate its maker has put beside it.

Makers have put certificates there in their own ways: with a header of the times of TPM 1.2, with zeros or ones behind,
for another key than the usual template gives. Nothing is judged here but which key belongs to which certificate: the
server gets the octets as they are, and reads them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from kubevouch.attestation.interface import SettingsError
from kubevouch.attestation.tpm.device import Connection, TPMCommandError
from kubevouch.pki.errors import DERError, StructureError
from kubevouch.pki.tpm import commands, public_area, templates
from kubevouch.pki.tpm.commands import Property, ResponseCode
from kubevouch.pki.tpm.public_area import Public
from kubevouch.pki.tpm.templates import EndorsementKey
from kubevouch.pki.x509 import der

MAX_INDEX_BYTES = 8192
"""Of one NV index; TPMs have room for some thousand bytes."""
_CHAIN = range(0x01C00100, 0x01C00200)
_KEYS = range(0x81010000, 0x81020000)
_NV_PART = 512
_NOT_MADE = frozenset({ResponseCode.VALUE, ResponseCode.CURVE, 0x083, 0x08A, 0x096})
"""Keys of a kind that a TPM does not have: value, curve, asymmetric, type, symmetric."""


class Endorsement(msgspec.Struct, frozen=True):
    """An endorsement key.

    Args:
        handle: where it is loaded.
        certificate: the contents of its NV index, or DER; empty when nobody has put one there.
        chain: DER.
        problems: what is odd about the TPM, in sentences.
    """

    handle: int
    public: Public
    certificate: bytes = b""
    chain: tuple[bytes, ...] = ()
    problems: tuple[str, ...] = ()


def find(tpm: Connection, *, wanted: str = "", given: bytes = b"") -> Endorsement:
    """The endorsement key with a certificate, or the usual one when none has.

    It is the same one each time, for the machine is known by it.

    Args:
        wanted: the kind, as in :data:`templates.ENDORSEMENT_KEYS`; empty for the first one with a certificate.
        given: a certificate that is not in the TPM, DER.

    Raises:
        SettingsError: ``wanted`` is no kind, or the TPM has none; ``given`` is for another TPM.
        AttestationError: as :meth:`Connection.run`.
    """
    kinds = [each for each in templates.ENDORSEMENT_KEYS if wanted in {"", each.kind}]
    if not kinds:
        names = ", ".join(each.kind for each in templates.ENDORSEMENT_KEYS)
        raise SettingsError(f"got the endorsement key {wanted!r}, expected one of {names}")
    stored = _persistent(tpm)
    if given:
        found = _of_certificate(tpm, kinds, given, stored)
        if found is None:
            raise SettingsError("the certificate that was given is for an endorsement key that this TPM does not have")
        return found
    problems: list[str] = []
    indices = tpm.handles(commands.FIRST_NV_INDEX, 256)
    for kind in kinds:
        if kind.certificate not in indices:
            continue
        try:
            certificate = read_index(tpm, kind.certificate)
        except (StructureError, TPMCommandError) as err:
            problems.append(f"the certificate at {kind.certificate:#010x} cannot be read: {err}")
            continue
        found = _of_certificate(tpm, [kind], certificate, stored)
        if found is not None:
            chain = _chain(tpm, indices, problems)
            return Endorsement(found.handle, found.public, certificate, chain, tuple(problems))
        problems.append(f"the certificate at {kind.certificate:#010x} is for a key that this TPM does not have")
    for kind in kinds:
        made = _made(tpm, kind)
        if made is not None:
            return Endorsement(made[0], made[1], problems=tuple(problems))
    raise SettingsError(f"the TPM has no endorsement key of kind {' or '.join(each.kind for each in kinds)}")


def _of_certificate(
    tpm: Connection, kinds: Iterable[EndorsementKey], certificate: bytes, stored: Sequence[tuple[int, Public]]
) -> Endorsement | None:
    for handle, public in stored:
        if _is_for(certificate, public):
            return Endorsement(handle, public, certificate)
    for kind in kinds:
        made = _made(tpm, kind)
        if made is not None and _is_for(certificate, made[1]):
            return Endorsement(*made, certificate)
        if made is not None:
            tpm.flush(made[0])
    return None


def _is_for(certificate: bytes, public: Public) -> bool:
    """By the modulus or point alone: some makers have written algorithms beside it that no library reads."""
    return b"".join(public.unique) in certificate


def _made(tpm: Connection, kind: EndorsementKey) -> tuple[int, Public] | None:
    """The key made from its template, or nothing when the TPM has no keys of that kind."""
    try:
        response = tpm.run(commands.create_primary(commands.ENDORSEMENT, kind.template))
    except TPMCommandError as err:
        if err.code in _NOT_MADE:
            return None
        raise
    return response.handle, public_area.parse_area(commands.first_sized(response))


def _persistent(tpm: Connection) -> list[tuple[int, Public]]:
    found = []
    for handle in tpm.handles(_KEYS.start, 256):
        if handle in _KEYS:
            try:
                found.append(
                    (handle, public_area.parse_area(commands.first_sized(tpm.run(commands.read_public(handle)))))
                )
            except StructureError:
                continue  # such as a key for HMAC
    return found


# ------------------------------------------------------------------ certificates


def read_index(tpm: Connection, index: int) -> bytes:
    """The contents of an NV index that everybody, or the owner, may read.

    Raises:
        StructureError: it is longer than a certificate can be.
        AttestationError: as :meth:`Connection.run`.
    """
    attributes, size = commands.nv_attributes(tpm.run(commands.nv_read_public(index)))
    if size > MAX_INDEX_BYTES:
        raise StructureError(f"got {size} bytes, expected at most {MAX_INDEX_BYTES}")
    part = min(tpm.properties(Property.NV_BUFFER_MAX, 1).get(Property.NV_BUFFER_MAX, _NV_PART), _NV_PART)
    by = index if attributes & commands.NV_AUTH_READ else commands.OWNER
    found = b""
    while len(found) < size:
        found += commands.first_sized(tpm.run(commands.nv_read(index, by, min(part, size - len(found)), len(found))))
    return found


def _end_of_element(stored: bytes, start: int) -> int | None:
    try:
        tag, begin, end = der.element(stored, start, len(stored))
    except DERError:
        return None
    return end if tag == der.SEQUENCE and end > begin else None


def _chain(tpm: Connection, indices: Sequence[int], problems: list[str]) -> tuple[bytes, ...]:
    """What the maker has put between the certificate and its root: DER, cut into as many indices as it takes."""
    joined = b""
    for index in indices:
        if index in _CHAIN and len(joined) < MAX_INDEX_BYTES:
            try:
                joined += read_index(tpm, index)
            except (StructureError, TPMCommandError) as err:
                problems.append(f"the chain at {index:#010x} cannot be read: {err}")
    found = []
    position = 0
    while (end := _end_of_element(joined, position)) is not None:
        found.append(joined[position:end])
        position = end
    return tuple(found)
