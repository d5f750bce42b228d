"""What every test gets: helpers to import, an environment without the developer's own clusters, and leak checks."""

import os
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# The modules next to this file (aio, peers) go by these names for the type checker too (mypy_path).
sys.path.insert(0, str(Path(__file__).parent))

import fixed_ports
import stalls
from kubevouch.util import logger

# A slow example is no finding while two test processes share the machine; pytest-timeout ends what hangs.
settings.register_profile("default", settings.get_profile("default"), deadline=None)
# For `make fuzz`.
settings.register_profile("long", settings.get_profile("default"), max_examples=3000)


@pytest.fixture(scope="session", autouse=True)
def own_environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Neither the developer's kubeconfig, cluster, proxy, language nor time zone decides how a test ends."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT", "KUBECACHEDIR"):
            patch.delenv(name, raising=False)
        for scheme in ("HTTP", "HTTPS", "ALL", "NO"):
            patch.delenv(f"{scheme}_PROXY", raising=False)
            patch.delenv(f"{scheme.lower()}_proxy", raising=False)
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        patch.setenv("LC_ALL", "C.UTF-8")
        patch.setenv("TZ", "UTC")
        yield


@pytest.fixture(autouse=True)
def own_logs() -> None:
    """Logs go to the test's own standard error.

    A command that ran in process has pointed the loggers at the one of its test, which is closed by now.
    """
    logger.send_to(logger.to_standard_error)


@pytest.fixture(autouse=True)
def no_stalls() -> Iterator[None]:
    """Fails a test during which something held the loop of a server in this process (see `stalls`)."""
    with stalls.no_stalls():
        yield


@pytest.fixture(autouse=True)
def no_fixed_ports() -> Iterator[None]:
    """Fails a test that would fail where a cluster runs (see `fixed_ports`)."""
    with fixed_ports.no_fixed_ports():
        yield


@pytest.fixture(autouse=True)
def no_leaks() -> Iterator[None]:
    """Fails a test that leaves a thread running or a socket listening.

    Fixtures of a wider scope are older than the snapshot. Threads of executors are left out: a loop that such a fixture
    runs may start one at any time. So is gRPC's, which polls until its last channel is collected. Other sockets and
    files left open end as ResourceWarning, which is an error.
    """
    threads_before = set(threading.enumerate())
    sockets_before = open_sockets()
    yield
    for thread in set(threading.enumerate()) - threads_before:
        if not thread.name.startswith(("asyncio_", "uvloop_", "ThreadPoolExecutor-")) and "_poll_" not in thread.name:
            thread.join(timeout=10.0)
            assert not thread.is_alive(), f"the test left the thread {thread.name} running"
    for descriptor, identity in open_sockets().items():
        if identity != sockets_before.get(descriptor):
            assert not is_listening(descriptor), f"the test left a socket listening, {identity}"


def open_sockets() -> dict[int, str]:
    """Descriptor and kernel identity of every socket of this process; empty where there is no /proc."""
    found = {}
    for entry in Path("/proc/self/fd").glob("*"):
        try:
            target = os.readlink(entry)
        except FileNotFoundError:  # the descriptor that listed the folder
            continue
        if target.startswith("socket:"):
            found[int(entry.name)] = target
    return found


def is_listening(descriptor: int) -> bool:
    try:
        copy = os.dup(descriptor)
    except OSError:  # a fixture's own thread has closed it meanwhile
        return False
    with socket.socket(fileno=copy) as probe:
        return bool(probe.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
