"""Whether a signed call of somebody else's may be sent to STS, and who STS says has signed it.

The request is taken apart and built anew: what is not on a list is not sent, and the header that binds it is ours. A
parameter that stands twice, or once more in another case, has let callers past such checks (CVE-2022-2385), as have
hosts that only look like those of STS, and headers that are sent but not signed. Steps are numbered in
docs/attestation/aws.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import hmac
import re
from base64 import urlsafe_b64decode
from collections.abc import Collection, Mapping
from urllib.parse import unquote_to_bytes, urlsplit

import msgspec

from kubevouch.attestation import documents
from kubevouch.attestation.aws import sigv4
from kubevouch.attestation.aws.evidence import BINDING_HEADER, SignedRequest
from kubevouch.attestation.aws.identity_document import INSTANCE_ID
from kubevouch.attestation.interface import RefusedEvidenceError, UnavailableError

MAX_URL = 4096
"""Characters, and of a token."""
MAX_HEADER = 4096
"""Characters of one header's value; session tokens have some 1,000."""
LIFETIME = dt.timedelta(minutes=15)
"""For how long STS answers a signed call."""
SKEW = dt.timedelta(minutes=5)
"""By how much the node's clock may be ahead."""
MAX_EXPIRES = 900
BODY = "Action=GetCallerIdentity&Version=2011-06-15"
_ACTION = {"Action": "GetCallerIdentity", "Version": "2011-06-15"}
_TOKEN_PREFIX = "k8s-aws-v1."
_FORM_TYPES = ("application/x-www-form-urlencoded", "application/x-www-form-urlencoded; charset=utf-8")
_QUERY_NAMES = frozenset(_ACTION) | {
    "X-Amz-Algorithm",
    "X-Amz-Credential",
    "X-Amz-Date",
    "X-Amz-Expires",
    "X-Amz-Security-Token",
    "X-Amz-Signature",
    "X-Amz-SignedHeaders",
}
_AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256 Credential=([!-+\--~]{1,256}), ?SignedHeaders=([!-+\--~]{1,512}), ?Signature=([!-~]{1,128})"
)
_CREDENTIAL = re.compile(r"[A-Za-z0-9]{4,128}/([0-9]{8})/[a-z0-9-]{1,64}/([a-z0-9]{1,32})/aws4_request")
_SIGNATURE = re.compile(r"[0-9a-f]{64}")
_DATE = re.compile(r"[0-9]{8}T[0-9]{6}Z")
_VALUE = re.compile(r"[!-~]([ -~]*[!-~])?")
_ARN = re.compile(
    r"arn:(aws[a-z-]{0,24}):sts::([0-9]{12}):assumed-role/([\w+=,.@-]{1,64})/([\w+=,.@-]{2,64})", re.ASCII
)
_THROTTLED = ("Throttling", "ThrottlingException", "RequestLimitExceeded", "ServiceUnavailable", "InternalFailure")


class Outgoing(msgspec.Struct, frozen=True):
    """What is sent to STS in place of what came; names of headers in lower case, without ``host``."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes | None = None


class Caller(msgspec.Struct, frozen=True):
    """A role in use. ``session`` is the instance's id where only EC2 may assume the role."""

    partition: str
    account: str
    role: str
    session: str

    @property
    def canonical(self) -> str:
        """The role in IAM's own words; its path is not told."""
        return f"arn:{self.partition}:iam::{self.account}:role/{self.role}"


def url_of_token(token: str) -> str:
    """The presigned URL in a token of EKS. Raises :class:`RefusedEvidenceError`: ``size``, ``structure``."""
    if len(token) > MAX_URL:
        raise RefusedEvidenceError("size", f"got a token of {len(token)} characters, expected {MAX_URL} at most")
    packed = token.removeprefix(_TOKEN_PREFIX)
    try:
        if packed == token or not re.fullmatch(r"[A-Za-z0-9_-]+", packed):
            raise ValueError("prefix or alphabet")
        return urlsafe_b64decode(packed + "=" * (-len(packed) % 4)).decode("ascii")
    except ValueError as err:  # binascii.Error and UnicodeDecodeError too
        raise RefusedEvidenceError("structure", f"got no token that begins with {_TOKEN_PREFIX}") from err


