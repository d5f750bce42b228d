"""CertificateSigner: a signer of one's own: what it is called, with which CA it signs, and what it permits.

It is what every signer's author is asked to publish (KEP-1513, "Signers"): distribution of trust, permitted
subjects, extensions and usages, lifetimes, whether CAs are issued, and what becomes of a request that asks for another
thing. The signer does what is written here, so that the page cannot be wrong.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

from kubevouch.api.meta_v1 import Condition
from kubevouch.machinery.declaration import Int32, Int64, Struct, always, wire
from kubevouch.machinery.meta import Object
from kubevouch.machinery.text.times import Time
from kubevouch.pki.x509 import usages

FAIL: Final = "Fail"
DROP: Final = "Drop"
STRICT: Final = "Strict"
COMPATIBLE: Final = "Compatible"

READY: Final = "Ready"
"""Condition: the signer signs."""
STOPPED: Final = "Stopped"
"""Condition: it has made, or nearly made, a certificate that was not allowed. It signs no more until that is lifted."""

MIN_SECONDS = 600
MAX_SECONDS = 10 * 366 * 86400
MAX_PATTERNS = 64
MAX_AUTHORITIES = 8

_PATTERNS = {"maxItems": MAX_PATTERNS, "items": {"type": "string", "minLength": 1, "maxLength": 1024}}
_OID = {"type": "string", "maxLength": 128, "pattern": r"^[0-2](\.(0|[1-9][0-9]*))+$"}
_URLS = {"maxItems": 4, "items": {"type": "string", "maxLength": 1024, "pattern": "^https?://[!-~]+$"}}
_NETWORK = {"rule": "isCIDR(self)", "message": "must be a network in CIDR notation, such as 10.0.0.0/8"}
_NAME = {"maxLength": 253, "pattern": "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"}
_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SIGNER_NAME = {
    "maxLength": 571,
    "pattern": f"^{_LABEL}([.]{_LABEL})+/[A-Za-z0-9]([-A-Za-z0-9._]*[A-Za-z0-9])?$",
    "x-kubernetes-validations": [
        {
            "rule": "!self.startsWith('kubernetes.io/') && !self.split('/')[0].endsWith('.kubernetes.io')",
            "message": "names under kubernetes.io belong to Kubernetes",
        },
        {"rule": "self == oldSelf", "message": "a signer does not change its name: make another one"},
    ],
}
_ONE_CA = {
    "rule": "has(self.secretName) != has(self.name)",
    "message": "must have either secretName or name",
}
SPIFFE_ID: Final = "spiffe://{trustDomain}/ns/{namespace}/sa/{serviceAccount}"
"""How the field writes a workload's identity (SPIFFE-ID section 2, as Istio and SPIRE fill it in)."""
SUBJECT_ATTRIBUTES = (
    "commonNames", "organizations", "organizationalUnits", "countries", "provinces", "localities", "streetAddresses",
    "postalCodes", "serialNumbers",
)  # fmt: skip


def _otherwise(number: int, what: str) -> Any:
    return wire(
        number, f"What becomes of a request with {what}: it fails, or they are left out.", enum=(FAIL, DROP),
        schema={"default": FAIL},
    )  # fmt: skip


def _filled(character: str) -> dict[str, Any]:
    """A text with places to be filled."""
    places = "trustDomain|namespace|serviceAccount|pod|podUID|node"
    return {"type": "string", "maxLength": 1024, "pattern": f"^({character}|[{{]({places})[}}])*$"}


def _patterns(number: int, what: str) -> Any:
    return wire(number, f"Patterns of {what}.", list_type="atomic", schema=_PATTERNS)


class SignerCA(Struct):
    """Where the CA is that signs. An object names no file: whoever may write the object must not thereby read files."""

    secret_name: Annotated[
        str,
        wire(1, "A Secret of type kubernetes.io/tls in the namespace kubevouch-signers: tls.crt has the CA's "
             "certificate and any intermediates above it, tls.key its key; former.crt and former.key may have the CA "
             "before it.", schema=_NAME),
    ] = ""  # fmt: skip
    name: Annotated[
        str,
        wire(2, "A CA that the operator has put into the directory for them: NAME.crt with NAME.key, with NAME.uri, "
             "which holds the pkcs11: URI of the key, or with NAME.yaml, which says what other program signs.",
             schema=_NAME),
    ] = ""  # fmt: skip


