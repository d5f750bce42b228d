"""CertificateRequestPolicy: which requests for certificates are approved, and which are never.

Its validations have the fields of ValidatingAdmissionPolicy; that a requester has to be allowed to ``use`` the policy
that approves for him is as in cert-manager's approver-policy (docs/adr/0021-policies-that-approve-and-deny.md).
"""

from __future__ import annotations

from typing import Annotated, Final

from kubevouch.api.meta_v1 import Condition
from kubevouch.machinery.declaration import Int32, Int64, Struct, always, wire
from kubevouch.machinery.meta import Object
from kubevouch.pki.x509 import usages

APPROVE: Final = "Approve"
REQUIRE: Final = "Require"
APPROVE_OR_DENY: Final = "ApproveOrDeny"
ENFORCE: Final = "Enforce"
AUDIT: Final = "Audit"

READY: Final = "Ready"
"""The type of the condition that says whether the policy can be evaluated."""
AUTHORIZED: Final = "Authorized"
"""The type of the condition that says whether the policy's writer holds the rights for what it approves."""

MAX_PATTERNS = 256
MAX_VALIDATIONS = 32
MAX_EXPRESSION = 10_000
MAX_NAMES = 100

_PATTERN = {"type": "string", "minLength": 1, "maxLength": 1024}
_PATTERNS = {"maxItems": MAX_PATTERNS, "items": _PATTERN}
_TEXTS = {"maxItems": MAX_PATTERNS, "items": {"type": "string", "minLength": 1, "maxLength": 1024}}
_COUNT = {"minimum": 1, "maximum": 100_000}
# They are counted in the ledger, for each request anew.
MAX_RATE = 1000
_CIDR = {"rule": "isCIDR(self)", "message": "must be a network in CIDR notation, such as 10.0.0.0/8"}
_NETWORKS = {
    "maxItems": MAX_PATTERNS,
    "items": {"type": "string", "maxLength": 49, "x-kubernetes-validations": [_CIDR]},
}
_EXPRESSION = {"minLength": 1, "maxLength": MAX_EXPRESSION}


def _ordered(least: str, most: str) -> dict[str, object]:
    rule = f"!has(self.{least}) || !has(self.{most}) || self.{least} <= self.{most}"
    return {"x-kubernetes-validations": [{"rule": rule, "message": f"{least} must not be more than {most}"}]}


class PolicySelector(Struct):
    """Which requests a policy is about: those that fit every list that is given."""

    signer_names: Annotated[
        list[str],
        wire(1, "Signer names: whole, all of a domain as example.com/*, or * for all.", required=True,
             list_type="atomic", schema=_TEXTS | {"minItems": 1}),
    ] = always(list)  # fmt: skip
    usernames: Annotated[
        list[str], wire(2, "Patterns of the requester's name.", list_type="atomic", schema=_PATTERNS)
    ] = []
    groups: Annotated[
        list[str], wire(3, "Patterns, one of which one of the requester's groups fits.", list_type="atomic",
                        schema=_PATTERNS)
    ] = []  # fmt: skip
    namespaces: Annotated[
        list[str], wire(4, "Patterns of the namespace of the requester's ServiceAccount.", list_type="atomic",
                        schema=_PATTERNS)
    ] = []  # fmt: skip


class AllowedTexts(Struct):
    """Which values of one kind a request may have."""

    patterns: Annotated[
        list[str],
        wire(1, "What each value has to fit one of; without any, no value may be there. * stands for one part, ** for "
             "several.", list_type="atomic", schema=_PATTERNS),
    ] = []  # fmt: skip
    required: Annotated[bool, wire(2, "Whether there has to be one.")] = False


class AllowedHosts(Struct):
    """Which DNS names a request may have."""

    patterns: Annotated[
        list[str],
        wire(1, "What each name has to fit one of; without any, no name may be there. *.example.com is every host "
             "right under the domain, **.example.com every one below it.", list_type="atomic", schema=_PATTERNS),
    ] = []  # fmt: skip
    required: Annotated[bool, wire(2, "Whether there has to be one.")] = False
    wildcards: Annotated[bool, wire(3, "Whether a name may be a wild card itself, which stands for many hosts.")] = (
        False
    )