def verify_request(
    request: SignedRequest,
    *,
    hosts: Collection[str],
    expected: str,
    now: dt.datetime,
    header: str = BINDING_HEADER,
) -> Outgoing:
    """What to send to STS, for a request that is for STS and bound to ``expected``.

    Args:
        hosts: of STS, that may be asked.
        expected: the binding header's value.

    Raises:
        RefusedEvidenceError: with the step, in this order: ``size``, ``method``, ``structure``, ``scheme``, ``host``,
            ``path``, ``headers``, ``query``, ``action``, ``authorization``, ``binding``, ``time``.
    """
    if len(request.url) > MAX_URL or len(request.body) > MAX_URL or len(request.headers) > 16:
        raise RefusedEvidenceError("size", f"expected a URL and a body of at most {MAX_URL} characters, and 16 headers")
    if request.method not in ("GET", "POST"):
        raise RefusedEvidenceError("method", f"got {request.method[:16]!r}, expected GET or POST")
    host, query = _verify_url(request.url, hosts)
    headers = _headers(request.headers, host, request.body, header)
    if request.method == "GET":
        return _presigned(request, query, headers, expected, now, header)
    return _posted(request, headers, expected, now, header)


def presigned(url: str, header: str, value: str) -> SignedRequest:
    """The request that a token stands for: its URL, with the header that the server itself sets."""
    return SignedRequest(method="GET", url=url, headers={header: value})


def _verify_url(url: str, hosts: Collection[str]) -> tuple[str, str]:
    # urlsplit passes over tabs and line ends, and takes a backslash for a letter where others see a slash.
    if not re.fullmatch(r"[!-\[\]-~]+", url):
        raise RefusedEvidenceError("structure", "got a URL with characters that no URL has")
    try:
        parts = urlsplit(url)
    except ValueError as err:
        raise RefusedEvidenceError("structure", f"got no URL: {err}") from err
    if not url.startswith("https://"):
        raise RefusedEvidenceError("scheme", f"got {parts.scheme[:16]!r}, expected https")
    # The whole of it, with whatever could stand before the host or behind it.
    if parts.netloc not in hosts:
        raise RefusedEvidenceError("host", f"got {parts.netloc[:80]!r}, expected {', '.join(sorted(hosts))}")
    if parts.path != "/" or "#" in url:
        raise RefusedEvidenceError("path", f"got {parts.path[:64]!r}, expected / and nothing behind the query")
    return parts.netloc, parts.query


