"""The names of a kubelet's serving certificate, from the Node object and what the operator adds.

Source: kubelet ``certificate/kubelet.go`` (Kubernetes 1.36).
"""

from __future__ import annotations

import asyncio
import datetime as dt
import ipaddress
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing

from kubevouch.agent.certificate_manager import CertificateManager
from kubevouch.agent.certificate_request import RequestTemplate, node_serving
from kubevouch.agent.certificate_store import CertificateStore
from kubevouch.agent.interface import AgentError, SettingsError
from kubevouch.api import catalog
from kubevouch.api.core_v1 import Node
from kubevouch.client.interface import Client, ClientConfigurationError, EventType, TransportError, WatchOptions
from kubevouch.machinery.errors import APIStatusError
from kubevouch.pki import authority, keys, rotation
from kubevouch.pki.errors import AuthorityError
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509.subject_alt_names import SubjectAltNames
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.util import backoff
from kubevouch.util.clock import Clock
from kubevouch.util.logger import get_logger

log = get_logger("agent.serving")

PREFIX = "kubelet-server"
SELF_SIGNED_VALIDITY = dt.timedelta(days=365)
"""As kubelets have it."""
SELF_SIGNED_WARNING = (
    "it serves with a self-signed certificate, which proves nothing, until one is issued; whoever connects has to pass "
    "over that, and can be deceived"
)
_WATCH_SECONDS = 300
_FIRST_DELAY, _LONGEST_DELAY = 1.0, 30.0

Address = tuple[str, str]
"""Type and address, as in ``status.addresses``."""


def extra_addresses(texts: Sequence[str]) -> tuple[Address, ...]:
    """Names and IP addresses that the operator declares, as addresses of a node."""
    return tuple(("ExternalIP" if _is_ip(text) else "ExternalDNS", text) for text in texts)


def _is_ip(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def is_self_signed(leaf: Certificate) -> bool:
    """Whether it names no other issuer than itself."""
    return leaf.issuer_name == leaf.subject_name


def ensure_self_signed(store: CertificateStore, node_name: str, extra: Sequence[Address], *, now: dt.datetime) -> bool:
    """Have something to serve with until a certificate is issued; whether that is what is in ``store`` afterwards.

    Its subject is the bare name of the node, which is no kubelet's: so kubelet and agent ask at once for another, and
    replace it as they replace every pair.

    Raises:
        AgentError: a name cannot be written, or another program is at the store.
        OSError: a file cannot be read or written.
    """
    with store.locked():
        found = store.current()
        if found is not None and not is_self_signed(found.leaf):
            return False
        if found is None or not rotation.usable(found.leaf, now=now):
            names = rotation.serving_names((("Hostname", node_name), *extra), allow_dns_only=True) or SubjectAltNames()
            key = keys.generate(KeyAlgorithm.ECDSA_P256)
            try:
                made = authority.create_self_signed(node_name, names, key, now=now, validity=SELF_SIGNED_VALIDITY)
            except AuthorityError as err:
                raise SettingsError(str(err), "choose another --node-name or --address") from err
            store.update(made.pem(), key, now=now)
    return True


class ServingTemplate:
    """What to ask for by the addresses known now: nothing before there is an IP address."""

    def __init__(
        self,
        node_name: str,
        extra: Sequence[Address] = (),
        *,
        algorithm: KeyAlgorithm = KeyAlgorithm.ECDSA_P256,
        expiration_seconds: int | None = None,
    ) -> None:
        self._node_name = node_name
        self._extra = tuple(extra)
        self._algorithm = algorithm
        self._expiration_seconds = expiration_seconds
        self._addresses: tuple[Address, ...] = ()

    def saw(self, node: Node) -> bool:
        """Take note of a Node's addresses; whether they are others than before."""
        found = tuple((each.type, each.address) for each in node.status.addresses)
        changed = found != self._addresses
        self._addresses = found
        return changed

    def __call__(self) -> RequestTemplate | None:
        # Declared addresses alone do not make a node that can be reached.
        names = rotation.serving_names(self._addresses) and rotation.serving_names((*self._addresses, *self._extra))
        if names is None:
            return None
        return node_serving(
            self._node_name, names, algorithm=self._algorithm, expiration_seconds=self._expiration_seconds
        )


class AddressWatch:
    """Watches this node's Node object, as the node itself, and tells the manager of addresses that change."""

    def __init__(
        self,
        node_name: str,
        connect: Callable[[], AbstractAsyncContextManager[Client]],
        template: ServingTemplate,
        manager: CertificateManager,
        clock: Clock,
        random: backoff.Random,
    ) -> None:
        self._node_name = node_name
        self._connect = connect
        self._template = template
        self._manager = manager
        self._clock = clock
        self._random = random
        self._watching: asyncio.Task[None] | None = None

    def reconnect(self) -> None:
        """Watch anew, with the certificate that the node has now."""
        if self._watching is not None:
            self._watching.cancel()

    async def run(self) -> None:
        """For ever."""
        while True:
            delays = backoff.full_jitter(backoff.exponential(_FIRST_DELAY, _LONGEST_DELAY), self._random)
            for delay in delays:
                self._watching = asyncio.create_task(self._watch(), name="address-watch")
                try:
                    await asyncio.wait({self._watching})
                    if not self._watching.cancelled():
                        self._watching.result()
                    break
                except (AgentError, TransportError, APIStatusError, ClientConfigurationError, OSError) as err:
                    log.info("the node's addresses cannot be watched", node=self._node_name, error=str(err))
                finally:
                    self._watching.cancel()
                    await asyncio.wait({self._watching})
                await self._clock.sleep(delay)
            # A watch that ends at once must not become a storm.
            await self._clock.sleep(1.0)

    async def _watch(self) -> None:
        # Without a version it begins with what there is, also where streaming lists are off (Kubernetes 1.31, 1.33).
        options = WatchOptions(field_selector=f"metadata.name={self._node_name}", timeout_seconds=_WATCH_SECONDS)
        async with self._connect() as client, aclosing(client.watch(catalog.NODES, options=options)) as events:
            async for event in events:
                if event.status is not None:
                    raise APIStatusError(event.status)
                if event.object is None or event.type in (EventType.BOOKMARK, EventType.DELETED):
                    continue
                if self._template.saw(event.object):
                    self._manager.look()
