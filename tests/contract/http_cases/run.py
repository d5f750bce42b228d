"""One run of one case: the names it uses, what it made on the server, and how it talks to it."""

from __future__ import annotations

import copy
import io
import json
import re
from collections.abc import Awaitable, Callable, Container
from typing import Any
from urllib.parse import quote

import aiohttp
from yarl import URL

from contract.http_cases.case_text import ABSENT, get_path
from contract.http_cases.identities import Headers, Identities
from contract.http_cases.objects import Place
from contract.http_cases.reply import Reply

APPLY_PATCH = "application/apply-patch+yaml"
MERGE_PATCH = "application/merge-patch+json"
_USER_AGENT = "http-cases/1"
_OK = (200, 201)
_DEFINITION_FINALIZER = "customresourcecleanup.apiextensions.k8s.io"
_WATCH = re.compile(r"(^|&)watch=(true|1)\b")
# What aiohttp would add on its own; a case says itself what it sends.
_OWN_HEADERS = ("Content-Type", "Accept", "Accept-Encoding", "User-Agent")

During = Callable[[], Awaitable[None]]


class SkipCase(Exception):
    """The case cannot be played with this set-up."""


class SetupError(Exception):
    """The server does not let a case's preconditions come about."""


class Run:
    """Args: ``tag`` makes the case's names its own; ``variables`` are its ``$NAMES``."""

    def __init__(self, identities: Identities, tag: str) -> None:
        self.tag = tag
        self.variables: dict[str, Any] = {"TAG": tag}
        self.stored: dict[str, Any] = {}
        # Kinds that the case has defined.
        self.kinds: dict[str, Place] = {}
        self._identities = identities
        self._made: list[str] = []

    async def send(
        self,
        method: str,
        path: str,
        query: str = "",
        headers: dict[str, str] | None = None,
        body: bytes | None = None,
        *,
        user: Any = "admin",
        during: During | None = None,
        session: aiohttp.ClientSession | None = None,
    ) -> Reply:
        """``during`` runs once the answer has begun, before its body is read. Raises :class:`SkipCase`."""
        headers = headers or {}
        own: Headers = []
        if session is None:
            who = self._identities.of(user, headers)
            if who is None:
                raise SkipCase("this user needs --ca-key")
            session, own = who
        # As pairs, for Impersonate-Group may be repeated.
        pairs = [*own, *headers.items()]
        if not any(name.lower() == "user-agent" for name, _ in pairs):
            pairs.append(("User-Agent", _USER_AGENT))
        url = URL(f"{self._identities.server}{path}{f'?{query}' if query else ''}", encoded=True)
        content = None if body is None else io.BytesIO(body)
        async with session.request(
            method, url, headers=pairs, data=content, allow_redirects=False, skip_auto_headers=_OWN_HEADERS
        ) as answer:
            if during is not None:
                await during()
            watch = _WATCH.search(query) is not None
            reply = Reply(answer.status, answer.headers, await answer.read(), watch=watch)
        self._remember(method, path, query, reply)
        return reply

    async def admin(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
        *,
        query: str = "",
        ok: Container[int] | None = _OK,
    ) -> Reply:
        """A request of an administrator, in JSON. Raises :class:`SetupError` for a status that is not in ``ok``."""
        content = None if body is None else json.dumps(body).encode()
        reply = await self.send(method, path, query, {"Content-Type": "application/json", **(headers or {})}, content)
        if ok is not None and reply.status not in ok:
            raise SetupError(f"{method} {path}: {reply.status} {reply.body[:300]!r}")
        return reply

    async def clean_up(self) -> None:
        """Delete what the case made, last first."""
        for path in reversed(self._made):
            await self.delete(path)

    async def delete(self, path: str) -> None:
        """Delete an object, finalizers and all."""
        reply = await self.admin("DELETE", path, {"propagationPolicy": "Background"}, ok=None)
        gone = reply.status not in (200, 202, 409)
        if gone or (reply.tree.get("kind") == "Status" and reply.status != 409):
            return
        if reply.tree.get("kind") == "CustomResourceDefinition":
            # The server's own finalizer deletes the objects.
            kept = [each for each in reply.tree["metadata"].get("finalizers", []) if each == _DEFINITION_FINALIZER]
            body = {"metadata": {"finalizers": kept}}
            await self.admin("PATCH", path, body, {"Content-Type": MERGE_PATCH}, ok=None)
            return
        await self.admin("PATCH", path, {"metadata": {"finalizers": None}}, {"Content-Type": MERGE_PATCH}, ok=None)
        if re.fullmatch(r"/api/v1/namespaces/[^/]+", path):
            # Nobody else takes Kubernetes' own finalizer away where no namespace controller runs.
            namespace = copy.deepcopy((await self.admin("GET", path, ok=None)).tree)
            if namespace.get("spec"):
                namespace["spec"]["finalizers"] = []
                await self.admin("PUT", f"{path}/finalize", namespace, ok=None)

    def _remember(self, method: str, path: str, query: str, reply: Reply) -> None:
        in_table = reply.tree.get("kind") == "Table"
        name = get_path(reply.tree, "rows.0.object.metadata.name" if in_table else "metadata.name")
        if reply.status == 201 and name != ABSENT and "dryRun" not in query and not path.endswith("/token"):
            self._made.append(f"{path}/{quote(name, safe='')}" if method == "POST" else path)
