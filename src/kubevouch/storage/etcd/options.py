"""What a store on etcd is told. Without gRPC, so that commands which only read settings do not load it."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

HOST = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")
"""A name or an address, with or without a port."""
PREFIX = re.compile(r"(?:/[A-Za-z0-9._-]+)+")
DEFAULT_PREFIX = "/registry"
DEFAULT_PORT = 2379
LEASE_REUSE_SECONDS = 60
LEASE_REUSE_WRITES = 1000
DB_POLL_SECONDS = 30.0


class EtcdOptions(msgspec.Struct, frozen=True):
    """Where etcd is and how to get in; the names are kube-apiserver's flags without ``--etcd-``.

    Args:
        endpoints: URLs, http or https, all of one cluster.
        prefix: what all keys of this cluster begin with, without a slash at the end.
        cafile: PEM; None trusts what the system trusts.
        certfile: PEM, shown to etcd, with its ``keyfile``.
        user: of etcd's own authentication; empty is none. The password is the first line of ``password_file``.
        lease_reuse_seconds: how much longer than asked a key with a time to live may stay, so that many share a lease.
        lease_reuse_writes: how many keys share one at most.
        read_seconds, write_seconds: how long a call may take with all its attempts; kube-apiserver's, as measured.
        db_poll_seconds: between two questions for the size of the database; 0 asks none.
    """

    endpoints: tuple[str, ...] = ()
    prefix: str = DEFAULT_PREFIX
    cafile: Path | None = None
    certfile: Path | None = None
    keyfile: Path | None = None
    user: str = ""
    password_file: Path | None = None
    lease_reuse_seconds: int = LEASE_REUSE_SECONDS
    lease_reuse_writes: int = LEASE_REUSE_WRITES
    db_poll_seconds: float = DB_POLL_SECONDS
    read_seconds: float = 60.0
    write_seconds: float = 34.0

    @property
    def name(self) -> str:
        """As ``--store`` names it."""
        hosts = ",".join(endpoint.partition("://")[2] for endpoint in self.endpoints)
        return f"etcd://{hosts}{self.prefix}"

    @property
    def uses_tls(self) -> bool:
        """Whether any file for TLS is set."""
        return any((self.cafile, self.certfile, self.keyfile))
