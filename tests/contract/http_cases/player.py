"""Plays one case: preconditions, the request, the comparison, and cleaning up."""

from __future__ import annotations

import asyncio
import copy
import json
import re
from collections.abc import Container
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import yaml

from contract.http_cases import mini_protobuf
from contract.http_cases.case_text import Case, Fixtures, get_path, is_http, rename, set_path
from contract.http_cases.comparison import Comparison
from contract.http_cases.identities import Identities
from contract.http_cases.preconditions import bring_about, random_tag
from contract.http_cases.reply import Reply
from contract.http_cases.run import During, Run, SetupError, SkipCase

STATES = ("restarted", "compacted")
_EVENTUALLY_SECONDS = 15.0
_PAUSE_SECONDS = 0.05


@dataclass(frozen=True)
class Played:
    """What came of a case: no ``problems`` when the server answered as it should."""

    tag: str
    reply: Reply
    problems: list[str] = field(default_factory=list)


class Player:
    """Args: ``states`` of :data:`STATES` that the server is in."""

    def __init__(self, identities: Identities, fixtures: Fixtures, states: Container[str] = ()) -> None:
        self._identities = identities
        self._fixtures = fixtures
        self._states = states

    async def play(self, case: Case) -> Played:
        """Raises: SkipCase, SetupError, and whatever the connection raises."""
        if not is_http(case):
            raise SkipCase("not an HTTP case")
        state = case["given"].get("state")
        if state and state not in self._states:
            raise SkipCase(f"needs --state {state}")
        run = Run(self._identities, random_tag())
        case = rename(case, run.tag)
        try:
            return await self._play(run, case)
        finally:
            await run.clean_up()

    async def delete_requests(self) -> int:
        """Delete every CertificateSigningRequest, for cases that list them; how many there were."""
        run = Run(self._identities, random_tag())
        collection = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
        items = (await run.admin("GET", collection, ok=None)).tree.get("items") or []
        for item in items:
            await run.delete(f"{collection}/{item['metadata']['name']}")
        return len(items)

    async def _play(self, run: Run, case: Case) -> Played:
        given, when, then = case["given"], case["when"], case["then"]
        await bring_about(run, case, self._fixtures)
        for step in given.get("steps", []):
            await self._step(run, step)
        session = None
        if given.get("client_certificate"):
            if not self._identities.can_mint:
                raise SkipCase("needs --ca-key")
            session = self._identities.fixture_session(given["client_certificate"])

        async def during() -> None:
            for step in given["during"]:
                await self._step(run, step)

        if then.get("eventually"):
            reply, problems = await self._repeated(run, when, then, given.get("user"))
        else:
            reply = await self._request(run, when, given.get("user"), during if given.get("during") else None, session)
            problems = self._compare(run, then, reply)
        for step in then.get("after", []):
            found = await self._later(run, step)
            problems += [f"after {step['method']} {step['path']}: {problem}" for problem in found]
        return Played(run.tag, reply, problems)

    async def _later(self, run: Run, step: dict[str, Any]) -> list[str]:
        user = step.get("user", "admin")
        if step["then"].get("eventually"):
            return (await self._repeated(run, step, step["then"], user))[1]
        return self._compare(run, step["then"], await self._request(run, step, user))

    async def _repeated(
        self, run: Run, request: dict[str, Any], then: dict[str, Any], user: Any
    ) -> tuple[Reply, list[str]]:
        """The answer to a request that is sent until its answer is as expected; the last one, if none is."""
        attempts = int(_EVENTUALLY_SECONDS / _PAUSE_SECONDS)
        for _ in range(attempts):
            reply = await self._request(run, request, user)
            problems = self._compare(run, then, reply)
            if not problems:
                break
            await asyncio.sleep(_PAUSE_SECONDS)
        return reply, problems

    def _compare(self, run: Run, then: dict[str, Any], reply: Reply) -> list[str]:
        return Comparison(self._fixtures.expand(then, run.variables), reply, run.stored).run()

    async def _step(self, run: Run, step: dict[str, Any]) -> None:
        user, want = step.get("user", "admin"), step.get("status")
        if "until" in step:
            reply, problems = await self._repeated(run, step, step["until"], user)
            if problems:
                raise SetupError(f"step {step['method']} {step['path']}: {'; '.join(problems)}")
            want = reply.status
        else:
            reply = await self._request(run, step, user)
        if reply.status != want if want else reply.status >= 400:
            raise SetupError(f"step {step['method']} {step['path']}: {reply.status} {reply.body[:300]!r}")
        for name, path in step.get("save", {}).items():
            run.variables[name] = get_path(reply.document, path)
        if step.get("wait"):
            await asyncio.sleep(step["wait"])

    async def _request(
        self,
        run: Run,
        request: dict[str, Any],
        user: Any,
        during: During | None = None,
        session: aiohttp.ClientSession | None = None,
    ) -> Reply:
        if "$RV" in json.dumps(request) and "RV" not in run.variables:
            collection = await run.admin("GET", request["path"], query="limit=1")
            run.variables["RV"] = collection.tree["metadata"]["resourceVersion"]
        headers = request.get("headers") or {}
        if "$ETAG" in json.dumps(headers) and "ETAG" not in run.variables:
            without = {name: value for name, value in headers.items() if "$ETAG" not in value}
            first = await run.send("GET", request["path"], request.get("query", ""), without)
            run.variables["ETAG"] = first.headers["ETag"]
        body = await self._body(run, request)
        return await run.send(
            request["method"],
            self._expand(run, request["path"]),
            self._expand(run, request.get("query", "")),
            self._expand(run, headers),
            body,
            user=user,
            during=during,
            session=session,
        )

    async def _body(self, run: Run, request: dict[str, Any]) -> bytes | None:
        body = request.get("body")
        match body:
            case None | "":
                return None
            case str():
                return body.encode()
            case {"$merge": changes}:
                return await self._merged(run, request["path"], changes)
            case {"$raw": text}:
                return str(self._expand(run, text)).encode()
            case {"$hex": digits}:
                return bytes.fromhex(digits)
            case {"$repeat_bytes": [part, count]}:
                return bytes(part.encode() * count)
            case {"$yaml": tree}:
                return yaml.safe_dump(self._expand(run, tree)).encode()
            case {"$protobuf": tree}:
                unknown = body.get("$add_unknown_field")
                return mini_protobuf.envelope(
                    self._expand(run, tree),
                    with_type=body.get("$typemeta", 1) is not None,
                    extra=mini_protobuf.field(unknown, b"x") if unknown else b"",
                )
        return json.dumps(self._expand(run, body)).encode()

    async def _merged(self, run: Run, path: str, changes: dict[str, Any]) -> bytes:
        """The object as it is stored, changed at dotted paths."""
        path = re.sub(r"/(approval|status)$", "", self._expand(run, path))
        run.stored = (await run.admin("GET", path)).tree
        changed = copy.deepcopy(run.stored)
        for key, value in self._expand(run, changes).items():
            set_path(changed, key, value)
        return json.dumps(changed).encode()

    def _expand(self, run: Run, value: Any) -> Any:
        return self._fixtures.expand(value, run.variables)