class SignerSubject(Struct):
    """Which subjects are permitted; what is not named is not. * stands for a part of a name, ** for all the rest."""

    common_names: Annotated[list[str], _patterns(1, "common names")] = []
    organizations: Annotated[list[str], _patterns(2, "organizations")] = []
    organizational_units: Annotated[list[str], _patterns(3, "organizational units")] = []
    countries: Annotated[list[str], _patterns(4, "countries")] = []
    provinces: Annotated[list[str], _patterns(5, "provinces")] = []
    localities: Annotated[list[str], _patterns(6, "localities")] = []
    street_addresses: Annotated[list[str], _patterns(7, "street addresses")] = []
    postal_codes: Annotated[list[str], _patterns(8, "postal codes")] = []
    serial_numbers: Annotated[list[str], _patterns(9, "serial numbers")] = []
    anything: Annotated[
        bool,
        wire(10, "Permit every subject, but for names that begin with system:, which have to be written down."),
    ] = False
    required: Annotated[
        list[str], wire(11, "Attributes of which there has to be one.", list_type="set", enum=SUBJECT_ATTRIBUTES)
    ] = []
    otherwise: Annotated[str, _otherwise(12, "attributes that are not permitted")] = FAIL


class SignerAltNames(Struct):
    """Which alternative names are permitted; what is not named is not."""

    dns_names: Annotated[list[str], _patterns(1, "DNS names; *.example.com is every host right under that domain")] = []
    email_addresses: Annotated[list[str], _patterns(2, "e-mail addresses")] = []
    uris: Annotated[list[str], _patterns(3, "URIs")] = []
    ip_ranges: Annotated[
        list[str],
        wire(4, "Networks of IP addresses.", list_type="set",
             schema={"maxItems": MAX_PATTERNS,
                     "items": {"type": "string", "maxLength": 49, "x-kubernetes-validations": [_NETWORK]}}),
    ] = []  # fmt: skip
    wildcards: Annotated[bool, wire(5, "Stars also stand for the * of a wildcard's DNS name.")] = False
    most: Annotated[
        Int32, wire(6, "How many names a certificate may have.", schema={"minimum": 0, "maximum": 1000, "default": 100})
    ] = 100
    required: Annotated[bool, wire(7, "There has to be one that is permitted.")] = False
    otherwise: Annotated[str, _otherwise(8, "names that are not permitted")] = FAIL


class SignerUsages(Struct):
    """Which key usages are permitted."""

    permitted: Annotated[
        list[str],
        wire(1, "Those that may be asked for.", required=True, list_type="set", enum=usages.ALL,
             schema={"minItems": 1, "maxItems": 32}),
    ] = always(list)  # fmt: skip
    required: Annotated[
        list[str],
        wire(2, "Those that have to be asked for.", list_type="set", enum=usages.ALL, schema={"maxItems": 32}),
    ] = []
    otherwise: Annotated[str, _otherwise(3, "usages that are not permitted")] = FAIL


class SignerLifetime(Struct):
    """How long certificates are valid. None outlives its CA."""

    default_seconds: Annotated[
        Int64,
        wire(1, "Granted when nothing is asked for.", required=True,
             schema={"minimum": MIN_SECONDS, "maximum": MAX_SECONDS}),
    ] = always(int)  # fmt: skip
    max_seconds: Annotated[
        Int64,
        wire(2, "The most that is granted; defaultSeconds if it is left out.",
             schema={"minimum": MIN_SECONDS, "maximum": MAX_SECONDS}),
    ] = 0  # fmt: skip
    spread_percent: Annotated[
        Int32,
        wire(3, "By how much of its lifetime a certificate may end sooner, each by another part, so that a fleet that "
             "was born together does not end together.", schema={"minimum": 0, "maximum": 50}),
    ] = 0  # fmt: skip
    otherwise: Annotated[
        str,
        wire(4, "What becomes of a request for more: it fails, or gets the most.", enum=(FAIL, DROP),
             schema={"default": DROP}),
    ] = DROP  # fmt: skip


