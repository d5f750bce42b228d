"""Which providers read and write the values of a key (k8s.io/apiserver/pkg/storage/value/transformer.go and
pkg/server/options/encryptionconfig/config.go, Kubernetes 1.36)."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from kubevouch.api.storage_keys import group_resource_of, prefix_part
from kubevouch.config.encryption_config import ANY, EVERYTHING
from kubevouch.machinery.scheme import GroupResource
from kubevouch.storage.encryption.interface import (
    Provider,
    Read,
    SeedMissing,
    TransformError,
    TransformRecorder,
    aggregate,
)

# Of custom kinds there may be any number, and keys can be asked for that no kind has.
_MAX_PARTS = 4096


class Transformers:
    """The providers of one resource: the first one writes, all read.

    Args:
        providers: in the configuration's order, at least one.
        recorder: is told of each value.
    """

    def __init__(self, providers: Sequence[Provider], recorder: TransformRecorder) -> None:
        self._providers = providers
        self._recorder = recorder

    def read(self, value: bytes, key: bytes) -> Read:
        """Decrypt a value by the first provider that can.

        Raises:
            SeedMissing: a plug-in has to be asked first.
            TransformError
        """
        begun = time.perf_counter()
        errors: list[TransformError] = []
        for at, provider in enumerate(self._providers):
            prefix = provider.prefix
            if not value.startswith(prefix):
                continue
            try:
                read = provider.read(value[len(prefix) :] if prefix else value, key)
            except SeedMissing:
                raise
            except TransformError as err:
                if prefix:  # identity stands before others while values are being decrypted for good
                    self._note("from_storage", prefix, begun, err)
                    errors.append(err)
                continue
            self._note("from_storage", prefix or b"identity", begun)
            return Read(read.plain, stale=True) if at and not read.stale else read
        if errors:
            raise TransformError(aggregate(errors))
        unknown = TransformError("no matching prefix found")
        self._note("from_storage", b"unknown", begun, unknown)
        raise unknown

    def write(self, plain: bytes, key: bytes) -> bytes:
        """Encrypt a value by the first provider. Raises ``TransformError``."""
        begun = time.perf_counter()
        provider = self._providers[0]
        try:
            body = provider.write(plain, key)
        except TransformError as err:
            self._note("to_storage", provider.prefix, begun, err)
            raise
        self._note("to_storage", provider.prefix, begun)
        return provider.prefix + body

    def _note(self, direction: str, prefix: bytes, begun: float, err: TransformError | None = None) -> None:
        seconds = time.perf_counter() - begun
        self._recorder.transformed(direction, prefix.decode(), seconds, "OK" if err is None else err.code)


class ResourceTransformers:
    """The transformers of all keys.

    Args:
        overrides: by resource, ``*.group`` and ``*.*``.
    """

    def __init__(self, overrides: Mapping[GroupResource, Transformers]) -> None:
        self._overrides = overrides
        self._by_part: dict[str, Transformers | None] = {}

    def of(self, key: str) -> Transformers | None:
        """Those of a key; None where nothing is configured: values are as they are then."""
        part = prefix_part(key)
        try:
            return self._by_part[part]
        except KeyError:
            resource = group_resource_of(key)
            found = None if resource is None else self._find(resource)
            if len(self._by_part) < _MAX_PARTS:
                self._by_part[part] = found
            return found

    def _find(self, resource: GroupResource) -> Transformers | None:
        for each in (resource, GroupResource(resource.group, ANY), EVERYTHING):
            if each in self._overrides:
                return self._overrides[each]
        return None
