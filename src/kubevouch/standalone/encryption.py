"""Encryption at rest, by kube-apiserver's flags: the file, what it makes of the store, and its reload.

Source: k8s.io/apiserver/pkg/server/options/encryptionconfig (Kubernetes 1.36).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from prometheus_client import CollectorRegistry

from kubevouch.config import encryption_config
from kubevouch.config.config_file import ConfigFileError
from kubevouch.config.encryption_config import EncryptionConfiguration, KMSConfiguration
from kubevouch.server.metrics.encryption import EncryptionMetrics
from kubevouch.standalone.encryption_options import EncryptionOptions
from kubevouch.storage.encryption.ciphers import SecretboxUnavailable
from kubevouch.storage.encryption.configured import transformers
from kubevouch.storage.encryption.encryption import Encryption
from kubevouch.storage.encryption.interface import Provider
from kubevouch.storage.encryption.transformers import ResourceTransformers
from kubevouch.util.clock import Clock
from kubevouch.util.files import stamp, warn_of_exposure
from kubevouch.util.logger import get_logger

# Kubernetes looks once a minute.
RELOAD_SECONDS = 1.0

log = get_logger("encryption")


class EncryptionOptionsError(Exception):
    """The file cannot be used; the text is Kubernetes', and says nothing of the keys."""


class EncryptionAtRest:
    """What encrypts a server's values, by a file."""

    def __init__(self, path: Path, clock: Clock, *, reloads: bool) -> None:
        """Raises :class:`EncryptionOptionsError`."""
        self.metrics = EncryptionMetrics(CollectorRegistry())
        self.reloads = reloads
        self._path = path
        self._clock = clock
        # Before it is read: a change that comes meanwhile counts.
        self._stamp = stamp(path)
        self._content, config = _load(path)
        self.encryption = Encryption(self._transformers(config))
        self.metrics.in_use(self._content)
        warn_of_exposure(path)

    def _transformers(self, config: EncryptionConfiguration) -> ResourceTransformers:
        try:
            return transformers(config, self.metrics, self._plugin)
        except SecretboxUnavailable as err:
            raise EncryptionOptionsError(str(err)) from err

    def _plugin(self, config: KMSConfiguration) -> Provider:
        raise EncryptionOptionsError(
            f"got the KMS plug-in {config.name}, expected a provider whose keys are in the file"
        )

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Follows the file, if that was asked for, inside the block."""
        tasks = [asyncio.create_task(self._keep(), name="encryption-config")] if self.reloads else []
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks)

    async def _keep(self) -> None:
        """Read the file again whenever it changes, for ever. What cannot be used changes nothing."""
        while True:
            await self._clock.sleep(RELOAD_SECONDS)
            now = stamp(self._path)
            if now != self._stamp:
                self._stamp = now
                self._reload()

    def _reload(self) -> None:
        failed = True
        try:
            content, config = _load(self._path)
            if content == self._content:
                return
            self.encryption.replace(self._transformers(config))
            self._content, failed = content, False
            self.metrics.in_use(content)
            log.info("the encryption configuration was read again", path=str(self._path))
        except EncryptionOptionsError as err:
            log.error("the encryption configuration cannot be used, the former one stays", err=str(err))
        self.metrics.reloaded(self._clock.now(), failed=failed)


def at_rest(options: EncryptionOptions, clock: Clock) -> EncryptionAtRest | None:
    """What the options ask for; None stores everything as it is. Raises :class:`EncryptionOptionsError`."""
    if options.config is None:
        if options.automatic_reload:
            raise EncryptionOptionsError(
                "--encryption-provider-config-automatic-reload must be set with --encryption-provider-config"
            )
        return None
    return EncryptionAtRest(options.config, clock, reloads=options.automatic_reload)


def _load(path: Path) -> tuple[bytes, EncryptionConfiguration]:
    """Raises :class:`EncryptionOptionsError`."""
    try:
        content = path.read_bytes()
    except OSError as err:
        why = (err.strerror or str(err)).lower()
        raise EncryptionOptionsError(f"--encryption-provider-config {path} cannot be read: {why}") from err
    if not content:
        raise EncryptionOptionsError(f'encryption provider configuration file "{path}" is empty')
    try:
        return content, encryption_config.load(content)
    except ConfigFileError as err:
        raise EncryptionOptionsError(f"--encryption-provider-config {path}: {err}") from err
