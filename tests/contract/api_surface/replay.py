"""Plays a recorded request again: brings about what it found there, sends it, and says what was answered instead."""

from __future__ import annotations

import contextlib
import io
import json
import re
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

from aiohttp import ClientResponse
from yarl import URL

from contract.api_surface.rows import JSON, PROTOBUF, Row
from contract.api_surface.samples import CONDITIONS, Tree, sample
from contract.http_cases.identities import Identities
from kubevouch.api.catalog import SCHEME
from kubevouch.machinery.codec import json_codec, protobuf
from kubevouch.machinery.scheme import GroupVersion, GroupVersionKind
from kubevouch.server.query import Query
from kubevouch.server.request_info import RequestInfo, parse

_USERS = {
    "kubernetes-admin": ["kubeadm:cluster-admins"],
    "system:kube-controller-manager": [],
    "system:node:node1": ["system:nodes"],
    "system:node:node2": ["system:nodes"],
}
# Under which of kube-controller-manager's accounts it did what; the recording says only that it was one.
_ACCOUNTS = {
    "configmaps create": "root-ca-cert-publisher",
    "configmaps get": "legacy-service-account-token-cleaner",
    "configmaps update": "bootstrap-signer",
    "secrets delete": "token-cleaner",
    "serviceaccounts create": "service-account-controller",
    "clusterroles patch": "clusterrole-aggregation-controller",
    "nodes list": "node-controller",
}
_USUAL_ACCOUNT = "certificate-controller"
_NAMES = {"{csr}": "csr-x", "{rand}": "x", "{hash}": "0a1b", "{e2e-ns}": "bootstrap-token-e2e", "{uid}": "u-1"}
_REVIEWS = ("reviews", "token")


