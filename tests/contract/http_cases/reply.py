"""What a server answered, read as far as it can be."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import yaml
from multidict import CIMultiDictProxy

from contract.http_cases import mini_protobuf

PROTOBUF = "application/vnd.kubernetes.protobuf"


class Reply:
    """``document`` is None for what is no object in JSON, YAML or protobuf; ``events`` None for what is no watch."""

    def __init__(self, status: int, headers: CIMultiDictProxy[str], body: bytes, *, watch: bool = False) -> None:
        self.status = status
        self.headers = headers
        self.body = body
        self.events: list[dict[str, Any]] | None = None
        self.document: Any = None
        if watch and status == 200:
            self.events = self._read_events()
            self.document = {"events": self.events}
            for event in self.events:
                self.document.setdefault(event["type"].lower(), event)
        else:
            self.document = self._read_document()

    @property
    def tree(self) -> dict[str, Any]:
        """The document if it is an object, else an empty one."""
        return self.document if isinstance(self.document, dict) else {}

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")

    def event_names(self) -> Iterator[str]:
        for event in self.events or ():
            meta = event["object"].get("metadata", {})
            if event["type"] == "ERROR":
                yield "ERROR"
            elif event["type"] == "BOOKMARK":
                done = (meta.get("annotations") or {}).get("k8s.io/initial-events-end")
                yield f"BOOKMARK initial-events-end={done}" if done else "BOOKMARK"
            else:
                yield f"{event['type']} {meta.get('name', '?')}"

    def _read_document(self) -> Any:
        try:
            if self.body.startswith(mini_protobuf.MAGIC):
                return mini_protobuf.open_envelope(self.body)
            if "yaml" in self.headers.get("Content-Type", ""):
                return yaml.safe_load(self.body)
            return json.loads(self.body)
        except (ValueError, IndexError, KeyError, yaml.YAMLError):
            return None

    def _read_events(self) -> list[dict[str, Any]]:
        if self.headers.get("Content-Type", "").startswith(PROTOBUF):
            return list(mini_protobuf.watch_frames(self.body))
        return [json.loads(line) for line in self.body.splitlines() if line.strip()]
