"""The agent: the node's certificates kept fresh for as long as the machine runs."""

from __future__ import annotations

import asyncio
import random as random_module
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from kubevouch.agent import attested_request, control, node_kubeconfig, report, trust_bundle, trust_report
from kubevouch.agent.bootstrap_state import judge_kubeconfig
from kubevouch.agent.certificate_manager import CertificateManager
from kubevouch.agent.certificate_request import Poster, RequestTemplate, node_client
from kubevouch.agent.certificate_store import CertificateStore, StoredPair
from kubevouch.agent.discovery import TokenDiscovery, discover
from kubevouch.agent.hooks import Hooks
from kubevouch.agent.interface import AgentError, SettingsError
from kubevouch.agent.manager_interface import Access, Listeners, LoggingObserver, Manager
from kubevouch.agent.node_access import Connect, NodeAccess, over_https, token_user
from kubevouch.agent.options import AgentOptions, Extra, has_pair
from kubevouch.agent.recovery_keys import RecoveryKeys
from kubevouch.agent.serving import (
    PREFIX,
    SELF_SIGNED_WARNING,
    AddressWatch,
    ServingTemplate,
    ensure_self_signed,
    extra_addresses,
)
from kubevouch.api.kubevouch_v1alpha1.catalog import NODE_IDENTITIES
from kubevouch.client.interface import Client, ClientConfigurationError, TransportError
from kubevouch.machinery.errors import APIStatusError
from kubevouch.pki.client_certificate import TrustAnchors
from kubevouch.pki.policy import BACKDATE
from kubevouch.records.ca_rotation import RenewalOrder
from kubevouch.util import backoff, systemd
from kubevouch.util.clock import Clock
from kubevouch.util.files import PRIVATE, make_folder, write_atomically
from kubevouch.util.logger import get_logger
from kubevouch.util.tasks import Supervisor

log = get_logger("agent.daemon")

# A machine that hears of a step late holds up the operator who waits for the last one.
_SHARE_WHILE_CA_CHANGES = 0.1


