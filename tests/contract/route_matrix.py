"""What every route answers to every kind of credential, measured on a fresh cluster.

    PYTHONPATH=tests python -m contract.route_matrix

writes route_matrix.tsv from what is served now; whoever does so reads the difference.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import ssl
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from kubevouch.api import catalog, rbac_v1
from kubevouch.api.authentication_v1 import BoundObjectReference, TokenRequest, TokenRequestSpec
from kubevouch.api.core_v1 import Node, Secret, ServiceAccount
from kubevouch.api.rbac_v1 import ClusterRoleBinding, RoleRef, Subject
from kubevouch.machinery.codec import json_codec
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.machinery.scheme import Resource
from kubevouch.phases.certificates.certs import certificate_pem, load_authority, pair_at
from kubevouch.pki import keys
from kubevouch.pki.authority import CertificateAuthority, LeafSpec, issue_leaf
from kubevouch.pki.control_plane import FRONT_PROXY_CA, FRONT_PROXY_CLIENT
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509.usages import CLIENT_AUTH
from kubevouch.server.endpoints import Served
from kubevouch.testing import Cluster
from throwaway_ca import Pair, ThrowawayCA

FILE = Path(__file__).with_name("route_matrix.tsv")
NAME = "nobody"
_METHODS = {
    "get": "GET", "list": "GET", "watch": "GET", "create": "POST", "update": "PUT", "patch": "PATCH",
    "delete": "DELETE", "deletecollection": "DELETE",
}  # fmt: skip
_ON_COLLECTION = ("create", "list", "watch", "deletecollection")
REFUSED = (
    "expired-certificate", "other-ca", "expired-token", "wrong-token",
    "revoked-bootstrap-token", "revoked-service-account", "revoked-bound-token",
)  # fmt: skip
"""Credentials that are no longer good, or never were; the last ones shown, for time moves on before them."""
SAME_AS = {
    "forged-front-proxy": "none",
    "revoked-binding": "front-proxy",
    "revoked-node": "node",
}
"""Credentials that open no more, and no less, than another one.