class AllowedAddresses(Struct):
    """Which IP addresses a request may have."""

    networks: Annotated[
        list[str],
        wire(1, "Networks in CIDR notation, one of which has each address; without any, no address may be there.",
             list_type="atomic", schema=_NETWORKS),
    ] = []  # fmt: skip
    required: Annotated[bool, wire(2, "Whether there has to be one.")] = False


class AllowedSubject(Struct):
    """Which parts of a subject a request may have."""

    common_name: Annotated[AllowedTexts | None, wire(1, "The common name.")] = None
    organizations: Annotated[AllowedTexts | None, wire(2, "Organizations, which are groups to Kubernetes.")] = None
    organizational_units: Annotated[AllowedTexts | None, wire(3, "Organizational units.")] = None
    countries: Annotated[AllowedTexts | None, wire(4, "Countries.")] = None
    provinces: Annotated[AllowedTexts | None, wire(5, "Provinces.")] = None
    localities: Annotated[AllowedTexts | None, wire(6, "Localities.")] = None
    street_addresses: Annotated[AllowedTexts | None, wire(7, "Street addresses.")] = None
    postal_codes: Annotated[AllowedTexts | None, wire(8, "Postal codes.")] = None
    serial_number: Annotated[AllowedTexts | None, wire(9, "The serial number.")] = None


class AllowedKey(Struct):
    """One kind of key that a request may be for."""

    algorithm: Annotated[str, wire(1, "The algorithm.", required=True, enum=("RSA", "ECDSA", "Ed25519", "ML-DSA"))] = (
        always(str)
    )
    min_bits: Annotated[Int32 | None, wire(2, "Of modulus or curve, at least.", schema={"minimum": 1})] = None
    max_bits: Annotated[Int32 | None, wire(3, "Of modulus or curve, at most.", schema={"minimum": 1})] = None


class ExpirationBounds(Struct):
    """How long a certificate may be asked for. A request that leaves that to its signer is outside of them."""

    minimum: Annotated[Int32 | None, wire(1, "In seconds.", schema={"minimum": 1})] = None
    maximum: Annotated[Int32 | None, wire(2, "In seconds.", schema={"minimum": 1})] = None


class RateBound(Struct):
    """How often."""

    requests: Annotated[
        Int32, wire(1, "How many requests may be approved.", required=True, schema={"minimum": 1, "maximum": MAX_RATE})
    ] = always(int)
    period_seconds: Annotated[
        Int32, wire(2, "Within which time.", required=True, schema={"minimum": 1, "maximum": 31_536_000})
    ] = always(int)


class PeopleBound(Struct):
    """How many people have to agree, each by a CertificateApproval of his own."""

    approvals: Annotated[
        Int32, wire(1, "How many different ones.", required=True, schema={"minimum": 1, "maximum": 16})
    ] = always(int)
    groups: Annotated[
        list[str],
        wire(2, "Groups, one of which each of them has to be in; without any, whoever may write approvals counts.",
             list_type="set", schema=_TEXTS),
    ] = []  # fmt: skip


class PolicyVariable(Struct):
    """A named expression."""

    name: Annotated[
        str, wire(1, "Used as variables.name.", required=True, schema={"pattern": "^[a-zA-Z_][a-zA-Z0-9_]{0,62}$"})
    ] = always(str)
    expression: Annotated[str, wire(2, "CEL for the value.", required=True, schema=_EXPRESSION)] = always(str)


class PolicyValidation(Struct):
    """What has to be true."""

    expression: Annotated[
        str,
        wire(1, "CEL over request, x509, requester, node, machine, evidence, now and variables.", required=True,
             schema=_EXPRESSION),
    ] = always(str)  # fmt: skip
    message: Annotated[str, wire(2, "What to say when it is not.", schema={"maxLength": 1024})] = ""
    reason: Annotated[
        str,
        wire(3, "The reason of a denial, in one word.", schema={"pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
                                                                "maxLength": 256}),
    ] = ""  # fmt: skip
    message_expression: Annotated[
        str, wire(4, "CEL for what to say when it is not.", schema={"maxLength": MAX_EXPRESSION})
    ] = ""


