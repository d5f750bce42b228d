"""A data directory becomes an API server that is ready, before any controller runs and before anybody listens.

Everything in the directory is found again at the next start. Certificates that are missing or no longer fit are made
anew, except authorities; what kubeadm makes in the cluster is made at the first start only (:mod:`.first_start`).
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

import msgspec

from kubevouch.client.endpoint import Endpoint
from kubevouch.phases import cluster_info
from kubevouch.phases.certificates import certs
from kubevouch.phases.certificates.certs import CertsError, ControlPlanePKI
from kubevouch.pki.control_plane import CA, SUPER_ADMIN, ControlPlaneNames
from kubevouch.server.bootstrap import own_kinds
from kubevouch.standalone import addresses, claims, network, shared_pki
from kubevouch.standalone.api_server import ServerSettings, api_server
from kubevouch.standalone.data_in_place import DataInPlace
from kubevouch.standalone.first_start import FirstStart
from kubevouch.standalone.kubeconfigs import ADMIN_FILE, SUPER_ADMIN_FILE, Kubeconfigs, Moved
from kubevouch.standalone.options import StandaloneOptions
from kubevouch.standalone.published import keep_cluster_info, keep_endpoint
from kubevouch.standalone.server import StandaloneServer
from kubevouch.storage.interface import Store
from kubevouch.util.clock import Clock

PKI_FOLDER = "pki"
LOCAL_NAMES = ("localhost", network.LOOPBACK, "::1")


class Prepared(msgspec.Struct, frozen=True):
    """A server over the store of a data directory.

    Args:
        store: the one that it is over.
        sockets: what it is to listen on; connections wait there until it does.
        names: those of its serving certificate.
        decided: the address that all control planes share; None if there is none.
        published: where cluster-info sends machines; None if there is none, or nothing that can be used.
        shared: where kubeconfigs that are new send their users.
        moved: what names another server since this start.
        data: whether the directory is in place; whoever opens further files there adds them.
    """

    server: StandaloneServer
    store: Store
    sockets: list[socket.socket]
    names: ControlPlaneNames
    kubeconfigs: Kubeconfigs
    decided: Endpoint | None
    published: Endpoint | None
    shared: Endpoint
    moved: tuple[Moved, ...]
    data: DataInPlace

    def sent(self) -> Endpoint:
        """Where machines are sent, as far as anything says so."""
        return self.published or addresses.recorded(self.kubeconfigs.path(ADMIN_FILE)) or self.shared


@contextlib.asynccontextmanager
async def prepared(
    options: StandaloneOptions, settings: ServerSettings, clock: Clock, *, needs_key: bool, may_begin: bool = True
) -> AsyncIterator[Prepared]:
    """The server of ``options.data_dir``, ready inside the block and drained at its end.

    Args:
        needs_key: whether the CA's key has to be there.
        may_begin: whether a cluster may begin here, with authorities of its own.

    Raises:
        StartError
        StoreError, CertsError, OSError: a file in the directory cannot be used.
    """
    async with contextlib.AsyncExitStack() as stack:
        if settings.tracing is not None:
            stack.push_async_callback(asyncio.to_thread, settings.tracing.tracer.close)
        stack.enter_context(claims.directory(options.data_dir))
        data = DataInPlace(options.data_dir, clock)
        admin = options.data_dir / ADMIN_FILE
        # A first start that was cut short may have made the second one only.
        recorded = addresses.recorded(admin) or addresses.recorded(options.data_dir / SUPER_ADMIN_FILE)
        sockets = claims.sockets(options, recorded)
        for bound in sockets:
            stack.callback(bound.close)
        endpoint = addresses.local(options, sockets[0].getsockname()[1])
        shared = addresses.shared(options, endpoint, recorded)
        # Until the store says what was decided, a flag for this server alone does not count.
        names = _names(options, endpoint, shared, recorded)
        folder = options.data_dir / PKI_FOLDER
        if settings.store.is_shared:
            store = await _opened(stack, settings, clock)
            await shared_pki.ensure(settings.deciphered(store), folder, options.certificate_key, may_begin=may_begin)
        is_new = not (folder / f"{CA}.crt").exists()
        pki = _ensure_pki(options, names, clock, needs_key=needs_key)
        if not settings.store.is_shared:
            # Of a start with files that are no authority's nothing is changed.
            store = await _opened(stack, settings, clock)
        kubeconfigs = Kubeconfigs(options, pki, endpoint, clock)
        if is_new:
            # Of a new authority nobody else has a credential; a store that others have begun, such as a kube-apiserver
            # of another PKI, need not know the group of admin.conf.
            kubeconfigs.ensure(SUPER_ADMIN_FILE, SUPER_ADMIN)
        first_start = FirstStart(options, pki, kubeconfigs, shared, clock)
        await stack.enter_async_context(data.watching_store(store))
        server = await stack.enter_async_context(
            api_server(options, settings, store, clock, pki, endpoint, data, first_start)
        )
        await own_kinds.ensure(server.client)
        decided, moved = await keep_endpoint(server, options, endpoint)
        published, elsewhere = await keep_cluster_info(
            server, options, endpoint, decided, replicated=settings.store.is_shared
        )
        await cluster_info.tell_recovery(server.client, allowed=options.recovery is not None)
        yield Prepared(
            server, store, sockets, names, kubeconfigs, decided, published, shared, (*moved, *elsewhere), data
        )


async def _opened(stack: contextlib.AsyncExitStack, settings: ServerSettings, clock: Clock) -> Store:
    store = await settings.store.open(clock)
    stack.push_async_callback(store.close)
    return store


def _ensure_pki(
    options: StandaloneOptions, names: ControlPlaneNames, clock: Clock, *, needs_key: bool
) -> ControlPlanePKI:
    try:
        return certs.ensure_control_plane(
            options.data_dir / PKI_FOLDER, names, now=clock.now(), algorithm=options.key_algorithm, needs_key=needs_key
        )
    except CertsError as err:
        if needs_key and not (options.data_dir / PKI_FOLDER / f"{CA}.key").exists():
            hint = f"{err.hint}; --controllers=*,-csrsigning or --cluster-signing-cert-file starts without it"
            raise CertsError(str(err), hint) from err
        raise


def _names(
    options: StandaloneOptions, endpoint: Endpoint, shared: Endpoint, recorded: Endpoint | None
) -> ControlPlaneNames:
    kept = () if recorded is None else (recorded.host,)
    return ControlPlaneNames(
        node_name=socket.gethostname().lower(),
        advertise_address=endpoint.host,
        endpoint_host=shared.host,
        service_addresses=network.service_addresses(options.service_cluster_ip_range),
        extra=(*LOCAL_NAMES, *options.extra_names, *kept, *(each.host for each in addresses.others(options, endpoint))),
    )