class Agent:
    """All of it. Use :meth:`running`, or :meth:`run` until somebody says stop."""

    def __init__(
        self,
        options: AgentOptions,
        clock: Clock,
        random: backoff.Random = random_module.random,
        connect: Connect = over_https,
    ) -> None:
        self._options = options
        self._clock = clock
        self._random = random
        # A recovery key would be a second way back, that proves less than what the machine has to show.
        recovers = options.recovery and options.attestation is None
        self.recovery = RecoveryKeys(options.cert_dir) if recovers else None
        attests = options.attestation is not None
        self.access = NodeAccess(
            options.files, options.node_name, clock, random, self.recovery, connect, attests=attests
        )
        self._store = CertificateStore(options.cert_dir)
        self.managers: list[CertificateManager] = []
        self._watch: AddressWatch | None = None
        self._reported = ""
        self._listeners = Listeners()
        template = node_client(
            options.node_name,
            algorithm=options.algorithm,
            expiration_seconds=options.expiration_seconds,
            attestation=options.attestation,
        )
        self.client = self._add(report.CLIENT, self._store, lambda: template)
        if options.serving:
            self._add_serving()
        for extra in options.extras:
            self._add_extra(extra)
        self._metrics = report.Metrics(self.managers, clock)
        self._listeners.add(self, self._metrics, Hooks(options.hooks, clock))

    def _add(
        self,
        name: str,
        store: CertificateStore,
        template: Callable[[], RequestTemplate | None],
        access: Access | None = None,
    ) -> CertificateManager:
        manager = CertificateManager(
            name, store, template, access or self.access, self._clock, self._listeners, random=self._random
        )
        self.managers.append(manager)
        return manager

    def _add_serving(self) -> None:
        options = self._options
        template = ServingTemplate(
            options.node_name,
            extra_addresses(options.addresses),
            algorithm=options.algorithm,
            expiration_seconds=options.expiration_seconds,
        )
        manager = self._add(
            report.SERVING, CertificateStore(options.cert_dir, PREFIX), template, _AsNode(self, trusted=True)
        )
        self._watch = AddressWatch(options.node_name, self._as_node, template, manager, self._clock, self._random)

    def _add_extra(self, extra: Extra) -> None:
        store = CertificateStore(extra.folder, extra.name)
        self._add(extra.name, store, lambda: extra.template, _AsNode(self, trusted=False))

    @asynccontextmanager
    async def _as_node(self) -> AsyncIterator[Client]:
        if self.client.pair is None:
            raise SettingsError("the node has no client certificate yet")
        async with self.access.client(self.client.pair) as client:
            yield client

    # -------------------------------------------------------------- life

    async def begin(self) -> None:
        """With a bare token: find the cluster, and write the bootstrap kubeconfig that the rest begins with.

        Raises:
            SettingsError: a method of attestation cannot work with its settings.
            AgentError: the cluster was not found, or is not proven to be the right one.
            OSError: the file cannot be written.
        """
        if self._options.attestation is not None:
            await attested_request.prepare(self._options.attestation, self._clock)
        files = self._options.files
        if not files.kubeconfig.exists():
            await self._find()

    async def begin_again(self) -> None:
        """As :meth:`begin`, once the certificate is of no use; for machines that have more than a token to show."""
        if self._options.attestation is None or self.access.accepts(self.client.pair):
            return
        try:
            await self._find()
        except (AgentError, TransportError, APIStatusError, ClientConfigurationError, OSError) as err:
            log.warning("the cluster could not be found again", error=str(err))

    async def _find(self) -> None:
        files = self._options.files
        path, discovery = files.bootstrap_kubeconfig, files.discovery
        if path is None or path.exists() or not isinstance(discovery, TokenDiscovery):
            return
        cluster = await discover(discovery, self._clock, LoggingObserver(step="discovery"), self._random)
        make_folder(path.parent)
        write_atomically(path, node_kubeconfig.for_token(cluster, discovery.token).encode(), mode=PRIVATE)

    def prepare(self) -> None:
        """Look at what is there, before anything is asked.

        Raises:
            SettingsError: there is nothing to begin with.
            CertificateStoreInUseError: another program is asking for a certificate.
            OSError: a file is there and cannot be read.
        """
        files = self._options.files
        bootstrap = files.bootstrap_kubeconfig
        begun = bootstrap is not None and bootstrap.exists()
        known = judge_kubeconfig(files.kubeconfig, self._clock.now())
        if known is None and not begun:
            raise SettingsError(
                f"neither {files.kubeconfig} nor a bootstrap kubeconfig is there", "join first: kubevouch join --help"
            )
        if known is not None and known.problem:
            what = "a new certificate is asked for" if begun else "it is used as it is"
            log.warning("the kubeconfig is no good credential", reason=known.problem, then=what)
        if known is not None and node_kubeconfig.seed(files.kubeconfig, self._store, now=self._clock.now()):
            log.info("the pair in the kubeconfig was put into the certificate folder, and is rotated")
            self.client.rotate_now()
        if self._options.key is not None and not has_pair(self._options.cert_dir):
            with self._store.locked():
                self._store.put_pending_key(self._options.key)
        if self._options.serving and self._options.serve_self_signed:
            self._serve_meanwhile()
        for manager in self.managers:
            manager.prime()

    def _serve_meanwhile(self) -> None:
        options = self._options
        store, extra = CertificateStore(options.cert_dir, PREFIX), extra_addresses(options.addresses)
        try:
            if ensure_self_signed(store, options.node_name, extra, now=self._clock.now()):
                log.warning(SELF_SIGNED_WARNING, path=str(store.current_path))
        except AgentError as err:
            # Files that are no pair are put in order by the certificate's manager.
            log.warning("there is no self-signed serving certificate", error=str(err))

    async def run(self, stop: asyncio.Event) -> None:
        """Until ``stop``.

        Raises:
            AgentError: another agent is running, or there is nothing to begin with.
            OSError: the socket, the port or a file.
        """
        await self.begin()
        self.prepare()
        options = self._options
        async with (
            control.listening(self, self._metrics.registry, options.socket, options.healthz) as port,
            Supervisor(self._clock, random=self._random) as tasks,
        ):
            for manager in self.managers:
                tasks.start(f"certificate-{manager.name}", manager.run)
            if self._watch is not None:
                tasks.start("addresses", self._watch.run)
            tasks.start("cluster-info", self.follow_cluster_info)
            tasks.start("systemd", self._tell_systemd)
            systemd.notify(systemd.READY)
            log.info("the agent runs", node=options.node_name, certificates=len(self.managers), healthz=port)
            await stop.wait()
            systemd.notify(systemd.STOPPING)

    async def follow_cluster_info(self) -> None:
        """For ever."""
        # Whether recovery is allowed stands there, too: what is said of it would be a guess until the first look.
        if self.client.pair is not None:
            await self.access.refresh()
        while True:
            await self.report_trust()
            share = _SHARE_WHILE_CA_CHANGES if self.access.ca_changes else 1.0
            await self._clock.sleep(share * self._options.refresh_seconds * (0.5 + self._random()))
            await self.access.refresh()
            await self.follow_operator()
            await self.begin_again()
            if self.access.wants_recovery_key and self.client.usable:
                log.info("the certificate is renewed early, so that a recovery key is registered")
                self.client.rotate_now()
            for each in self.managers:
                each.look()

    async def follow_operator(self) -> None:
        """Renew what was issued before the moment that an operator has named (``kubevouch node renew-now``)."""
        pair = self.client.pair
        if self._options.attestation is None or pair is None:
            return
        try:
            async with self._as_node() as client:
                identity = await client.get(NODE_IDENTITIES, self._options.node_name)
        except (AgentError, TransportError, APIStatusError, ClientConfigurationError, OSError) as err:
            if isinstance(err, APIStatusError) and err.code == 401:
                # Forgotten, or banned: what it proves now tells which.
                self.client.refused()
            # Clusters that are no kubevouch's own let nobody read it by themselves.
            log.debug("what the operator says of this node cannot be read", error=str(err))
            return
        after = identity.spec.renew_after
        if after is not None and pair.leaf.not_before + BACKDATE < after.datetime():
            log.info("the certificate is renewed now: an operator has said so")
            self.client.rotate_now()

    async def report_trust(self) -> None:
        """Once for each bundle; a failure is made good at the next look."""
        try:
            bundle = trust_bundle.bundle_hash(self.access.bundle())
            if bundle == self._reported or self.client.pair is None:
                return
            async with self._as_node() as client:
                await trust_report.report(client, self._options.node_name, bundle)
            self._reported = bundle
        except (AgentError, TransportError, APIStatusError, ClientConfigurationError, OSError) as err:
            log.warning("the trust bundle in use could not be reported", error=str(err))

    async def _tell_systemd(self) -> None:
        pause = systemd.watchdog_seconds()
        while True:
            systemd.notify(*([systemd.WATCHDOG] if pause else []), systemd.status(self.health or "well"))
            await self._clock.sleep(min(pause or 60.0, 60.0))

    # -------------------------------------------------------------- listener

    async def renewed(self, manager: Manager, _former: StoredPair | None, /) -> None:
        if manager is not self.client:
            return
        files = self._options.files
        try:
            if node_kubeconfig.ensure(files.kubeconfig, self.access.trust_file, self._store.current_path):
                log.info("the kubeconfig names the certificate", path=str(files.kubeconfig))
            self._forget_token()
        except (AgentError, OSError) as err:
            log.error("the kubeconfig could not be written", path=str(files.kubeconfig), error=str(err))
        # What was connected with the former pair is not to go on.
        if self._watch is not None:
            self._watch.reconnect()
        for each in self.managers:
            if each is not manager:
                each.look()

    def _forget_token(self) -> None:
        """As kubeadm: what :meth:`begin` wrote does not stay, also if another run of the agent wrote it."""
        path, discovery = self._options.files.bootstrap_kubeconfig, self._options.files.discovery
        if isinstance(discovery, TokenDiscovery) and path is not None and token_user(path) == discovery.token.user:
            path.unlink()

    def failed(self, _manager: Manager, /) -> None:
        """The manager has logged it."""

    # -------------------------------------------------------------- controlled

    @property
    def health(self) -> str:
        standing = self.client.standing
        if self.client.is_gone:
            # It is not written again: a reset removes it on purpose.
            return f"{standing.path} was deleted or moved: put it back, or join again"
        if self.client.usable:
            return ""
        what = "the node's certificate has expired" if standing.not_after else "the node has no certificate"
        return f"{what}: {standing.last_error or standing.waits_for}".removesuffix(": ")

    def status(self) -> dict[str, Any]:
        try:
            trusted = trust_bundle.bundle_hash(self.access.bundle())
        except (AgentError, OSError) as err:
            trusted = f"none: {err}"
        now = self._clock.now()
        return {
            "nodeName": self._options.node_name,
            "kubeconfig": str(self._options.files.kubeconfig),
            "healthy": not self.health,
            "health": self.health,
            "trustBundle": trusted,
            "recovery": report.recovery(
                self.recovery,
                allowed=self.access.recovery_allowed,
                ended=self.client.pair is not None and not self.client.usable,
            ),
            "certificates": [report.facts(each.standing, now) for each in self.managers],
        }

    def rotate(self, name: str) -> bool:
        chosen = [each for each in self.managers if name in ("", each.name)]
        for manager in chosen:
            manager.rotate_now()
        return bool(chosen)


class _AsNode:
    """Asks as the node for what is not the node's client certificate.

    Args:
        trusted: whether the cluster's CA signs it.
    """

    def __init__(self, agent: Agent, *, trusted: bool) -> None:
        self._agent = agent
        self._trusted = trusted

    def anchors(self) -> TrustAnchors | None:
        return self._agent.access.anchors() if self._trusted else None

    def connected(self, _pair: StoredPair | None, /) -> AbstractAsyncContextManager[Poster]:
        if not self._agent.client.usable:
            raise SettingsError("the node has no client certificate to ask with", "it is asked for by itself")
        return self._agent.access.connected(self._agent.client.pair)

    def refused(self, _pair: StoredPair | None, /) -> None:
        """The client certificate's own manager finds out by itself."""

    async def refresh(self) -> None:
        await self._agent.access.refresh()

    def renewal_order(self) -> RenewalOrder | None:
        return self._agent.access.renewal_order() if self._trusted else None
