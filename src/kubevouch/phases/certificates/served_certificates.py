"""Which certificate a port serves, and who serves it: a process may go on with the old one long after a renewal."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import re
import ssl
from pathlib import Path

import msgspec

from kubevouch.client.endpoint import Endpoint, EndpointError, endpoint_of_url
from kubevouch.client.tls import insecure_context_that_verifies_nothing
from kubevouch.config import kubeconfig
from kubevouch.config.kubeconfig import KubeconfigError
from kubevouch.phases.certificates import control_plane_files
from kubevouch.phases.certificates.control_plane_files import Layout
from kubevouch.pki.client_certificate import is_issued_by
from kubevouch.pki.errors import ParseError
from kubevouch.pki.x509.x509_certificate import parse_bundle, parse_der
from kubevouch.util.clock import Clock
from kubevouch.util.tasks import deadline

DIAL_SECONDS = 5.0
_ETCD_CLIENT_PORT, _ETCD_PEER_PORT = 2379, 2380
_LISTEN = "0A"  # TCP_LISTEN in /proc/net/tcp
_SOCKET = re.compile(r"socket:\[([0-9]+)\]", re.ASCII)


class Served(msgspec.Struct, frozen=True):
    """What a port serves.

    Args:
        name: of the certificate that belongs on the port.
        is_current: whether it is the one on disk; None when nothing could be learnt.
        process: name and ID of who listens, as far as this user may see that.
        problem: why nothing could be learnt.
    """

    name: str
    address: str
    is_current: bool | None
    process: str = ""
    problem: str = ""


def ports(layout: Layout) -> dict[str, Endpoint]:
    """Where each serving certificate is to be seen, by its name; the API server's port stands in the kubeconfigs."""
    found: dict[str, Endpoint] = {}
    for name in ("controller-manager.conf", "scheduler.conf", "admin.conf", "super-admin.conf"):
        try:
            config = kubeconfig.load((layout.kubeconfigs / name).read_bytes())
            context = config.contexts[config.current_context]
            found["apiserver"] = endpoint_of_url(config.clusters[context.cluster].server)
            break
        except (OSError, KeyError, KubeconfigError, EndpointError):
            continue
    found["etcd-server"] = Endpoint("127.0.0.1", _ETCD_CLIENT_PORT)
    if "apiserver" in found:
        found["etcd-peer"] = Endpoint(found["apiserver"].host, _ETCD_PEER_PORT)
    return found


async def look(name: str, endpoint: Endpoint, layout: Layout, clock: Clock, *, proc: Path = Path("/proc")) -> Served:
    """Compare what ``endpoint`` serves with the certificate ``name`` on disk. Raises :class:`CertsError`."""
    chain = control_plane_files.read_chain(control_plane_files.credential(name), layout)
    try:
        async with deadline(clock, DIAL_SECONDS):
            served = await _served_certificate(endpoint)
    except TimeoutError:
        return Served(name, endpoint.address, None, problem="no answer in time")
    except ConnectionRefusedError:
        return Served(name, endpoint.address, None, problem="nothing listens there")
    except (OSError, ssl.SSLError) as err:
        return Served(name, endpoint.address, None, problem=str(err) or type(err).__name__)
    process = listening_process(endpoint.port, proc)
    current = chain is not None and hashlib.sha256(served).digest() == chain[0].fingerprint()
    if not current and not _is_of_this_cluster(name, served, layout):
        # To restart that process, or to believe that it takes the new certificate over, would be wrong.
        who = process or "the process that listens there"
        return Served(name, endpoint.address, None, process, f"{who} serves with a certificate of another cluster's CA")
    return Served(name, endpoint.address, current, process)


def _is_of_this_cluster(name: str, served: bytes, layout: Layout) -> bool:
    """Whether the CA that signs the certificate ``name`` here has signed what is served; True if it is not there."""
    try:
        bundle = parse_bundle(layout.authority(control_plane_files.credential(name).signed_by).certificate.read_bytes())
    except (OSError, ParseError):
        return True
    try:
        leaf = parse_der(served)
    except ParseError:
        return False
    return any(is_issued_by(leaf, authority) for authority in bundle)


async def _served_certificate(endpoint: Endpoint) -> bytes:
    context = insecure_context_that_verifies_nothing()
    _, writer = await asyncio.open_connection(endpoint.host, endpoint.port, ssl=context, server_hostname=None)
    try:
        tls = writer.get_extra_info("ssl_object")
        return bytes(tls.getpeercert(binary_form=True) or b"")
    finally:
        writer.transport.abort()


def listening_process(port: int, proc: Path = Path("/proc")) -> str:
    """``name (process 123)`` of who listens on a TCP port of this machine; empty if that cannot be seen."""
    inodes = _listening_inodes(port, proc)
    for folder in proc.glob("[0-9]*") if inodes else ():
        if _sockets_of(folder) & inodes:
            with contextlib.suppress(OSError):
                return f"{(folder / 'comm').read_text().strip()} (process {folder.name})"
    return ""


def _sockets_of(folder: Path) -> set[str]:
    found = set()
    # Processes end and close files meanwhile, and other users' cannot be looked at.
    with contextlib.suppress(OSError):
        for link in list((folder / "fd").iterdir()):
            with contextlib.suppress(OSError):
                match = _SOCKET.fullmatch(os.readlink(link))  # noqa: PTH115 - it is no path but socket:[1]
                if match:
                    found.add(match[1])
    return found


def _listening_inodes(port: int, proc: Path) -> set[str]:
    found = set()
    for table in ("tcp", "tcp6"):
        try:
            lines = (proc / "net" / table).read_text().splitlines()[1:]
        except OSError:
            continue
        for fields in map(str.split, lines):
            if fields[3] == _LISTEN and int(fields[1].rpartition(":")[2], 16) == port:
                found.add(fields[9])
    return found