class CertificateRequestPolicySpec(Struct):
    """Which requests it is about, what they have to be like, and what follows."""

    effect: Annotated[
        str,
        wire(1, "Approve: what meets every rule is approved; all else is left to others. Require: what can never meet "
             "every rule is denied, what may meet them later waits, whoever would approve it. ApproveOrDeny: both.",
             enum=(APPROVE, REQUIRE, APPROVE_OR_DENY), schema={"default": APPROVE}),
    ] = APPROVE  # fmt: skip
    mode: Annotated[
        str,
        wire(2, "Audit: nothing follows; what would have followed is written down.", enum=(ENFORCE, AUDIT),
             schema={"default": ENFORCE}),
    ] = ENFORCE  # fmt: skip
    selector: Annotated[PolicySelector, wire(3, "Which requests it is about.", required=True)] = always(PolicySelector)
    subject: Annotated[
        AllowedSubject | None,
        wire(4, "What may be in the subject. What is not named here may not be approved, and is not denied."),
    ] = None
    dns_names: Annotated[AllowedHosts | None, wire(5, "Which DNS names there may be; see subject.")] = None
    ip_addresses: Annotated[AllowedAddresses | None, wire(6, "Which IP addresses there may be; see subject.")] = None
    email_addresses: Annotated[AllowedTexts | None, wire(7, "Which e-mail addresses there may be; see subject.")] = None
    uris: Annotated[AllowedTexts | None, wire(8, "Which URIs there may be; see subject.")] = None
    usages: Annotated[
        list[str],
        wire(9, "Which usages there may be. Without any, nothing is approved, and nothing denied.", list_type="set",
             enum=usages.ALL),
    ] = []  # fmt: skip
    keys: Annotated[
        list[AllowedKey], wire(10, "Which keys there may be; all without any.", list_type="atomic",
                               schema={"maxItems": 16})
    ] = []  # fmt: skip
    expiration_seconds: Annotated[
        ExpirationBounds | None, wire(11, "How long it may be asked for.", schema=_ordered("minimum", "maximum"))
    ] = None
    fresh_key: Annotated[bool, wire(12, "Whether no other certificate may have had the key.")] = False
    rate: Annotated[RateBound | None, wire(13, "How often a requester may be given a certificate by the signer.")] = (
        None
    )
    certificates_per_node: Annotated[
        Int32 | None,
        wire(14, "How many certificates of the signer a node may have that have not ended.", schema=_COUNT),
    ] = None
    unique_names: Annotated[
        bool, wire(15, "Whether nobody else may have a certificate for one of the names that has not ended.")
    ] = False
    variables: Annotated[
        list[PolicyVariable], wire(16, "Named expressions, which those after them may use.", list_type="map",
                             map_keys=("name",), schema={"maxItems": MAX_VALIDATIONS})
    ] = []  # fmt: skip
    validations: Annotated[
        list[PolicyValidation],
        wire(17, "Expressions that have to be true.", list_type="atomic", schema={"maxItems": MAX_VALIDATIONS}),
    ] = []  # fmt: skip
    people: Annotated[
        PeopleBound | None,
        wire(18, "Who has to agree. Nobody counts for a request of his own, nor by a policy that he has written."),
    ] = None


class CertificateRequestPolicyStatus(Struct):
    """Whether it can be evaluated."""

    observed_generation: Annotated[Int64, wire(1, "The generation that was looked at.")] = 0
    conditions: Annotated[
        list[Condition], wire(2, "Ready: whether it can be evaluated, and why not. Authorized: whether its writer may "
                              "approve for the signers that it selects; if not, it approves nothing for them.",
                              list_type="map", map_keys=("type",))
    ] = []  # fmt: skip


class CertificateRequestPolicy(Object):
    """Which requests for certificates are approved, and which are never."""

    spec: Annotated[CertificateRequestPolicySpec, wire(2, "The rules.", required=True)] = always(
        CertificateRequestPolicySpec
    )
    status: Annotated[CertificateRequestPolicyStatus, wire(3, "Whether it can be evaluated.")] = always(
        CertificateRequestPolicyStatus
    )
