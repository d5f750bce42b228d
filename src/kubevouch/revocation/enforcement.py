"""Whether a revocation is in force: judged from what was seen to refuse its certificates, and from nothing else.

A kube-apiserver by itself refuses no revoked certificate. What may refuse it is a *way*; each is looked at by whoever
can ask the server, and comes here as a :class:`Way`. Source: kubevouch's own;
docs/adr/0056-a-revocation-is-in-force-where-it-was-seen-to-refuse.md.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from enum import Enum
from typing import TypeVar

import msgspec

from kubevouch import wellknown
from kubevouch.api.kubevouch_v1alpha1.certificate_revocations import IN_FORCE, MAX_NUMBERS, RevocationTargets
from kubevouch.api.meta_v1 import Condition
from kubevouch.ledger.entries import Entry
from kubevouch.pki.errors import ParseError
from kubevouch.pki.node_user import node_name_of
from kubevouch.pki.x509 import x509_certificate
from kubevouch.revocation.known import fingerprint_of

T = TypeVar("T")

REFUSED = "Refused"
TOO_MANY = "TooMany"
NOTHING_FOUND = "NothingFound"
PARTLY_ENFORCED = "PartlyEnforced"
WRITES_ONLY = "WritesOnly"
NOTHING_ENFORCES = "NothingEnforces"
REFUSES_EVERYBODY = "RefusesEverybody"
HOLDER_UNKNOWN = "HolderUnknown"
NOT_ASKED = "NotAsked"
"""Reasons of the condition ``InForce``. The first is True, the last three are Unknown, the others False."""

MAX_HOLDERS = 8
"""Holders of one revocation that a server is asked about."""
STRANGER = "kubevouch:nobody"
"""A user that nobody is: the control question is asked in this name."""
_MASTERS = wellknown.MASTERS_GROUP.encode()
_SHOWN = 64


class State(Enum):
    """What is known of a way."""

    REFUSES = "refuses"
    CONFIGURED = "configured"
    """All that it needs is there; a refusal was not seen."""
    PASSES = "passes"
    UNKNOWN = "unknown"


class Way(msgspec.Struct, frozen=True):
    """One way in which what is revoked may be refused, as it was seen last.

    Args:
        name: for people.
        reads, writes: what it refuses where its state is REFUSES or CONFIGURED.
        whole: it refuses also certificates that nobody knows, such as every one of a key.
        leaves_open: what passes it, in words.
        about: what was seen, or why nothing was, in words.
        seen: when that was.
        reason: of the condition, where that is for this to say.
    """

    name: str
    state: State
    reads: bool = False
    writes: bool = False
    whole: bool = False
    leaves_open: str = ""
    about: str = ""
    seen: dt.datetime | None = None
    reason: str = ""


class Holder(msgspec.Struct, frozen=True):
    """Who comes with a certificate that is revoked.

    Args:
        fingerprint: SHA-256 of it in hexadecimal digits; empty for who comes without one.
        guessed: user and groups are not from the certificate, which nobody knows: it may be one of system:masters.
    """

    user: str
    groups: tuple[str, ...]
    fingerprint: str = ""
    guessed: bool = False


class Answer(msgspec.Struct, frozen=True):
    """What an API server says to a question about somebody's rights."""

    allowed: bool
    denied: bool


class Reach(msgspec.Struct, frozen=True):
    """What is known of one revocation.

    Args:
        matched: how many certificates that have not ended it reaches.
        found: those of them that are known.
        listed: their fingerprints, as its status has them.
        until: when the last of them ends.
    """

    name: str
    targets: RevocationTargets
    matched: int
    found: Sequence[Entry] = ()
    listed: Sequence[str] = ()
    until: dt.datetime | None = None


OWN_SERVER = Way(
    "kubevouch's API server", State.REFUSES, reads=True, writes=True, whole=True, about="the API server refuses them"
)
_WEBHOOK = "the authorizer chain of kube-apiserver"
_WEBHOOK_LEAVES = (
    "watches, exec and port-forward that are open go on until they end; another API server of this cluster needs the "
    "same configuration; tokens that its holder has been given count on"
)