Kubernetes revokes no certificate: that of a node whose Node was deleted works until it expires, or until its name is
denied something by the authorizer. Whose binding was removed is left with what everybody has who is authenticated.
"""
_PAUSE_SECONDS = 10.0
_SHORT = dt.timedelta(minutes=1)
_LONG_SECONDS = 24 * 3600  # all the pauses together take hours


@dataclass(frozen=True, slots=True)
class Route:
    """One verb on one path. ``path`` is a pattern, with ``{namespace}`` and ``{name}``."""

    verb: str
    path: str

    @property
    def method(self) -> str:
        return _METHODS[self.verb]

    @property
    def url(self) -> str:
        url = self.path.format(namespace="default", name=NAME)
        # Nothing has this label: deleting a collection deletes nothing.
        return url + {
            "watch": "?watch=1&timeoutSeconds=30",
            "deletecollection": "?labelSelector=matrix%3Dnobody",
        }.get(self.verb, "")

    def __str__(self) -> str:
        return f"{self.verb} {self.path}"


# One table makes them all: two stand for them.
_ALIKE = [
    *(each for each in catalog.EMPTY.values() if each.plural not in ("deployments", "apiservices")),
    *catalog.OLDER.values(),
]
SELF_REVIEW = Route("create", catalog.SELF_SUBJECT_REVIEWS.path())
"""What whoever is authenticated may do."""


def resource_routes(served: Served) -> Iterator[Route]:
    """Every verb of every resource and subresource that is served."""
    for endpoint in served.endpoints.values():
        resource = endpoint.resource
        if resource in _ALIKE:
            continue
        collection = resource.path("{namespace}" if resource.namespaced else "")
        for verb in endpoint.verbs:
            yield Route(verb, collection if verb in _ON_COLLECTION else f"{collection}/{{name}}")
            if resource.namespaced and verb in ("list", "watch"):
                yield Route(verb, resource.path())
        for subresource in endpoint.subresources:
            for verb in subresource.verbs:
                yield Route(verb, f"{collection}/{{name}}/{subresource.name}")
    for action in served.actions.values():
        resource = action.resource
        path = resource.path("{namespace}" if resource.namespaced else "")
        yield Route("create", f"{path}/{{name}}/{action.subresource}" if action.subresource else path)


async def all_routes(cluster: Cluster) -> list[Route]:
    """Those of resources, and the paths that ``/`` lists."""
    index = await cluster.client().raw("GET", "/")
    paths = msgspec.json.decode(index.body)["paths"]
    return [*resource_routes(cluster.server.api.served), *(Route("get", path) for path in paths)]


@dataclass(slots=True)
class Revocation:
    """Args: ``proof`` is what the credential opens before ``revoke`` was called."""

    proof: Route
    revoke: Callable[[], Awaitable[object]]


@dataclass(slots=True)
class Credential:
    """What a client shows: a certificate, a bearer token, headers; and what becomes of it once it was shown."""

    pair: Pair | None = None
    headers: dict[str, str] = field(default_factory=dict)
    revoked: Revocation | None = None


def _bearer(text: str, revoked: Revocation | None = None) -> Credential:
    return Credential(headers={"Authorization": f"Bearer {text}"}, revoked=revoked)


def _pair(authority: CertificateAuthority, spec: LeafSpec, now: dt.datetime) -> Pair:
    key = keys.generate(KeyAlgorithm.ECDSA_P256)
    return Pair(certificate_pem(issue_leaf(authority, spec, key, now=now).contents), keys.to_pem(key))


async def credentials(cluster: Cluster) -> dict[str, Credential]:
    """Every kind, in the order of the file's columns."""
    now, authority = cluster.clock.now(), cluster.pki.authority
    node = LeafSpec(common_name="system:node:matrix", organizations=("system:nodes",), purposes=(CLIENT_AUTH,))
    admin = LeafSpec(common_name="kubernetes-admin", organizations=("system:masters",), purposes=(CLIENT_AUTH,))
    proxy = _pair(load_authority(pair_at(cluster.pki.folder, FRONT_PROXY_CA)), FRONT_PROXY_CLIENT.spec, now)
    node_pair, admin_pair = _pair(authority, node, now), _pair(authority, admin, now)
    expired = _pair(authority, msgspec.structs.replace(node, validity=_SHORT), now)
    short_token = await cluster.token_async(ttl=_SHORT)
    return {
        "none": Credential(),
        "admin": Credential(admin_pair),
        "node": Credential(node_pair),
        "front-proxy": Credential(proxy, {"X-Remote-User": "someone", "X-Remote-Group": "system:authenticated"}),
        "forged-front-proxy": Credential(
            None, {"X-Remote-User": "kubernetes-admin", "X-Remote-Group": "system:masters"}
        ),
        "bootstrap-token": _bearer(await cluster.token_async()),
        "service-account": _bearer(await _service_account(cluster, "kept")),
        "impersonating": Credential(admin_pair, {"Impersonate-User": "someone"}),
        "impersonating-forbidden": Credential(node_pair, {"Impersonate-User": "kubernetes-admin"}),
        "expired-certificate": Credential(expired),
        "other-ca": Credential(ThrowawayCA("other").issue("system:node:matrix", organizations=("system:nodes",))),
        "revoked-binding": await _revoked_binding(cluster),
        "revoked-node": await _revoked_node(cluster),
        "expired-token": _bearer(short_token),
        "wrong-token": _bearer("abcdef.0123456789abcdef"),
        "revoked-bootstrap-token": await _revoked_bootstrap_token(cluster),
        "revoked-service-account": await _revoked_account(cluster),
        "revoked-bound-token": await _revoked_bound_token(cluster),
    }


def _deletion(cluster: Cluster, proof: Route, resource: Resource[Any], name: str, namespace: str = "") -> Revocation:
    return Revocation(proof, lambda: cluster.client().delete(resource, name, namespace))


async def _revoked_bootstrap_token(cluster: Cluster) -> Credential:
    token = await cluster.token_async()
    secret = f"bootstrap-token-{token.partition('.')[0]}"
    return _bearer(token, _deletion(cluster, SELF_REVIEW, catalog.SECRETS, secret, "kube-system"))


async def _revoked_binding(cluster: Cluster) -> Credential:
    client, user = cluster.client(), "was-bound"
    binding = ClusterRoleBinding(
        metadata=ObjectMeta(name=user),
        role_ref=RoleRef(api_group=rbac_v1.GROUP, kind="ClusterRole", name="cluster-admin"),
        subjects=[Subject(kind="User", api_group=rbac_v1.GROUP, name=user)],
    )
    await client.create(catalog.CLUSTER_ROLE_BINDINGS, binding)
    spec = LeafSpec(common_name=user, organizations=(), purposes=(CLIENT_AUTH,))
    revoked = _deletion(cluster, Route("list", catalog.SECRETS.path()), catalog.CLUSTER_ROLE_BINDINGS, user)
    return Credential(_pair(cluster.pki.authority, spec, cluster.clock.now()), revoked=revoked)


