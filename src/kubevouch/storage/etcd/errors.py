"""What etcd's refusals mean (etcd 3.6, api/v3rpc/rpctypes/error.go), and what the store says instead."""

from __future__ import annotations

from collections.abc import Sequence

import grpc

from kubevouch.storage.interface import StoreError, StoreRefused, StoreTimeout, StoreUnavailable, ValueTooLarge

_COMPACTED = "mvcc: required revision has been compacted"
_FUTURE = "mvcc: required revision is a future revision"
_TOO_LARGE = "request is too large"
_NO_LEASE = "requested lease not found"
_DEADLINE = "context deadline exceeded"
_NO_SPACE = "mvcc: database space exceeded"
# Said before the write was proposed to the others.
_NEVER_PROPOSED = ("no leader", "raft proposal dropped", "too many requests")
_ADVICE = (
    ("Connection refused", "does it run, and is this its client port?"),
    ("CERTIFICATE_VERIFY_FAILED", "its certificate is not of the CA in --etcd-cafile"),
    ("Hostname Verification", "its certificate does not name this host"),
    ("_CERTIFICATE", "it does not accept the client certificate: --etcd-certfile and --etcd-keyfile"),
    ("UNKNOWN_CA", "it does not accept the client certificate: --etcd-certfile and --etcd-keyfile"),
    ("Handshake read failed", "does it speak TLS on this port?"),
    ("Socket closed", "is this an etcd's client port, and without TLS? For TLS give --etcd-cafile"),
)
"""What gRPC says of a connection that cannot be made, in part, and what to look at; the first that fits counts."""
_NEVER_CONNECTED = ("failed to connect to all addresses", "empty address list", "name resolution", "dns resolution")


class CallFailed(Exception):
    """A call that etcd refused or did not answer. ``text`` is etcd's, or gRPC's."""

    def __init__(self, code: grpc.StatusCode, text: str, url: str) -> None:
        super().__init__(f"{url}: {text}")
        self.code = code
        self.text = text
        self.url = url
        self.timed_out = False
        """It was tried until its time was over."""

    def _says(self, *texts: str) -> bool:
        return any(text in self.text for text in texts)

    @property
    def is_compacted(self) -> bool:
        return self._says(_COMPACTED)

    @property
    def is_future(self) -> bool:
        return self._says(_FUTURE)

    @property
    def is_lease_gone(self) -> bool:
        return self._says(_NO_LEASE)

    @property
    def is_login_expired(self) -> bool:
        return self.code is grpc.StatusCode.UNAUTHENTICATED or self._says("invalid auth token")

    @property
    def is_member_failing(self) -> bool:
        """Another member may do better."""
        failing = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNKNOWN)
        return self.code in failing

    @property
    def is_never_sent(self) -> bool:
        """A write of this call has certainly not happened."""
        return self._says(*_NEVER_PROPOSED) or (
            self.code is grpc.StatusCode.UNAVAILABLE and any(text in self.text.lower() for text in _NEVER_CONNECTED)
        )

    def as_not_opened(self, urls: Sequence[str]) -> StoreUnavailable:
        """What whoever opens a store on ``urls`` is told: at the terminal, so with what to look at."""
        etcd = f"etcd at {', '.join(urls)}"
        if self.text.startswith("etcdserver: "):
            return StoreUnavailable(f"{etcd} refused: {self.text}", self.text)
        advice = next((f"; {advice}" for said, advice in _ADVICE if said in self.text), "")
        return StoreUnavailable(f"{etcd} does not answer: {self.text}{advice}", self.text)

    def as_store_error(self, key: str) -> StoreError:
        """What the store raises instead; a write may have happened."""
        if self._says(_TOO_LARGE):
            return ValueTooLarge(f"{key}: got a value that etcd refuses; see its --max-request-bytes")
        if self._says(_NO_SPACE):
            advice = "compact it, defragment it, then disarm its alarm"
            return StoreRefused(f"etcd has no room left: {self.text}; {advice}", self.text)
        if self.timed_out or self._says(_DEADLINE) or self.code is grpc.StatusCode.DEADLINE_EXCEEDED:
            return StoreTimeout(f"etcd did not answer in time: {self.text}", self.text)
        if self.text.startswith("etcdserver: "):
            return StoreRefused(f"etcd at {self.url} refused: {self.text}", self.text)
        if self.code is grpc.StatusCode.UNAVAILABLE:
            return StoreTimeout(f"etcd at {self.url} cannot be reached: {self.text}", self.text)
        return StoreUnavailable(f"etcd at {self.url} did not do it: {self.text}", self.text)
