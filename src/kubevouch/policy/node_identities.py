"""To which machine a node's name belongs, once it has proven what it is: written once, and to one machine only.

A name that another machine can take over by proving that it is some machine, too, is worth nothing (CVE-2025-13609).
Here (method, identity) → name never changes while the claim stands: the operator lets another machine in, or lets the
name go.

    IdentityRefusedError    the machine does not get the name; ``step`` names the rule
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence

import msgspec

from kubevouch.api.attested import Attested, Claim, Strength, rank
from kubevouch.api.kubevouch_v1alpha1.node_identities import (
    CLAIMED,
    MAX_CLAIMS,
    MAX_GRANTS,
    MAX_HISTORY,
    RENEWAL_FAILED,
    AttestedClaim,
    AttestedProof,
    GrantedCertificate,
    IdentityEvent,
    NodeIdentity,
    NodeIdentityStatus,
)
from kubevouch.api.meta_v1 import Condition
from kubevouch.config.attestation_config import CALLBACK
from kubevouch.machinery.text.times import Time
from kubevouch.wellknown import CONDITION_TRUE

CLAIM, RENEW, AGAIN, REPLACE = "Claimed", "Renewed", "Again", "Replaced"
_SHOWN = 128
_MOST_TEXT = 1024


class IdentityRefusedError(Exception):
    """The machine does not get the name; ``step`` names the rule in one word."""

    def __init__(self, step: str, message: str) -> None:
        super().__init__(message)
        self.step = step


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A machine that has proven what it is, and the name that it asks for.

    Args:
        proofs: all that it has shown in the request, the method of the signer first.
        key: hexadecimal SHA-256 of the SubjectPublicKeyInfo.
        own: it comes as the node itself, by a certificate that is valid.
        uid: of the request.
        requester: as who it comes.
        seconds: for how long it may have a certificate.
        address: from where it comes, if that is known.
    """

    node_name: str
    proofs: tuple[Attested, ...]
    key: str
    uid: str
    requester: str
    seconds: int
    own: bool = False
    address: str = ""


class Decided(msgspec.Struct, frozen=True, kw_only=True):
    """``event`` is one of ``Claimed``, ``Renewed``, ``Again``, ``Replaced``; ``status`` is to be written."""

    event: str
    status: NodeIdentityStatus


def decide(asked: Asked, named: NodeIdentity | None, others: Iterable[NodeIdentity], now: dt.datetime) -> Decided:
    """Who the name belongs to from now on.

    Args:
        named: the identity of this name, if there is one.
        others: those of other names that have to do with the machine: the same identity, provider id or key.

    Raises:
        IdentityRefusedError: the machine does not get the name, and nothing of ``named`` changes.
    """
    former = named.status if named is not None else NodeIdentityStatus()
    others = [each for each in others if each.metadata.name != asked.node_name]
    # 1. Nobody who was banned comes back, under no name: the name, the hardware or the key may give him away.
    _verify_not_banned(*(() if named is None else (named,)), *others)
    # 2. One machine has one name.
    _verify_one_name(asked, others)
    # 3. One name has one machine.
    if not former.identity:
        _verify_expected(asked, named)
        _verify_first(asked)
        return Decided(event=CLAIM, status=_written(asked, NodeIdentityStatus(history=former.history), CLAIM, now))
    if not is_same(asked.proofs, former):
        if named is None or not _may_replace(asked, named, now):
            raise IdentityRefusedError("name-taken", _taken(asked, former))
        _verify_first(asked)
        fresh = NodeIdentityStatus(history=former.history, replaced_until=_until(named))
        return Decided(event=REPLACE, status=_written(asked, fresh, REPLACE, now))
    # 4. A proof that anybody who has seen it can show again is good for one key, or for who is the node already.
    same_key = asked.key in keys_of(former)
    if not asked.proofs[0].renewable and not asked.own and not same_key:
        raise IdentityRefusedError(
            "already-used",
            f"{_shown(asked.proofs[0])} has been used for node {asked.node_name} with another key, and whoever has "
            f"seen its proof can show it: kubevouch node forget {asked.node_name} lets it come once more",
        )
    if any(each.request_uid == asked.uid for each in former.granted) and same_key:
        return Decided(event=AGAIN, status=_written(asked, former, "", now))
    # 5. What proves nothing is never renewed.
    if strongest(asked.proofs) == Strength.INSECURE:
        raise IdentityRefusedError("insecure", _never_renewed(asked))
    return Decided(event=RENEW, status=_written(asked, former, RENEW, now))