def _pairs(query: str, allowed: Collection[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    seen: set[str] = set()
    for each in query.split("&"):
        name, equals, value = each.partition("=")
        plain = unquote_to_bytes(value)
        if not equals or name not in allowed or name.lower() in seen:
            raise RefusedEvidenceError("query", f"got {each[:64]!r}, expected each parameter of the call once")
        if "+" in value or re.search(r"%(?![0-9A-Fa-f]{2})", value) or not re.fullmatch(rb"[ -~]*", plain):
            raise RefusedEvidenceError("query", f"got {each[:64]!r}, whose value could be read in two ways")
        seen.add(name.lower())
        found[name] = plain.decode("ascii")
    return found


def _verify_action(pairs: Mapping[str, str]) -> None:
    for name, value in _ACTION.items():
        if pairs.get(name) != value:
            raise RefusedEvidenceError("action", f"got {name} {pairs.get(name, '')[:64]!r}, expected {value}")


def _headers(given: Mapping[str, str], host: str, body: str, header: str) -> dict[str, str]:
    """In lower case; each is known, and has the one value that it can have."""
    fixed = {
        "host": (host,),
        "accept": ("application/json",),
        "content-type": _FORM_TYPES,
        "content-length": (str(len(body)),),
        "x-amz-content-sha256": (hashlib.sha256(body.encode()).hexdigest(),),
    }
    free = {"authorization", "x-amz-date", "x-amz-security-token", header}
    found: dict[str, str] = {}
    for name, value in given.items():
        lower = name.lower()
        if lower in found:
            raise RefusedEvidenceError("headers", f"got {lower[:64]} twice")
        if lower not in free and value not in fixed.get(lower, ()):
            raise RefusedEvidenceError("headers", f"got {name[:64]!r}: {value[:64]!r}, which is not sent to STS")
        if len(value) > MAX_HEADER or not _VALUE.fullmatch(value):
            raise RefusedEvidenceError("headers", f"got {lower[:64]} with a value that no such header has")
        found[lower] = value
    return found


def _presigned(
    request: SignedRequest, query: str, headers: dict[str, str], expected: str, now: dt.datetime, header: str
) -> Outgoing:
    pairs = _pairs(query, _QUERY_NAMES)
    _verify_action(pairs)
    absent = _QUERY_NAMES - {"X-Amz-Security-Token"} - pairs.keys()
    if absent:
        raise RefusedEvidenceError("query", f"expected {', '.join(sorted(absent))} too")
    strange = headers.keys() - {"host", "accept", header}
    if strange or request.body:
        raise RefusedEvidenceError(
            "headers", f"got {', '.join(sorted(strange)) or 'a body'} beside a signature in the URL"
        )
    if pairs["X-Amz-Algorithm"] != sigv4.ALGORITHM:
        raise RefusedEvidenceError(
            "authorization", f"got {pairs['X-Amz-Algorithm'][:32]!r}, expected {sigv4.ALGORITHM}"
        )
    signed = _verify_authorization(
        pairs["X-Amz-Credential"], pairs["X-Amz-SignedHeaders"], pairs["X-Amz-Signature"], pairs["X-Amz-Date"]
    )
    verify_binding(headers.get(header, ""), expected, header, signed)
    _verify_sent(signed, headers.keys() | {"host"})
    expires = pairs["X-Amz-Expires"]
    if not re.fullmatch(r"[0-9]{1,4}", expires) or int(expires) > MAX_EXPIRES:
        raise RefusedEvidenceError("time", f"got X-Amz-Expires {expires[:16]!r}, expected 0 to {MAX_EXPIRES}")
    _verify_time(pairs["X-Amz-Date"], now)
    return Outgoing("GET", request.url, {header: expected, "accept": "application/json"})


def _posted(request: SignedRequest, headers: dict[str, str], expected: str, now: dt.datetime, header: str) -> Outgoing:
    if "?" in request.url:
        raise RefusedEvidenceError("query", "got a query beside a body")
    _verify_action(_pairs(request.body, _ACTION))
    for name in ("content-type", "x-amz-date", "authorization"):
        if name not in headers:
            raise RefusedEvidenceError("headers", f"expected {name} too")
    parts = _AUTHORIZATION.fullmatch(headers["authorization"])
    if parts is None:
        raise RefusedEvidenceError("authorization", "got no signature of version 4 in the header")
    signed = _verify_authorization(parts[1], parts[2], parts[3], headers["x-amz-date"])
    verify_binding(headers.get(header, ""), expected, header, signed)
    _verify_sent(signed, headers.keys() | {"host"})
    unsigned = {"x-amz-date", "x-amz-security-token"} & headers.keys() - signed
    if unsigned:
        raise RefusedEvidenceError("authorization", f"{', '.join(sorted(unsigned))} is sent and not signed")
    _verify_time(headers["x-amz-date"], now)
    kept = {name: value for name, value in headers.items() if name not in ("host", "content-length")}
    sent = {**kept, header: expected, "accept": "application/json"}
    return Outgoing("POST", request.url, sent, request.body.encode())


def _verify_authorization(credential: str, names: str, signature: str, date: str) -> frozenset[str]:
    """The names of the headers that are signed."""
    scope = _CREDENTIAL.fullmatch(credential)
    if scope is None or scope[2] != "sts" or scope[1] != date[:8]:
        raise RefusedEvidenceError(
            "authorization", f"got credential {credential[:80]!r}, expected one of today for sts"
        )
    if not _SIGNATURE.fullmatch(signature):
        raise RefusedEvidenceError("authorization", f"got signature {signature[:80]!r}, expected 64 hexadecimal digits")
    listed = names.split(";")
    if len(set(listed)) != len(listed) or "host" not in listed:
        raise RefusedEvidenceError("authorization", "expected each signed header once, host among them")
    return frozenset(listed)


def verify_binding(got: str, expected: str, header: str, signed: Collection[str]) -> None:
    """Whether a signed call is for what it is shown for. Raises :class:`RefusedEvidenceError`: ``binding``."""
    if header not in signed:
        raise RefusedEvidenceError("binding", f"{header} is not among the signed headers")
    if not hmac.compare_digest(got.encode(), expected.encode()):
        raise RefusedEvidenceError("binding", f"{header} is not for this key, cluster and challenge")


def _verify_sent(signed: Collection[str], sent: Collection[str]) -> None:
    absent = set(signed) - set(sent)
    if absent:
        raise RefusedEvidenceError("headers", f"{', '.join(sorted(absent))[:80]} is signed and not there")


def _verify_time(text: str, now: dt.datetime) -> None:
    try:
        if not _DATE.fullmatch(text):
            raise ValueError(text)
        made = dt.datetime.strptime(text, "%Y%m%dT%H%M%SZ").replace(tzinfo=dt.UTC)
    except ValueError as err:
        raise RefusedEvidenceError("time", f"got X-Amz-Date {text[:32]!r}, expected a time") from err
    if now - made > LIFETIME:
        raise RefusedEvidenceError("time", f"signed at {text}, more than {LIFETIME} before {sigv4.timestamp(now)}")
    if made - now > SKEW:
        raise RefusedEvidenceError("time", f"signed at {text}, more than {SKEW} after {sigv4.timestamp(now)}")


# ------------------------------------------------------------------ the answer


def caller_in(status: int, body: bytes) -> Caller:
    """Whom STS names in its answer.

    Raises:
        RefusedEvidenceError: ``signature``: STS refuses the call; ``role``: it is by no assumed role.
        UnavailableError: STS has too much to do, or what has answered is not STS.
    """
    if status != 200:
        code = _error_code(body)
        if code in _THROTTLED or not code:
            raise UnavailableError(f"STS answered {status} {code or 'without a reason that can be read'}")
        raise RefusedEvidenceError("signature", f"STS answered {status} {code[:64]}")
    try:
        tree = documents.decode(body, dict, "the answer of STS")
        arn = tree["GetCallerIdentityResponse"]["GetCallerIdentityResult"]["Arn"]
    except (RefusedEvidenceError, KeyError, TypeError) as err:
        raise UnavailableError("STS answered with something else than an identity") from err
    return parse_arn(str(arn))


def _error_code(body: bytes) -> str:
    try:
        return str(documents.decode(body, dict, "the answer of STS")["Error"]["Code"])
    except (RefusedEvidenceError, KeyError, TypeError):
        return ""


def parse_arn(arn: str) -> Caller:
    """Raises :class:`RefusedEvidenceError`: ``role``: users, federated ones and services are no nodes."""
    parts = _ARN.fullmatch(arn)
    if parts is None:
        raise RefusedEvidenceError("role", f"got {arn[:128]!r}, expected an assumed role")
    return Caller(parts[1], parts[2], parts[3], parts[4])


def verify_caller(
    caller: Caller, *, partition: str, roles: Collection[str], accounts: Collection[str] = (), session: str = ""
) -> None:
    """Whether the caller is the node of that session.

    Args:
        accounts, session: empty for any.

    Raises:
        RefusedEvidenceError: with the step, in this order: ``partition``, ``account``, ``role``, ``session``.
    """
    if caller.partition != partition:
        raise RefusedEvidenceError("partition", f"got {caller.partition}, expected {partition}")
    if accounts and caller.account not in accounts:
        raise RefusedEvidenceError("account", f"the call is by account {caller.account}, expected that of the settings")
    if caller.role not in roles:
        raise RefusedEvidenceError("role", f"got role {caller.role}, expected {', '.join(sorted(roles))}")
    # A person's session is called as he likes, an instance's like itself.
    if not INSTANCE_ID.fullmatch(caller.session) or (session and caller.session != session):
        raise RefusedEvidenceError("session", f"the call is by {caller.session}, expected {session or 'an instance'}")
