"""The settings of a client."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class Timeouts(msgspec.Struct, frozen=True):
    """Seconds that one call may take, retries included.

    kube-apiserver gives a write 34 s and any short request 60 s (apiserver/server/config.go, Kubernetes 1.36); a client
    that gives up sooner does not know what became of its write.
    """

    connect: float = 10.0
    get: float = 30.0
    list: float = 60.0
    write: float = 40.0
    watch: float = 60.0
    """Until a watch is open; how long it stays open is ``WatchOptions.timeout_seconds``."""

    @classmethod
    def all(cls, seconds: float) -> Timeouts:
        """The same for every call: ``--request-timeout``, and the lease's five seconds."""
        return cls(min(seconds, 10.0), seconds, seconds, seconds, seconds)


class Retry(msgspec.Struct, frozen=True):
    """When an idempotent call that got 429 or 503 with Retry-After is made again.

    Args:
        attempts: calls in all; 1 never tries again.
        longest: a server that asks for a longer wait is taken at its word and the failure given to the caller.
        spread: seconds of full jitter on top of the first wait; doubles each time.
    """

    attempts: int = 5
    longest: float = 30.0
    spread: float = 0.5


class Impersonation(msgspec.Struct, frozen=True):
    """Whom to act as (``--as`` and its kin). ``extra`` keys are as in user info."""

    user: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)


class ClientOptions(msgspec.Struct, frozen=True):
    """How a client speaks to one API server.

    Args:
        server: URL of the API server; a path in it precedes every request's path.
        component: who asks, in the User-Agent: a controller's canonical name, ``agent``, ``cli``.
        proxy: URL of a proxy. There is never another one: environment variables do not count, because a proxy that
            captures calls to the API server answers 403 in its name (kubernetes/kubeadm#324).
        compression: ask for gzip.
        protobuf: ask for protobuf and send it where every API server reads it; False speaks JSON only.
        max_body_bytes: the longest answer that is read, decompressed.
        max_frame_bytes: the longest watch event that is read.
    """

    server: str
    component: str = "client"
    proxy: str = ""
    compression: bool = True
    protobuf: bool = True
    impersonate: Impersonation | None = None
    timeouts: Timeouts = Timeouts()
    retry: Retry = Retry()
    max_body_bytes: int = 512 * 1024 * 1024
    max_frame_bytes: int = 16 * 1024 * 1024  # apimachinery runtime/serializer/streaming