def holders(reach: Reach, stranger: str, turn: int = 0) -> tuple[Holder, ...]:
    """About whom to ask: a few of those whom the revocation reaches, among them one of each kind that there is.

    Args:
        stranger: the fingerprint of a certificate that nobody has, for users of whom none is known.
        turn: another number asks about others, where there are more.
    """
    certified = [each for each in reach.found if each.certificate]
    masters = [each for each in certified if _MASTERS in each.certificate]
    chosen = [*_spread(masters, 1, turn), *_spread(certified, MAX_HOLDERS // 2, turn)]
    found = {holder.fingerprint: holder for holder in map(_holder, chosen) if holder is not None}
    known = {fingerprint_of(each) for each in certified}
    strangers = [each for each in (*reach.targets.certificates, *reach.listed) if each not in known]
    for each in _spread(strangers, 1, turn):
        found[each] = Holder(STRANGER, (wellknown.AUTHENTICATED_GROUP,), each, guessed=True)
    users = (*reach.targets.users, *(f"{wellknown.NODE_USER_PREFIX}{node}" for node in reach.targets.nodes))
    asked = {each.user for each in found.values()}
    named = [_named(each, stranger) for each in _spread([each for each in users if each not in asked], 2, turn)]
    return (*found.values(), *named)[:MAX_HOLDERS]


def _spread(items: Sequence[T], most: int, turn: int) -> list[T]:
    count = min(most, len(items))
    return [items[(turn + number * len(items) // count) % len(items)] for number in range(count)]


def _holder(entry: Entry) -> Holder | None:
    try:
        certificate = x509_certificate.parse_der(entry.certificate)
    except ParseError:
        return None
    groups = (*certificate.subject.organizations, wellknown.AUTHENTICATED_GROUP)
    return Holder(certificate.subject.common_name, tuple(dict.fromkeys(groups)), fingerprint_of(entry))


def _named(user: str, fingerprint: str) -> Holder:
    # Signers give a node's name to nobody who has another group.
    is_node = bool(node_name_of(user))
    groups = (wellknown.NODES_GROUP,) if is_node else ()
    return Holder(user, (*groups, wellknown.AUTHENTICATED_GROUP), fingerprint, guessed=not is_node)


# ------------------------------------------------------------------ what the answers show


def refuses_everybody(stranger: Answer) -> bool:
    """Whether the control question was denied: somebody whose certificate nobody has revoked."""
    return stranger.denied


def weigh(shown: Answer, bare: Answer) -> State:
    """What two answers show about one holder. The question is one that every holder is allowed by default.

    Args:
        shown: to the question with the fingerprint of the revoked certificate.
        bare: to the same question without it.
    """
    if not shown.denied:
        return State.PASSES
    # A chain that allows first what it may, and denies the rest, refuses nothing that the holder may do. And who is
    # denied without the certificate is not denied for it.
    return State.REFUSES if bare.allowed else State.UNKNOWN


def authorizers(verdicts: Sequence[tuple[Holder, State]], seen: dt.datetime) -> Way:
    """The authorizer webhook and the deny list of a kube-apiserver, from what was seen of each holder."""
    way = Way(_WEBHOOK, State.UNKNOWN, reads=True, writes=True, leaves_open=_WEBHOOK_LEAVES, seen=seen)
    replace = msgspec.structs.replace
    passing = [holder for holder, state in verdicts if state is State.PASSES]
    if passing:
        about = f"{_WEBHOOK}, asked about {_names(passing)}, answers as if nothing was revoked"
        if any(wellknown.MASTERS_GROUP in each.groups for each in passing):
            about += f": no authorizer is asked about the group {wellknown.MASTERS_GROUP}"
        return replace(way, state=State.PASSES, about=about)
    unclear = [holder for holder, state in verdicts if state is State.UNKNOWN]
    if unclear or not verdicts:
        about = f"{_WEBHOOK} may refuse {_names(unclear)} for another reason than the certificate"
        return replace(way, about=about if unclear else "there is nobody to ask about")
    asked = [holder for holder, _ in verdicts]
    guessed = [each for each in asked if each.guessed]
    if guessed:
        about = f"{_WEBHOOK} was seen to deny {_names(guessed)}, but the certificate is not known: if its group is "
        about += f"{wellknown.MASTERS_GROUP}, no authorizer is asked about it"
        return replace(way, about=about, reason=HOLDER_UNKNOWN)
    return replace(way, state=State.REFUSES, about=f"{_WEBHOOK} was seen to deny {_names(asked)}")


def unanswered(why: str, reason: str = NOT_ASKED) -> Way:
    """The same, where no answer shows anything."""
    return Way(_WEBHOOK, State.UNKNOWN, about=why, reason=reason)


def _names(asked: Sequence[Holder]) -> str:
    names = dict.fromkeys(
        f"certificate {each.fingerprint[:16]}…" if each.user == STRANGER else _plain(each.user) for each in asked
    )
    first = ", ".join(list(names)[:2])
    return first if len(names) <= 2 else f"{first} and {len(names) - 2} more"


def _plain(text: str) -> str:
    shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
    return "".join(char if char.isprintable() else "?" for char in shown)


# ------------------------------------------------------------------ judgement


def judge(reach: Reach, ways: Sequence[Way]) -> Condition:
    """The condition ``InForce``: True only where all that is revoked was seen to be refused, reads and writes."""
    if _is_too_many(reach):
        message = f"reaches {reach.matched} certificates, of which {MAX_NUMBERS} are listed: revoke the rest by another"
        return _condition(wellknown.CONDITION_FALSE, TOO_MANY, message)
    refusing = [each for each in ways if each.state is State.REFUSES]
    reads, writes = (any(getattr(each, what) for each in refusing) for what in ("reads", "writes"))
    if reads and writes:
        return _refused(reach, refusing)
    unknown = [each for each in ways if each.state is State.UNKNOWN]
    by_writes = [each for each in ways if each.state in (State.REFUSES, State.CONFIGURED) and each.writes]
    told = "; ".join(_told(each) for each in by_writes)
    if unknown or not ways:
        about = "; ".join(each.about for each in unknown if each.about) or "the API server has not been asked yet"
        reason = next((each.reason for each in unknown if each.reason), NOT_ASKED)
        message = f"whether anything refuses them is not known: {about}{f'; {told}' if told else ''}"
        return _condition(wellknown.CONDITION_UNKNOWN, reason, message)
    seen = "; ".join(each.about for each in ways if each.state is State.PASSES)
    if by_writes:
        message = f"only writes are refused: {told}; reads with them are answered, {exposure(reach)}"
        return _condition(wellknown.CONDITION_FALSE, WRITES_ONLY, f"{message}{f' ({seen})' if seen else ''}")
    message = f"nothing refuses them: {seen}; reads and writes with them are answered, {exposure(reach)}"
    return _condition(wellknown.CONDITION_FALSE, NOTHING_ENFORCES, message)


def _refused(reach: Reach, refusing: Sequence[Way]) -> Condition:
    message = "; ".join(_told(each) for each in refusing)
    is_whole = any(each.whole for each in refusing)
    unknown = _unknown(reach)
    if unknown and is_whole:
        message += "; of what it names the ledger knows not every certificate: "
        message += "only this API server, its CRLs and its OCSP answers refuse those, and no deny webhook or deny list"
    if is_whole or not (unknown or _is_unlisted(reach) or _names_nothing_known(reach)):
        return _condition(wellknown.CONDITION_TRUE, REFUSED, message)
    if _names_nothing_known(reach):
        message = (
            "no certificate is known that it names, so that nothing is refused: kube-apiserver refuses what it is "
        )
        message += "told the fingerprint or the user of"
        return _condition(wellknown.CONDITION_FALSE, NOTHING_FOUND, message)
    message += "; of what it names not every certificate is known, and those that are not known are answered"
    return _condition(wellknown.CONDITION_FALSE, PARTLY_ENFORCED, message)


def exposure(reach: Reach) -> str:
    """Until when what is revoked counts where nothing refuses it."""
    if reach.until is None:
        return "until the certificates end, of which none is known"
    return f"until {reach.until:%Y-%m-%d %H:%M} UTC, when the last certificate that is known ends"


def _told(way: Way) -> str:
    about = way.about or f"{way.name} refuses {'reads and writes' if way.reads and way.writes else 'writes'}"
    if way.state is State.CONFIGURED:
        about += " (configured; a refusal was not seen)"
    return f"{about}; open: {way.leaves_open}" if way.leaves_open else about


def _condition(status: str, reason: str, message: str) -> Condition:
    return Condition(type=IN_FORCE, status=status, reason=reason, message=message)


def _needs_list(targets: RevocationTargets) -> bool:
    """Whether something is named that a kube-apiserver knows only from the fingerprints in the status."""
    by_themselves = RevocationTargets(
        users=targets.users, nodes=targets.nodes, certificates=targets.certificates, issued_until=targets.issued_until
    )
    return targets != by_themselves


def _is_too_many(reach: Reach) -> bool:
    return reach.matched > MAX_NUMBERS and _needs_list(reach.targets)


def _is_unlisted(reach: Reach) -> bool:
    """Whether it reaches certificates of which neither the fingerprint nor the user is told."""
    return _needs_list(reach.targets) and reach.matched > len(reach.listed)


def _unknown(reach: Reach) -> bool:
    """Whether a serial number or key is named of which no certificate was found, or a period in which none was."""
    targets = reach.targets
    numbers = {(entry.issuer_key, entry.serial) for entry in reach.found}
    named = {(group.issuer, number) for group in targets.serials for number in group.numbers}
    keys = set(targets.keys) - {entry.key for entry in reach.found}
    return bool(named - numbers or keys or (targets.periods and not reach.found))


def _names_nothing_known(reach: Reach) -> bool:
    """Whether there is neither a user nor a fingerprint by which a kube-apiserver could refuse anybody."""
    targets = reach.targets
    return not (targets.users or targets.nodes or targets.certificates or reach.listed)
