"""What a server takes of its machine before it does anything: its directory and its port."""

from __future__ import annotations

import contextlib
import errno
import socket
from collections.abc import Iterator
from pathlib import Path

from kubevouch.client.endpoint import Endpoint
from kubevouch.standalone import network
from kubevouch.standalone.errors import NotHereError
from kubevouch.standalone.options import StandaloneOptions
from kubevouch.util.files import PRIVATE_FOLDER, FileInUseError, locked, make_folder

LOCK_FILE = "kubevouch.lock"


@contextlib.contextmanager
def directory(data_dir: Path) -> Iterator[None]:
    """Holds the directory, which is made if it is missing. Raises :class:`NotHereError`."""
    lock = data_dir / LOCK_FILE
    with contextlib.ExitStack() as held:
        try:
            make_folder(data_dir, PRIVATE_FOLDER)
            held.enter_context(locked(lock))
        except FileInUseError as err:
            raise NotHereError(
                f"the data directory {data_dir} is in use by process {lock.read_text().strip() or 'unknown'}",
                "stop that process, or choose another --data-dir",
            ) from err
        except OSError as err:
            raise NotHereError(
                f"the data directory {data_dir} cannot be written: {_words(err)}",
                getattr(err, "hint", "choose a --data-dir that this user may write"),
            ) from err
        yield


_NO_LISTENING = {
    errno.EADDRINUSE: "stop what listens there, or choose another --secure-port; 0 picks a free one",
    errno.EADDRNOTAVAIL: "choose a --bind-address that this machine has; 0.0.0.0 is all of them",
    errno.EACCES: "choose a --secure-port of 1024 or more",
}


def sockets(options: StandaloneOptions, recorded: Endpoint | None) -> list[socket.socket]:
    """``recorded``: where machines are sent; a port that is to be picked is that one, if it is free.

    Raises:
        NotHereError
    """
    if options.secure_port == 0 and recorded is not None and network.is_ours(recorded.host):
        with contextlib.suppress(OSError):
            return network.bind(options.bind_address, recorded.port)
    try:
        return network.bind(options.bind_address, options.secure_port)
    except OSError as err:
        where = Endpoint(options.bind_address, options.secure_port).address
        raise NotHereError(f"cannot listen on {where}: {_words(err)}", _NO_LISTENING.get(err.errno or 0, "")) from err


def _words(err: OSError) -> str:
    return (err.strerror or str(err)).lower()
