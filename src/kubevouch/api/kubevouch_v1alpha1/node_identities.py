"""NodeIdentity: which machine a node's name belongs to, since when, and by what proof.

Its name is that of the Node. The spec is the word of the operator; the status is written by who verifies proofs, once:
another machine never gets the name while it stands.
"""

from __future__ import annotations

from typing import Annotated, Final

from kubevouch.api.meta_v1 import Condition
from kubevouch.machinery.declaration import Int64, Struct, always, named, wire
from kubevouch.machinery.meta import Object
from kubevouch.machinery.text.times import Time

CLAIMED: Final = "Claimed"
"""Condition: the name belongs to a machine."""
RENEWAL_FAILED: Final = "RenewalFailed"
"""Condition: the machine did not prove again what it is; ``reason`` is the step that failed."""

MAX_IDENTITY = 1024
MAX_HISTORY = 32
MAX_CLAIMS = 64
MAX_PROOFS = 4
MAX_GRANTS = 4

_SHORT = {"maxLength": 63}
_TEXT = {"maxLength": MAX_IDENTITY}
_DIGEST = {"maxLength": 64}


class ExpectedHardware(Struct):
    """Another machine may take the name, once, until then."""

    until: Annotated[Time | None, wire(1, "After this moment the former machine is the only one again.",
                                       required=True)] = None  # fmt: skip
    identity: Annotated[
        str, wire(2, "The identity that the other machine has to prove; empty for any.", schema=_TEXT)
    ] = ""


class NodeIdentitySpec(Struct):
    """What the operator says of the machine."""

    banned: Annotated[bool, wire(1, "It gets no certificate, neither under this name nor under another.")] = False
    banned_reason: Annotated[str, wire(2, "Why, for people.", schema=_TEXT)] = ""
    renew_after: Annotated[
        Time | None,
        wire(3, "Certificates that were issued before this moment are to be renewed now."),
    ] = None
    expect_new_hardware: Annotated[ExpectedHardware | None, wire(4, "Another machine may take the name over.")] = None


class AttestedClaim(Struct):
    """One thing that is known of the machine."""

    name: Annotated[str, wire(1, "What it is.", required=True, schema={"maxLength": 128})] = always(str)
    value: Annotated[str, wire(2, "What was said of it.", required=True, schema=_TEXT)] = always(str)
    source: Annotated[str, wire(3, "Who says so.", required=True, schema=_SHORT)] = always(str)
    strength: Annotated[str, wire(4, "How much that is worth.", required=True, schema=_SHORT)] = always(str)
    tenant_controlled: Annotated[
        bool, wire(5, "Whoever rents the machine can write it: it may choose a policy, never a name.")
    ] = False


class AttestedProof(Struct):
    """One proof, beside the first, that was shown together with it."""

    provider: Annotated[str, wire(1, "The method.", required=True, schema=_SHORT)] = always(str)
    identity: Annotated[str, wire(2, "Which machine it is, among those of this method.", required=True,
                                  schema=_TEXT)] = always(str)  # fmt: skip
    strength: Annotated[str, wire(3, "How much it is worth.", required=True, schema=_SHORT)] = always(str)
    evidence_digest: Annotated[str, wire(4, "SHA-256 of what was shown.", schema=_DIGEST)] = ""


class GrantedCertificate(Struct):
    """What may be signed, and nothing else: the decision, before anybody sees it."""

    request_uid: Annotated[
        str, wire(1, "Of the CertificateSigningRequest.", required=True, schema={"maxLength": 128})
    ] = named("requestUID")
    key_fingerprint: Annotated[
        str, wire(2, "SHA-256 of its SubjectPublicKeyInfo, in hexadecimal digits.", required=True, schema=_DIGEST)
    ] = always(str)
    seconds: Annotated[Int64, wire(3, "For how long at most.", required=True)] = always(int)
    at: Annotated[Time | None, wire(4, "When it was decided.", required=True)] = None