class Replay:
    """Args: ``bootstrap_token`` is a valid one."""

    def __init__(self, identities: Identities, bootstrap_token: str) -> None:
        self._identities = identities
        self._token = bootstrap_token

    async def prepare(self) -> None:
        """What ``kubeadm init`` leaves besides what a server has from the start."""
        for name in ("kubeadm-config", "kubelet-config", "kubelet-config-1.22"):
            path = "/api/v1/namespaces/kube-system/configmaps"
            await self._admin("POST", path, sample("configmaps", name, "kube-system", ""))
        # kubeadm 1.22 named the role after the version.
        rbac, name = "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system", "kubeadm:kubelet-config-1.22"
        rule = {
            "apiGroups": [""],
            "resources": ["configmaps"],
            "resourceNames": ["kubelet-config-1.22"],
            "verbs": ["get"],
        }
        role = sample("roles", name, "kube-system", "") | {"rules": [rule]}
        binding = sample("rolebindings", name, "kube-system", "")
        subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:bootstrappers"}
        binding |= {"subjects": [subject], "roleRef": binding["roleRef"] | {"kind": "Role", "name": name}}
        await self._admin("POST", f"{rbac}/roles", role)
        await self._admin("POST", f"{rbac}/rolebindings", binding)

    async def answer(self, row: Row) -> tuple[int, str]:
        """The status and the content type with which the server answers this row now."""
        path = self._named(row.path, row)
        info = parse(row.method, path, Query(""))
        body = await self._bring_about(row, info)
        headers = {"Accept": row.accept} | ({"Content-Type": row.content} if row.content else {})
        query = await self._query(row, path)
        if row.status == 304:
            async with self._send(row, info, path, query, headers, None) as first:
                headers |= _conditions(first)
        async with self._send(row, info, path, query, headers, body) as reply:
            return reply.status, reply.headers.get("Content-Type", "") if reply.status != 304 else ""

    # -------------------------------------------------------------- before

    @staticmethod
    def _named(text: str, row: Row) -> str:
        found = re.sub(r"\{name\}", "kube-system" if text.startswith("/api/v1/namespaces/{name}") else "sample", text)
        if row.method == "DELETE" and found == "/api/v1/namespaces/kube-system":
            found = "/api/v1/namespaces/sample"
        if "/services/" in text:
            found = text.replace("{name}", "kubernetes")  # there is no other
        found = found.replace("{ns}", "default").replace("{group-version}", "api/v1")
        for mark, name in _NAMES.items():
            found = found.replace(mark, name)
        return found

    async def _bring_about(self, row: Row, info: RequestInfo) -> bytes | None:
        """Make the object be there or not, as it was; the body."""
        if not info.is_resource or row.status == 403:
            return self._body(row, info, {}) if row.content else None
        name = info.name or self._new_name(row, info)
        item = self._item(info, name)
        stored: Tree | None = None
        if info.name and not info.subresource.endswith(_REVIEWS):
            wanted = row.status in (200, 403)
        elif info.subresource == "token":
            wanted = True
        else:
            wanted = row.status == 409
        if info.name or (row.method == "POST" and not info.resource.endswith(_REVIEWS)):
            stored = await self._get(item)
            if wanted and stored is None:
                stored = await self._create(info, name, row)
            elif not wanted and stored is not None:
                await self._admin("DELETE", item)
        return self._body(row, info, stored or {}) if row.content else None

    def _new_name(self, row: Row, info: RequestInfo) -> str:
        node = row.user.rpartition(":")[2]
        if info.resource in ("nodes", "csinodes") and row.user.startswith("system:node:"):
            return node
        if info.resource == "leases":
            return node if row.user.startswith("system:node:") else "kube-controller-manager"
        return "sample"

    @staticmethod
    def _item(info: RequestInfo, name: str) -> str:
        root = f"/apis/{info.group}/{info.version}" if info.group else f"/api/{info.version}"
        if info.namespace and info.resource != "namespaces":
            root += f"/namespaces/{info.namespace}"
        return f"{root}/{info.resource}/{quote(name, safe=':')}"

    async def _get(self, item: str) -> Tree | None:
        status, tree = await self._ask("GET", item)
        return tree if status == 200 else None

    async def _create(self, info: RequestInfo, name: str, row: Row) -> Tree | None:
        try:
            tree = sample(info.resource, name, self._namespace(info), self._node(row))
        except KeyError:
            return None
        return await self._admin("POST", self._item(info, name).rpartition("/")[0], tree)

    @staticmethod
    def _namespace(info: RequestInfo) -> str:
        return "" if info.resource == "namespaces" else info.namespace

    @staticmethod
    def _node(row: Row) -> str:
        return row.user.rpartition(":")[2] if row.user.startswith("system:node:") else "node1"

    def _body(self, row: Row, info: RequestInfo, stored: Tree) -> bytes:
        tree = self._tree(row, info, stored)
        if row.content != PROTOBUF:
            return json.dumps(tree).encode()
        gvk = GroupVersionKind(*GroupVersion.parse(tree["apiVersion"]), tree["kind"])
        obj = json_codec.decode(json.dumps(tree).encode(), SCHEME.kinds[gvk])
        return protobuf.seal(tree["apiVersion"], tree["kind"], protobuf.codec_for(type(obj)).encode(obj))

    def _tree(self, row: Row, info: RequestInfo, stored: Tree) -> Any:
        if row.method == "DELETE":
            return {"apiVersion": "v1", "kind": "DeleteOptions"}
        if row.method == "PATCH":
            return self._patch(row, info, stored)
        if row.method == "POST" or not stored:
            name = "" if info.resource.endswith(_REVIEWS) or info.subresource else self._new_name(row, info)
            plural = info.subresource or info.resource
            return sample(plural, name, self._namespace(info), self._node(row))
        condition = CONDITIONS.get(info.subresource)
        if condition is None:
            return stored
        return stored | {"status": {"conditions": [condition]}}

    def _patch(self, row: Row, info: RequestInfo, stored: Tree) -> Any:
        if row.content == "application/json-patch+json":
            return [{"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}]
        if row.content == "application/apply-patch+yaml":
            try:
                applied = sample(info.resource, info.name, self._namespace(info), self._node(row))
            except KeyError:
                return {}
            return applied | ({"rules": stored["rules"]} if "rules" in stored else {})
        if info.resource == "nodes":
            return {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
        if info.subresource in CONDITIONS:
            return {"metadata": {"annotations": {"patched": info.subresource}}}
        return {"metadata": {"labels": {"a": "b"}}}

    # -------------------------------------------------------------- the request

    async def _query(self, row: Row, path: str) -> str:
        query = row.query
        for mark, name in _NAMES.items():
            query = query.replace(mark, name)
        query = query.replace("timeout=N", "timeout=30s").replace("timeoutSeconds=N", "timeoutSeconds=30")
        if "resourceVersion=N" in query:
            query = query.replace("resourceVersion=N", f"resourceVersion={await self._version()}")
        if "hash=…" in query:
            _, index = await self._ask("GET", "/openapi/v3")
            url = index["paths"][path.removeprefix("/openapi/v3/")]["serverRelativeURL"]
            query = query.replace("hash=…", url.partition("?")[2])
        if "continue=…" in query:
            for name in ("page-1", "page-2"):
                await self._admin("POST", path, sample(path.rpartition("/")[2], name, "", "node1"))
            _, page = await self._ask("GET", path, "limit=1")
            query = query.replace("continue=…", f"continue={quote(page['metadata']['continue'])}")
        return quote(query, safe="=&,!%:/.+")

    async def _version(self) -> str:
        _, tree = await self._ask("GET", "/api/v1/namespaces")
        return str(tree["metadata"]["resourceVersion"])

    @contextlib.asynccontextmanager
    async def _send(
        self, row: Row, info: RequestInfo, path: str, query: str, headers: dict[str, str], body: bytes | None
    ) -> AsyncIterator[ClientResponse]:
        """The reply, whose body is not read: a watch has none that ends."""
        own: list[tuple[str, str]] = []
        if row.user in ("anonymous", "bootstrap token"):
            session = self._identities.anonymous()
            if row.user != "anonymous":
                own = [("Authorization", f"Bearer {self._token}")]
        elif row.user == "SA token":
            session, token = self._identities.anonymous(), await self._account_token(info)
            own = [("Authorization", f"Bearer {token}")]
        else:
            who = self._identities.of({"name": row.user, "groups": _USERS[row.user]}, ())
            assert who is not None  # certificates can be made for these
            session, own = who
        url = URL(f"{self._identities.server}{path}{f'?{query}' if query else ''}", encoded=True)
        content = None if body is None else io.BytesIO(body)
        pairs = [*own, *headers.items(), ("User-Agent", "replay/1")]
        async with session.request(
            row.method, url, headers=pairs, data=content, skip_auto_headers=("Content-Type", "Accept", "User-Agent")
        ) as reply:
            yield reply

    async def _account_token(self, info: RequestInfo) -> str:
        account = _ACCOUNTS.get(f"{info.resource} {info.verb}", _USUAL_ACCOUNT)
        accounts = "/api/v1/namespaces/kube-system/serviceaccounts"
        if await self._get(f"{accounts}/{account}") is None:
            await self._admin("POST", accounts, sample("serviceaccounts", account, "kube-system", ""))
        reply = await self._admin("POST", f"{accounts}/{account}/token", sample("token", "", "", ""))
        return str(reply["status"]["token"])

    # -------------------------------------------------------------- as an administrator

    async def _ask(self, method: str, path: str, query: str = "", tree: Tree | None = None) -> tuple[int, Tree]:
        session, own = self._identities.admin()
        url = URL(f"{self._identities.server}{path}{f'?{query}' if query else ''}", encoded=True)
        async with session.request(method, url, headers=own, json=tree) as reply:
            found = (
                await reply.json(content_type=None)
                if JSON in reply.headers.get("Content-Type", "") or ("openapi" in path)
                else {}
            )
            return reply.status, found

    async def _admin(self, method: str, path: str, tree: Tree | None = None) -> Tree:
        status, found = await self._ask(method, path, "", tree)
        assert status in (200, 201), f"{method} {path}: {status} {found.get('message')}"
        return found


def _conditions(reply: ClientResponse) -> dict[str, str]:
    """Headers that ask for the same document only if it has changed; not every one has an ETag."""
    told = {"If-None-Match": reply.headers.get("ETag"), "If-Modified-Since": reply.headers.get("Last-Modified")}
    return {name: value for name, value in told.items() if value}
