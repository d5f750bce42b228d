"""An API server whose every string is meant for the terminal of whoever looks at it."""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from wire import Reply, Wire

# Cursor and title sequences, a hyperlink, 8-bit CSI, an overlong line, markup, letters that turn the line round or are
# not seen, and a line of its own that looks like ours.
HOSTILE = (
    "\x1b[2J\x1b]8;;http://evil\x07\x1b]52;c;aGk=\x07\x9b31m[red]\r\x00\x08\x7f\u202e\u2066\u200b\ufeff\u2028\U000e0041"
    "\nhint: run this"
)
# What has to be true, or the answer is no object at all.
_KEPT = {
    "kind", "apiVersion", "resourceVersion", "uid", "continue", "request", "certificate", "namespace", "name",
    "creationTimestamp", "time", "lastUpdateTime", "lastTransitionTime", "lastHeartbeatTime", "lastProbeTime",
    "operation", "fieldsType", "token-id", "token-secret", "jws-kubeconfig", "type", "expiration", "locked", "released",
    "until",
}  # fmt: skip


@dataclass
class Hostile:
    """Speaks for the true server.

    Args:
        mode: ``names`` changes names, too; ``refused`` answers with a Status of its own, ``garbage`` with no JSON.
    """

    wire: Wire
    mode: str = ""
    port: int = 0
    asked: list[str] = field(default_factory=list)

    def answer(self, method: str, path: str, body: bytes | None, content_type: str) -> tuple[int, bytes]:
        self.asked.append(f"{method} {path}")
        if self.mode == "refused":
            return 403, json.dumps(_refusal()).encode()
        if self.mode == "garbage":
            return 200, HOSTILE.encode()
        if "watch=true" in path:
            return 200, b""  # the true server's would go on
        reply: Reply = self.wire.request(method, path, body, content_type)
        try:
            tree = json.loads(reply.body)
        except ValueError:
            return reply.code, reply.body
        return reply.code, json.dumps(self.twisted(tree)).encode()

    def twisted(self, tree: Any, key: str = "") -> Any:
        if isinstance(tree, dict):
            return {name: self.twisted(value, name) for name, value in tree.items()}
        if isinstance(tree, list):
            return [self.twisted(each, key) for each in tree]
        if not isinstance(tree, str) or not self._turns(key, tree):
            return tree
        if tree.startswith("{"):  # JSON in a ConfigMap
            return json.dumps(self.twisted(json.loads(tree)))
        if key in ("description",) or key.startswith(("usage-", "auth-")):
            return base64.b64encode(base64.b64decode(tree) + HOSTILE.encode()).decode()
        return tree + HOSTILE

    def _turns(self, key: str, value: str) -> bool:
        if key == "name":
            return self.mode == "names"
        if key in _KEPT or key.startswith("jws-kubeconfig"):
            return key == "type" and "/" not in value
        return True


def _refusal() -> dict[str, Any]:
    cause = {"reason": HOSTILE, "message": HOSTILE, "field": HOSTILE}
    details = {"name": HOSTILE, "group": HOSTILE, "kind": HOSTILE, "causes": [cause]}
    return {
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": f"no{HOSTILE}",
        "reason": f"Forbidden{HOSTILE}", "details": details, "code": 403,
    }  # fmt: skip


@contextmanager
def hostile(wire: Wire, tls: ssl.SSLContext) -> Iterator[Hostile]:
    """Listens until the end of the block, in threads of its own."""
    speaker = Hostile(wire)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _do(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(length) if length else None
            kind = self.headers.get("Content-Type", "application/json")
            code, answer = speaker.answer(self.command, self.path, body, kind)
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            # A header can hold no C0; what it can hold, it holds.
            if speaker.mode == "refused":
                self.send_header("Warning", '299 - "beware\x9b31m of \x85this"')
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_arguments: Any) -> None: ...

    for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
        setattr(Handler, f"do_{method}", Handler._do)

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_arguments: Any) -> None:
            """Clients that hang up are none of a test's business."""

    with Server(("127.0.0.1", 0), Handler) as server:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
        speaker.port = server.server_port
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield speaker
        finally:
            server.shutdown()
            thread.join()
