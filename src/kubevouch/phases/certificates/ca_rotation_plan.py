"""A CA rotation as states, what has to be true before the next one, and what is in the way: decisions only.

Preparing → Distributing → Renewing → Finishing → Finished. Before anything was signed by the next CA, a rollback goes
by Withdrawing to Withdrawn. Afterwards it turns round: Renewing again, back to the former CA, and then on as ever.

A phase is written down before its files are changed, so that what is written is never behind what has happened. All
that belongs to a phase can be done again.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from enum import StrEnum

import msgspec
from msgspec.structs import replace

from kubevouch.agent.trust_bundle import bundle_hash
from kubevouch.machinery.text.times import Time
from kubevouch.pki.client_certificate import is_issued_by
from kubevouch.pki.x509 import x509_certificate
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.records.ca_rotation import RenewalOrder, fingerprint
from kubevouch.records.certificate_ledger import IssuedCertificate

DEFAULT_WINDOW = dt.timedelta(hours=6)
"""Longer than agents take to hear of it, which is a quarter of an hour as a rule."""
COMMAND = "kubevouch ca rotate"


class Phase(StrEnum):
    """The values are what the cluster stores."""

    PREPARING = "Preparing"
    DISTRIBUTING = "Distributing"
    RENEWING = "Renewing"
    FINISHING = "Finishing"
    FINISHED = "Finished"
    WITHDRAWING = "Withdrawing"
    WITHDRAWN = "Withdrawn"


OVER = frozenset({Phase.FINISHED, Phase.WITHDRAWN})


class Rotation(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What the cluster stores of a rotation.

    Args:
        since: when the phase began.
        former: the CA that signed before, in PEM; empty until it has been looked at, as ``next`` is.
        backwards: the former CA takes over again.
        renewal_begins: when machines begin to renew.
        given_up: machines and common names that nobody waits for.
    """

    phase: Phase
    since: dt.datetime
    began: dt.datetime
    former: str = ""
    next: str = ""
    backwards: bool = False
    paused: bool = False
    window_seconds: int = int(DEFAULT_WINDOW.total_seconds())
    renewal_begins: dt.datetime | None = None
    given_up: tuple[str, ...] = ()

    @property
    def over(self) -> bool:
        return self.phase in OVER

    @property
    def former_certificate(self) -> Certificate:
        return x509_certificate.parse_pem(self.former.encode())

    @property
    def next_certificate(self) -> Certificate:
        return x509_certificate.parse_pem(self.next.encode())

    @property
    def coming(self) -> Certificate:
        """The CA that stays in the end."""
        return self.former_certificate if self.backwards else self.next_certificate

    @property
    def leaving(self) -> Certificate:
        return self.next_certificate if self.backwards else self.former_certificate

    @property
    def bundle(self) -> tuple[Certificate, ...]:
        """What is trusted in this phase, the CA that signs first; empty while nothing has changed yet."""
        match self.phase:
            case Phase.PREPARING:
                return ()
            case Phase.DISTRIBUTING:
                return (self.former_certificate, self.next_certificate)
            case Phase.RENEWING:
                return (self.coming, self.leaving)
            case Phase.FINISHING | Phase.FINISHED:
                return (self.coming,)
            case _:
                return (self.former_certificate,)

    @property
    def order(self) -> RenewalOrder | None:
        """What agents are told."""
        if self.phase is not Phase.RENEWING or self.paused or self.renewal_begins is None:
            return None
        return RenewalOrder(
            authority=fingerprint(self.coming.fingerprint()),
            begins=self.renewal_begins,
            window_seconds=self.window_seconds,
        )

    def enter(self, phase: Phase, now: dt.datetime) -> Rotation:
        return msgspec.structs.replace(self, phase=phase, since=now)


class Facts(msgspec.Struct, frozen=True):
    """What was seen.

    Args:
        machines: by node name, the hash of the trust bundle that it has reported; empty if it has not.
        issued: what the ledger and the requests know, without what has ended.
        own: certificates that are in use here, by what they are called: files, and this command's credential.
        published: the hash of the bundle that pods get; empty where none is published.
        ledger_since: when somebody began to keep a ledger; None if nobody does.
        outdated: addresses of this machine that still serve a certificate which has been renewed.
    """

    machines: Mapping[str, str]
    issued: Sequence[IssuedCertificate]
    own: Mapping[str, Certificate]
    published: str
    ledger_since: dt.datetime | None
    outdated: Sequence[str] = ()


class Obstacle(msgspec.Struct, frozen=True):
    """Who is in the way, and why."""

    name: str
    why: str


def _waited_for(rotation: Rotation, facts: Facts) -> list[str]:
    return sorted(facts.machines.keys() - set(rotation.given_up))


