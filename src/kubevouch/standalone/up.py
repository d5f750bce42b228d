"""``kubevouch up`` without the printing: a data directory becomes a running cluster.

Everything in the directory is found again at the next start; what is missing or no longer fits is made anew, except the
authorities, which are never replaced.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import socket
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

from kubevouch.api.cluster_info import ClusterInfo
from kubevouch.phases import bootstrap_token, certs, cluster_info, kubeconfig
from kubevouch.pki import control_plane, pins
from kubevouch.pki.control_plane import ControlPlaneNames
from kubevouch.standalone import network
from kubevouch.standalone.controllers import start_controllers
from kubevouch.standalone.options import StandaloneOptions
from kubevouch.standalone.server import Endpoint, StandaloneServer
from kubevouch.storage.options import MemorySpec, parse_store
from kubevouch.util.clock import Clock
from kubevouch.util.files import PRIVATE_FOLDER, FileInUseError, locked, make_folder

LOCK_FILE = "kubevouch.lock"
ADMIN_FILE = "admin.conf"
SUPER_ADMIN_FILE = "super-admin.conf"
PKI_FOLDER = "pki"
# kubeadm's default service range begins with this address; programs in pods use it.
SERVICE_ADDRESS = "10.96.0.1"
LOCAL_NAMES = ("localhost", network.LOOPBACK, "::1")


class UpError(Exception):
    """The cluster cannot start here; ``hint`` says what to do."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Running:
    """A cluster that is ready.

    Args:
        token: a bootstrap token with which machines may join now.
        pin: the public key hash of the CA.
        keeps_state: False if the store ends with the process.
    """

    server: StandaloneServer
    admin_kubeconfig: Path
    token: str
    pin: str
    started: dt.timedelta
    keeps_state: bool

    @property
    def endpoint(self) -> Endpoint:
        return self.server.endpoint


@contextlib.asynccontextmanager
async def running(options: StandaloneOptions, clock: Clock) -> AsyncIterator[Running]:
    """A cluster in ``options.data_dir``, ready inside the block and drained at its end.

    Raises:
        UpError: the directory is in use, or the port is taken.
        InvalidStoreSpec, StoreError, CertsError, UnknownControllerError, OSError
    """
    begun = clock.monotonic()
    spec = parse_store(options.store, options.data_dir)
    make_folder(options.data_dir, PRIVATE_FOLDER)
    async with contextlib.AsyncExitStack() as stack:
        stack.enter_context(_only_here(options.data_dir))
        sockets = _bind(options)
        for bound in sockets:
            stack.callback(bound.close)
        endpoint = Endpoint(_advertised(options), sockets[0].getsockname()[1])
        pki = certs.ensure_control_plane(
            options.data_dir / PKI_FOLDER, _names(options, endpoint), now=clock.now(), algorithm=options.key_algorithm
        )
        _refuse_shared_authority(pki)
        store = await spec.open(clock)
        stack.push_async_callback(store.close)
        server = await stack.enter_async_context(StandaloneServer(store, clock, pki, endpoint))
        await cluster_info.ensure(server.client, ClusterInfo(endpoint.url, pki.ca_certificate))
        token = await bootstrap_token.ensure(server.client, options.token_ttl, now=clock.now())
        controllers = start_controllers(server, options.controllers)
        stack.push_async_callback(controllers.close)
        admin = options.data_dir / ADMIN_FILE
        for path, who in (
            (admin, control_plane.ADMIN),
            (options.data_dir / SUPER_ADMIN_FILE, control_plane.SUPER_ADMIN),
        ):
            kubeconfig.ensure(path, endpoint.url, pki.authority, who, now=clock.now(), algorithm=options.key_algorithm)
        await server.listen(sockets)
        yield Running(
            server,
            admin,
            token.text,
            pins.pin_of(pki.authority.certificate),
            dt.timedelta(seconds=clock.monotonic() - begun),
            keeps_state=not isinstance(spec, MemorySpec),
        )


@contextlib.contextmanager
def _only_here(data_dir: Path) -> Iterator[None]:
    try:
        with locked(data_dir / LOCK_FILE):
            yield
    except FileInUseError as err:
        owner = (data_dir / LOCK_FILE).read_text().strip()
        raise UpError(
            f"the data directory {data_dir} is in use by process {owner or 'unknown'}",
            "stop that process, or choose another --data-dir",
        ) from err


def _bind(options: StandaloneOptions) -> list[socket.socket]:
    try:
        return network.bind(options.bind_address, options.secure_port)
    except OSError as err:
        raise UpError(
            f"cannot listen on {options.bind_address} port {options.secure_port}: {(err.strerror or str(err)).lower()}",
            "choose another --secure-port or --bind-address; --secure-port 0 picks a free port",
        ) from err


def _advertised(options: StandaloneOptions) -> str:
    if options.advertise_address:
        return options.advertise_address
    if not network.is_wildcard(options.bind_address):
        return options.bind_address
    return network.default_address()


def _names(options: StandaloneOptions, endpoint: Endpoint) -> ControlPlaneNames:
    return ControlPlaneNames(
        node_name=socket.gethostname().lower(),
        advertise_address=endpoint.host,
        service_addresses=(SERVICE_ADDRESS,),
        extra=(*LOCAL_NAMES, *options.extra_names),
    )


def _refuse_shared_authority(pki: certs.ControlPlanePKI) -> None:
    """Whoever the front-proxy CA signs may claim to be anyone: a client CA there would hand that to every client."""
    client, proxy = pki.authority.certificate, pki.front_proxy_authority.certificate
    if client.public_key.canonical_info == proxy.public_key.canonical_info:
        raise UpError(
            f"{pki.folder}/front-proxy-ca.crt has the key of the client CA ca.crt",
            "move both front-proxy-ca files away; new ones are made at the next start",
        )
