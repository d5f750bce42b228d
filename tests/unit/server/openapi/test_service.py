"""server/openapi/service.py: how the documents are asked for."""

from __future__ import annotations

import asyncio
import datetime as dt
import hashlib
import json
import time
from typing import Any

import pytest

from asynctest import async_test
from kubevouch.server import request_info
from kubevouch.server.openapi import OpenAPI
from kubevouch.server.query import Query
from kubevouch.server.request import BytesResult, Request
from unit.server.openapi.everything import VERSION, everything_served

CSR = "/openapi/v3/apis/certificates.k8s.io/v1"
JSON = "application/json"
PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
PROTOBUF_DEPRECATED = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
NOW = dt.datetime(2026, 3, 4, 5, 6, 7, 890000, tzinfo=dt.UTC)
HTTP_NOW = "Wed, 04 Mar 2026 05:06:07 GMT"


async def ask(openapi: OpenAPI, target: str, *, now: dt.datetime = NOW, **headers: str) -> BytesResult:
    path, _, raw = target.partition("?")
    query = Query(raw)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    info = request_info.parse("GET", path, query)
    request = Request("GET", path, query, named, now, info=info)
    serve = openapi.serve_v2 if path == "/openapi/v2" else openapi.serve_v3
    result = await serve(request)
    assert isinstance(result, BytesResult)
    return result


@pytest.fixture
def openapi() -> OpenAPI:
    return OpenAPI(everything_served(), VERSION)


async def url_of(openapi: OpenAPI, name: str) -> str:
    index: dict[str, Any] = json.loads((await ask(openapi, "/openapi/v3")).body)
    url: str = index["paths"][name]["serverRelativeURL"]
    return url


# ------------------------------------------------------------------ version 3


@async_test
async def test_the_index(openapi: OpenAPI) -> None:
    result = await ask(openapi, "/openapi/v3", Accept="application/json, */*")
    assert (result.status, result.content_type) == (200, "text/plain; charset=utf-8")
    assert "ETag" not in result.headers
    paths = json.loads(result.body)["paths"]
    assert list(paths) == sorted(paths)
    assert {"api", "api/v1", "apis", "apis/certificates.k8s.io", "apis/certificates.k8s.io/v1", "version"} <= set(paths)
    for name, entry in paths.items():
        document = await ask(openapi, f"/openapi/v3/{name}")
        digest = hashlib.sha512(document.body).hexdigest().upper()
        assert entry == {"serverRelativeURL": f"/openapi/v3/{name}?hash={digest}"}


@async_test
async def test_the_index_is_asked_for_again_by_date(openapi: OpenAPI) -> None:
    first = await ask(openapi, "/openapi/v3")
    assert first.headers["Last-Modified"] == HTTP_NOW
    again = await ask(openapi, "/openapi/v3", now=NOW + dt.timedelta(hours=1), If_Modified_Since=HTTP_NOW)
    assert (again.status, again.body) == (304, b"")
    older = await ask(openapi, "/openapi/v3", If_Modified_Since="Wed, 04 Mar 2026 05:06:06 GMT")
    assert older.status == 200


@pytest.mark.parametrize("date", ["yesterday", "Wed, 04 Mar 2026 05:06:07 -0000", "Fri, 01 Jan 99999 00:00:00 GMT", ""])
def test_a_date_that_is_none_changes_nothing(openapi: OpenAPI, date: str) -> None:
    result = asyncio.run(ask(openapi, "/openapi/v3", If_Modified_Since=date))
    assert result.status == 200


@async_test
async def test_a_document_without_a_hash_is_revalidated(openapi: OpenAPI) -> None:
    result = await ask(openapi, CSR)
    assert (result.status, result.content_type) == (200, JSON)
    assert result.headers["Vary"] == "Accept"
    assert "Cache-Control" not in result.headers
    assert json.loads(result.body)["openapi"] == "3.0.0"


@async_test
async def test_a_document_with_its_hash_lasts(openapi: OpenAPI) -> None:
    result = await ask(openapi, await url_of(openapi, "apis/certificates.k8s.io/v1"), Accept=JSON)
    assert result.status == 200
    assert result.headers["Cache-Control"] == "public, immutable"
    assert result.headers["Expires"] == "Thu, 04 Mar 2027 05:06:07 GMT"


@async_test
async def test_a_wrong_hash_leads_to_the_right_one(openapi: OpenAPI) -> None:
    result = await ask(openapi, f"{CSR}?hash=WRONG&timeout=32s")
    assert result.status == 301
    assert result.headers["Location"] == await url_of(openapi, "apis/certificates.k8s.io/v1")
    assert (await ask(openapi, result.headers["Location"])).status == 200


