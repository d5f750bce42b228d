"""What node and server say to each other, in JSON; octets are in base64. Version v1.

The node opens with :class:`Opening`, is asked :class:`Question`, answers with :class:`Answer`. Whatever the TPM signs
is over ``Binding.digest``: as the qualifying data of the certification and as that of the quote.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum

import msgspec

from kubevouch.pki.tpm.credential import Credential

NAME = "tpm"
VERSION = "v1"


class KeyProtection(StrEnum):
    """What is asked of the key that the certificate is for.

    ``RESIDENT``: the TPM has made it and it cannot leave it. ``VOUCHED``: a key in a file, which the TPM only says to
    have seen; whoever copies the file is the machine.
    """

    RESIDENT = "Resident"
    VOUCHED = "Vouched"


class Opening(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Which TPM it is, of which **nothing has been verified**.

    Args:
        ek_public: TPM2B_PUBLIC of the endorsement key.
        ak_public: TPM2B_PUBLIC of the attestation key.
        ek_certificate: in DER, or the contents of the NV index that holds it; empty for a TPM without one.
        chain: further certificates in DER, in any order.
    """

    ek_public: bytes
    ak_public: bytes
    ek_certificate: bytes = b""
    chain: Sequence[bytes] = ()


class Question(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The content of a challenge.

    Args:
        credential: for TPM2_ActivateCredential.
        key_protection: of the key.
        pcrs: bank by bank the registers that a quote has to be over; none asks for no quote.
        event_log: whether the firmware's log has to come with the quote.
    """

    credential: Credential
    key_protection: KeyProtection = KeyProtection.RESIDENT
    pcrs: Mapping[str, Sequence[int]] = {}
    event_log: bool = False


class State(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """What the verifier has found out about the TPM before it asked.

    Args:
        ek_hash: hexadecimal SHA-256 of the endorsement key's TPMT_PUBLIC.
        ak_public: as in the opening: its name is the one that the credential is for.
        facts: of the endorsement key's certificate, as claims have them.
    """

    ek_hash: str
    ak_public: bytes
    facts: Mapping[str, str] = {}


class Quote(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """How the machine was booted.

    Args:
        attest: TPMS_ATTEST.
        signature: TPMT_SIGNATURE.
        pcrs: hexadecimal values by bank and number: ``{"sha256": {"7": "d102…"}}``.
        event_log: as the firmware has it, ``binary_bios_measurements`` of Linux; empty for none.
        omitted: numbers of events, from 0, whose data were left out because the log is long.
    """

    attest: bytes
    signature: bytes
    pcrs: Mapping[str, Mapping[str, str]]
    event_log: bytes = b""
    omitted: Sequence[int] = ()


class Answer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The evidence itself, of which **nothing has been verified**.

    Args:
        secret: out of the credential.
        key_public: TPM2B_PUBLIC of the key of the request; empty for one in a file.
        attest: TPMS_ATTEST of its certification, or of its creation; ``signature`` the TPMT_SIGNATURE of that.
        creation_data: TPM2B_CREATION_DATA; without it ``attest`` is a certification.
    """

    secret: bytes
    key_public: bytes = b""
    attest: bytes = b""
    signature: bytes = b""
    creation_data: bytes = b""
    quote: Quote | None = None