def grant_of(identity: NodeIdentity | None, uid: str, key: str) -> GrantedCertificate | None:
    """What may be signed for this request and this key, if anything may.

    A ban takes back what was granted before it.
    """
    if identity is None or identity.spec.banned or not identity.status.identity:
        return None
    found = (each for each in identity.status.granted if each.request_uid == uid and each.key_fingerprint == key)
    return next(found, None)


def with_grant(
    status: NodeIdentityStatus, uid: str, key: str, seconds: int, now: dt.datetime
) -> tuple[GrantedCertificate, ...]:
    """The grants with one for this request; those of other requests stay, the newest of them."""
    kept = [each for each in status.granted if each.request_uid != uid]
    new = GrantedCertificate(request_uid=uid, key_fingerprint=key, seconds=seconds, at=Time.of(now))
    return (*kept[-(MAX_GRANTS - 1) :], new)


def with_event(status: NodeIdentityStatus, event: IdentityEvent) -> list[IdentityEvent]:
    """The history with one more; the first, which says how the name was claimed, stays."""
    history = [*status.history, event]
    return history if len(history) <= MAX_HISTORY else [history[0], *history[-(MAX_HISTORY - 1) :]]


def with_failed_renewal(
    status: NodeIdentityStatus, step: str, message: str, requester: str, now: dt.datetime
) -> NodeIdentityStatus:
    """That the machine did not prove again what it is; as it was where nobody has the name, or that stands already."""
    if not status.identity or any(each.type == RENEWAL_FAILED for each in status.conditions):
        return status
    moment = Time.of(now)
    failed = Condition(
        type=RENEWAL_FAILED, status=CONDITION_TRUE, last_transition_time=moment, reason=step,
        message=message[:_MOST_TEXT],
    )  # fmt: skip
    told = IdentityEvent(
        at=moment, event=RENEWAL_FAILED, provider=status.provider, identity=status.identity,
        requester=requester[:_MOST_TEXT], message=message[:_MOST_TEXT],
    )  # fmt: skip
    return msgspec.structs.replace(status, conditions=[*status.conditions, failed], history=with_event(status, told))


def identities_of(proofs: Sequence[Attested]) -> tuple[tuple[str, str], ...]:
    """Method and identity of each proof that says which machine it is.

    Beside another proof an answer from an address says where it is: addresses change, and are another machine's then.
    """
    first, *others = _places_last(proofs)
    return (
        (first.provider, first.identity),
        *((each.provider, each.identity) for each in others if each.provider != CALLBACK),
    )


def attested_of(status: NodeIdentityStatus) -> Attested:
    """The first proof that stands behind a claim, as far as it was written down."""
    return Attested(
        provider=status.provider,
        version="",
        identity=status.identity,
        strength=Strength(status.strength),
        provider_id=status.provider_id,
        addresses=tuple(status.addresses),
        dns_names=tuple(status.dns_names),
        claims=tuple(
            Claim(each.name, each.value, each.source, Strength(each.strength), each.tenant_controlled)
            for each in status.claims
        ),
        evidence_digest=status.evidence_digest,
    )


def is_same(proofs: Sequence[Attested], status: NodeIdentityStatus) -> bool:
    """Whether it is the machine that has the name.

    The method that it was last written down by says so, no other denies, and none that is missing is worth more than
    those that are shown: who has only the weaker of two proofs is anybody who has come by that one.
    """
    shown = dict(identities_of(proofs))
    if not status.identity or shown.get(status.provider) != status.identity:
        return False
    known = dict(recorded(status))
    if any(shown.get(provider, identity) != identity for provider, identity in known.items()):
        return False
    worth = max(rank(each.strength) for each in proofs if each.provider in known)
    missing = (each for each in status.also if each.provider in known and each.provider not in shown)
    return all(rank(Strength(each.strength)) <= worth for each in missing)


