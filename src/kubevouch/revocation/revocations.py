"""What is revoked now: the one place that is asked about a certificate, at every request and before each renewal.

Compiled from CertificateRevocations and from the lock-outs of nodes. A question is a few look-ups in dicts, whatever
the number of what is revoked.

Source: kubevouch's own; docs/adr/0026-a-revocation-is-never-made-weaker-unseen.md.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import itertools
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import msgspec

from kubevouch.api.kubevouch_v1alpha1.certificate_revocations import HOLD, CertificateRevocation, IssuedNumbers
from kubevouch.ledger.entries import Entry
from kubevouch.machinery.text.times import Time
from kubevouch.pki.node_user import node_name_of
from kubevouch.pki.x509.certificate_builder import key_identifier
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.revocation.node_records import Lockouts, issued_at
from kubevouch.wellknown import BOOTSTRAP_USER_PREFIX, NODE_USER_PREFIX

K = TypeVar("K", bound=Hashable)

# What may stand in a status is not bounded by a pattern.
_MAX_SERIAL_DIGITS = 40
_EVER = dt.datetime.max.replace(tzinfo=dt.UTC)


class Mark(msgspec.Struct, frozen=True, gc=False):
    """By what a certificate can be revoked.

    Args:
        issuer: the key identifier of the certificate that has verified this one, not what this one says of it.
        fingerprint: SHA-256 of the certificate.
        key: SHA-256 of its SubjectPublicKeyInfo, as Go writes it.
    """

    issuer: bytes
    serial: int
    fingerprint: bytes
    key: bytes
    user: str
    issued: dt.datetime


def mark_of(certificate: Certificate, issuer: bytes) -> Mark:
    return Mark(
        issuer,
        certificate.serial,
        certificate.fingerprint(),
        hashlib.sha256(certificate.public_key.canonical_info).digest(),
        certificate.subject.common_name,
        issued_at(certificate),
    )


def mark_in(entry: Entry) -> Mark:
    """Of a certificate of which no more is known than what is written down of it."""
    digest = hashlib.sha256(entry.certificate).digest() if entry.certificate else b""
    serial = int(entry.serial, 16) if _is_number(entry.serial) else 0
    return Mark(_octets(entry.issuer_key), serial, digest, _octets(entry.key), entry.subject, entry.at)


def marks_of(chain: Sequence[Certificate]) -> tuple[Mark, ...]:
    """Of the certificates between a client and the anchor: with one of them, all below it are revoked.

    Args:
        chain: verified, the client's own first and the anchor last; an anchor that is the client's own stands alone.
    """
    links = itertools.pairwise(chain) if len(chain) > 1 else ((chain[0], chain[0]),)
    return tuple(mark_of(certificate, authority_id(issuer)) for certificate, issuer in links)


def authority_id(authority: Certificate) -> bytes:
    """By which an issuer is named: its subject key identifier, or what it would be (RFC 7093)."""
    return authority.meaning.subject_key_id or key_identifier(authority.public_key)


class Revoked(msgspec.Struct, frozen=True, gc=False):
    """That something is revoked, by the CertificateRevocation ``name``.

    Args:
        until: what it says of names is about what was issued until then.
        told: all that, as a sentence: each refusal of a flood tells it.
    """

    name: str
    reason: str
    at: dt.datetime
    until: dt.datetime
    message: str = ""
    told: str = ""

    def __str__(self) -> str:
        return self.told


def revoked_by(obj: CertificateRevocation) -> Revoked:
    spec, created = obj.spec, obj.metadata.creation_timestamp
    made = _EVER if created is None else created.datetime()
    at = made if spec.revoked_at is None else min(spec.revoked_at.datetime(), made)
    until = made if spec.revoked.issued_until is None else spec.revoked.issued_until.datetime()
    name, message = obj.metadata.name, _plain(spec.message)
    why = f": {message}" if message else ""
    told = f"{name} has revoked it since {Time.of(at)} ({spec.reason}){why}"
    return Revoked(name, spec.reason, at, until, message, told)


def _plain(text: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in text)


def numbers(listed: Iterable[IssuedNumbers]) -> Iterator[tuple[bytes, int]]:
    """Issuers and serial numbers; what is none is left out."""
    for group in listed:
        issuer = _octets(group.issuer)
        for text in group.numbers if issuer else ():
            if len(text) <= _MAX_SERIAL_DIGITS and (serial := _octets(text.zfill(len(text) + len(text) % 2))):
                yield issuer, int.from_bytes(serial)


def _is_number(text: str) -> bool:
    return 0 < len(text) <= _MAX_SERIAL_DIGITS and all(char in "0123456789abcdef" for char in text)


def _octets(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        return b""


class _Index(dict[K, Revoked | tuple[Revoked, ...]]):
    """What revokes a value. Nearly always it is one object, which stands by itself: a list for each takes room."""

    __slots__ = ()

    def add(self, key: K, revoked: Revoked) -> None:
        known = self.get(key)
        if known is None:
            self[key] = revoked
        else:
            self[key] = (*_all(known), revoked)

    def drop(self, key: K, revoked: Revoked) -> None:
        left = tuple(each for each in _all(self.get(key, ())) if each is not revoked)
        if left:
            self[key] = left[0] if len(left) == 1 else left
        else:
            self.pop(key, None)


def _all(found: Revoked | tuple[Revoked, ...]) -> tuple[Revoked, ...]:
    return found if isinstance(found, tuple) else (found,)


def _gravest(found: Iterable[Revoked]) -> Revoked | None:
    """What stays when a hold is lifted counts before the hold, then what was revoked first."""
    return min(found, key=lambda each: (each.reason == HOLD, each.at, each.name), default=None)


class Revocations:
    """Fed with objects as they are and as they change."""

    def __init__(self) -> None:
        self.lockouts = Lockouts()
        self._objects: dict[str, tuple[CertificateRevocation, Revoked]] = {}
        # What the server has lost, although nobody has taken it back.
        self._kept: dict[str, tuple[CertificateRevocation, Revoked]] = {}
        self._serials: dict[bytes, _Index[int]] = {}
        self._certificates: _Index[bytes] = _Index()
        self._keys: _Index[bytes] = _Index()
        self._users: _Index[str] = _Index()
        self._requesters: _Index[str] = _Index()
        self._periods: list[tuple[bytes, dt.datetime, dt.datetime, Revoked]] = []
        self._of_tokens: dict[int, Revoked] = {}
        self._listeners: list[Callable[[], None]] = []
        self.changes = 0
        """Another number once something is revoked, or is no more."""
        self.refused = 0
        """Answers of :meth:`why` that refused somebody."""
        self.unread: set[str] = set()
        """Keys of stored revocations that cannot be read: whom they are about is not known."""
        self.loaded: Callable[[], bool] = lambda: False

    @property
    def has_loaded(self) -> bool:
        """Whether what there is was told: before, an empty set says nothing."""
        return self.loaded()

    @classmethod
    def none(cls) -> Revocations:
        """Where nothing can be revoked."""
        found = cls()
        found.load(())
        return found

    def on_change(self, listener: Callable[[], None]) -> None:
        """Have ``listener`` called once something is revoked, or is no more."""
        self._listeners.append(listener)

    @contextmanager
    def told_meanwhile(self) -> Iterator[None]:
        """Who begins to listen inside hears nothing any more afterwards."""
        known = list(self._listeners)
        try:
            yield
        finally:
            self._listeners = known

    def tell(self) -> None:
        """Something has changed; for whoever changes the lock-outs."""
        self.changes += 1
        for listener in self._listeners:
            listener()

    # -------------------------------------------------------------- objects

    def load(self, objects: Iterable[CertificateRevocation]) -> None:
        """Start from all there are. What was known is not forgotten before what takes its place is there."""
        fresh = Revocations()
        for obj in objects:
            fresh.add(obj)
        self.take(fresh)

    def add(self, obj: CertificateRevocation) -> None:
        """One more of those of which none is known yet; nobody is told."""
        self._add(obj)

    def take(self, fresh: Revocations) -> None:
        """Have what ``fresh`` has, which was filled meanwhile, in place of all that was known."""
        self._objects, self._serials, self._certificates = fresh._objects, fresh._serials, fresh._certificates
        self._keys, self._users, self._periods = fresh._keys, fresh._users, fresh._periods
        self._requesters, self.loaded = fresh._requesters, lambda: True
        self._of_tokens = fresh._of_tokens
        for obj, revoked in self._kept.values():
            self._index(obj, revoked)
        for obj, _ in list(self._objects.values()):
            self._drop_covered(obj)
        self.tell()

    def changed(self, name: str, obj: CertificateRevocation | None) -> None:
        """The object of this name is now this, or gone."""
        known = self._objects.get(name)
        if known is not None and obj is not None and _says(known[0]) == _says(obj):
            self._objects[name] = obj, known[1]
            return
        former = self._objects.pop(name, None)
        if obj is not None:
            self._add(obj)
        if former is not None:
            self._drop(*former)
        if obj is not None:
            self._drop_covered(obj)
        self.tell()

    def keep(self, obj: CertificateRevocation) -> None:
        """The server has lost it and nobody has taken it back: it counts until the same is there again."""
        self.keep_no_more(obj.metadata.name)
        revoked = revoked_by(obj)
        self._kept[obj.metadata.name] = obj, revoked
        self._index(obj, revoked)
        self.tell()

    def keep_no_more(self, name: str) -> None:
        """It was put back, or taken back."""
        former = self._kept.pop(name, None)
        if former is not None:
            self._drop(*former)
            self.tell()

    def covers(self, obj: CertificateRevocation) -> bool:
        """Whether an object of this name revokes all that ``obj`` does."""
        found = self._objects.get(obj.metadata.name)
        return found is not None and _covers(found[0], obj)

    def _drop_covered(self, obj: CertificateRevocation) -> None:
        """What was kept, once an object that says as much is there."""
        kept = self._kept.get(obj.metadata.name)
        if kept is not None and _covers(obj, kept[0]):
            del self._kept[obj.metadata.name]
            self._drop(*kept)

    def _add(self, obj: CertificateRevocation) -> None:
        revoked = revoked_by(obj)
        self._objects[obj.metadata.name] = obj, revoked
        self._index(obj, revoked)

    def _index(self, obj: CertificateRevocation, revoked: Revoked) -> None:
        for index, key in self._entries(obj):
            index.add(key, revoked)
        if obj.spec.revoked.tokens:
            self._of_tokens[id(revoked)] = revoked
        for period in obj.spec.revoked.periods:
            if period.since is not None and period.until is not None:
                issuer = _octets(period.issuer)
                self._periods.append((issuer, period.since.datetime(), period.until.datetime(), revoked))

    def _drop(self, obj: CertificateRevocation, revoked: Revoked) -> None:
        for index, key in self._entries(obj):
            index.drop(key, revoked)
        self._of_tokens.pop(id(revoked), None)
        self._periods = [each for each in self._periods if each[3] is not revoked]

    def _entries(self, obj: CertificateRevocation) -> Iterator[tuple[_Index[object], object]]:
        targets, status = obj.spec.revoked, obj.status
        for issuer, serial in numbers((*targets.serials, *status.serials)):
            yield self._serials.setdefault(issuer, _Index()), serial  # type: ignore[misc]
        for text in (*targets.certificates, *status.certificates):
            yield self._certificates, _octets(text)  # type: ignore[misc]
        for text in targets.keys:
            yield self._keys, _octets(text)  # type: ignore[misc]
        for user in (*targets.users, *(f"{NODE_USER_PREFIX}{node}" for node in targets.nodes)):
            yield self._users, user  # type: ignore[misc]
        for requester in (*targets.requesters, *(f"{BOOTSTRAP_USER_PREFIX}{token}" for token in targets.tokens)):
            yield self._requesters, requester  # type: ignore[misc]

    # -------------------------------------------------------------- questions

    def __len__(self) -> int:
        """How many objects there are, with those that the server has lost."""
        return len(self._objects) + len(self._kept.keys() - self._objects.keys())

    def __iter__(self) -> Iterator[Revoked]:
        """Each object's own."""
        lost = (revoked for name, (_, revoked) in self._kept.items() if name not in self._objects)
        return itertools.chain((revoked for _, revoked in self._objects.values()), lost)

    def object(self, name: str) -> CertificateRevocation | None:
        """As it was told last, also if the server has lost it since."""
        found = self._objects.get(name) or self._kept.get(name)
        return None if found is None else found[0]

    @property
    def values(self) -> int:
        """How many serial numbers, fingerprints, keys and names are revoked."""
        named = sum(map(len, (self._certificates, self._keys, self._periods)))
        named += len(self._users) + len(self._requesters)
        return named + sum(len(index) for index in self._serials.values())

    def find(self, mark: Mark) -> Revoked | None:
        """What has revoked the certificate; None for one that counts."""
        if not self._objects and not self._kept:
            return None
        serials = self._serials.get(mark.issuer)
        hits = (
            None if serials is None else serials.get(mark.serial),
            self._certificates.get(mark.fingerprint),
            self._keys.get(mark.key),
        )
        found = [each for hit in hits if hit is not None for each in _all(hit)]
        found += [each for each in _all(self._users.get(mark.user, ())) if mark.issued <= each.until]
        for issuer, since, until, revoked in self._periods:
            if since <= mark.issued <= until and (not issuer or issuer == mark.issuer):
                found.append(revoked)
        return _gravest(found) if found else None

    def why(self, marks: Sequence[Mark]) -> str:
        """Why a client whose certificates have these marks is refused; empty for one that is not."""
        for mark in marks:
            revoked = self.find(mark)
            if revoked is not None:
                self.refused += 1
                return str(revoked)
        if not self.lockouts:
            return ""
        locked = self.lockouts.of(node_name_of(marks[0].user), marks[0].issued)
        self.refused += bool(locked)
        return locked

    def key(self, fingerprint: bytes) -> Revoked | None:
        """What has revoked every certificate of a key."""
        return _gravest(_all(self._keys.get(fingerprint, ())))

    def certificate(self, fingerprint: bytes) -> Revoked | None:
        """What has revoked a certificate of which nothing else is known."""
        return _gravest(_all(self._certificates.get(fingerprint, ())))

    def user(self, name: str, issued: dt.datetime) -> Revoked | None:
        """What has revoked a user's certificates of that time."""
        return _gravest(each for each in _all(self._users.get(name, ())) if issued <= each.until)

    def requester(self, name: str, asked: dt.datetime) -> Revoked | None:
        """What has revoked everything that a user, or a bootstrap token, has asked for until that time."""
        return _gravest(each for each in _all(self._requesters.get(name, ())) if asked <= each.until)

    def about(self, mark: Mark, requester: str, asked: dt.datetime) -> set[str]:
        """The names of the revocations that may reach a certificate which has just become known.

        Args:
            requester: who has asked for it, at ``asked``. What a token has let in renews by itself, so that each
                revocation of a token is one.
        """
        serials = self._serials.get(mark.issuer)
        hits = (
            () if serials is None else serials.get(mark.serial, ()),
            self._certificates.get(mark.fingerprint, ()),
            self._keys.get(mark.key, ()),
        )
        found = {each.name for hit in hits for each in _all(hit)}
        named = (
            *_all(self._users.get(mark.user, ())),
            *_all(self._requesters.get(requester, ())),
            *self._of_tokens.values(),
        )
        found |= {each.name for each in named if asked <= each.until}
        found |= {each.name for _, since, until, each in self._periods if since <= mark.issued <= until}
        return found

    def node(self, name: str, issued: dt.datetime) -> str:
        """Why what was given to a node at that time counts no more, certificate or token; empty if it does."""
        revoked = self.user(f"{NODE_USER_PREFIX}{name}", issued)
        return self.lockouts.of(name, issued) if revoked is None else str(revoked)

    def serial(self, issuer: bytes, serial: int) -> Revoked | None:
        """What has revoked the certificate of that number."""
        known = self._serials.get(issuer)
        return None if known is None else _gravest(_all(known.get(serial, ())))

    def serials(self, issuer: bytes) -> Sequence[int]:
        """The revoked serial numbers of one issuer: what its CRL is about."""
        return tuple(self._serials.get(issuer, ()))


def _covers(obj: CertificateRevocation, kept: CertificateRevocation) -> bool:
    """Whether ``obj`` revokes all that ``kept`` does."""
    one, other = (msgspec.structs.replace(each.spec.revoked, issued_until=None) for each in (obj, kept))
    return one == other and revoked_by(obj).until >= revoked_by(kept).until


def _says(obj: CertificateRevocation) -> tuple[object, ...]:
    """What of an object decides: a status that tells nothing new is not a change."""
    return obj.spec, obj.status.serials, obj.status.certificates
