"""Commands to a TPM and its answers, as bytes: what a node asks of its own TPM, and nothing more.

Source: TCG, "TPM 2.0 Library Specification", revision 1.59: part 1 chapter 19 (authorizations), part 2 chapter 6
(constants and response codes), part 3 (commands). Sending them is :mod:`kubevouch.attestation.tpm.device`'s.

TPMResponseError      the TPM has said no; ``code`` says why
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

import msgspec

from kubevouch.pki.errors import PKIError
from kubevouch.pki.tpm.algorithms import ECDSA, NULL, SHA256
from kubevouch.pki.tpm.marshalling import Reader, sized
from kubevouch.pki.tpm.pcrs import Selection, encode_selections, read_selections
from kubevouch.pki.tpm.public_area import Public

_MAX_SIZED = 2048
MAX_RESPONSE = 4096
"""Octets: what TPMs have as TPM_PT_MAX_RESPONSE_SIZE."""
HEADER = struct.Struct(">HII")
_NO_SESSIONS, _SESSIONS = 0x8001, 0x8002

# Part 2, 7.4 and 7.5.
OWNER = 0x40000001
NULL_HIERARCHY = 0x40000007
PASSWORD = 0x40000009
LOCKOUT_HIERARCHY = 0x4000000A
ENDORSEMENT = 0x4000000B
FIRST_TRANSIENT = 0x80000000
FIRST_PERSISTENT = 0x81000000
FIRST_NV_INDEX = 0x01000000
FIRST_LOADED_SESSION = 0x02000000

CAPABILITY_HANDLES, CAPABILITY_PCRS, CAPABILITY_PROPERTIES = 1, 5, 6


class CommandCode(IntEnum):
    """Part 2, 6.5.2."""

    CREATE_PRIMARY = 0x131
    ACTIVATE_CREDENTIAL = 0x147
    CERTIFY = 0x148
    NV_READ = 0x14E
    POLICY_SECRET = 0x151
    CREATE = 0x153
    LOAD = 0x157
    QUOTE = 0x158
    SIGN = 0x15D
    FLUSH_CONTEXT = 0x165
    NV_READ_PUBLIC = 0x169
    READ_PUBLIC = 0x173
    START_AUTH_SESSION = 0x176
    GET_CAPABILITY = 0x17A
    PCR_READ = 0x17E


class Property(IntEnum):
    """Part 2, 6.13: of those that GetCapability answers."""

    MANUFACTURER = 0x105
    NV_BUFFER_MAX = 0x12C
    PERMANENT = 0x200
    LOCKOUT_COUNTER = 0x20E
    MAX_AUTH_FAIL = 0x20F
    LOCKOUT_INTERVAL = 0x210
    LOCKOUT_RECOVERY = 0x211


class ResponseCode(IntEnum):
    """Part 2, 6.6.3, of those that somebody here tells apart; without the parts that say which parameter was meant."""

    INITIALIZE = 0x100
    FAILURE = 0x101
    COMMAND_CODE = 0x143
    AUTH_UNAVAILABLE = 0x12F
    NV_AUTHORIZATION = 0x149
    NV_UNINITIALIZED = 0x14A
    ATTRIBUTES = 0x082
    VALUE = 0x084
    HIERARCHY = 0x085
    HANDLE = 0x08B
    AUTH_FAIL = 0x08E
    SIZE = 0x095
    INTEGRITY = 0x09F
    POLICY_FAIL = 0x09D
    BAD_AUTH = 0x0A2
    CURVE = 0x0A6
    OBJECT_MEMORY = 0x902
    SESSION_MEMORY = 0x903
    OBJECT_HANDLES = 0x906
    YIELDED = 0x908
    TESTING = 0x90A
    NV_RATE = 0x920
    LOCKOUT = 0x921
    RETRY = 0x922
    NV_UNAVAILABLE = 0x923


class TPMResponseError(PKIError):
    """The TPM has refused a command.

    Args:
        command: the code of the one that it has refused.
        full: the response code as it was.
    """

    def __init__(self, command: int, full: int) -> None:
        self.code = _code_of(full)
        why, what = _name(ResponseCode, self.code), _name(CommandCode, command)
        super().__init__(f"the TPM answers 0x{full:03x}{why} to{what or f' command 0x{command:03x}'}")


def _name(table: type[IntEnum], number: int) -> str:
    return f" {table(number).name.lower().replace('_', ' ')}" if number in set(table) else ""


def _code_of(full: int) -> int:
    """Without the number of the handle, session or parameter that was meant (part 2, 6.6.2)."""
    return full & 0xBF if full & 0x80 else full & 0xFFF


class Authorization(msgspec.Struct, frozen=True):
    """Who may: a password, or a policy session that was opened before (part 1, 19.6)."""

    session: int = PASSWORD
    secret: bytes = b""


EMPTY = Authorization()
_CONTINUE = 0x01


@dataclass(frozen=True, slots=True)
class Command:
    """One command.

    Args:
        handles: in the order of part 3; each of the first ``authorizations`` of them has its authorization.
        answers_handle: the response begins with a handle.
    """

    code: int
    handles: tuple[int, ...] = ()
    authorizations: tuple[Authorization, ...] = ()
    parameters: bytes = b""
    answers_handle: bool = False

    def to_bytes(self) -> bytes:
        """As it goes to the TPM."""
        body = b"".join(struct.pack(">I", each) for each in self.handles)
        if self.authorizations:
            area = b"".join(
                struct.pack(">IHB", each.session, 0, _CONTINUE if each.session != PASSWORD else 0) + sized(each.secret)
                for each in self.authorizations
            )
            body += struct.pack(">I", len(area)) + area
        body += self.parameters
        tag = _SESSIONS if self.authorizations else _NO_SESSIONS
        return HEADER.pack(tag, HEADER.size + len(body), self.code) + body


@dataclass(frozen=True, slots=True)
class Response:
    """What the TPM has answered: the handle that it has made, if it makes one, and the parameters."""

    handle: int
    parameters: bytes


def _reader(octets: bytes) -> Reader:
    return Reader(octets, "the TPM's answer")


def parse_response(command: Command, response: bytes) -> Response:
    """Raises:
    StructureError: these are not the octets of a response.
    TPMResponseError: the TPM has refused the command.
    """
    reader = _reader(response)
    tag, size, code = reader.integer(2), reader.integer(4), reader.integer(4)
    if size != len(response) or tag not in {_NO_SESSIONS, _SESSIONS, 0x00C4}:
        raise reader.refusal(f"got {len(response)} bytes with tag {tag:04x} and size {size}")
    if code:
        raise TPMResponseError(command.code, code)
    handle = reader.integer(4) if command.answers_handle else 0
    if tag == _SESSIONS:
        return Response(handle, reader.octets(reader.integer(4)))
    return Response(handle, reader.octets(reader.left))


# ------------------------------------------------------------------ what there is


def get_capability(capability: int, first: int, count: int) -> Command:
    """Part 3, 30.2."""
    return Command(CommandCode.GET_CAPABILITY, parameters=struct.pack(">III", capability, first, count))


def capability_handles(response: Response) -> tuple[int, ...]:
    """Of an answer about handles. Raises :class:`StructureError`."""
    reader = _capability(response, CAPABILITY_HANDLES)
    return tuple(reader.integer(4) for _ in range(reader.integer(4)))


def capability_properties(response: Response) -> Mapping[int, int]:
    """Of an answer about properties. Raises :class:`StructureError`."""
    reader = _capability(response, CAPABILITY_PROPERTIES)
    return {reader.integer(4): reader.integer(4) for _ in range(reader.integer(4))}


def capability_banks(response: Response) -> Mapping[int, tuple[int, ...]]:
    """The PCRs of each bank, by hash algorithm, of an answer about PCRs. Raises :class:`StructureError`."""
    return {each.bank: each.pcrs for each in read_selections(_capability(response, CAPABILITY_PCRS))}


def _capability(response: Response, capability: int) -> Reader:
    reader = _reader(response.parameters)
    reader.octets(1)  # whether there is more
    got = reader.integer(4)
    if got != capability:
        raise reader.refusal(f"got capability {got}, expected {capability}")
    return reader


def read_public(handle: int) -> Command:
    """Part 3, 12.4; the answer is read by :func:`first_sized`."""
    return Command(CommandCode.READ_PUBLIC, (handle,))


def first_sized(response: Response) -> bytes:
    """The contents of the TPM2B that the answer begins with. Raises :class:`StructureError`."""
    return _reader(response.parameters).sized(_MAX_SIZED)


def nv_read_public(index: int) -> Command:
    """Part 3, 31.6."""
    return Command(CommandCode.NV_READ_PUBLIC, (index,))


NV_OWNER_READ, NV_AUTH_READ, NV_WRITTEN = 1 << 17, 1 << 18, 1 << 29
"""Part 2, 13.4."""


def nv_attributes(response: Response) -> tuple[int, int]:
    """The attributes of an NV index and how many octets it has. Raises :class:`StructureError`."""
    reader = _reader(first_sized(response))
    reader.octets(6)
    attributes = reader.integer(4)
    reader.sized(_MAX_SIZED)
    return attributes, reader.integer(2)


def nv_read(index: int, by: int, size: int, offset: int) -> Command:
    """Part 3, 31.13. ``by``: the index itself, or the owner hierarchy."""
    return Command(CommandCode.NV_READ, (by, index), (EMPTY,), struct.pack(">HH", size, offset))


# ------------------------------------------------------------------ objects


def create_primary(hierarchy: int, template: Public) -> Command:
    """Part 3, 24.1."""
    parameters = _SENSITIVE + template.encode() + _NO_OUTSIDE_NO_PCR
    return Command(CommandCode.CREATE_PRIMARY, (hierarchy,), (EMPTY,), parameters, answers_handle=True)


def create(parent: int, template: Public) -> Command:
    """Part 3, 12.1."""
    parameters = _SENSITIVE + template.encode() + _NO_OUTSIDE_NO_PCR
    return Command(CommandCode.CREATE, (parent,), (EMPTY,), parameters)


# No password and no contents for the object; nothing that goes into its creation data.
_SENSITIVE = sized(sized(b"") + sized(b""))
_NO_OUTSIDE_NO_PCR = sized(b"") + struct.pack(">I", 0)


def created(response: Response) -> tuple[bytes, bytes]:
    """The private and the public part that :func:`create` answers. Raises :class:`StructureError`."""
    reader = _reader(response.parameters)
    return reader.sized(_MAX_SIZED), reader.sized(_MAX_SIZED)


def load(parent: int, private: bytes, public: bytes) -> Command:
    """Part 3, 12.2."""
    return Command(CommandCode.LOAD, (parent,), (EMPTY,), sized(private) + sized(public), answers_handle=True)


def flush_context(handle: int) -> Command:
    """Part 3, 28.4."""
    return Command(CommandCode.FLUSH_CONTEXT, parameters=struct.pack(">I", handle))


# ------------------------------------------------------------------ policy sessions


_POLICY_SESSION = 0x01


def start_policy_session(nonce: bytes) -> Command:
    """Part 3, 11.1: neither salted nor bound, for the policy has no secret of its own. ``nonce``: 16 octets or more."""
    parameters = sized(nonce) + sized(b"") + struct.pack(">BHH", _POLICY_SESSION, NULL, SHA256)
    return Command(
        CommandCode.START_AUTH_SESSION, (NULL_HIERARCHY, NULL_HIERARCHY), parameters=parameters, answers_handle=True
    )


def policy_secret(authority: int, session: int) -> Command:
    """Part 3, 23.4: whoever knows the secret of ``authority``, which is empty here."""
    parameters = sized(b"") + sized(b"") + sized(b"") + struct.pack(">i", 0)
    return Command(CommandCode.POLICY_SECRET, (authority, session), (EMPTY,), parameters)


# ------------------------------------------------------------------ what is proven with


def activate_credential(
    attestation_key: int, endorsement_key: int, by: Authorization, id_object: bytes, secret: bytes
) -> Command:
    """Part 3, 12.5. ``by``: who may use the endorsement key. The answer is read by :func:`first_sized`."""
    return Command(
        CommandCode.ACTIVATE_CREDENTIAL,
        (attestation_key, endorsement_key),
        (EMPTY, by),
        sized(id_object) + sized(secret),
    )


_OWN_SCHEME = struct.pack(">H", NULL)


def certify(certified: int, attestation_key: int, qualifying: bytes) -> Command:
    """Part 3, 18.2: ``qualifying`` is what the signed statement carries beside the name of the key."""
    return Command(CommandCode.CERTIFY, (certified, attestation_key), (EMPTY, EMPTY), sized(qualifying) + _OWN_SCHEME)


def quote(attestation_key: int, qualifying: bytes, selections: Iterable[Selection]) -> Command:
    """Part 3, 18.4. Banks stand in the order of ``selections``."""
    parameters = sized(qualifying) + _OWN_SCHEME + encode_selections(selections)
    return Command(CommandCode.QUOTE, (attestation_key,), (EMPTY,), parameters)


def attested(response: Response) -> tuple[bytes, bytes]:
    """The TPMS_ATTEST and its TPMT_SIGNATURE, as certify and quote answer them. Raises :class:`StructureError`."""
    reader = _reader(response.parameters)
    return reader.sized(_MAX_SIZED), reader.octets(reader.left)


def sign(key: int, digest: bytes, algorithm: int) -> Command:
    """Part 3, 20.2, by ECDSA, with a key that is not restricted. ``algorithm``: the hash ``digest`` is of."""
    no_ticket = struct.pack(">HI", 0x8024, NULL_HIERARCHY) + sized(b"")
    parameters = sized(digest) + struct.pack(">HH", ECDSA, algorithm) + no_ticket
    return Command(CommandCode.SIGN, (key,), (EMPTY,), parameters)


def ecdsa_signature(response: Response) -> tuple[int, int]:
    """r and s of what :func:`sign` answers. Raises :class:`StructureError`."""
    reader = _reader(response.parameters)
    scheme, _ = reader.integer(2), reader.integer(2)
    if scheme != ECDSA:
        raise reader.refusal(f"got a signature of scheme {scheme:04x}, expected ECDSA")
    return int.from_bytes(reader.sized(_MAX_SIZED), "big"), int.from_bytes(reader.sized(_MAX_SIZED), "big")


# ------------------------------------------------------------------ PCRs


def pcr_read(selections: Iterable[Selection]) -> Command:
    """Part 3, 22.4: TPMs answer at most eight values at a time, so ask again for what is missing."""
    return Command(CommandCode.PCR_READ, parameters=encode_selections(selections))


def pcr_values(response: Response) -> tuple[int, Sequence[tuple[int, int, bytes]]]:
    """How often PCRs have changed, and what was read: bank, PCR, value. Raises :class:`StructureError`."""
    reader = _reader(response.parameters)
    changed = reader.integer(4)
    selected = [(each.bank, pcr) for each in read_selections(reader) for pcr in each.pcrs]
    if reader.integer(4) != len(selected):
        raise reader.refusal("got more or fewer values than PCRs")
    return changed, [(bank, pcr, reader.sized(_MAX_SIZED)) for bank, pcr in selected]