async def _revoked_node(cluster: Cluster) -> Credential:
    name = "gone"
    spec = LeafSpec(common_name=f"system:node:{name}", organizations=("system:nodes",), purposes=(CLIENT_AUTH,))
    await cluster.client().create(catalog.NODES, Node(metadata=ObjectMeta(name=name)))
    revoked = _deletion(cluster, Route("get", catalog.NODES.path("", name)), catalog.NODES, name)
    return Credential(_pair(cluster.pki.authority, spec, cluster.clock.now()), revoked=revoked)


async def _revoked_account(cluster: Cluster) -> Credential:
    token = await _service_account(cluster, "gone")
    return _bearer(token, _deletion(cluster, SELF_REVIEW, catalog.SERVICE_ACCOUNTS, "gone", "default"))


async def _revoked_bound_token(cluster: Cluster) -> Credential:
    name = "bound"
    await cluster.client().create(catalog.SECRETS, Secret(metadata=ObjectMeta(name=name, namespace="default")))
    bound = BoundObjectReference(api_version="v1", kind="Secret", name=name)
    token = await _service_account(cluster, name, bound)
    return _bearer(token, _deletion(cluster, SELF_REVIEW, catalog.SECRETS, name, "default"))


async def _service_account(cluster: Cluster, name: str, bound: BoundObjectReference | None = None) -> str:
    client = cluster.client()
    account = ServiceAccount(metadata=ObjectMeta(name=name, namespace="default"))
    await client.create(catalog.SERVICE_ACCOUNTS, account)
    spec = TokenRequestSpec(bound_object_ref=bound, expiration_seconds=_LONG_SECONDS)
    body = json_codec.encode(TokenRequest(spec=spec))
    path = catalog.SERVICE_ACCOUNTS.path("default", name, "token")
    answer = await client.raw("POST", path, body=body)
    token: str = msgspec.json.decode(answer.body)["status"]["token"]
    return token


async def measure(cluster: Cluster) -> dict[str, dict[str, int]]:
    """``{route: {credential: status}}``."""
    routes = await all_routes(cluster)
    shown = await credentials(cluster)
    answers: dict[str, dict[str, int]] = {str(route): {} for route in routes}
    for name, credential in shown.items():
        if name == REFUSED[0]:
            await cluster.clock.run(2 * _SHORT.total_seconds())
        async with session(cluster, credential) as client:
            if credential.revoked is not None:
                # On the connections, and with all that the server remembers, from before.
                assert await ask(client, credential.revoked.proof) in (200, 201), name
                await credential.revoked.revoke()
            for route in routes:
                answers[str(route)][name] = status = await ask(client, route)
                if status == 401:
                    # Whoever fails too often is told to wait (429), which is not what this is about.
                    await cluster.clock.run(_PAUSE_SECONDS)
    return answers


def session(cluster: Cluster, credential: Credential) -> aiohttp.ClientSession:
    """A client that shows ``credential`` on every connection."""
    context = ssl.create_default_context(cafile=str(cluster.folder / "pki" / "ca.crt"))
    if credential.pair is not None:
        with tempfile.NamedTemporaryFile() as file:
            file.write(credential.pair.certificate + credential.pair.key)
            file.flush()
            context.load_cert_chain(file.name)
    connector = aiohttp.TCPConnector(ssl=context)
    return aiohttp.ClientSession(cluster.url, connector=connector, headers=credential.headers)


async def ask(client: aiohttp.ClientSession, route: Route) -> int:
    """The status of one request with an empty body; of a watch, its beginning is enough."""
    headers = {"Content-Type": "application/merge-patch+json" if route.verb == "patch" else "application/json"}
    body = b"{}" if route.verb in ("create", "update", "patch") else None
    async with client.request(route.method, route.url, data=body, headers=headers if body else None) as response:
        if route.verb == "watch":
            response.close()
        return response.status


def read() -> dict[str, dict[str, int]]:
    """The checked-in file."""
    header, *lines = FILE.read_text().splitlines()
    names = header.split("\t")[1:]
    return {
        route: dict(zip(names, map(int, statuses), strict=True))
        for route, *statuses in (line.split("\t") for line in lines)
    }


def written(answers: dict[str, dict[str, int]]) -> str:
    names = list(next(iter(answers.values())))
    rows = ["\t".join(["route", *names])]
    rows += ["\t".join([route, *(str(status) for status in by_name.values())]) for route, by_name in answers.items()]
    return "\n".join(rows) + "\n"


async def _main() -> None:
    async with Cluster(https=True) as cluster:
        FILE.write_text(written(await measure(cluster)))


if __name__ == "__main__":
    asyncio.run(_main())
