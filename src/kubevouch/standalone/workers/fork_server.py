"""A child that forks further ones from what the program was before it had threads, a loop, keys or a store.

Forking is what makes a worker cheap: what was loaded is loaded once, and its memory is shared. It is safe from a
process with one thread only, which the one that runs a server is not.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import NoReturn

_MAX_SOCKETS = 16
_MAX_WORD = 64

Work = Callable[[Sequence[socket.socket]], None]


class ForkFailed(Exception):
    """There is no further process."""


class Child:
    """A process. ``ended`` is its exit code once it has ended, negative for the signal that ended it."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def kill(self) -> None:
        """At once, whatever it does."""
        if not self.ended.done():
            # Its parent says that it has ended right after it has taken its number back.
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)


class ForkServer:
    """Made by :meth:`start`, before anything else; used from one event loop."""

    def __init__(self, pid: int, channel: socket.socket) -> None:
        self._pid = pid
        self._channel = channel
        self._children: dict[int, Child] = {}
        self._forking: list[asyncio.Future[Child]] = []
        self._lost: asyncio.Future[None] | None = None

    @classmethod
    def start(cls, work: Work) -> ForkServer:
        """``work`` is what a child does with the sockets that it is given; with its return the child ends.

        Raises:
            OSError: the machine has no room for another process.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            ours.close()
            _exit_after(partial(_serve, theirs, work))
        theirs.close()
        return cls(pid, ours)

    def attach(self) -> asyncio.Future[None]:
        """Hear from now on; what is returned is done when the fork server is gone."""
        loop = asyncio.get_running_loop()
        self._lost = loop.create_future()
        self._channel.setblocking(False)
        loop.add_reader(self._channel, self._heard)
        return self._lost

    async def fork(self, sockets: Sequence[socket.socket]) -> Child:
        """Another child. It has copies of ``sockets``.

        Raises:
            ForkFailed
        """
        if self._lost is None or self._lost.done():
            raise ForkFailed("the process that forks workers is gone")
        forked: asyncio.Future[Child] = asyncio.get_running_loop().create_future()
        self._forking.append(forked)
        try:
            socket.send_fds(self._channel, [b"fork"], [each.fileno() for each in sockets])
        except OSError as err:
            self._forking.remove(forked)
            raise ForkFailed(f"no worker can be forked: {err.strerror}") from err
        return await forked

    def close(self) -> None:
        """After its children have ended: it ends, too."""
        if self._lost is not None and not self._lost.done():
            asyncio.get_running_loop().remove_reader(self._channel)
            self._lost.set_result(None)
        self._channel.close()
        with suppress(ChildProcessError):
            os.waitpid(self._pid, 0)

    def _heard(self) -> None:
        try:
            word, _, rest = self._channel.recv(_MAX_WORD).decode().partition(" ")
        except BlockingIOError:
            return
        except OSError:
            word, rest = "", ""
        if word == "forked":
            child = Child(int(rest))
            self._children[child.pid] = child
            self._forking.pop(0).set_result(child)
        elif word == "failed":
            self._forking.pop(0).set_exception(ForkFailed(f"no worker can be forked: {rest}"))
        elif word == "ended":
            pid, _, code = rest.partition(" ")
            self._children.pop(int(pid)).ended.set_result(int(code))
        elif self._lost is not None:
            asyncio.get_running_loop().remove_reader(self._channel)
            self._lost.set_result(None)
            for forked in self._forking:
                forked.set_exception(ForkFailed("the process that forks workers is gone"))


def _serve(channel: socket.socket, work: Work) -> None:
    """Until the other side is gone. Its children learn that by themselves."""
    # A terminal's Control-C and a service manager's signal go to all: the owner says when it is time.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    waiting = select.poll()
    waiting.register(channel, select.POLLIN)
    children: dict[int, int] = {}
    while True:
        for ready, _ in waiting.poll():
            if ready != channel.fileno():
                waiting.unregister(ready)
                os.close(ready)
                pid, status = os.waitpid(children.pop(ready), 0)
                channel.send(f"ended {pid} {os.waitstatus_to_exitcode(status)}".encode())
                continue
            word, descriptors, _, _ = socket.recv_fds(channel, _MAX_WORD, _MAX_SOCKETS)
            if not word:
                return
            try:
                pid = os.fork()
            except OSError as err:
                channel.send(f"failed {err.strerror}"[:_MAX_WORD].encode())
            else:
                if pid == 0:
                    channel.close()
                    for other in children:
                        os.close(other)
                    _exit_after(partial(work, [socket.socket(fileno=each) for each in descriptors]))
                watched = os.pidfd_open(pid)
                children[watched] = pid
                waiting.register(watched, select.POLLIN)
                channel.send(f"forked {pid}".encode())
            for each in descriptors:
                os.close(each)


def _exit_after(work: Callable[[], None]) -> NoReturn:
    """Of the process that it was forked from nothing is cleaned up, and no caller of it goes on, here."""
    code = 1
    try:
        work()
        code = 0
    except SystemExit as err:
        code = err.code if isinstance(err.code, int) else 1
    except BaseException:  # noqa: BLE001 - nobody is left to raise it to
        traceback.print_exc()
    finally:
        with suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)
