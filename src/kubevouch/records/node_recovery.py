"""Recovery of nodes whose certificate has ended: names, the record of a node, and what a use of a recovery key means.

RecoveryRecordError        a ConfigMap that holds no record
RecoveryRefusedError       the key gives no certificate
├── CloneError             … because it was replaced before, or is not the node's: two machines have one identity
├── RecoveryBudgetError    … yet: the budget is used up; ``retry_after`` says for how long
└── KeyReplacedError       … any more: whoever asks holds the next one, which is the registered key now

Source: kubevouch's own; docs/adr/0010-recovery-is-a-request-of-its-own-user.md.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Mapping, Sequence

import msgspec

from kubevouch import wellknown
from kubevouch.api.certificates_v1 import CertificateSigningRequest, CertificateSigningRequestSpec
from kubevouch.api.core_v1 import ConfigMap
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.machinery.text.gotext import human_duration
from kubevouch.pki.errors import ParseError
from kubevouch.pki.node_user import checked_node_name, node_name_of
from kubevouch.pki.recognizers import RECOVERY_USER_PREFIX
from kubevouch.pki.x509 import x509_request
from kubevouch.pki.x509.public_key import PublicKey

NAMESPACE = "kubevouch-system"
"""Of the records, and of nothing that another program writes."""
SECRET = "node-recovery"
"""In :data:`NAMESPACE`: the key with which the API servers sign challenges and sessions, under :data:`SECRET_KEY`."""
SECRET_KEY = "hmac"

RECOVERERS_GROUP = "kubevouch:recoverers"
ALLOWED_ANNOTATION = "recovery.kubevouch.io/allowed"
"""Of cluster-info: whether a node need bother to register a key."""
KEYS_ANNOTATION = "recovery.kubevouch.io/keys"
"""Of a node's request: the digests of the recovery keys it has, the registered one or its successor among them."""
KEY_EXTRA = "recovery.kubevouch.io/key"
NEXT_KEY_EXTRA = "recovery.kubevouch.io/next-key"
REQUEST_EXTRA = "recovery.kubevouch.io/request"
LOCKED_LABEL = "recovery.kubevouch.io/locked"

CHALLENGE_PATH = "/recovery/v1/challenge"
SESSION_PATH = "/recovery/v1/session"

_RECORD_KEY = "record"
_PREFIX = "node-recovery."
_MAX_NAME = 253
_MAX_FORMER = 100
_MAX_LISTED = 2
_DIGEST_LENGTH = 64


class RecoveryRecordError(ValueError):
    """A ConfigMap that holds no record."""


class RecoveryRefusedError(Exception):
    """The key gives no certificate; the text says why."""


class CloneError(RecoveryRefusedError):
    """Two machines have one identity."""


class RecoveryBudgetError(RecoveryRefusedError):
    """The budget is used up for ``retry_after``."""

    def __init__(self, message: str, retry_after: dt.timedelta) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class KeyReplacedError(RecoveryRefusedError):
    """The next key is the registered one already."""


class RecoveryPolicy(msgspec.Struct, frozen=True):
    """What a cluster allows.

    Args:
        uses: how often a node may recover within ``window``; one at least.
        max_age: for how long its certificate may have ended.
    """

    uses: int = 3
    window: dt.timedelta = dt.timedelta(days=30)
    max_age: dt.timedelta = dt.timedelta(days=400)


