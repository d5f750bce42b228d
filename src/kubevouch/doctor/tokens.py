"""What is wrong with a bootstrap token, from its Secret or from how the cluster treats it."""

from __future__ import annotations

import datetime as dt
import hmac
from collections.abc import Collection, Iterator, Mapping
from enum import Enum

from kubevouch import wellknown
from kubevouch.api.core_v1 import Secret
from kubevouch.doctor.findings import Code, Finding
from kubevouch.pki import jws
from kubevouch.pki.errors import SignatureError
from kubevouch.records import token_record
from kubevouch.records.bootstrap_tokens import (
    AUTHENTICATION,
    EXPIRATION_KEY,
    SIGNING,
    TOKEN_SECRET_KEY,
    USAGE_KEY_PREFIX,
    USAGES,
    Token,
    expiration_of,
)
from kubevouch.reviews.token_biography import bounds_and_record


class Signature(Enum):
    """Whether cluster-info is signed with a token."""

    GOOD = "good"
    WRONG = "wrong"
    MISSING = "missing"
    NONE_AT_ALL = "none at all"


def signature_of(entries: Mapping[str, str], token: Token) -> Signature:
    """``entries`` are the data of cluster-info."""
    if not signed_ids(entries):
        return Signature.NONE_AT_ALL
    value = entries.get(f"{wellknown.JWS_KEY_PREFIX}{token.token_id}")
    if value is None:
        return Signature.MISSING
    content = entries.get(wellknown.KUBECONFIG_KEY, "").encode("utf-8", "surrogatepass")
    try:
        jws.verify(value, content, token.token_id, token.token_secret)
    except SignatureError:
        return Signature.WRONG
    return Signature.GOOD


def signed_ids(entries: Mapping[str, str]) -> list[str]:
    """The IDs of the tokens that cluster-info is signed with."""
    prefix = wellknown.JWS_KEY_PREFIX
    return sorted(key.removeprefix(prefix) for key in entries if key.startswith(prefix))


def judge_treatment(
    token: Token, signature: Signature, accepted: bool | None, entries: Mapping[str, str]
) -> Iterator[Finding]:
    """What follows without a look at the Secret.

    Args:
        accepted: whether the API server lets somebody in with the token; None if it could not be asked.
    """
    token_id = token.token_id
    known = ", ".join(signed_ids(entries)) or "no token"
    if signature is Signature.GOOD:
        if accepted is False:
            yield Code.TOKEN_NOT_FOR_AUTHENTICATION.found(
                f"cluster-info is signed with the token {token_id}, and the API server answers 401 to it: it is for "
                "signing only, its uses are used up, or it is for other addresses"
            )
    elif signature is Signature.WRONG:
        if accepted:
            yield Code.TOKEN_UNSIGNED.found(
                f"the signature of the token {token_id} is not that of today's cluster-info, and the token is right: "
                "the bootstrap signer does not run"
            )
        else:
            yield Code.TOKEN_SECRET_WRONG.found(
                f"cluster-info is signed for the token ID {token_id} with another secret than the one given"
            )
    elif signature is Signature.NONE_AT_ALL and accepted is not False:
        yield Code.SIGNATURES_MISSING.found(
            "cluster-info carries no signature at all; the bootstrap signer does not run"
        )
    elif accepted:
        yield Code.TOKEN_NOT_FOR_SIGNING.found(
            f"the token {token_id} is accepted, and cluster-info is signed with {known} only"
        )
    else:
        asked = "" if accepted is None else ", and the API server answers 401 to it"
        yield Code.TOKEN_UNKNOWN.found(f"cluster-info is signed with {known}, not with the token {token_id}{asked}")


def judge_secret(
    secret: Secret | None,
    token: Token,
    *,
    now: dt.datetime,
    node_name: str = "",
    accepted: bool | None = None,
    usages: Collection[str] = USAGES,
) -> Iterator[Finding]:
    """What follows from the Secret of the token's ID, None if there is none.

    Args:
        node_name: of the machine that wants to join; empty if it is not known.
        accepted: as for :func:`judge_treatment`.
        usages: what it has to be for.
    """
    token_id = token.token_id
    if secret is None:
        yield Code.TOKEN_UNKNOWN.found(f"there is no token with the ID {token_id} in the cluster")
        return
    if not hmac.compare_digest(secret.data.get(TOKEN_SECRET_KEY, b""), token.token_secret.encode()):
        yield Code.TOKEN_SECRET_WRONG.found(f"the token with the ID {token_id} has another secret than the one given")
    if expiration_of(secret, now).expired:
        when = secret.data.get(EXPIRATION_KEY, b"").decode("utf-8", "replace")
        yield Code.TOKEN_EXPIRED.found(f"the token {token_id} has expired at {when}")
    bound = list(_judge_bounds(secret, token_id, node_name, accepted))
    yield from bound
    if any(finding.code is Code.TOKEN_USED_UP for finding in bound):
        # Its usages were taken away for that reason.
        return
    if SIGNING in usages and secret.data.get(f"{USAGE_KEY_PREFIX}{SIGNING}") != b"true":
        yield Code.TOKEN_NOT_FOR_SIGNING.found(f"the token {token_id} has no usage {SIGNING}")
    if AUTHENTICATION in usages and secret.data.get(f"{USAGE_KEY_PREFIX}{AUTHENTICATION}") != b"true":
        yield Code.TOKEN_NOT_FOR_AUTHENTICATION.found(f"the token {token_id} has no usage {AUTHENTICATION}")


def _judge_bounds(secret: Secret, token_id: str, node_name: str, accepted: bool | None) -> Iterator[Finding]:
    try:
        bounds, record = bounds_and_record(secret)
    except ValueError as err:
        yield Code.TOKEN_BROKEN.found(f"the bounds of the token {token_id} cannot be read: {err}")
        return
    machines = token_record.machines(record)
    known = {subject for subject, _ in machines}
    # The machine itself may ask again until its token is turned off.
    on = secret.data.get(f"{USAGE_KEY_PREFIX}{AUTHENTICATION}") == b"true"
    own = on and f"{wellknown.NODE_USER_PREFIX}{node_name}" in known
    if bounds.uses is not None and len(machines) >= bounds.uses and not own:
        yield Code.TOKEN_USED_UP.found(
            f"the token {token_id} was for {bounds.told()[0]}, which went to {', '.join(sorted(known))}"
        )
    if node_name and not bounds.allows_node(node_name):
        yield Code.TOKEN_FOR_OTHERS.found(
            f"the token {token_id} is for {' or '.join(bounds.node_names)}, not for {node_name}"
        )
    if bounds.source_ranges and accepted is False:
        ranges = ", ".join(map(str, bounds.source_ranges))
        yield Code.TOKEN_FOR_OTHERS.found(
            f"the API server accepts the token {token_id} from {ranges} only, and this machine comes from elsewhere"
        )