def recorded(status: NodeIdentityStatus) -> tuple[tuple[str, str], ...]:
    """As :func:`identities_of`, of the proofs that stand behind a claim; none where nobody has the name."""
    if not status.identity:
        return ()
    others = ((each.provider, each.identity) for each in status.also if each.provider != CALLBACK)
    return ((status.provider, status.identity), *others)


def _places_last(proofs: Sequence[Attested]) -> list[Attested]:
    return sorted(proofs, key=lambda each: each.provider == CALLBACK)


def keys_of(status: NodeIdentityStatus) -> frozenset[str]:
    """Hexadecimal SHA-256 of the keys that the machine has certificates of."""
    return frozenset({status.key_fingerprint, *(each.key_fingerprint for each in status.granted)}) - {""}


def verify_not_banned_by(lost: Iterable[NodeIdentity], asked: Asked) -> None:
    """By bans that stand although the server has lost them.

    Raises:
        IdentityRefusedError
    """
    wanted = set(identities_of(asked.proofs))
    wanted |= {("provider id", each.provider_id) for each in asked.proofs if each.provider_id}
    for each in lost:
        known = {*recorded(each.status), ("provider id", each.status.provider_id)}
        if each.metadata.name == asked.node_name or wanted & known or asked.key in keys_of(each.status):
            _verify_not_banned(each)


def _verify_not_banned(*identities: NodeIdentity) -> None:
    for each in identities:
        if not each.spec.banned:
            continue
        why = f": {each.spec.banned_reason}" if each.spec.banned_reason else ""
        name = each.metadata.name
        raise IdentityRefusedError(
            "banned", f"node {name} is banned{why}; kubevouch node unban {name} lets it come back"
        )


def _verify_one_name(asked: Asked, others: Sequence[NodeIdentity]) -> None:
    wanted = set(identities_of(asked.proofs))
    wanted |= {("provider id", each.provider_id) for each in asked.proofs if each.provider_id}
    for each in others:
        shared = wanted & {*recorded(each.status), ("provider id", each.status.provider_id)}
        if shared:
            provider, identity = sorted(shared)[0]
            name = each.metadata.name
            raise IdentityRefusedError(
                "has-another-name",
                f"{provider} {identity[:_SHOWN]} is node {name}, and no machine has two names: kubevouch node forget "
                f"{name} lets go of that one",
            )


def _verify_expected(asked: Asked, named: NodeIdentity | None) -> None:
    """A name that nobody has yet may already be meant for some hardware."""
    expected = None if named is None else named.spec.expect_new_hardware
    if expected is not None and expected.identity and expected.identity not in {each.identity for each in asked.proofs}:
        raise IdentityRefusedError(
            "other-hardware", f"node {asked.node_name} is expected to be {expected.identity[:_SHOWN]}, got "
            f"{_shown(asked.proofs[0])}: kubevouch node forget {asked.node_name} lets any machine come",
        )  # fmt: skip


def _verify_first(asked: Asked) -> None:
    """A node that has let go of its name and asks as itself renews, in other words."""
    if asked.own and strongest(asked.proofs) == Strength.INSECURE:
        raise IdentityRefusedError("insecure", _never_renewed(asked))


def _never_renewed(asked: Asked) -> str:
    return (
        f"{asked.proofs[0].provider} proves nothing, and is never renewed: node {asked.node_name} joins again with a "
        "bootstrap token, after kubevouch node forget, or by another method"
    )


def _may_replace(asked: Asked, named: NodeIdentity, now: dt.datetime) -> bool:
    expected = named.spec.expect_new_hardware
    if expected is None or not expects_new_hardware(named, now):
        return False
    return not expected.identity or expected.identity in {each.identity for each in asked.proofs}