class IdentityEvent(Struct):
    """One thing that happened to the name."""

    at: Annotated[Time | None, wire(1, "When.", required=True)] = None
    event: Annotated[
        str, wire(2, "Claimed, Renewed, Replaced, Released, Refused or RenewalFailed.", required=True, schema=_SHORT)
    ] = always(str)
    provider: Annotated[str, wire(3, "The method.", schema=_SHORT)] = ""
    identity: Annotated[str, wire(4, "Which machine.", schema=_TEXT)] = ""
    requester: Annotated[str, wire(5, "Who asked.", schema=_TEXT)] = ""
    message: Annotated[str, wire(6, "What happened, for people.", schema=_TEXT)] = ""


class NodeIdentityStatus(Struct):
    """Which machine has the name."""

    provider: Annotated[str, wire(1, "The method of the first proof.", schema=_SHORT)] = ""
    identity: Annotated[
        str, wire(2, "Which machine it is, among those of this method; empty while the name belongs to none.",
                  schema=_TEXT)
    ] = ""  # fmt: skip
    provider_id: Annotated[str, wire(3, "As spec.providerID of the Node has it.", schema=_TEXT)] = named(
        "providerID", ""
    )
    strength: Annotated[str, wire(4, "How much the newest proof is worth.", schema=_SHORT)] = ""
    key_fingerprint: Annotated[
        str, wire(5, "SHA-256 of the SubjectPublicKeyInfo of the newest certificate.", schema=_DIGEST)
    ] = ""
    evidence_digest: Annotated[str, wire(6, "SHA-256 of what was shown last.", schema=_DIGEST)] = ""
    first_seen: Annotated[Time | None, wire(7, "When the machine came first.")] = None
    last_seen: Annotated[Time | None, wire(8, "When it proved last what it is.")] = None
    source_address: Annotated[str, wire(9, "From where it came first, where that is known.", schema=_SHORT)] = ""
    requester: Annotated[str, wire(10, "As who it came first.", schema=_TEXT)] = ""
    claims: Annotated[
        list[AttestedClaim],
        wire(11, "What is known of it.", list_type="atomic", schema={"maxItems": MAX_CLAIMS}),
    ] = []
    also: Annotated[
        list[AttestedProof],
        wire(12, "What else it proved.", list_type="atomic", schema={"maxItems": MAX_PROOFS}),
    ] = []
    granted: Annotated[
        list[GrantedCertificate],
        wire(13, "Certificates that may be signed, the newest last.", list_type="atomic",
             schema={"maxItems": MAX_GRANTS}),
    ] = []  # fmt: skip
    node_uid: Annotated[
        str, wire(14, "Of the Node that the machine has registered; with it the claim goes.", schema={"maxLength": 128})
    ] = named("nodeUID", "")
    addresses: Annotated[
        list[str],
        wire(15, "IP addresses that the proof gives the machine.", list_type="atomic", schema={"maxItems": 64}),
    ] = []
    dns_names: Annotated[
        list[str],
        wire(16, "DNS names that the proof gives the machine.", list_type="atomic", schema={"maxItems": 64}),
    ] = []
    history: Annotated[
        list[IdentityEvent],
        wire(17, "What happened to the name, the oldest first.", list_type="atomic", schema={"maxItems": MAX_HISTORY}),
    ] = []
    replaced_until: Annotated[
        Time | None,
        wire(19, "The until of the expectNewHardware that another machine has used."),
    ] = None
    conditions: Annotated[
        list[Condition], wire(18, f"{CLAIMED}, {RENEWAL_FAILED}.", list_type="map", map_keys=("type",))
    ] = []


class NodeIdentity(Object):
    """Which machine the name of a node belongs to."""

    spec: Annotated[NodeIdentitySpec, wire(2, "What the operator says of it.")] = always(NodeIdentitySpec)
    status: Annotated[NodeIdentityStatus, wire(3, "What was verified.")] = always(NodeIdentityStatus)
