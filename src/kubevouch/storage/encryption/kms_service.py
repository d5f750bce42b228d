"""A KMS v2 plug-in over its Unix socket (k8s.io/kms/apis/v2; pkg/storage/value/encrypt/envelope/kmsv2/grpc_service.go,
Kubernetes 1.36)."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Protocol, TypeVar

from kubevouch.machinery.codec import protobuf
from kubevouch.machinery.declaration import Struct
from kubevouch.storage.encryption.interface import TransformError
from kubevouch.storage.encryption.kms_messages import (
    DecryptRequest,
    DecryptResponse,
    EncryptRequest,
    EncryptResponse,
    StatusRequest,
    StatusResponse,
)
from kubevouch.util.clock import Clock
from kubevouch.util.uuids import random_uuid

if TYPE_CHECKING:
    import grpc.aio

Q = TypeVar("Q", bound=Struct)
A = TypeVar("A", bound=Struct)

# The largest annotations have 32 KiB, all else 1 KiB.
MAX_ANSWER_BYTES = 128 << 10
_MAX_ERROR_CHARS = 400
_OPTIONS = (
    ("grpc.default_authority", "localhost"),
    ("grpc.max_receive_message_length", MAX_ANSWER_BYTES),
    # A socket of this machine: nobody is relieved by waiting longer.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2000),
)


class KMSUnavailable(Exception):
    """The library is not installed."""

    def __init__(self) -> None:
        super().__init__("the provider kms needs the extra: pip install 'kubevouch[encryption]'")


class KMSRecorder(Protocol):
    """Where calls are reported."""

    def kms_call(self, provider: str, method: str, seconds: float, code: str) -> None:
        """``method`` is the gRPC path, ``code`` Go's name of the outcome."""
        ...


class KMSService:
    """The calls of one plug-in. It is dialled on the first one, and again for as long as it takes.

    Args:
        name: of the provider.
        socket: its path, or ``@name`` in Linux' abstract namespace.
        timeout: of a call, in seconds.
    """

    def __init__(self, name: str, socket: str, timeout: float, clock: Clock, recorder: KMSRecorder) -> None:
        """Raises :class:`KMSUnavailable`."""
        # Else a plug-in that goes away writes lines of gRPC's own to standard error.
        os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
        try:
            import grpc.aio  # 70 ms and 14 MiB, for those who have a plug-in
        except ImportError as err:
            raise KMSUnavailable from err
        self._grpc = grpc
        self._name = name
        self._target = f"unix-abstract:{socket[1:]}" if socket.startswith("@") else f"unix:{socket}"
        self._timeout = timeout
        self._clock = clock
        self._recorder = recorder
        self._channel: grpc.aio.Channel | None = None

    async def status(self) -> StatusResponse:
        """How the plug-in is. Raises ``TransformError``."""
        return await self._call("Status", StatusRequest(), StatusResponse)

    async def encrypt(self, plaintext: bytes) -> EncryptResponse:
        """Raises ``TransformError``."""
        request = EncryptRequest(plaintext=plaintext, uid=random_uuid())
        return await self._call("Encrypt", request, EncryptResponse)

    async def decrypt(self, ciphertext: bytes, key_id: str, annotations: Mapping[str, bytes]) -> bytes:
        """Raises ``TransformError``."""
        request = DecryptRequest(
            ciphertext=ciphertext, uid=random_uuid(), key_id=key_id, annotations=dict(annotations)
        )  # fmt: skip
        return (await self._call("Decrypt", request, DecryptResponse)).plaintext

    async def _call(self, method: str, request: Q, answer: type[A]) -> A:
        if self._channel is None:
            self._channel = self._grpc.aio.insecure_channel(self._target, options=_OPTIONS)
        path = f"/v2.KeyManagementService/{method}"
        call: Callable[..., Awaitable[bytes]] = self._channel.unary_unary(
            path, protobuf.codec_for(type(request)).encode
        )
        begun, code = self._clock.monotonic(), "OK"
        try:
            octets = await call(request, timeout=self._timeout, wait_for_ready=True)
            return protobuf.codec_for(answer).decode(octets)
        except self._grpc.aio.AioRpcError as err:
            code = _go_code(err.code().name)
            why = (err.details() or "")[:_MAX_ERROR_CHARS]
            raise TransformError(f"rpc error: code = {code} desc = {why}", code) from err
        except protobuf.ProtobufError as err:
            code = "Internal"
            raise TransformError(f"rpc error: code = {code} desc = {err}", code) from err
        finally:
            self._recorder.kms_call(self._name, path, self._clock.monotonic() - begun, code)

    async def close(self) -> None:
        if self._channel is not None:
            await self._channel.close()


def _go_code(name: str) -> str:
    """``DEADLINE_EXCEEDED`` as Go has it (google.golang.org/grpc/codes)."""
    return {"OK": "OK", "CANCELLED": "Canceled"}.get(name) or "".join(each.capitalize() for each in name.split("_"))