def laggards(rotation: Rotation, facts: Facts) -> list[Obstacle]:
    """Who does not trust both CAs yet, so that the next one may not sign."""
    if not rotation.next:
        return []
    both = bundle_hash((rotation.former_certificate, rotation.next_certificate))
    found = []
    if facts.published not in ("", both):
        why = "ConfigMap kube-root-ca.crt lacks the next CA; kube-controller-manager reads ca.crt only when it starts"
        found.append(Obstacle("pods", why))
    for name in _waited_for(rotation, facts):
        if not facts.machines[name]:
            found.append(Obstacle(name, "has not reported what it trusts"))
        elif facts.machines[name] != both:
            found.append(Obstacle(name, f"trusts {facts.machines[name][:19]}…, expected {both[:19]}…"))
    return found


def hanging(rotation: Rotation, facts: Facts, now: dt.datetime) -> list[Obstacle]:
    """Whose certificate still depends on the CA that is to go."""
    if not rotation.next:
        return []
    leaving = (rotation.leaving.meaning.subject_key_id or b"").hex()
    found = [
        Obstacle(name, f"is signed by the CA that goes, until {Time.of(leaf.not_after)}")
        for name, leaf in facts.own.items()
        if leaf.not_after >= now and is_issued_by(leaf, rotation.leaving)
    ]
    found += [Obstacle(where, "still serves a certificate that has been renewed") for where in facts.outdated]
    seen: set[str] = set()
    for entry in sorted(facts.issued, key=lambda each: (each.common_name, each.signer_name)):
        name = entry.machine or entry.common_name
        if entry.not_after < now:
            continue
        seen.add(entry.machine)
        # Without a key identifier nobody can tell whose it is.
        if entry.authority in ("", leaving) and name not in rotation.given_up:
            what = entry.signer_name.rpartition("/")[2]
            found.append(
                Obstacle(name, f"has a {what} certificate of the CA that goes, until {Time.of(entry.not_after)}")
            )
    found += [
        Obstacle(name, "has a certificate that the ledger does not know")
        for name in _waited_for(rotation, facts)
        if name not in seen
    ]
    if facts.ledger_since is None:
        found.append(Obstacle("ledger", "nobody writes down what is issued; run certificate-ledger-controller"))
    return found


def unknown_before(rotation: Rotation, facts: Facts) -> str:
    """A warning about certificates that nobody can have written down; empty if there are none."""
    if facts.ledger_since is None or not rotation.next or facts.ledger_since <= rotation.leaving.not_before:
        return ""
    return (
        f"certificates that were issued to others than machines before {Time.of(facts.ledger_since)} are not in the "
        "ledger; whoever has one loses it"
    )


class Standing(msgspec.Struct, frozen=True):
    """A rotation in plain words.

    Args:
        obstacles: to the next phase.
        ready: how many machines have done what the phase asks for, of ``total``.
        then: what comes next.
        command: what does it; empty when there is nothing to do but to wait.
    """

    words: str
    ready: int
    total: int
    obstacles: tuple[Obstacle, ...] = ()
    then: str = ""
    command: str = ""
    warning: str = ""


def standing(rotation: Rotation | None, facts: Facts, now: dt.datetime) -> Standing:
    """Where the rotation stands and what to do."""
    total = len(facts.machines)
    if rotation is None:
        return Standing("no CA rotation has been started", 0, total, then="make another CA", command=f"{COMMAND} start")
    told = _going(rotation, facts, now)
    if not rotation.paused or rotation.over:
        return told
    return replace(told, words=f"paused: {told.words}", then="go on", command=f"{COMMAND} start")


def _going(rotation: Rotation, facts: Facts, now: dt.datetime) -> Standing:
    total = len(facts.machines)
    start = f"{COMMAND} start"
    match rotation.phase:
        case Phase.PREPARING:
            return Standing("the next CA is being made", 0, total, then="publish both CAs", command=start)
        case Phase.DISTRIBUTING:
            late = tuple(laggards(rotation, facts))
            ready = total - sum(each.name in facts.machines for each in late)
            return Standing(
                "both CAs are published, the former one signs", ready, total, late, "have the next CA sign", start
            )
        case Phase.RENEWING:
            late = tuple(hanging(rotation, facts, now))
            ready = total - len({each.name for each in late} & facts.machines.keys())
            which = "former" if rotation.backwards else "next"
            words = f"both CAs are trusted, the {which} one signs, and machines renew their certificates"
            left = "next" if rotation.backwards else "former"
            then, command = (f"give up the {left} CA", f"{COMMAND} finish")
            return Standing(words, ready, total, late, then, command, unknown_before(rotation, facts))
        case Phase.FINISHING:
            return Standing("one CA is being given up", total, total, then="finish that", command=f"{COMMAND} finish")
        case Phase.WITHDRAWING:
            return Standing(
                "the next CA is being withdrawn", 0, total, then="finish that", command=f"{COMMAND} rollback"
            )
        case Phase.FINISHED:
            return Standing("the rotation is over, one CA is trusted", total, total)
        case _:
            return Standing("the rotation was rolled back, the former CA is trusted alone", total, total)
