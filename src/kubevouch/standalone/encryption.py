"""Encryption at rest, by kube-apiserver's flags: the file, its plug-ins, and what becomes of its changes.

Source: k8s.io/apiserver/pkg/server/options/encryptionconfig (Kubernetes 1.36).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from prometheus_client import CollectorRegistry

from kubevouch.api.storage_keys import ROOT
from kubevouch.config import encryption_config
from kubevouch.config.config_file import ConfigFileError
from kubevouch.config.encryption_config import EncryptionConfiguration, KMSConfiguration
from kubevouch.server.apiserver import APIServer
from kubevouch.server.health import HealthError
from kubevouch.server.metrics.encryption import EncryptionMetrics
from kubevouch.standalone.encryption_options import EncryptionOptions
from kubevouch.standalone.encryption_record import EncryptionRecord, Plan
from kubevouch.standalone.errors import InvalidOptionsError, NotHereError
from kubevouch.storage.encryption.ciphers import SecretboxUnavailable
from kubevouch.storage.encryption.configured import transformers
from kubevouch.storage.encryption.encryption import Encryption
from kubevouch.storage.encryption.interface import TransformError, aggregate
from kubevouch.storage.encryption.kms import KMSProvider
from kubevouch.storage.encryption.kms_service import KMSService, KMSUnavailable
from kubevouch.storage.encryption.store import EncryptedStore
from kubevouch.storage.encryption.transformers import ResourceTransformers
from kubevouch.storage.interface import Store
from kubevouch.util.clock import Clock
from kubevouch.util.files import stamp, warn_of_exposure
from kubevouch.util.logger import get_logger

# Kubernetes looks once a minute.
RELOAD_SECONDS = 1.0
# How long a start waits for plug-ins, which often start at the same time.
START_SECONDS = 60.0
# How long those of another file may take before it is taken for one that cannot be used.
SWITCH_SECONDS = 10.0
_RETRY_SECONDS = 0.5

log = get_logger("encryption")


class EncryptionOptionsError(InvalidOptionsError):
    """The file cannot be used; the text is Kubernetes', and says nothing of the keys."""


class PluginsUnavailable(NotHereError):
    """A plug-in that holds the key is not there, or not well."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "start the plug-in, or correct its endpoint in the encryption configuration")


@dataclass(slots=True)
class _InUse:
    """A file's content, and what was made of it."""

    content: bytes
    plan: Plan
    transformers: ResourceTransformers
    plugins: Sequence[KMSProvider]
    # Those of calls under way, with a call as long again (kmsCloseGracePeriod).
    grace: float
    polling: list[asyncio.Task[None]]

    def poll(self) -> None:
        self.polling = [asyncio.create_task(each.poll(), name=f"kms-{each.name}") for each in self.plugins]

    async def close(self) -> None:
        for task in self.polling:
            task.cancel()
        if self.polling:
            await asyncio.wait(self.polling)
        for each in self.plugins:
            await each.close()


