"""Clients that write down what they ask and what they are told."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import itertools
import json
import ssl
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from kubevouch.pki.x509 import pem
from processes import PATIENCE_SECONDS
from torture.history import (
    BROKEN,
    Answered,
    Asked,
    CertificateRequest,
    Fault,
    Header,
    History,
    Record,
    Seen,
    Told,
    Verb,
)

ANSWER_SECONDS = 5.0
"""A client gives up on an answer then, and does not know what has become of what it asked for."""
VALUE = "value"
_LINE_BYTES = 16 << 20

PATHS = {
    "configmaps": "/api/v1/namespaces/{namespace}/configmaps",
    "certificatesigningrequests": "/apis/certificates.k8s.io/v1/certificatesigningrequests",
}


@dataclass
class Recorder:
    """Gives out numbers and times, and keeps the history."""

    history: History
    acknowledged: int = 0
    """Writes that succeeded."""
    heard: asyncio.Condition = field(default_factory=asyncio.Condition)
    _begun: float = field(default_factory=time.monotonic)
    _ops: itertools.count[int] = field(default_factory=itertools.count)

    @classmethod
    def into(cls, header: Header) -> Recorder:
        return cls(History(header))

    @property
    def now(self) -> float:
        return time.monotonic() - self._begun

    def op(self) -> int:
        return next(self._ops)

    def add(self, record: Record) -> None:
        self.history.add(record)

    def fault(self, what: str) -> None:
        self.add(Fault(self.now, what))

    async def acknowledge(self) -> None:
        self.acknowledged += 1
        async with self.heard:
            self.heard.notify_all()

    async def writes(self, more: int) -> None:
        """Wait until so many more writes have succeeded. Raises AssertionError: they do not."""
        wanted = self.acknowledged + more
        try:
            async with asyncio.timeout(PATIENCE_SECONDS), self.heard:
                await self.heard.wait_for(lambda: self.acknowledged >= wanted)
        except TimeoutError:
            raise AssertionError(f"{wanted - self.acknowledged} of {more} writes did not succeed in time") from None


def trusting(ca: bytes, pair: str | None = None) -> ssl.SSLContext:
    """``pair``: the file of a client certificate and its key."""
    context = ssl.create_default_context(cadata=ca.decode())
    if pair is not None:
        context.load_cert_chain(pair)
    return context


@dataclass
class Client:
    """One client with connections of its own, to whichever address ``address`` gives at the moment.

    Args:
        identity: SHA-256 of its certificate, where that may be revoked.
        token: a bearer token, or empty.
    """

    recorder: Recorder
    name: str
    address: Callable[[], str]
    tls: ssl.SSLContext
    identity: str = ""
    token: str = ""
    _session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        if self._session is not None:
            session, self._session = self._session, None
            await session.close()

    # -------------------------------------------------------------- objects

    async def create(self, key: str, tree: dict[str, Any], value: str = "") -> Answered:
        return await self._object("create", "POST", key, tree, value)

    async def update(self, key: str, tree: dict[str, Any], value: str, expected: int | None) -> Answered:
        return await self._object("update", "PUT", key, tree, value, expected)

    async def patch(self, key: str, tree: dict[str, Any], value: str = "", subresource: str = "") -> Answered:
        return await self._object("patch", "PATCH", key, tree, value, subresource=subresource)

    async def delete(self, key: str, expected: int | None = None) -> Answered:
        tree = {} if expected is None else {"preconditions": {"resourceVersion": str(expected)}}
        return await self._object("delete", "DELETE", key, tree, expected=expected)

    async def get(self, key: str) -> Answered:
        return await self._object("get", "GET", key)

    async def call(self, method: str, path: str, tree: Any = None) -> tuple[int, Any]:
        """Any other request: recorded with its code only."""
        op = self._ask("call", f"{method} {path}")
        code, found = await self._exchange(method, path, tree, "application/json")
        why = str(found) if code == BROKEN else ""
        self.recorder.add(Answered(self.recorder.now, op, code, why=why))
        return code, found

    async def _object(
        self, verb: Verb, method: str, key: str, tree: dict[str, Any] | None = None, value: str = "",
        expected: int | None = None, subresource: str = "",
    ) -> Answered:  # fmt: skip
        collection, name = _path(key)
        path = collection if verb == "create" else f"{collection}/{name}"
        op = self._ask(verb, key, value=value, expected=expected, consistent=verb == "get")
        kind = "application/merge-patch+json" if verb == "patch" else "application/json"
        code, found = await self._exchange(method, path + (f"/{subresource}" if subresource else ""), tree, kind)
        items = []
        if 200 <= code < 300 and found.get("kind") != "Status":
            # A deletion answers with what was deleted, which is at no new revision.
            items = [] if verb == "delete" else [seen(key.partition("/")[0], found)]
        revision = items[0].revision if items else 0
        answer = Answered(self.recorder.now, op, code, revision, items, _why(code, found))
        self.recorder.add(answer)
        if verb in ("create", "update", "patch", "delete") and 200 <= code < 300:
            await self.recorder.acknowledge()
        return answer

    async def list_(self, prefix: str, *, limit: int = 0, at: str = "") -> Answered:
        """All that lies under ``prefix``; with a limit, in pages.

        ``at`` is a resourceVersion; empty promises the newest state.
        """
        collection = _path(prefix)[0]
        op = self._ask("list", prefix, consistent=not at)
        query = {"limit": str(limit)} if limit else {}
        if at:
            query["resourceVersion"] = at
        items: list[Seen] = []
        revision = 0
        while True:
            asked = "&".join(f"{name}={text}" for name, text in query.items())
            code, found = await self._exchange("GET", f"{collection}?{asked}", None, "")
            if code != 200:
                answer = Answered(self.recorder.now, op, code, why=_why(code, found))
                break
            items += [seen(prefix.partition("/")[0], each) for each in found["items"]]
            # Every page says at which revision the first one was made.
            revision = revision or int(found["metadata"]["resourceVersion"])
            following = found["metadata"].get("continue", "")
            if not following:
                answer = Answered(self.recorder.now, op, code, revision, items)
                break
            query = {"limit": str(limit), "continue": following}
        self.recorder.add(answer)
        return answer

    # -------------------------------------------------------------- watches

    async def watch(self, prefix: str, after: int | None, *, most: int = 0) -> tuple[int, int]:
        """Until it ends, for whatever reason: its code, and the revision from which one may go on, 0 for none.

        Args:
            after: None begins with the objects that are there.
            most: hang up after so many events; 0 does not.
        """
        collection = _path(prefix)[0]
        query = "watch=true&allowWatchBookmarks=true&timeoutSeconds=600"
        if after is None:
            query += "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
        else:
            query += f"&resourceVersion={after}"
        op = self._ask("watch", prefix, expected=after)
        code, reached, why = BROKEN, after or 0, ""
        listing, events = after is None, 0
        try:
            async with self._open().get(
                self.address() + f"{collection}?{query}", headers=self._headers(""),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=ANSWER_SECONDS),
            ) as answer:  # fmt: skip
                code = answer.status
                if code != 200:
                    why = (await answer.text())[:300]
                else:
                    async for line in answer.content:
                        event = json.loads(line)
                        if event["type"] == "ERROR":
                            code, why = event["object"]["code"], event["object"]["message"]
                            break
                        told = self._told(op, prefix.partition("/")[0], event)
                        self.recorder.add(told)
                        listing = listing and not told.initial_end
                        events += not listing
                        reached = 0 if listing else max(reached, told.revision)
                        if events == most > 0:
                            break
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as err:
            code, why = BROKEN, f"{type(err).__name__} {err}"
            await self.close()
        finally:  # also of who hung up
            self.recorder.add(Answered(self.recorder.now, op, code, why=why))
        return code, reached

    def _told(self, op: int, resource: str, event: dict[str, Any]) -> Told:
        metadata = event["object"]["metadata"]
        revision = int(metadata["resourceVersion"])
        if event["type"] == "BOOKMARK":
            end = metadata.get("annotations", {}).get("k8s.io/initial-events-end") == "true"
            return Told(self.recorder.now, op, "BOOKMARK", revision, initial_end=end)
        return Told(self.recorder.now, op, event["type"], revision, seen(resource, event["object"]))

    # -------------------------------------------------------------- exchanges

    def _ask(
        self, verb: Verb, key: str, *, value: str = "", expected: int | None = None, consistent: bool = False
    ) -> int:
        op = self.recorder.op()
        self.recorder.add(
            Asked(self.recorder.now, op, self.name, verb, key, value, expected, consistent, self.identity)
        )
        return op

    async def _exchange(self, method: str, path: str, tree: Any, kind: str) -> tuple[int, Any]:
        body = None if tree is None else json.dumps(tree)
        try:
            async with self._open().request(
                method, self.address() + path, data=body, headers=self._headers(kind)
            ) as answer:
                raw = await answer.read()
                return answer.status, json.loads(raw) if raw[:1] == b"{" else {}
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as err:
            await self.close()
            return BROKEN, f"{type(err).__name__} {err}"

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=self.tls),
                timeout=aiohttp.ClientTimeout(total=ANSWER_SECONDS),
                read_bufsize=_LINE_BYTES,
            )
            # It would send a PUT again whose answer was lost, and the second one's 409 would hide what the first did.
            self._session._retry_connection = False
        return self._session

    def _headers(self, kind: str) -> dict[str, str]:
        said = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        return said | ({"Content-Type": kind} if kind else {})


@asynccontextmanager
async def closing(*clients: Client) -> AsyncIterator[None]:
    try:
        yield
    finally:
        for client in clients:
            await client.close()


def _path(key: str) -> tuple[str, str]:
    """The collection's path, and the object's name."""
    resource, _, rest = key.partition("/")
    namespace, _, name = rest.partition("/")
    if "{namespace}" not in PATHS[resource]:
        return PATHS[resource], rest
    return PATHS[resource].format(namespace=namespace), name


def seen(resource: str, tree: dict[str, Any]) -> Seen:
    metadata = tree["metadata"]
    namespace = metadata.get("namespace", "")
    key = f"{resource}/{namespace}/{metadata['name']}" if namespace else f"{resource}/{metadata['name']}"
    value = tree.get("data", {}).get(VALUE, "") if resource == "configmaps" else ""
    request = _request(tree) if resource == "certificatesigningrequests" else None
    return Seen(key, int(metadata["resourceVersion"]), metadata["uid"], value, request)


def _request(tree: dict[str, Any]) -> CertificateRequest:
    status = tree.get("status", {})
    types = {each["type"] for each in status.get("conditions", [])}
    certificate = fingerprint(status["certificate"]) if status.get("certificate") else ""
    decided = ("Approved" in types, "Denied" in types, "Failed" in types)
    return CertificateRequest(tree["spec"].get("username", ""), *decided, certificate)


def fingerprint(text: str) -> str:
    """SHA-256 of the first certificate in the base64 of a PEM file, in hex."""
    block = pem.first_block(base64.b64decode(text))
    assert block is not None
    return hashlib.sha256(block.contents).hexdigest()


def _why(code: int, found: Any) -> str:
    if 200 <= code < 300:
        return ""
    return str(found if code == BROKEN or not isinstance(found, dict) else found.get("message", ""))[:300]
