"""The provider ``kms``: a plug-in holds the key that encrypts seeds, and each value has a key of its own from a seed.

A seed is made by this process and encrypted by the plug-in once; it encrypts all that is written until the plug-in
names another key. Seeds that others have made are decrypted by the plug-in when a value of theirs is first read.

Source: k8s.io/apiserver/pkg/storage/value/encrypt/envelope/kmsv2 and pkg/server/options/encryptionconfig/config.go
(Kubernetes 1.36). Reads need no plug-in that is well, writes one that was three minutes ago.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import hashlib
import hmac
import os
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from kubevouch.machinery.codec import protobuf
from kubevouch.machinery.text import names
from kubevouch.machinery.text.times import Time
from kubevouch.storage.encryption.ciphers import TOO_SHORT, GCMCipher, KeyCipher
from kubevouch.storage.encryption.interface import Read, SeedMissing, TransformError, aggregate
from kubevouch.storage.encryption.kms_messages import (
    AES_GCM_KEY,
    HKDF_SEED,
    EncryptedObject,
    EncryptResponse,
    StatusResponse,
)
from kubevouch.storage.encryption.kms_service import KMSRecorder, KMSService
from kubevouch.util.clock import Clock
from kubevouch.util.logger import get_logger

log = get_logger("storage.kms")

POLL_SECONDS = 60.0
POLL_SECONDS_WHEN_BAD = 10.0
# Probes of readiness come from outside: what was found is told for so long.
PROBE_SECONDS = 20.0
PROBE_SECONDS_WHEN_BAD = 3.0
WRITE_SECONDS = 180.0
"""How long a seed encrypts after the last time that the plug-in said that its key is still the one."""
SEED_SECONDS = 24 * 3600.0
MAX_SEEDS = 1000
"""Seeds in memory; Kubernetes bounds them by time only."""
RETRY_SECONDS = 1.0
"""A seed that the plug-in did not decrypt is not asked for again by values that come meanwhile."""
MAX_FAILED_SEEDS = 100

_SEED_BYTES = 32
_INFO_BYTES = 32
_MAX_KEY_ID_BYTES = 1024
_MAX_SOURCE_BYTES = 1024
_MAX_ANNOTATION_BYTES = 32 << 10
_MAX_STATUS_CHARS = 400
"""Of what a plug-in says of itself, in logs and answers."""
_VERSIONS = ("v2", "v2beta1")


class EncryptionRecorder(KMSRecorder, Protocol):
    """Where a provider reports."""

    def seed_missed(self) -> None:
        """A plug-in is asked for a seed."""
        ...

    def key_used(self, direction: str, provider: str, key_id: str, now: dt.datetime) -> None: ...

    def key_named(self, provider: str, key_id: str, now: dt.datetime) -> None:
        """A plug-in says with which key it encrypts."""
        ...

    def bad_key_named(self, provider: str, code: str) -> None:
        """``code`` is empty or too_long."""
        ...


class SeedCipher:
    """AES-256-GCM, with a key for each value: HKDF-Expand-SHA256 of the seed over 32 random bytes that stand in front
    (RFC 5869, 2.3; one block of it is the key). So no number of values wears a seed out."""

    def __init__(self, seed: bytes) -> None:
        if len(seed) < _SEED_BYTES:
            raise TransformError(f"invalid seed length {len(seed)} used for key generation")
        self._seed = seed

    def decrypt(self, body: bytes, associated: bytes) -> bytes:
        if len(body) < _INFO_BYTES:
            raise TransformError(TOO_SHORT)
        return self._cipher(body[:_INFO_BYTES]).decrypt(body[_INFO_BYTES:], associated)

    def encrypt(self, plain: bytes, associated: bytes) -> bytes:
        info = os.urandom(_INFO_BYTES)
        return info + self._cipher(info).encrypt(plain, associated)

    def _cipher(self, info: bytes) -> GCMCipher:
        return GCMCipher(hmac.digest(self._seed, info + b"\x01", "sha256"))


@dataclass(frozen=True, slots=True)
class _Seed:
    """A seed that was decrypted; ``known`` is when, on the monotonic clock."""

    cipher: KeyCipher
    key_id: str
    kind: int
    known: float


@dataclass(frozen=True, slots=True)
class _Own:
    """The seed that encrypts, and how it is stored with each value. ``expires`` is on the monotonic clock."""

    cipher: SeedCipher
    key_id: str
    stored: bytes
    expires: float


@dataclass(frozen=True, slots=True)
class _Failure:
    """A seed that the plug-in did not decrypt."""

    obj: EncryptedObject
    error: TransformError
    at: float


class KMSProvider:
    """A plug-in's provider.

    Args:
        recovered: is called when a seed can be had that could not.
    """

    def __init__(
        self, name: str, service: KMSService, clock: Clock, metrics: EncryptionRecorder, recovered: Callable[[], None]
    ) -> None:
        self.name = name
        self.prefix = f"k8s:enc:kms:v2:{name}:".encode()
        self._service = service
        self._clock = clock
        self._metrics = metrics
        self._recovered = recovered
        self._version = ""
        self._own: _Own | None = None
        # By a digest of how they are stored; the one that was used longest ago first.
        self._seeds: OrderedDict[bytes, _Seed] = OrderedDict()
        self._failures: OrderedDict[bytes, _Failure] = OrderedDict()
        self._fetching: dict[bytes, asyncio.Task[None]] = {}
        self._checking = asyncio.Lock()
        self._checked: tuple[float, TransformError | None] | None = None

    # -------------------------------------------------------------- values

    def read(self, body: bytes, key: bytes) -> Read:
        encrypted, stored = _split(body)
        digest = hashlib.sha256(stored).digest()
        seed = self._seeds.get(digest)
        now = self._clock.monotonic()
        if seed is None or now - seed.known > SEED_SECONDS:
            raise self._missing(digest, body, now)
        if not encrypted:
            raise TransformError("encrypted data is empty")
        self._seeds.move_to_end(digest)
        self._metrics.key_used("from_storage", self.name, seed.key_id, self._clock.now())
        plain = seed.cipher.decrypt(encrypted, key)
        return Read(plain, self._own is None or seed.key_id != self._own.key_id or seed.kind != HKDF_SEED)

    def _missing(self, digest: bytes, body: bytes, now: float) -> TransformError:
        """Why a value cannot be read at once."""
        failure = self._failures.get(digest)
        if failure is not None and now - failure.at < RETRY_SECONDS:
            return failure.error
        try:
            obj = protobuf.codec_for(EncryptedObject).decode(body)
        except protobuf.ProtobufError as err:
            return TransformError(str(err))
        fault = _fault(obj)
        return TransformError(fault) if fault else SeedMissing(partial(self._fetch, digest, obj))

    def write(self, plain: bytes, key: bytes) -> bytes:
        own = self._own
        if own is None:
            raise TransformError("got unexpected nil transformer")
        late = self._clock.monotonic() - own.expires
        if late > 0:
            now = self._clock.now()
            raise TransformError(
                f'encryptedDEKSource with keyID hash "{key_hash(own.key_id)}" expired at '
                f"{Time.of(now - dt.timedelta(seconds=late))} (current time is {Time.of(now)})"
            )
        self._metrics.key_used("to_storage", self.name, own.key_id, self._clock.now())
        return protobuf.length_delimited(1, own.cipher.encrypt(plain, key)) + own.stored

    # -------------------------------------------------------------- seeds

    async def _fetch(self, digest: bytes, obj: EncryptedObject) -> None:
        """Have a seed decrypted. Afterwards it is at hand, or why it is not; all who want it wait for one call."""
        task = self._fetching.get(digest)
        if task is None:
            task = self._fetching[digest] = asyncio.ensure_future(self._decrypt(digest, obj))
            task.add_done_callback(lambda _done: self._fetching.pop(digest, None))
        await asyncio.shield(task)

    async def _decrypt(self, digest: bytes, obj: EncryptedObject) -> None:
        self._metrics.seed_missed()
        try:
            key = await self._service.decrypt(obj.encrypted_dek_source, obj.key_id, obj.annotations)
            self._keep(digest, _Seed(_cipher(key, obj), obj.key_id, obj.encrypted_dek_source_type, 0.0))
        except TransformError as err:
            failure = TransformError(f"failed to decrypt DEK, error: {err}", err.code)
            log.error("a KMS plug-in did not decrypt a seed", provider=self.name, err=str(err))
            bare = EncryptedObject(
                key_id=obj.key_id,
                encrypted_dek_source=obj.encrypted_dek_source,
                annotations=obj.annotations,
                encrypted_dek_source_type=obj.encrypted_dek_source_type,
            )
            self._failures[digest] = _Failure(bare, failure, self._clock.monotonic())
            if len(self._failures) > MAX_FAILED_SEEDS:
                self._failures.popitem(last=False)

    def _keep(self, digest: bytes, seed: _Seed) -> None:
        known = _Seed(seed.cipher, seed.key_id, seed.kind, self._clock.monotonic())
        self._seeds[digest] = known
        self._seeds.move_to_end(digest)
        if len(self._seeds) > MAX_SEEDS:
            self._seeds.popitem(last=False)
        if self._failures.pop(digest, None) is not None:
            self._recovered()

    # -------------------------------------------------------------- health

    async def poll(self) -> None:
        """Look after the plug-in, for ever."""
        while True:
            try:
                await self.check()
            except TransformError as err:
                log.error("a KMS plug-in is not well", provider=self.name, err=str(err))
                await self._clock.sleep(POLL_SECONDS_WHEN_BAD)
                continue
            for digest, failure in list(self._failures.items()):
                await self._fetch(digest, failure.obj)
            await self._clock.sleep(POLL_SECONDS)

    async def probe(self) -> None:
        """For readiness: what the last look has found, if that is not long ago. Raises ``TransformError``."""
        if self._checked is not None:
            at, error = self._checked
            age = self._clock.monotonic() - at
            if age < (PROBE_SECONDS if error is None else PROBE_SECONDS_WHEN_BAD):
                if error is not None:
                    raise error
                return
        await self.check()

    async def check(self) -> None:
        """Ask the plug-in how it is, and make another seed if it names another key.

        Raises:
            TransformError
        """
        async with self._checking:
            error: TransformError | None = None
            try:
                await self._check()
            except TransformError as err:
                error = err
            self._checked = (self._clock.monotonic(), error)
        if error is not None:
            raise error

    async def _check(self) -> None:
        begun = self._clock.monotonic()
        try:
            status = await self._service.status()
        except TransformError as err:
            raise TransformError(
                f"failed to perform status section of the healthz check for KMS Provider {self.name}, error: {err}",
                err.code,
            ) from err
        errors = [TransformError(each) for each in self._faults_of(status)]
        fault, code = _key_id_fault(status.key_id)
        if fault:
            self._metrics.bad_key_named(self.name, code)
            errors.append(TransformError(f'got invalid KMSv2 KeyID hash "{key_hash(status.key_id)}": {fault}'))
        else:
            self._metrics.key_named(self.name, status.key_id, self._clock.now())
            try:
                await self._use(status.key_id, begun + WRITE_SECONDS)
            except TransformError as err:
                errors.append(err)
        if errors:
            raise TransformError(f"kmsv2 Provider {self.name} is not healthy, error: {aggregate(errors)}")

    def _faults_of(self, status: StatusResponse) -> list[str]:
        faults = []
        if status.healthz != "ok":
            faults.append(f"got unexpected healthz status: {status.healthz[:_MAX_STATUS_CHARS]}")
        if status.version not in _VERSIONS:
            faults.append(f"expected KMSv2 API version v2, got {status.version[:_MAX_STATUS_CHARS]}")
        else:
            self._version = self._version or status.version
            if status.version != self._version:
                faults.append(
                    "KMSv2 API version should not change after the initial status response version "
                    f"{self._version}, got {status.version}"
                )
        return faults

    async def _use(self, key_id: str, expires: float) -> None:
        """Encrypt with a seed of that key until ``expires``. Whatever fails leaves the former seed until its end."""
        own = self._own
        if own is not None and own.key_id == key_id:
            self._own = _Own(own.cipher, key_id, own.stored, expires)
            return
        seed = os.urandom(_SEED_BYTES)
        problem, named = "", ""
        try:
            made = await self._service.encrypt(seed)
        except TransformError as err:
            problem = f"failed to encrypt DEK, error: {err}"
        else:
            named, obj = made.key_id, _with(made, b"\x00")
            problem = _fault(obj) or await self._fault_of_copy(seed, made)
            if not problem and named == key_id:
                stored = _split(protobuf.codec_for(EncryptedObject).encode(obj))[1]
                self._own = _Own(SeedCipher(seed), key_id, stored, expires)
                self._keep(hashlib.sha256(stored).digest(), _Seed(SeedCipher(seed), key_id, HKDF_SEED, 0.0))
                log.info("a KMS plug-in has encrypted a new seed", provider=self.name, key=key_hash(key_id))
                return
        raise TransformError(
            f"failed to rotate DEK useSeed=true, errGen={problem or None}, "
            f'statusKeyIDHash="{key_hash(key_id)}", encryptKeyIDHash="{key_hash(named)}", '
            f'stateKeyIDHash="{key_hash(own.key_id) if own else ""}"'
        )

    async def _fault_of_copy(self, seed: bytes, made: EncryptResponse) -> str:
        """Why what the plug-in made of ``seed`` must encrypt nothing: what is written with it would be lost at the next
        start, or lie beside its own key. Kubernetes believes the plug-in."""
        if any(seed in octets for octets in (made.ciphertext, *made.annotations.values())):
            return "the plug-in answered with the seed itself, not encrypted"
        try:
            copy = await self._service.decrypt(made.ciphertext, made.key_id, made.annotations)
        except TransformError as err:
            return f"the plug-in does not decrypt what it has encrypted: {err}"
        return "" if hmac.compare_digest(copy, seed) else "the plug-in decrypts what it has encrypted to something else"

    async def close(self) -> None:
        for task in list(self._fetching.values()):
            task.cancel()
        await self._service.close()


def key_hash(key_id: str) -> str:
    """What is told of a key's id; nothing for nothing."""
    return f"sha256:{hashlib.sha256(key_id.encode()).hexdigest()}" if key_id else ""