class EncryptionAtRest:
    """What encrypts a server's values, by a file.

    Args:
        root: what keys begin with where they are stored.
        record: of what was stored encrypted before; None for who only reads.
    """

    def __init__(
        self, path: Path, clock: Clock, *, reloads: bool, root: str = ROOT, record: EncryptionRecord | None = None
    ) -> None:
        """Raises :class:`EncryptionOptionsError`; with a ``record``, :class:`EncryptionWeakened` too."""
        self.metrics = EncryptionMetrics(CollectorRegistry())
        self.reloads = reloads
        self._path = path
        self._clock = clock
        # Before it is read: a change that comes meanwhile counts.
        self._stamp = stamp(path)
        self._record = record
        content, config = _load(path)
        if record is not None:
            record.check(encryption_config.plan(config))
        self._in_use = self._made(content, config)
        self.encryption = Encryption(self._in_use.transformers, root)
        self.metrics.in_use(self._in_use.content)
        self._closing: set[asyncio.Task[None]] = set()
        warn_of_exposure(path)

    def over(self, store: Store) -> Store:
        """What lies in ``store`` is encrypted."""
        return EncryptedStore(store, self.encryption)

    @contextlib.asynccontextmanager
    async def beside(self, api: APIServer) -> AsyncIterator[None]:
        """As :meth:`running`, and ``api`` tells of it.

        Raises:
            PluginsUnavailable
        """
        api.metrics.read_at_scrape(self.metrics.collect)
        if self.is_probed:
            api.add_check("kms-providers", self._checked)
        async with self.running():
            yield

    async def _checked(self) -> None:
        try:
            await self.check()
        except PluginsUnavailable as err:
            raise HealthError(str(err)) from err

    @property
    def is_probed(self) -> bool:
        """Whether there may be plug-ins, of whose health is told."""
        return self.reloads or bool(self._in_use.plugins)

    def _made(self, content: bytes, config: EncryptionConfiguration) -> _InUse:
        plugins: list[KMSProvider] = []
        seconds = 0.0

        def plugin(kms: KMSConfiguration) -> KMSProvider:
            nonlocal seconds
            seconds += kms.seconds
            service = KMSService(kms.name, kms.socket, kms.seconds, self._clock, self.metrics)
            plugins.append(KMSProvider(kms.name, service, self._clock, self.metrics, self._recovered))
            return plugins[-1]

        try:
            made = transformers(config, self.metrics, plugin)
        except (SecretboxUnavailable, KMSUnavailable) as err:
            raise EncryptionOptionsError(str(err)) from err
        return _InUse(content, encryption_config.plan(config), made, plugins, 2 * seconds, [])

    def _recovered(self) -> None:
        self.encryption.recovered()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """The plug-ins are there inside the block, and looked after; the file is followed, if that was asked for.

        Raises:
            PluginsUnavailable
        """
        following: asyncio.Task[None] | None = None
        try:
            await self._expect_well(self._in_use.plugins, START_SECONDS)
            self._in_use.poll()
            if self.reloads:
                following = asyncio.create_task(self._keep(), name="encryption-config")
            yield
        finally:
            tasks = [*self._closing, *([following] if following is not None else [])]
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks)
            await self._in_use.close()

    def remember(self) -> None:
        """What is stored encrypted from now on. Raises as ``EncryptionRecord.keep``."""
        if self._record is not None:
            self._record.keep(self._in_use.plan)

    async def close(self) -> None:
        """For who has only read, without :meth:`running`."""
        await self._in_use.close()

    async def check(self) -> None:
        """Raises :class:`PluginsUnavailable` unless all plug-ins are well, or were a moment ago."""
        errors = []
        for at, each in enumerate(self._in_use.plugins):
            try:
                await each.probe()
            except TransformError as err:
                errors.append(TransformError(f"kms-provider-{at}: {err}"))
        if errors:
            raise PluginsUnavailable(aggregate(errors))

    async def _expect_well(self, plugins: Sequence[KMSProvider], seconds: float) -> None:
        """Raises :class:`PluginsUnavailable`."""
        end = self._clock.monotonic() + seconds
        told = False
        for each in plugins:
            while True:
                try:
                    await each.check()
                except TransformError as err:
                    if self._clock.monotonic() >= end:
                        raise PluginsUnavailable(str(err)) from err
                    if not told:
                        log.warning("waiting for a KMS plug-in", provider=each.name, err=str(err))
                        told = True
                    await self._clock.sleep(_RETRY_SECONDS)
                else:
                    break

    # -------------------------------------------------------------- reload

    async def _keep(self) -> None:
        """Read the file again whenever it changes, for ever. What cannot be used changes nothing."""
        while True:
            await self._clock.sleep(RELOAD_SECONDS)
            now = stamp(self._path)
            if now != self._stamp:
                self._stamp = now
                await self._reload()

    async def _reload(self) -> None:
        former, made = self._in_use, None
        try:
            content, config = _load(self._path)
            if content == former.content:
                return
            made = self._made(content, config)
            await self._expect_well(made.plugins, SWITCH_SECONDS)
            if self._record is not None:
                self._record.keep(made.plan)
        except (InvalidOptionsError, PluginsUnavailable, OSError) as err:
            log.error("the encryption configuration cannot be used, the former one stays", err=str(err))
            self.metrics.reloaded(self._clock.now(), failed=True)
            if made is not None:
                await made.close()
            return
        self._in_use = made
        self.encryption.replace(made.transformers)
        made.poll()
        self.metrics.in_use(made.content)
        self.metrics.reloaded(self._clock.now(), failed=False)
        log.info("the encryption configuration was read again", path=str(self._path))
        closing = asyncio.create_task(self._close_later(former), name="encryption-former")
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    async def _close_later(self, former: _InUse) -> None:
        """Reads that have begun with it may still ask its plug-ins."""
        try:
            await self._clock.sleep(former.grace)
        finally:
            await former.close()


def at_rest(
    options: EncryptionOptions, clock: Clock, root: str = ROOT, record: EncryptionRecord | None = None
) -> EncryptionAtRest | None:
    """What the options ask for; None stores everything as it is.

    Args:
        root: what keys begin with where they are stored.
        record: of what was stored encrypted before.

    Raises:
        EncryptionOptionsError, EncryptionWeakened
    """
    if options.config is None:
        if options.automatic_reload:
            raise EncryptionOptionsError(
                "--encryption-provider-config-automatic-reload must be set with --encryption-provider-config"
            )
        return None
    return EncryptionAtRest(options.config, clock, reloads=options.automatic_reload, root=root, record=record)


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
