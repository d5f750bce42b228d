"""What is known of a machine once its proof was verified, and what that is worth."""

from __future__ import annotations

import datetime as dt
from enum import StrEnum

import msgspec


class Strength(StrEnum):
    """How much a proof is worth, weakest first; :func:`at_least` compares.

    ``TOKEN`` is a secret that whoever has it can show, ``FIRST_USE`` a key that nobody vouches for, ``KEY`` a key that
    somebody vouched for before, ``CLOUD`` what a cloud says of a machine, ``TPM`` a key that is in that TPM and cannot
    leave it, ``MEASURED`` that and how the machine was booted.
    """

    INSECURE = "insecure"
    TOKEN = "token"
    FIRST_USE = "first-use"
    KEY = "key"
    CLOUD = "cloud"
    TPM = "tpm"
    MEASURED = "measured"


_RANKS = {each: rank for rank, each in enumerate(Strength)}


def rank(strength: Strength) -> int:
    """The place of ``strength``, weakest first."""
    return _RANKS[strength]


def at_least(strength: Strength, wanted: Strength) -> bool:
    """Whether ``strength`` is ``wanted`` or stronger."""
    return _RANKS[strength] >= _RANKS[wanted]


class Claim(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """One thing that is known of a machine.

    Args:
        name: such as ``aws.region``, ``tpm.ekHash``.
        source: who says so: ``aws-instance-identity``, ``tpm-quote``.
        strength: that of the source.
        tenant_controlled: whoever rents the machine can write it: it may choose a policy, and never a name.
    """

    name: str
    value: str
    source: str
    strength: Strength
    tenant_controlled: bool = False


class Attested(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """What a verified proof says; nothing else makes one.

    Args:
        provider: the method.
        version: that of the evidence.
        identity: which machine it is, for ever and of all machines of this method only that one:
            ``sha256:…`` of an endorsement key, ``111122223333/eu-west-1/i-0abc…``.
        provider_id: as ``spec.providerID`` of its Node would have it; empty where the method knows none.
        node_name: the name of the Node, where the evidence itself has one that no tenant could write; else empty.
        strength: of the proof as a whole.
        renewable: a fresh proof for another key is as good as the first one. Without it the identity may be used for
            one key only, until an operator says otherwise.
        addresses, dns_names: that belong to the machine, for serving certificates.
        claims: all that is known, with where from.
        evidence_digest: hexadecimal SHA-256 of what was shown.
        made_at: when what was shown was made, where that was not for this request: a certificate is given for less.
    """

    provider: str
    version: str
    identity: str
    strength: Strength
    provider_id: str = ""
    node_name: str = ""
    renewable: bool = False
    addresses: tuple[str, ...] = ()
    dns_names: tuple[str, ...] = ()
    claims: tuple[Claim, ...] = ()
    evidence_digest: str = ""
    made_at: dt.datetime | None = None