class Record(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel", kw_only=True):
    """What is known of a node's recovery key. Keys are hexadecimal SHA-256 of the SubjectPublicKeyInfo.

    Args:
        changed: when the request came by which the key was registered, or the key was replaced.
        former: keys that were replaced, oldest first.
        uses: when certificates were given, oldest first.
        request: digest of the public key that the last of them was for.
        locked: why nobody recovers with it; empty where somebody may.
    """

    node: str
    key: str
    changed: dt.datetime
    former: tuple[str, ...] = ()
    uses: tuple[dt.datetime, ...] = ()
    request: str = ""
    locked: str = ""
    locked_at: dt.datetime | None = None


class Use(msgspec.Struct, frozen=True):
    """A proven wish to recover, all of it digests."""

    key: str
    next_key: str
    request: str


# ------------------------------------------------------------------ the record


def digest(key: PublicKey) -> str:
    return key.fingerprint().hex()


def record_name(node_name: str) -> str:
    """The name of the ConfigMap."""
    name = f"{_PREFIX}{node_name}"
    return name if len(name) <= _MAX_NAME else f"{_PREFIX}{hashlib.sha256(node_name.encode()).hexdigest()}"


def config_map(record: Record, stored: ConfigMap | None = None) -> ConfigMap:
    """``record`` in the ConfigMap that is there, or in another one."""
    labels = {LOCKED_LABEL: "true"} if record.locked else {}
    content = {_RECORD_KEY: msgspec.json.encode(record).decode()}
    if stored is None:
        meta = ObjectMeta(name=record_name(record.node), namespace=NAMESPACE, labels=labels)
        return ConfigMap(metadata=meta, data=content)
    kept = {key: value for key, value in stored.metadata.labels.items() if key != LOCKED_LABEL}
    meta = msgspec.structs.replace(stored.metadata, labels=kept | labels)
    return msgspec.structs.replace(stored, metadata=meta, data=content)


def is_record(stored: ConfigMap) -> bool:
    """By its name."""
    return stored.metadata.namespace == NAMESPACE and stored.metadata.name.startswith(_PREFIX)


def record_of(stored: ConfigMap) -> Record:
    """Raises :class:`RecoveryRecordError`."""
    try:
        return msgspec.json.decode(stored.data.get(_RECORD_KEY, ""), type=Record)
    except msgspec.MsgspecError as err:
        raise RecoveryRecordError(f"{stored.metadata.name} holds no recovery record: {err}") from err


# ------------------------------------------------------------------ decisions


def use(record: Record | None, wanted: Use, policy: RecoveryPolicy, *, now: dt.datetime) -> Record:
    """The record once ``wanted`` is granted; the same one if it has been before.

    Raises:
        RecoveryRefusedError: it is not granted.
    """
    if record is None:
        raise RecoveryRefusedError("no recovery key is registered for this node")
    if record.locked:
        raise RecoveryRefusedError(f"recovery of this node is locked: {record.locked}")
    if record.key == wanted.next_key and wanted.key in record.former[-1:]:
        # Whoever holds both is who replaced the one by the other, and did not hear of it.
        if record.request == wanted.request:
            return record
        raise KeyReplacedError("the recovery key has been replaced by the next one, which this machine holds")
    if wanted.key in record.former or wanted.next_key in record.former:
        raise CloneError("the recovery key was used before and has been replaced: another machine has a copy of it")
    if wanted.key != record.key:
        raise RecoveryRefusedError("the recovery key is not the one that is registered for this node")
    recent = tuple(each for each in record.uses if each > now - policy.window)
    if len(recent) >= policy.uses:
        raise RecoveryBudgetError(
            f"this node has recovered {len(recent)} times within {human_duration(policy.window.total_seconds())}, and "
            f"{policy.uses} times are allowed",
            recent[-policy.uses] + policy.window - now,
        )
    return msgspec.structs.replace(
        record,
        key=wanted.next_key,
        changed=now,
        former=(*record.former, record.key)[-_MAX_FORMER:],
        uses=(*recent, now),
        request=wanted.request,
    )


def register(
    record: Record | None, node_name: str, keys: Sequence[str], *, joined: bool, asked: dt.datetime
) -> Record | None:
    """The record once a request has named ``keys``; None if nothing changes.

    Args:
        keys: those that the node has, the one to register first.
        joined: the request is a join, not of the node's own identity: whoever may let machines in may change the key.
        asked: when it was created. A request that is older than the record is no news.

    Raises:
        CloneError: the node's identity is used with a recovery key that is not its own, or not any more.
    """
    if record is None:
        return Record(node=node_name, key=keys[0], changed=asked)
    if asked <= record.changed or record.key in keys:
        return None
    if any(each in record.former for each in keys):
        raise CloneError("a machine of this name has a recovery key that was replaced: it is a copy, or was restored")
    if not joined:
        raise CloneError("a machine of this name has another recovery key than the registered one")
    former = (*record.former, record.key)[-_MAX_FORMER:]
    return msgspec.structs.replace(record, key=keys[0], changed=asked, former=former, request="")


def lock(record: Record, why: str, *, now: dt.datetime) -> Record:
    """Nobody recovers with it until :func:`unlock`. The first reason stays."""
    return record if record.locked else msgspec.structs.replace(record, locked=why, locked_at=now)


def unlock(record: Record) -> Record:
    return msgspec.structs.replace(record, locked="", locked_at=None)


# ------------------------------------------------------------------ requests


def node_of_user(username: str) -> str:
    """The node that a recovering user stands for; empty for everybody else."""
    return checked_node_name(username.removeprefix(RECOVERY_USER_PREFIX)) if is_recovering(username) else ""


def is_recovering(username: str) -> bool:
    return username.startswith(RECOVERY_USER_PREFIX)


def user_extra(wanted: Use) -> dict[str, tuple[str, ...]]:
    """What the API server stamps on the requests of a recovering user."""
    return {KEY_EXTRA: (wanted.key,), NEXT_KEY_EXTRA: (wanted.next_key,), REQUEST_EXTRA: (wanted.request,)}


def verify_request(spec: CertificateSigningRequestSpec, username: str, extra: Mapping[str, Sequence[str]]) -> Use:
    """What a recovering user wants, once the request is the one that its session is for.

    Raises:
        RecoveryRefusedError: it is another request, or the user was not let in by kubevouch's API server.
    """
    try:
        request = x509_request.parse_pem(spec.request or b"")
    except ParseError as err:
        raise RecoveryRefusedError(f"the request cannot be read: {err}") from err
    found = [list(extra.get(name, ())) for name in (KEY_EXTRA, NEXT_KEY_EXTRA, REQUEST_EXTRA)]
    if any(len(values) != 1 for values in found):
        raise RecoveryRefusedError("the API server does not say which recovery key was used")
    wanted = Use(*(values[0] for values in found))
    node_user = f"{wellknown.NODE_USER_PREFIX}{node_of_user(username)}"
    if (
        spec.signer_name != wellknown.KUBE_APISERVER_CLIENT_KUBELET_SIGNER
        or request.subject.common_name != node_user
        or digest(request.public_key) != wanted.request
    ):
        raise RecoveryRefusedError(
            f"a recovery gives {node_user} a client certificate for the proven key, and no other"
        )
    return wanted


class Registration(msgspec.Struct, frozen=True):
    """What a request says of a node's recovery keys."""

    node_name: str
    keys: tuple[str, ...]
    joined: bool
    asked: dt.datetime


def registration_of(csr: CertificateSigningRequest) -> Registration | None:
    """None for a request that registers nothing, or nothing yet: a join does so once it has its certificate."""
    listed = tuple(csr.metadata.annotations.get(KEYS_ANNOTATION, "").split(","))[:_MAX_LISTED]
    created, username = csr.metadata.creation_timestamp, csr.spec.username
    if created is None or is_recovering(username) or not all(map(_is_digest, listed)):
        return None
    if username.startswith(wellknown.NODE_USER_PREFIX):
        node = node_name_of(username)
        return Registration(node, listed, joined=False, asked=created.datetime()) if node else None
    is_client = csr.spec.signer_name == wellknown.KUBE_APISERVER_CLIENT_KUBELET_SIGNER
    if not is_client or not csr.status.certificate:
        return None
    try:
        name = x509_request.parse_pem(csr.spec.request or b"").subject.common_name
    except ParseError:
        return None
    node = node_name_of(name)
    return Registration(node, listed, joined=True, asked=created.datetime()) if node else None


def _is_digest(text: str) -> bool:
    return len(text) == _DIGEST_LENGTH and all(each in "0123456789abcdef" for each in text)
