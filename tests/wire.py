"""Bytes to a running API server and back, for what no client would ever send."""

from __future__ import annotations

import json
import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection
from pathlib import Path
from typing import Any

from kubevouch.config import kubeconfig

PATIENCE_SECONDS = 30.0
CSRS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"


@dataclass(frozen=True)
class Reply:
    code: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def status(self) -> dict[str, Any]:
        """The Status that the body holds."""
        found: dict[str, Any] = json.loads(self.body)
        assert found["kind"] == "Status", found
        return found

    @property
    def told(self) -> tuple[int, str, str]:
        """Code, reason and message."""
        status = self.status
        assert status["code"] == self.code
        return self.code, status.get("reason", ""), status["message"]


class KeptOpen:
    """One connection, made anew where the server has ended it."""

    def __init__(self, port: int, context: ssl.SSLContext) -> None:
        self._http = HTTPSConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS, context=context)

    def __enter__(self) -> KeptOpen:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def request(
        self, method: str, path: str, body: bytes | None = None, content_type: str = "application/json"
    ) -> Reply:
        self._http.request(method, path, body, {} if body is None else {"Content-Type": content_type})
        answer = self._http.getresponse()
        return Reply(answer.status, dict(answer.getheaders()), answer.read())

    def json(self, method: str, path: str, tree: Any) -> Reply:
        return self.request(method, path, json.dumps(tree).encode())


class Wire:
    """The server at ``127.0.0.1:port``; each exchange has a connection of its own."""

    def __init__(self, port: int, ca: bytes, pair: Path | None = None) -> None:
        self.port = port
        self._context = ssl.create_default_context(cadata=ca.decode())
        if pair is not None:
            self._context.load_cert_chain(pair)

    @classmethod
    def of_kubeconfig(cls, path: Path, folder: Path, *, anonymous: bool = False) -> Wire:
        """Whoever the kubeconfig says, or nobody."""
        config = kubeconfig.load(path.read_bytes())
        context = config.contexts[config.current_context]
        cluster, user = config.clusters[context.cluster], config.users[context.user]
        pair = folder / f"{context.user}.pem"
        pair.write_bytes(user.client_certificate_data + user.client_key_data)
        port = int(cluster.server.rpartition(":")[2])
        return cls(port, cluster.certificate_authority_data, None if anonymous else pair)

    @contextmanager
    def connected(self) -> Iterator[ssl.SSLSocket]:
        with (
            socket.create_connection(("127.0.0.1", self.port), PATIENCE_SECONDS) as plain,
            self._context.wrap_socket(plain, server_hostname="127.0.0.1") as secured,
        ):
            yield secured

    def kept_open(self) -> KeptOpen:
        """For thousands of requests, which go one after another over one connection."""
        return KeptOpen(self.port, self._context)

    def raw(self, *said: bytes) -> bytes:
        """Everything the server answers until it ends the connection."""
        with self.connected() as connection:
            for part in said:
                connection.sendall(part)
            answer = b""
            while received := connection.recv(65536):
                answer += received
        return answer

    def request(
        self, method: str, path: str, body: bytes | None = None, content_type: str = "application/json", **headers: str
    ) -> Reply:
        with self.connected() as connection:
            http = HTTPConnection("127.0.0.1", self.port)
            http.sock = connection
            shown = {name.replace("_", "-"): value for name, value in headers.items()}
            if body is not None:
                shown.setdefault("Content-Type", content_type)
            http.request(method, path, body, shown)
            answer: HTTPResponse = http.getresponse()
            return Reply(answer.status, dict(answer.getheaders()), answer.read())

    def json(self, method: str, path: str, tree: Any = None, **headers: str) -> Reply:
        body = None if tree is None else json.dumps(tree).encode()
        return self.request(method, path, body, **headers)