class SignerAuthorities(Struct):
    """Whether certificates of CAs are issued. What is permitted of names binds the CA's own, not what it will issue."""

    allowed: Annotated[bool, wire(1, "Issue them, to whom the usages permit cert sign.")] = False
    max_path_length: Annotated[
        Int32,
        wire(2, "How many CAs may stand below one that is issued.", schema={"minimum": 0, "maximum": 8, "default": 0}),
    ] = 0
    otherwise: Annotated[str, _otherwise(3, "the CA bit where that is not allowed")] = FAIL


class SignerExtensions(Struct):
    """Which extensions certificates have beside those that every one has."""

    permitted: Annotated[
        list[str],
        wire(1, "Extensions, by dotted identifier, that are copied from a request, as not critical.", list_type="set",
             schema={"maxItems": 32, "items": _OID}),
    ] = []  # fmt: skip
    otherwise: Annotated[str, _otherwise(2, "extensions that are not permitted")] = FAIL
    crl_distribution_points: Annotated[
        list[str], wire(3, "URLs of CRLs (RFC 5280 section 4.2.1.13).", list_type="atomic", schema=_URLS)
    ] = []
    ocsp_servers: Annotated[
        list[str], wire(4, "URLs of OCSP responders (RFC 5280 section 4.2.2.1).", list_type="atomic", schema=_URLS)
    ] = []
    ca_issuers: Annotated[
        list[str], wire(5, "URLs of the CA's certificate (RFC 5280 section 4.2.2.1).", list_type="atomic", schema=_URLS)
    ] = []


class SignerTrust(Struct):
    """How trust is distributed: it is there before the first certificate of a new CA."""

    cluster_trust_bundle: Annotated[bool, wire(1, "Publish the CAs in a ClusterTrustBundle of the signer.")] = False
    config_map: Annotated[
        bool,
        wire(
            2,
            "Publish the CAs as ca.crt of the ConfigMap trust-NAME in the namespace kubevouch-signers.",
        ),
    ] = False
    overlap_seconds: Annotated[
        Int64,
        wire(3, "How long the next CA is published before it signs.", schema={"minimum": 0, "maximum": 90 * 86400}),
    ] = 0
    description: Annotated[str, wire(4, "How else it is distributed.", schema={"maxLength": 4096})] = ""


class SignerPodCertificates(Struct):
    """What the signer puts into pods' certificates. Texts may hold {trustDomain}, {namespace}, {serviceAccount}, {pod},
    {podUID} and {node}; what they come to has to be permitted as in any request."""

    trust_domain: Annotated[
        str,
        wire(1, "What {trustDomain} stands for.",
             schema={"maxLength": 255, "pattern": "^[-a-z0-9._]+$", "default": "cluster.local"}),
    ] = ""  # fmt: skip
    uris: Annotated[
        list[str],
        wire(2, "URIs. The usual one is the SPIFFE ID of the pod's account.", list_type="atomic",
             schema={"maxItems": 8, "default": [SPIFFE_ID], "items": _filled("[!-z|~]")}),
    ] = []  # fmt: skip
    dns_names: Annotated[
        list[str],
        wire(3, "DNS names. Whoever may make a pod or an account gives them their names.", list_type="atomic",
             schema={"maxItems": 8, "items": _filled("[-a-z0-9.]")}),
    ] = []  # fmt: skip
    common_name: Annotated[
        str, wire(4, "The common name. The usual certificate has none, and is no user of Kubernetes.",
                  schema=_filled("[ -z|~]"))
    ] = ""  # fmt: skip
    usages: Annotated[
        list[str],
        wire(5, "Key usages; digital signature, client auth and server auth, as far as they are permitted, if it is "
             "left out.", list_type="set", enum=usages.ALL, schema={"maxItems": 8}),
    ] = []  # fmt: skip
    any_pod: Annotated[bool, wire(6, "Sign also for pods that name the signer in no volume.")] = False
    refresh_percent: Annotated[
        Int32,
        wire(7, "After which part of its lifetime the kubelet asks for the next one.",
             schema={"minimum": 1, "maximum": 99, "default": 66}),
    ] = 0  # fmt: skip