def expects_new_hardware(named: NodeIdentity, now: dt.datetime) -> bool:
    """Whether another machine may still take the name over: the time is not up, and none has done it."""
    expected = named.spec.expect_new_hardware
    if expected is None or expected.until is None or now > expected.until.datetime():
        return False
    used = named.status.replaced_until
    return used is None or expected.until.datetime() > used.datetime()


def _until(named: NodeIdentity) -> Time | None:
    expected = named.spec.expect_new_hardware
    return None if expected is None else expected.until


def _taken(asked: Asked, former: NodeIdentityStatus) -> str:
    since = f" since {former.first_seen}" if former.first_seen is not None else ""
    name = asked.node_name
    shown = dict(identities_of(asked.proofs))
    missing = [f"{each.provider} {each.identity[:_SHOWN]}" for each in former.also if each.provider not in shown]
    if all(shown.get(provider, identity) == identity for provider, identity in recorded(former)) and missing:
        return (
            f"node {name} has proven that it is {', '.join(missing)} too, which is worth more than "
            f"{_shown(asked.proofs[0])} alone: show both, or kubevouch node forget {name} lets any machine come"
        )
    return (
        f"node {name} is {former.provider} {former.identity[:_SHOWN]}{since}, got {_shown(asked.proofs[0])}: kubevouch "
        f"node replace {name} --expect-new-hardware lets another machine take its place"
    )


def _shown(proof: Attested) -> str:
    return f"{proof.provider} {proof.identity[:_SHOWN]}"


def _written(asked: Asked, former: NodeIdentityStatus, event: str, now: dt.datetime) -> NodeIdentityStatus:
    first, *others = _places_last(asked.proofs)
    moment = Time.of(now)
    claims = [
        AttestedClaim(
            name=each.name[:_SHOWN],
            value=each.value[:_MOST_TEXT],
            source=each.source[:63],
            strength=str(each.strength),
            tenant_controlled=each.tenant_controlled,
        )
        for proof in asked.proofs
        for each in proof.claims
    ]
    also = {each.provider: each for each in former.also}
    for each in others:
        also[each.provider] = AttestedProof(
            provider=each.provider,
            identity=each.identity,
            strength=str(each.strength),
            evidence_digest=each.evidence_digest,
        )
    status = msgspec.structs.replace(
        former,
        provider=first.provider,
        identity=first.identity,
        provider_id=next((each.provider_id for each in asked.proofs if each.provider_id), former.provider_id),
        strength=str(strongest(asked.proofs)),
        key_fingerprint=asked.key,
        evidence_digest=first.evidence_digest,
        first_seen=former.first_seen or moment,
        last_seen=moment,
        source_address=former.source_address or asked.address,
        requester=former.requester or asked.requester[:_MOST_TEXT],
        claims=claims[:MAX_CLAIMS],
        also=list(also.values()),
        granted=list(with_grant(former, asked.uid, asked.key, asked.seconds, now)),
        addresses=list(dict.fromkeys(name for each in asked.proofs for name in each.addresses))[:64],
        dns_names=list(dict.fromkeys(name for each in asked.proofs for name in each.dns_names))[:64],
        conditions=[_claimed(former, event, moment)],
    )
    if not event:
        return status
    told = IdentityEvent(
        at=moment,
        event=event,
        provider=first.provider,
        identity=first.identity,
        requester=asked.requester[:_MOST_TEXT],
    )
    return msgspec.structs.replace(status, history=with_event(status, told))


def strongest(proofs: Sequence[Attested]) -> Strength:
    """What the strongest of the proofs is worth."""
    return max(proofs, key=lambda each: rank(each.strength)).strength


def _claimed(former: NodeIdentityStatus, event: str, moment: Time) -> Condition:
    before = next((each for each in former.conditions if each.type == CLAIMED), None)
    since = before.last_transition_time if before is not None and event not in (CLAIM, REPLACE) else moment
    reason = event or (before.reason if before is not None else CLAIM)
    return Condition(
        type=CLAIMED,
        status=CONDITION_TRUE,
        last_transition_time=since,
        reason=reason,
        message="the machine has proven what it is",
    )
