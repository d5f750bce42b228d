"""A KMS v2 plug-in: a real gRPC server on a Unix socket, with a key in the program.

It encrypts as the one did with which the values in ``vectors/etcd`` were made: AES-256-GCM, the nonce in an annotation,
the key's id as additional data. ``python kms_plugin.py SOCKET [KEY_ID]`` runs it as a process.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from kubevouch.machinery.codec import protobuf
from kubevouch.storage.encryption.kms_messages import (
    DecryptRequest,
    DecryptResponse,
    EncryptRequest,
    EncryptResponse,
    StatusRequest,
    StatusResponse,
)

KEK = bytes(range(32))
NONCE = "nonce.kms.example.com"
_SERVICE = "v2.KeyManagementService"


class KMSPlugin:
    """What it answers can be changed while it runs; ``calls`` are the methods that were called."""

    def __init__(self, key_id: str = "kek-1") -> None:
        self.key_id = key_id
        self.status = StatusResponse(version="v2", healthz="ok")
        self.annotations: dict[str, bytes] = {}
        self.encrypts_as = ""
        self.refuses: set[str] = set()
        self.calls: list[str] = []

    @asynccontextmanager
    async def running(self, socket: Path) -> AsyncIterator[None]:
        server = grpc.aio.server()
        handlers = {
            "Status": self._handler("Status", StatusRequest, self._status),
            "Encrypt": self._handler("Encrypt", EncryptRequest, self._encrypt),
            "Decrypt": self._handler("Decrypt", DecryptRequest, self._decrypt),
        }
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE, handlers),))
        server.add_insecure_port(f"unix:{socket}")
        await server.start()
        try:
            yield
        finally:
            await server.stop(None)

    def _handler(self, name: str, request: Any, answer: Callable[[Any], Any]) -> grpc.RpcMethodHandler[Any, Any]:
        async def handle(asked: Any, context: Any) -> bytes:
            self.calls.append(name)
            if name in self.refuses:
                await context.abort(grpc.StatusCode.FAILED_PRECONDITION, "the key is locked away")
            try:
                answered = answer(asked)
            except InvalidTag:
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "not authentic")
            return protobuf.codec_for(type(answered)).encode(answered)

        return grpc.unary_unary_rpc_method_handler(handle, request_deserializer=protobuf.codec_for(request).decode)

    def _status(self, _asked: StatusRequest) -> StatusResponse:
        return StatusResponse(version=self.status.version, healthz=self.status.healthz, key_id=self.key_id)

    def _encrypt(self, asked: EncryptRequest) -> EncryptResponse:
        assert asked.uid
        nonce, key_id = os.urandom(12), self.encrypts_as or self.key_id
        return EncryptResponse(
            ciphertext=AESGCM(KEK).encrypt(nonce, asked.plaintext, key_id.encode()),
            key_id=key_id,
            annotations={NONCE: nonce, **self.annotations},
        )

    def _decrypt(self, asked: DecryptRequest) -> DecryptResponse:
        assert asked.uid
        nonce = asked.annotations.get(NONCE, bytes(12))
        return DecryptResponse(plaintext=AESGCM(KEK).decrypt(nonce, asked.ciphertext, asked.key_id.encode()))


async def _serve(socket: Path, key_id: str) -> None:
    async with KMSPlugin(key_id).running(socket):
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "kek-1"))
