"""Stored values as whoever reaches an etcd can write them, for the fuzzers: all providers of the fixtures read them."""

from __future__ import annotations

import hashlib
from pathlib import Path

from encryption_world import Fixture, Recorded, fixtures, resource_transformers
from kms_plugin import KEK
from kubevouch.config.encryption_config import KMSConfiguration
from kubevouch.storage.encryption import kms
from kubevouch.storage.encryption.interface import SeedMissing, TransformError
from kubevouch.storage.encryption.kms import KMSProvider, SeedCipher
from kubevouch.storage.encryption.kms_service import KMSService
from kubevouch.testing.clock import FakeClock

_ALL: list[Fixture] = fixtures()
VALUES = [each.value for each in _ALL]
CONFIGURATIONS = sorted({each.config for each in _ALL})
WORDS = [
    b"k8s:enc:",
    b"kms:v2:fixture-kms:",
    b"aesgcm:v1:key1:",
    b"\x0a\x80\x80\x80\x80\x10",
    b"\x0a\xff\xff\xff\xff\x0f",
]
_KEY = "/registry/secrets/default/one"


def _provider(config: KMSConfiguration) -> KMSProvider:
    """One whose plug-in is not there; it knows one seed."""
    clock = FakeClock()
    service = KMSService(config.name, str(Path("/nowhere/k.sock")), 1.0, clock, Recorded())
    made = KMSProvider(config.name, service, clock, Recorded(), lambda: None)
    for fixture in _ALL:
        if fixture.provider == "kms":
            stored = kms._split(fixture.value.removeprefix(made.prefix))[1]
            made._keep(hashlib.sha256(stored).digest(), kms._Seed(SeedCipher(KEK), "kek-1", 1, 0.0))
    return made


_TRANSFORMERS = [resource_transformers(config, _provider).of(_KEY) for config in CONFIGURATIONS]


def parse_value(data: bytes) -> list[bytes]:
    """What each configuration makes of a value under a Secret's key. Raises ``TransformError`` if none reads it."""
    read, refused = [], None
    for found in _TRANSFORMERS:
        assert found is not None
        try:
            read.append(found.read(data, _KEY.encode()).plain)
        except SeedMissing:
            read.append(b"")  # it is well formed, and the plug-in would be asked
        except TransformError as err:
            refused = err
    if not read and refused is not None:
        raise refused
    return read
