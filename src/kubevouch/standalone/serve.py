"""``kubevouch serve`` without the printing: one of several API servers of a cluster, without controllers."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from kubevouch.standalone.api_server import server_settings
from kubevouch.standalone.data_directory import Prepared, prepared
from kubevouch.standalone.errors import InvalidOptionsError
from kubevouch.standalone.options import StandaloneOptions
from kubevouch.standalone.workers.fork_server import ForkServer
from kubevouch.standalone.workers.supervisor import working
from kubevouch.util.clock import Clock


@contextlib.asynccontextmanager
async def serving(options: StandaloneOptions, clock: Clock, forks: ForkServer | None = None) -> AsyncIterator[Prepared]:
    """A server that listens inside the block and is drained at its end.

    Args:
        forks: makes the workers that serve; None serves in this process.

    Raises:
        StartError
        StoreError, CertsError, OSError: a file or the store cannot be used.
    """
    settings = server_settings(options, clock)
    if not settings.store.is_shared:
        raise InvalidOptionsError(
            f"got the store {settings.store}, expected one that several processes share",
            "--store=etcd://HOST:PORT; kubevouch up runs server and controllers on a store of its own",
        )
    async with prepared(options, settings, clock, needs_key=False, may_begin=False) as served:
        served.kubeconfigs.keep(served.decided)
        async with contextlib.AsyncExitStack() as stack:
            if forks is None:
                await served.server.listen(served.sockets)
            else:
                workers = working(served.server, served.store, served.sockets, forks, options.workers, clock)
                await stack.enter_async_context(workers)
            yield served