class CertificateSignerSpec(Struct):
    """What the signer does."""

    signer_name: Annotated[
        str, wire(1, "The signer name that requests bear: a domain and a path.", required=True, schema=_SIGNER_NAME)
    ] = always(str)
    description: Annotated[str, wire(2, "What its certificates are for.", schema={"maxLength": 4096})] = ""
    ca: Annotated[
        SignerCA, wire(3, "The CA that signs.", required=True, schema={"x-kubernetes-validations": [_ONE_CA]})
    ] = always(SignerCA)
    subject: Annotated[SignerSubject | None, wire(4, "Permitted subjects.")] = None
    alt_names: Annotated[SignerAltNames | None, wire(5, "Permitted alternative names.")] = None
    usages: Annotated[SignerUsages, wire(6, "Permitted key usages.", required=True)] = always(SignerUsages)
    lifetime: Annotated[SignerLifetime, wire(7, "How long certificates are valid.", required=True)] = always(
        SignerLifetime
    )
    authorities: Annotated[SignerAuthorities | None, wire(8, "Whether CAs are issued.")] = None
    extensions: Annotated[SignerExtensions | None, wire(9, "Other extensions.")] = None
    chain: Annotated[
        bool,
        wire(10, "Put the intermediates behind a certificate, each after one that it certifies.",
             schema={"default": True}),
    ] = True  # fmt: skip
    trust: Annotated[SignerTrust | None, wire(11, "Distribution of trust.")] = None
    profile: Annotated[
        str,
        wire(12, "Strict refuses weak keys, SHA-1 and malformed names; Compatible refuses what "
             "kube-controller-manager's signers do.", enum=(STRICT, COMPATIBLE), schema={"default": STRICT}),
    ] = STRICT  # fmt: skip
    pod_certificates: Annotated[
        SignerPodCertificates | None,
        wire(13, "Answer PodCertificateRequests, for which nobody else approves anything. Pods are looked up."),
    ] = None


class SignerAuthority(Struct):
    """A CA of the signer."""

    fingerprint: Annotated[str, wire(1, "SHA-256 of its certificate, in hexadecimal digits.", required=True)] = always(
        str
    )
    subject: Annotated[str, wire(2, "Its common name.")] = ""
    not_after: Annotated[Time | None, wire(3, "When it ends.")] = None
    certificate: Annotated[str, wire(4, "The certificate, in PEM.")] = ""
    published_at: Annotated[Time | None, wire(5, "Since when it is published.")] = None
    signs_since: Annotated[Time | None, wire(6, "Since when it signs; absent before.")] = None
    retired_at: Annotated[
        Time | None, wire(7, "When another one took over; it is published until what it issued ends.")
    ] = None


class CertificateSignerStatus(Struct):
    """What was made of the spec."""

    observed_generation: Annotated[Int64, wire(1, "The generation of the object that was looked at.")] = 0
    authorities: Annotated[
        list[SignerAuthority],
        wire(2, "The CAs that are published, the one that signs and those before and after it.", list_type="map",
             map_keys=("fingerprint",)),
    ] = []  # fmt: skip
    conditions: Annotated[
        list[Condition],
        wire(3, f"{READY}, and {STOPPED} once something was wrong.", list_type="map", map_keys=("type",)),
    ] = []


class CertificateSigner(Object):
    """A signer of one's own: its name, its CA and what it permits."""

    spec: Annotated[CertificateSignerSpec, wire(2, "What the signer does.", required=True)] = always(
        CertificateSignerSpec
    )
    status: Annotated[CertificateSignerStatus, wire(3, "What was made of it.")] = always(CertificateSignerStatus)
