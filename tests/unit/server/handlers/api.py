"""Requests as bytes to a server in this process: everything from routing to the answer's encoding is the real thing."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from kubevouch.authentication.interface import UserInfo
from kubevouch.client.interface import RawResponse
from kubevouch.testing import Cluster
from kubevouch.testing.cluster import ADMIN
from kubevouch.wellknown import AUTHENTICATED_GROUP
from wire import Reply

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
USER_AGENT = "unit-test"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


class API:
    """Answers requests of one user after another; everything stays in one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def request(
        self, method: str, path: str, body: bytes | None = None, *, user: str | None = None, **headers: str
    ) -> Reply:
        """``user`` None is an administrator; header names have ``_`` for ``-``."""

        async def send() -> RawResponse:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            return await self.cluster.server.api.loopback(*self._identity(user)).raw(method, path, body, named)

        found = self.cluster.run(send())
        return Reply(found.status, found.headers, found.body)

    def json(self, method: str, path: str, tree: Any = None, *, user: str | None = None, **headers: str) -> Reply:
        body = None if tree is None else json.dumps(tree).encode()
        return self.request(method, path, body, user=user, **headers)

    def create(self, name: str, path: str = CONFIG_MAPS, **parts: Any) -> dict[str, Any]:
        """A ConfigMap, or what ``parts`` make of it."""
        reply = self.json("POST", path, {"metadata": {"name": name}} | parts)
        assert reply.code == 201, reply.body
        return tree(reply)

    def allow(self, user: str, verbs: Iterable[str], group: str, resource: str) -> None:
        """Cluster-wide rights, and no others."""
        name = f"{user}-{resource}"
        self.cluster.apply(
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRole",
                "metadata": {"name": name},
                "rules": [{"verbs": list(verbs), "apiGroups": [group], "resources": [resource]}],
            }
        )
        self.cluster.apply(
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": name},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
                "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
            }
        )

    @staticmethod
    def _identity(user: str | None) -> tuple[UserInfo, str]:
        return (ADMIN if user is None else UserInfo(user, groups=(AUTHENTICATED_GROUP,))), USER_AGENT


def tree(reply: Reply) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(reply.body)
    return found
