"""ConfigMap ``extension-apiserver-authentication``: whom this server believes, for those who verify as it does.

kube-controller-manager, kube-scheduler and aggregated servers take the client CA and the front proxy's from it. Several
API servers write it, so what is there stays, until its certificates have ended.

Source: pkg/controlplane/controller/clusterauthenticationtrust (Kubernetes 1.36).
"""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Callable, Iterable, Mapping

import msgspec

from kubevouch import wellknown
from kubevouch.api import catalog
from kubevouch.api.core_v1 import ConfigMap
from kubevouch.authentication.request_header import RequestHeaderOptions
from kubevouch.client import stored
from kubevouch.client.interface import Client, TransportError
from kubevouch.machinery.codec import json_codec
from kubevouch.machinery.errors import APIStatusError, Reason, loggable
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.pki.errors import ParseError
from kubevouch.pki.x509 import x509_certificate
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.util.clock import Clock
from kubevouch.util.logger import get_logger
from kubevouch.util.tasks import deadline
from kubevouch.util.worker import elsewhere

log = get_logger("cluster_authentication_trust_controller")

HOOK = "start-cluster-authentication-info-controller"
NAME, NAMESPACE = wellknown.EXTENSION_APISERVER_AUTHENTICATION_CONFIGMAP, wellknown.KUBE_SYSTEM_NAMESPACE
INTERVAL_SECONDS = 60.0
_SLACK = dt.timedelta(minutes=5)
_CLIENT_CA, _PROXY_CA = "client-ca-file", "requestheader-client-ca-file"


class AuthenticationTrust(msgspec.Struct, frozen=True):
    """What this server believes: the bundles of its authenticators, and where the front proxy puts what."""

    clients: tuple[Certificate, ...]
    proxies: tuple[Certificate, ...]
    headers: RequestHeaderOptions

    @property
    def _lists(self) -> dict[str, tuple[str, ...]]:
        return {
            "requestheader-username-headers": self.headers.username_headers,
            "requestheader-uid-headers": self.headers.uid_headers,
            "requestheader-group-headers": self.headers.group_headers,
            "requestheader-extra-headers-prefix": self.headers.extra_header_prefixes,
            "requestheader-allowed-names": self.headers.allowed_names,
        }

    def beside(self, data: Mapping[str, str], now: dt.datetime) -> dict[str, str]:
        """The entries, once ours are among what ``data`` has; other keys go.

        Raises:
            ValueError: what is there cannot be read.
        """
        entries: dict[str, str] = {}
        bundle = _combined(data.get(_CLIENT_CA, ""), self.clients, now)
        if bundle:
            entries[_CLIENT_CA] = bundle
        bundle = _combined(data.get(_PROXY_CA, ""), self.proxies, now)
        if bundle:
            entries[_PROXY_CA] = bundle
            for key, ours in self._lists.items():
                theirs = msgspec.json.decode(data[key], type=list[str]) if data.get(key) else []
                entries[key] = json_codec.encode(list(dict.fromkeys((*theirs, *ours)))).decode()
        return entries


def _combined(text: str, ours: Iterable[Certificate], now: dt.datetime) -> str:
    """Raises :class:`ParseError`."""
    theirs = x509_certificate.parse_bundle(text.encode()) if text else []
    # Equal by their contents, those that are there first.
    unique = {each.contents: each for each in (*theirs, *ours) if each.not_after > now - _SLACK}
    return b"".join(each.pem() for each in unique.values()).decode()


async def strangers(client: Client, ours: Iterable[Certificate], now: dt.datetime) -> tuple[Certificate, ...]:
    """The CAs of clients that a cluster has and that have not ended, if none of them is in ``ours``; otherwise nothing.

    Whoever starts on somebody's store with a CA of his own would send all machines that join to himself, and lock out
    those that have.

    Raises:
        APIStatusError, TransportError
    """
    found = await stored.find(client, catalog.CONFIG_MAPS, NAME, NAMESPACE)
    try:
        theirs = x509_certificate.parse_bundle((found.data if found else {}).get(_CLIENT_CA, "").encode())
    except ParseError:
        return ()
    known = {each.contents for each in ours}
    live = tuple(each for each in theirs if each.not_after >= now)
    return () if any(each.contents in known for each in live) else live


async def ensure(client: Client, trust: AuthenticationTrust, now: dt.datetime) -> None:
    """Make the ConfigMap say what ``trust`` says, beside what it says already.

    Raises:
        APIStatusError, TransportError
        ValueError: what is there cannot be read, and stays.
    """

    async def once() -> None:
        found = await stored.find(client, catalog.CONFIG_MAPS, NAME, NAMESPACE)
        data = {} if found is None else found.data
        # A ConfigMap has room for thousands of certificates.
        wanted = await elsewhere(lambda: trust.beside(data, now))
        if found is None:
            meta = ObjectMeta(name=NAME, namespace=NAMESPACE)
            await client.create(catalog.CONFIG_MAPS, ConfigMap(metadata=meta, data=wanted))
        elif wanted != data:
            await client.update(catalog.CONFIG_MAPS, msgspec.structs.replace(found, data=wanted))

    try:
        await stored.unopposed(once)
    except APIStatusError as err:
        if err.code == 413 or (err.reason == Reason.INVALID and "Too long" in str(err)):
            # Filled up by somebody: every server puts its own back.
            await client.delete(catalog.CONFIG_MAPS, NAME, NAMESPACE)
        raise


async def attempt(client: Client, trust: AuthenticationTrust, now: dt.datetime) -> None:
    """:func:`ensure`; what goes wrong is logged."""
    try:
        await ensure(client, trust, now)
    except (APIStatusError, TransportError) as err:
        log.warning("could not write the authentication trust", err=loggable(err))
    except (ParseError, ValueError) as err:
        log.error("the authentication trust that is stored cannot be read, and stays", name=NAME, err=str(err))


async def keep(client: Client, clock: Clock, trust: Callable[[], AuthenticationTrust], changed: asyncio.Event) -> None:
    """For ever: whenever ``changed`` is set, and once a minute."""
    while True:
        try:
            async with deadline(clock, INTERVAL_SECONDS):
                await changed.wait()
        except TimeoutError:
            pass
        changed.clear()
        await attempt(client, trust(), clock.now())
