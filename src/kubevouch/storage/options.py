"""The ``--store`` setting: which store to open, and where.

memory:             gone when the process ends
sqlite:             a file of the default name in the data folder
sqlite:PATH         that file; made, with its folder, if it is not there
etcd://HOST:PORT,HOST:PORT[/PREFIX]
                    an etcd cluster, which several servers may share
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from kubevouch.storage.copying.mark import expect_finished
from kubevouch.storage.etcd.options import DEFAULT_PORT, DEFAULT_PREFIX, HOST, PREFIX, EtcdOptions
from kubevouch.storage.interface import Store, StoreUnavailable
from kubevouch.storage.memory import MemoryStore
from kubevouch.storage.sqlite import SQLiteStore
from kubevouch.util.clock import Clock

DEFAULT_FILE = "kubevouch.db"
ETCD_MARKED = "etcd"
"""``etcd.mark`` is in the data directory, whatever the prefix: a cluster of etcd has one counter."""


class InvalidStoreSpec(ValueError):
    """The text names no store."""


class MemorySpec(msgspec.Struct, frozen=True):
    """``memory:``"""

    @property
    def is_shared(self) -> bool:
        """Whether other processes may be at work on it at the same time."""
        return False

    async def open(self, clock: Clock) -> Store:
        return MemoryStore(clock=clock)

    def __str__(self) -> str:
        return "memory:"


class SQLiteSpec(msgspec.Struct, frozen=True):
    """``sqlite:PATH``"""

    path: Path

    @property
    def is_shared(self) -> bool:
        """See :class:`MemorySpec`: it is locked."""
        return False

    async def open(self, clock: Clock) -> Store:
        """Raises StoreInUse, StoreDamaged, StoreUnavailable, Unfinished."""
        return await _finished(await SQLiteStore.open(self.path, clock=clock), self)

    def __str__(self) -> str:
        return f"sqlite:{self.path}"


class EtcdSpec(msgspec.Struct, frozen=True):
    """``etcd://…``

    Args:
        mark: where a server keeps what it has seen of this etcd; None keeps nothing.
    """

    etcd: EtcdOptions
    mark: Path | None = None

    @property
    def is_shared(self) -> bool:
        """See :class:`MemorySpec`."""
        return True

    async def open(self, clock: Clock) -> Store:
        """Raises StoreUnavailable, EtcdWentBack, Unfinished."""
        try:
            from kubevouch.storage.etcd.store import EtcdStore
        except ImportError as err:
            raise StoreUnavailable("a store on etcd needs the extra: pip install 'kubevouch[etcd]'") from err
        return await _finished(await EtcdStore.open(self.etcd, clock, mark=self.mark), self)

    def __str__(self) -> str:
        return self.etcd.name


async def _finished(store: Store, spec: object) -> Store:
    """Whoever opens a store by its name is about to serve from it."""
    try:
        await expect_finished(store, str(spec))
    except BaseException:
        await store.close()
        raise
    return store


StoreSpec = MemorySpec | SQLiteSpec | EtcdSpec


def root_of(spec: StoreSpec) -> str:
    """What keys begin with where they are stored, in the place of ``/registry/``: encrypted values are bound to it."""
    return f"{spec.etcd.prefix if isinstance(spec, EtcdSpec) else DEFAULT_PREFIX}/"


_EXAMPLES = (
    f"for example sqlite:/var/lib/kubevouch/{DEFAULT_FILE} or etcd://10.0.0.1:{DEFAULT_PORT},10.0.0.2:{DEFAULT_PORT}"
)


def parse_store(text: str, data_folder: Path, etcd: EtcdOptions | None = None) -> StoreSpec:
    """What ``text`` asks for. It can be opened as often as wanted, one after the other.

    Args:
        etcd: everything about etcd that ``text`` does not say; ``etcd:`` says nothing.

    Raises:
        InvalidStoreSpec
    """
    scheme, colon, rest = text.partition(":")
    if colon and scheme == "memory" and not rest:
        return MemorySpec()
    if colon and scheme == "sqlite" and "\x00" not in rest and not rest.endswith("/"):
        return SQLiteSpec(Path(rest) if rest else data_folder / DEFAULT_FILE)
    if text == "etcd:" and etcd is not None and etcd.endpoints:
        return EtcdSpec(etcd, data_folder / ETCD_MARKED)
    if colon and scheme == "etcd" and rest.startswith("//"):
        spec = _etcd(rest[2:], etcd or EtcdOptions())
        if spec is not None:
            return msgspec.structs.replace(spec, mark=data_folder / ETCD_MARKED)
    raise InvalidStoreSpec(f"got the store {text!r}, expected memory:, sqlite:PATH or etcd://HOST:PORT,…; {_EXAMPLES}")


def _etcd(text: str, told: EtcdOptions) -> EtcdSpec | None:
    hosts, slash, path = text.partition("/")
    if not all(HOST.fullmatch(host) for host in hosts.split(",")):
        return None
    if slash and not PREFIX.fullmatch(slash + path):
        return None
    scheme = "https" if told.uses_tls else "http"
    endpoints = tuple(f"{scheme}://{host}" for host in hosts.split(","))
    prefix = slash + path if slash else told.prefix
    return EtcdSpec(msgspec.structs.replace(told, endpoints=endpoints, prefix=prefix))