def _with(made: EncryptResponse, data: bytes) -> EncryptedObject:
    return EncryptedObject(
        encrypted_data=data,
        key_id=made.key_id,
        encrypted_dek_source=made.ciphertext,
        annotations=dict(sorted(made.annotations.items())),
        encrypted_dek_source_type=HKDF_SEED,
    )


def _cipher(key: bytes, obj: EncryptedObject) -> KeyCipher:
    """Raises ``TransformError``."""
    if obj.encrypted_dek_source_type == HKDF_SEED:
        return SeedCipher(key)
    if len(key) not in (16, 24, 32):
        raise TransformError(f"crypto/aes: invalid key size {len(key)}")
    return GCMCipher(key)


def _split(body: bytes) -> tuple[bytes, bytes]:
    """What is encrypted, and everything else: all values of a seed have the latter in common.

    Raises:
        TransformError: it is no EncryptedObject.
    """
    size, at = 0, 1
    # Field 1 comes first wherever a message is written in the usual order.
    for shift in range(0, 35, 7):
        if body[:1] != b"\x0a" or at >= len(body):
            break
        size |= (body[at] & 0x7F) << shift
        at += 1
        if body[at - 1] < 0x80:
            if at + size > len(body):
                break
            return body[at : at + size], body[at + size :]
    codec = protobuf.codec_for(EncryptedObject)
    try:
        obj = codec.decode(body)
    except protobuf.ProtobufError as err:
        raise TransformError(str(err)) from None
    return obj.encrypted_data, codec.encode(
        EncryptedObject(
            key_id=obj.key_id,
            encrypted_dek_source=obj.encrypted_dek_source,
            annotations=obj.annotations,
            encrypted_dek_source_type=obj.encrypted_dek_source_type,
        )
    )