@pytest.mark.parametrize("path", ["/openapi/v3/apis/nope/v1", "/openapi/v3/", f"{CSR}/", "/openapi/v3/openapi/v3"])
def test_an_unknown_document(openapi: OpenAPI, path: str) -> None:
    result = asyncio.run(ask(openapi, path))
    assert (result.status, result.body) == (404, b"")


@async_test
async def test_a_known_tag_saves_the_body(openapi: OpenAPI) -> None:
    first = await ask(openapi, CSR)
    etag = first.headers["ETag"]
    assert etag == f'"{hashlib.sha512(first.body).hexdigest().upper()}"'
    for known in (etag, f"W/{etag}", f'"other", {etag}', "*"):
        again = await ask(openapi, CSR, If_None_Match=known)
        assert (again.status, again.body, again.headers["ETag"]) == (304, b"", etag)
    # The tag counts, not the date.
    other = await ask(openapi, CSR, If_None_Match='"other"', If_Modified_Since=HTTP_NOW)
    assert (other.status, other.body) == (200, first.body)


@pytest.mark.parametrize(
    ("accept", "status"),
    [
        ("", 200),
        ("*/*", 200),
        ("application/*", 200),
        ("application/com.github.proto-openapi.spec.v3@v1.0+protobuf, application/json;q=0.5", 200),
        ("application/com.github.proto-openapi.spec.v3.v1.0+protobuf", 406),
        ("application/json;q=0", 406),
        ("application/json;q=x", 406),
        ("text/html", 406),
        (",;=,", 406),
    ],
)
def test_only_json_is_offered(openapi: OpenAPI, accept: str, status: int) -> None:
    result = asyncio.run(ask(openapi, CSR, Accept=accept))
    assert result.status == status
    assert bool(result.body) == (status == 200)


# ------------------------------------------------------------------ version 2


@pytest.mark.parametrize(
    ("accept", "media"),
    [
        ("", JSON),
        ("*/*", JSON),
        (JSON, JSON),
        (PROTOBUF, PROTOBUF),
        (PROTOBUF_DEPRECATED, PROTOBUF),
        (f"{JSON};q=0.1, {PROTOBUF}", PROTOBUF),
        (f"{JSON}, {PROTOBUF}", JSON),
        ("text/html, */*;q=0.1", JSON),
    ],
)
def test_both_forms_of_version_2(openapi: OpenAPI, accept: str, media: str) -> None:
    result = asyncio.run(ask(openapi, "/openapi/v2", Accept=accept))
    assert (result.status, result.content_type, result.headers["Vary"]) == (200, media, "Accept")
    assert result.body.startswith(b'{"definitions":' if media == JSON else b"\x0a\x032.0")


@async_test
async def test_version_2_is_revalidated_too(openapi: OpenAPI) -> None:
    as_json = await ask(openapi, "/openapi/v2")
    as_protobuf = await ask(openapi, "/openapi/v2", Accept=PROTOBUF)
    assert as_json.headers["ETag"] != as_protobuf.headers["ETag"]
    again = await ask(openapi, "/openapi/v2", Accept=PROTOBUF, If_None_Match=as_protobuf.headers["ETag"])
    assert again.status == 304
    other = await ask(openapi, "/openapi/v2", Accept=PROTOBUF, If_None_Match=as_json.headers["ETag"])
    assert other.status == 200


@async_test
async def test_version_2_in_a_form_that_is_not_there(openapi: OpenAPI) -> None:
    result = await ask(openapi, "/openapi/v2", Accept="text/html")
    assert (result.status, result.body) == (406, b"")


# ------------------------------------------------------------------ making


@async_test
async def test_documents_are_made_once_also_when_many_ask_at_once(openapi: OpenAPI) -> None:
    results = await asyncio.gather(*(ask(openapi, CSR) for _ in range(5)))
    assert len({id(result.body) for result in results}) == 1
    assert (await ask(openapi, CSR)).body is results[0].body


@async_test
async def test_what_is_registered_before_the_first_request_is_in() -> None:
    served = everything_served()
    endpoint = served.endpoints.pop(("", "v1", "pods"))
    openapi = OpenAPI(served, VERSION)
    served.add(endpoint)
    assert b"/pods" in (await ask(openapi, "/openapi/v3/api/v1")).body


def test_making_everything_is_quick() -> None:
    async def both() -> None:
        openapi = OpenAPI(everything_served(), VERSION)
        await ask(openapi, "/openapi/v3")
        await ask(openapi, "/openapi/v2", Accept=PROTOBUF)

    taken = []
    for _ in range(3):
        began = time.process_time()
        asyncio.run(both())
        taken.append(time.process_time() - began)
    # 60 to 90 ms of CPU on two slow cores; a walk that is quadratic in schemas or paths would take seconds.
    assert min(taken) < 0.5
