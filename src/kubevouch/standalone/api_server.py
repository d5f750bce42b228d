"""An API server without controllers: what its options come to, and the server over an open store."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING

import msgspec

from kubevouch.client.endpoint import Endpoint
from kubevouch.client.interface import Client
from kubevouch.machinery.text import gotext
from kubevouch.phases.certificates.certs import ControlPlanePKI
from kubevouch.phases.tracing import TracingError, tracer_from
from kubevouch.server.audit.build import AuditOptionsError, BuildAudit, prepare
from kubevouch.server.edge import sni
from kubevouch.server.edge.connection import ParserMissingError, require_parser
from kubevouch.server.edge.tls import TLSOptionsError
from kubevouch.server.filters.tracing import Tracing
from kubevouch.server.options import ServerOptions
from kubevouch.server.owner import Owner
from kubevouch.server.runtime_config import RuntimeConfig, RuntimeConfigError
from kubevouch.standalone import network, service_accounts
from kubevouch.standalone.access import Access, AccessError
from kubevouch.standalone.data_in_place import CHECK, DataInPlace
from kubevouch.standalone.encryption_options import RECORD as ENCRYPTION_RECORD
from kubevouch.standalone.errors import InvalidOptionsError, NotHereError
from kubevouch.standalone.options import StandaloneOptions
from kubevouch.standalone.server import StandaloneServer
from kubevouch.standalone.service_accounts import ServiceAccountError
from kubevouch.storage.interface import Store
from kubevouch.storage.options import InvalidStoreSpec, MemorySpec, StoreSpec, parse_store, root_of
from kubevouch.util.clock import Clock
from kubevouch.util.tasks import Supervisor

if TYPE_CHECKING:
    from kubevouch.standalone.encryption import EncryptionAtRest
    from kubevouch.standalone.encryption_record import EncryptionRecord


class ServerSettings(msgspec.Struct, frozen=True):
    """What the options of an API server come to, for one start."""

    store: StoreSpec
    runtime_config: RuntimeConfig
    access: Access
    audit: BuildAudit
    tracing: Tracing | None
    encryption: EncryptionAtRest | None = None
    encrypted_before: EncryptionRecord | None = None
    """Set where nothing is encrypted any more."""

    def deciphered(self, store: Store) -> Store:
        """``store`` with its values as they were before they were encrypted at rest."""
        return store if self.encryption is None else self.encryption.over(store)


def server_settings(options: StandaloneOptions, clock: Clock) -> ServerSettings:
    """Before anything is touched: every setting that needs no look at the machine is good.

    Raises:
        InvalidOptionsError
        NotHereError: a part of the program is missing.
    """
    _require_parser()
    try:
        network.service_addresses(options.service_cluster_ip_range)
    except ValueError as err:
        got = gotext.quote(options.service_cluster_ip_range)
        raise InvalidOptionsError(
            f"got the service range {got}, expected one such as 10.96.0.0/12",
            "two, of one family each, are separated by a comma",
        ) from err
    try:
        runtime_config = RuntimeConfig.parse(options.runtime_config)
    except RuntimeConfigError as err:
        raise InvalidOptionsError(str(err), "an example: certificates.k8s.io/v1beta1=true") from err
    try:
        store = parse_store(options.store, options.data_dir, options.etcd)
    except InvalidStoreSpec as err:
        raise InvalidOptionsError(str(err)) from err
    _check_tls(options.server)
    accounts = options.service_accounts
    try:
        service_accounts.check(accounts)
        access = Access(options.access, accounts.audiences, clock, own_issuers=accounts.issuers)
        audit = prepare(options.audit, clock)
        encryption, before = _encryption(options, clock, store)
        return ServerSettings(store, runtime_config, access, audit, _tracing(options), encryption, before)
    except (
        AccessError,
        AuditOptionsError,
        ServiceAccountError,
        TLSOptionsError,
        TracingError,
    ) as err:
        raise InvalidOptionsError(str(err)) from err


@contextlib.asynccontextmanager
async def api_server(
    options: StandaloneOptions,
    settings: ServerSettings,
    store: Store,
    clock: Clock,
    pki: ControlPlanePKI,
    endpoint: Endpoint,
    data: DataInPlace,
    at_first_start: Callable[[Client], Awaitable[None]] | None = None,
    owner: Owner | None = None,
) -> AsyncIterator[StandaloneServer]:
    """A server that has loaded ``store``, and has put in place what a cluster has unless an ``owner`` did.

    It does not listen yet.

    Args:
        data: without which it is not ready and changes nothing.

    Raises:
        InvalidOptionsError
        StoreError, OSError: a file or the store cannot be used.
    """
    encryption = settings.encryption
    try:
        made = StandaloneServer(
            settings.deciphered(store),
            clock,
            pki,
            endpoint,
            runtime_config=settings.runtime_config,
            access=settings.access,
            audit=settings.audit,
            options=options.server,
            tracing=settings.tracing,
            service_accounts=options.service_accounts,
            disabled_admission=options.disabled_admission,
            recovery=options.recovery,
            at_first_start=at_first_start,
            service_address=network.service_addresses(options.service_cluster_ip_range)[0],
            replicated=settings.store.is_shared,
            owner=owner,
            last_links=(data.refuse_changes,),
        )
    except (AccessError, AuditOptionsError, ServiceAccountError) as err:
        raise InvalidOptionsError(str(err)) from err
    made.api.add_check(CHECK, data.check)
    async with contextlib.AsyncExitStack() as stack:
        tasks = await stack.enter_async_context(Supervisor(clock))
        tasks.start("data-in-place", data.keep)
        if encryption is not None:
            await stack.enter_async_context(encryption.beside(made.api))
        server = await stack.enter_async_context(made)
        # Not before the store could be read: a start that fails changes nothing.
        if encryption is not None:
            encryption.remember()
        elif settings.encrypted_before is not None:
            settings.encrypted_before.keep({})
        yield server


def _encryption(
    options: StandaloneOptions, clock: Clock, store: StoreSpec
) -> tuple[EncryptionAtRest | None, EncryptionRecord | None]:
    """What encrypts; without it, the record of a server that encrypted before and is told not to any more.

    Raises:
        InvalidOptionsError
    """
    settings = options.encryption
    folder = None if isinstance(store, MemorySpec) else options.data_dir
    is_known = folder is not None and (folder / ENCRYPTION_RECORD).exists()
    if settings.config is None and not settings.automatic_reload and not is_known:
        return None, None
    # 30 ms of a start, for those who encrypt.
    from kubevouch.standalone.encryption import at_rest
    from kubevouch.standalone.encryption_record import EncryptionRecord

    record = EncryptionRecord(folder, allow_cleartext=settings.allow_cleartext)
    made = at_rest(settings, clock, root_of(store), record)
    if made is None:
        record.check({})
    return made, record if made is None else None


def _check_tls(options: ServerOptions) -> None:
    """That pairs which flags name can be served with. Raises InvalidOptionsError."""
    try:
        if options.serving is not None:
            sni.usable(options.serving, options.tls)
        sni.table(options.named, options.tls)
    except TLSOptionsError as err:
        raise InvalidOptionsError(str(err)) from err


def _require_parser() -> None:
    try:
        require_parser()
    except ParserMissingError as err:
        hint = "unset AIOHTTP_NO_EXTENSIONS, and install aiohttp from a wheel"
        raise NotHereError(str(err), hint) from err


def _tracing(options: StandaloneOptions) -> Tracing | None:
    path = options.server.tracing_config_file
    return None if path is None else Tracing(tracer_from(path, "kube-apiserver"))
