"""Encryption at rest in tests: values that a kube-apiserver encrypted, and stores that encrypt."""

from __future__ import annotations

import base64
import datetime as dt
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kubevouch.config import encryption_config
from kubevouch.config.encryption_config import KMSConfiguration
from kubevouch.storage.encryption.configured import transformers
from kubevouch.storage.encryption.encryption import Encryption
from kubevouch.storage.encryption.interface import Provider
from kubevouch.storage.encryption.transformers import ResourceTransformers

FOLDER = Path(__file__).parent / "vectors" / "etcd"
KEY_1, KEY_2 = (base64.b64encode(bytes([each]) * 32).decode() for each in (1, 2))


class Recorded:
    """A recorder that remembers: direction, prefix and code."""

    def __init__(self) -> None:
        self.values: list[tuple[str, str, str]] = []
        self.calls: list[tuple[str, str, str]] = []

    def transformed(self, direction: str, prefix: str, seconds: float, code: str) -> None:
        assert seconds >= 0
        self.values.append((direction, prefix, code))

    def kms_call(self, provider: str, method: str, seconds: float, code: str) -> None:
        assert seconds >= 0
        self.calls.append((provider, method, code))

    def seed_missed(self) -> None: ...

    def key_used(self, direction: str, provider: str, key_id: str, now: dt.datetime) -> None: ...

    def key_named(self, provider: str, key_id: str, now: dt.datetime) -> None: ...

    def bad_key_named(self, provider: str, code: str) -> None: ...


class Fixture:
    """A value as a kube-apiserver stored it."""

    def __init__(self, path: Path) -> None:
        self.tree: dict[str, Any] = json.loads(path.read_bytes())
        self.name: str = self.tree["name"]
        self.key: str = self.tree["key"]
        self.value = base64.b64decode(self.tree["value_b64"])
        self.plain = base64.b64decode(self.tree["plain_b64"])
        self.provider: str = self.tree["encryption"]["provider"]

    @property
    def config(self) -> bytes:
        return json.dumps(self.tree["encryption_config"]).encode()


def fixtures() -> list[Fixture]:
    return [Fixture(path) for path in sorted(FOLDER.glob("encrypted-*.json"))]


def no_plugin(config: KMSConfiguration) -> Provider:
    raise AssertionError(f"{config.name} is not asked for")


def resource_transformers(config: bytes, plugin: Any = no_plugin, recorder: Any = None) -> ResourceTransformers:
    return transformers(encryption_config.load(config), recorder or Recorded(), plugin)


def configuration(*entries: tuple[Sequence[str], Sequence[dict[str, Any]]]) -> bytes:
    """A file: resources, with their providers."""
    resources = [{"resources": list(names), "providers": list(providers)} for names, providers in entries]
    return json.dumps(
        {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration", "resources": resources}
    ).encode()


def keys(kind: str, *named: tuple[str, str]) -> dict[str, Any]:
    """A provider: its kind, and keys by name."""
    return {kind: {"keys": [{"name": name, "secret": secret} for name, secret in named]}}


IDENTITY: dict[str, Any] = {"identity": {}}


def encryption(*entries: tuple[Sequence[str], Sequence[dict[str, Any]]], recorder: Any = None) -> Encryption:
    return Encryption(resource_transformers(configuration(*entries), recorder=recorder))