def _fault(obj: EncryptedObject) -> str:
    """What is wrong with what is stored, or is to be."""
    if obj.encrypted_dek_source_type not in (AES_GCM_KEY, HKDF_SEED):
        return f"unknown encryptedDEKSourceType: {obj.encrypted_dek_source_type}"
    if not obj.encrypted_data:
        return "encrypted data is empty"
    size = len(obj.encrypted_dek_source)
    if not size:
        return "failed to validate encrypted DEK source: encrypted DEK source is empty"
    if size > _MAX_SOURCE_BYTES:
        why = f"encrypted DEK source is {size} bytes, which exceeds the max size of {_MAX_SOURCE_BYTES}"
        return f"failed to validate encrypted DEK source: {why}"
    fault, _ = _key_id_fault(obj.key_id)
    if fault:
        return f"failed to validate key id: {fault}"
    faults = [TransformError(each) for name in sorted(obj.annotations) for each in _domain_faults(name)]
    size = sum(len(name.encode()) + len(value) for name, value in obj.annotations.items())
    if size > _MAX_ANNOTATION_BYTES:
        why = f"total size of annotations is {size}, which exceeds the max size of {_MAX_ANNOTATION_BYTES}"
        faults.append(TransformError(why))
    return f"failed to validate annotations: {aggregate(faults)}" if faults else ""


def _key_id_fault(key_id: str) -> tuple[str, str]:
    """What is wrong with a key's id, and the metric's word for it."""
    size = len(key_id.encode())
    if not size:
        return "keyID is empty", "empty"
    if size > _MAX_KEY_ID_BYTES:
        return f"keyID is {size} bytes, which exceeds the max size of {_MAX_KEY_ID_BYTES}", "too_long"
    return "", ""


def _domain_faults(name: str) -> list[str]:
    """A fully qualified domain name (apimachinery util/validation IsFullyQualifiedDomainName)."""
    shown = name[:-1] if name.endswith(".") else name
    if not shown:
        return ["annotations: Required value"]
    faults = [f'annotations: Invalid value: "{name}": {why}' for why in names.subdomain(shown)]
    if not faults and "." not in shown:
        why = "should be a domain with at least two segments separated by dots"
        faults.append(f'annotations: Invalid value: "{name}": {why}')
    return faults
