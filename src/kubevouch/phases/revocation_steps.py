"""What remains to be done by people once certificates are revoked: rights, pods, what could be read, the Node.

A revocation ends no binding, no pod and no Secret that somebody has copied. The steps are commands to copy, in the
order in which they have to be done; nothing here changes anything.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TypeVar

import msgspec

from kubevouch import wellknown
from kubevouch.api.catalog import CLUSTER_ROLE_BINDINGS, PODS, ROLE_BINDINGS
from kubevouch.api.core_v1 import Pod
from kubevouch.api.core_v1.containers import EnvFromSource, EnvVar
from kubevouch.api.core_v1.volumes import Volume
from kubevouch.api.kubevouch_v1alpha1.certificate_revocations import CertificateRevocation
from kubevouch.api.rbac_v1 import ClusterRoleBinding, RoleBinding, Subject
from kubevouch.client.interface import Client, ListOptions
from kubevouch.client.pager import PAGES
from kubevouch.ledger.entries import Entry
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import Object
from kubevouch.machinery.scheme import Resource
from kubevouch.pki.errors import ParseError
from kubevouch.pki.node_user import node_name_of
from kubevouch.pki.x509 import x509_certificate
from kubevouch.util.printable import is_plain

T = TypeVar("T", bound=Object)

MAX_READ = 10_000
"""Objects of one list. A cluster may have more, and then it is said that not all were looked at."""
MAX_NODES = 20
"""Nodes whose pods are looked at."""
# kube-controller-manager approves by these rights alone (certificates.k8s.io approver, Kubernetes 1.36).
_APPROVED_BY_ITSELF = frozenset(
    f"system:certificates.k8s.io:certificatesigningrequests:{name}" for name in ("nodeclient", "selfnodeclient")
)


class Step(msgspec.Struct, frozen=True):
    """One thing to do, why, and the commands for it; without commands it is something to know."""

    step: str
    why: str
    commands: tuple[str, ...] = ()


class Surroundings(msgspec.Struct, frozen=True):
    """What was found around the revoked names. ``unread``: what could not be looked at, in words."""

    bindings: Sequence[RoleBinding | ClusterRoleBinding] = ()
    pods: Sequence[Pod] = ()
    unread: Sequence[str] = ()


def steps(users: Collection[str], nodes: Sequence[str], groups: Collection[str], found: Surroundings) -> list[Step]:
    """The steps, in order.

    Args:
        users: the names by which the revoked certificates log in; a node's begins with ``system:node:``.
        nodes: whose certificates they are.
        groups: that the revoked certificates are of.
    """
    made = [*_of_users(frozenset(users), groups, found.bindings)]
    if nodes:
        made += _of_nodes(nodes, found)
    if made:
        made += [Step("look at what could not be read", each) for each in found.unread]
    return made


def named_by(
    objects: Iterable[CertificateRevocation], reached: Iterable[Entry]
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Users, nodes and groups of what is revoked: those that the objects name, and those of the known certificates."""
    users, nodes, groups = dict[str, None](), dict[str, None](), dict[str, None]()
    for obj in objects:
        users |= dict.fromkeys(obj.spec.revoked.users)
        nodes |= dict.fromkeys(obj.spec.revoked.nodes)
    for entry in reached:
        users[entry.subject] = None
        groups |= dict.fromkeys(_groups_of(entry))
    nodes |= {name: None for user in users if (name := node_name_of(user))}
    users |= {f"{wellknown.NODE_USER_PREFIX}{node}": None for node in nodes}
    return tuple(filter(None, users)), tuple(nodes), tuple(groups)


def _groups_of(entry: Entry) -> Sequence[str]:
    try:
        return x509_certificate.parse_der(entry.certificate).subject.organizations if entry.certificate else ()
    except ParseError:
        return ()


# ------------------------------------------------------------------ users


def _of_users(
    users: frozenset[str], groups: Collection[str], bindings: Sequence[RoleBinding | ClusterRoleBinding]
) -> Iterator[Step]:
    commands = [command for each in bindings for command in _unbinding(each, users)]
    if commands:
        why = "a new certificate, or a token, of the same name would have the same rights"
        bound = users & {subject.name for each in bindings for subject in each.subjects if subject.kind == "User"}
        yield Step(f"take the rights away from {_listed(bound)}", why, tuple(commands))
    shared = sorted(
        {subject.name for each in bindings for subject in each.subjects if subject.kind == "Group"} & {*groups}
    )
    if shared:
        yield Step(
            f"look at the bindings of {_listed(shared)}",
            "the revoked certificates are of these groups; their bindings hold for all other members, too",
        )


def _unbinding(binding: RoleBinding | ClusterRoleBinding, users: frozenset[str]) -> Iterator[str]:
    """The binding goes if it names nobody else; else the subjects do, the last one first, if they still are those."""
    at = [number for number, each in enumerate(binding.subjects) if each.kind == "User" and each.name in users]
    if not at:
        return
    name, namespace = binding.metadata.name, binding.metadata.namespace
    where = ["-n", namespace] if namespace else []
    what = f"{'rolebinding' if namespace else 'clusterrolebinding'}/{name}"
    if len(at) == len(binding.subjects):
        yield _command("kubectl", *where, "delete", what)
        return
    patch = [
        operation
        for number in reversed(at)
        for operation in (
            {"op": "test", "path": f"/subjects/{number}", "value": _subject(binding.subjects[number])},
            {"op": "remove", "path": f"/subjects/{number}"},
        )
    ]
    yield _command("kubectl", *where, "patch", what, "--type=json", "-p", json.dumps(patch))


def _subject(subject: Subject) -> dict[str, str]:
    return {"kind": subject.kind, "apiGroup": subject.api_group, "name": subject.name}


# ------------------------------------------------------------------ nodes


def _of_nodes(nodes: Sequence[str], found: Surroundings) -> Iterator[Step]:
    yield Step(
        f"keep the name of {_listed(nodes)} from new certificates",
        "for a machine that has proven itself; of others, delete the join tokens that it knew: kubevouch token list",
        tuple(_command("kubevouch", "node", "ban", each) for each in nodes),
    )
    approves = [each.metadata.name for each in found.bindings if each.role_ref.name in _APPROVED_BY_ITSELF]
    if approves:
        yield Step(
            f"look at the ClusterRoleBindings {_listed(approves)}",
            "kube-controller-manager approves kubelets' requests by itself while they are there, for every node",
        )
    secrets, config_maps, accounts = _readable(found.pods)
    # Before the pods go: later nobody can tell.
    if secrets or config_maps or accounts:
        yield Step(
            f"write down what the pods on {_listed(nodes)} could read",
            "the list is made from these pods, and is gone with them",
            tuple(
                _command("kubectl", "-n", namespace, "get", f"{kind}/{name}")
                for kind, names in (("secret", secrets), ("configmap", config_maps), ("serviceaccount", accounts))
                for namespace, name in names
            ),
        )
    yield Step(
        f"delete the pods on {_listed(nodes)}",
        "tokens that are bound to a pod end with it; on a node that is still yours, kubectl drain does it gently",
        tuple(
            _command(
                "kubectl", "delete", "pods", "--all-namespaces", f"--field-selector=spec.nodeName={each}",
                "--grace-period=0", "--force",
            ) for each in nodes
        ),
    )  # fmt: skip
    if secrets or config_maps:
        yield Step(
            f"rotate these Secrets ({len(secrets)}), and what is secret in these ConfigMaps ({len(config_maps)})",
            "whoever had the node may have copied them; passwords and keys in them have to change where they are used",
        )
    yield Step(
        f"delete the Node of {_listed(nodes)}, at last",
        "before, it says which pods were there; its name is free for another machine afterwards",
        tuple(_command("kubectl", "delete", f"node/{each}") for each in nodes),
    )


_Names = list[tuple[str, str]]


def _readable(pods: Iterable[Pod]) -> tuple[_Names, _Names, _Names]:
    """Secrets, ConfigMaps and service accounts of the pods, by namespace and name: what the Node authorizer allows."""
    secrets, config_maps, accounts = set[tuple[str, str]](), set[tuple[str, str]](), set[tuple[str, str]]()
    for pod in pods:
        namespace, spec = pod.metadata.namespace, pod.spec
        accounts.add((namespace, spec.service_account_name or spec.service_account))
        secrets |= {(namespace, each.name) for each in spec.image_pull_secrets}
        for volume in spec.volumes:
            secrets |= {(namespace, name) for name in _secrets_of(volume)}
            config_maps |= {(namespace, name) for name in _config_maps_of(volume)}
        containers = [*spec.init_containers, *(spec.containers or ())]
        environments = [(each.env_from, each.env) for each in containers]
        environments += [(each.env_from, each.env) for each in spec.ephemeral_containers]
        for sources, variables in environments:
            secrets |= {(namespace, name) for name in _secrets_in(sources, variables)}
            config_maps |= {(namespace, name) for name in _config_maps_in(sources, variables)}
    # The CA certificate that every namespace has is no secret.
    config_maps = {each for each in config_maps if each[1] != wellknown.ROOT_CA_CONFIGMAP}
    return _named(secrets), _named(config_maps), _named(accounts)


def _secrets_in(sources: Iterable[EnvFromSource], variables: Iterable[EnvVar]) -> Iterator[str]:
    yield from (each.secret_ref.name for each in sources if each.secret_ref is not None)
    values = (each.value_from for each in variables if each.value_from is not None)
    yield from (each.secret_key_ref.name for each in values if each.secret_key_ref is not None)


def _config_maps_in(sources: Iterable[EnvFromSource], variables: Iterable[EnvVar]) -> Iterator[str]:
    yield from (each.config_map_ref.name for each in sources if each.config_map_ref is not None)
    values = (each.value_from for each in variables if each.value_from is not None)
    yield from (each.config_map_key_ref.name for each in values if each.config_map_key_ref is not None)


def _secrets_of(volume: Volume) -> Iterator[str]:
    if volume.secret is not None:
        yield volume.secret.secret_name
    if volume.csi is not None and volume.csi.node_publish_secret_ref is not None:
        yield volume.csi.node_publish_secret_ref.name
    for source in (volume.projected.sources or ()) if volume.projected is not None else ():
        if source.secret is not None:
            yield source.secret.name


def _config_maps_of(volume: Volume) -> Iterator[str]:
    if volume.config_map is not None:
        yield volume.config_map.name
    for source in (volume.projected.sources or ()) if volume.projected is not None else ():
        if source.config_map is not None:
            yield source.config_map.name


def _named(found: set[tuple[str, str]]) -> _Names:
    return sorted(each for each in found if each[1])


# ------------------------------------------------------------------ commands


def _command(*words: str) -> str:
    """For a shell, as it is typed. What a terminal would not show as it is becomes a remark: nobody should copy it."""
    if all(map(is_plain, words)):
        return shlex.join(words)
    return f"# a name has characters that cannot be shown; by hand: {words[0]} {' '.join(map(repr, words[1:]))}"


def _listed(names: Collection[str]) -> str:
    some = sorted(names)[:5]
    return ", ".join(some) + (f" and {len(names) - len(some)} more" if len(names) > len(some) else "")


# ------------------------------------------------------------------ reading


async def surroundings(client: Client, users: Collection[str], nodes: Sequence[str]) -> Surroundings:
    """Bindings, and the pods of the first nodes. What may not be read is said, not raised.

    Raises:
        APIStatusError: other than 403 and 404.
        TransportError
    """
    unread: list[str] = []
    bindings: list[RoleBinding | ClusterRoleBinding] = []
    if users or nodes:
        of_cluster = await _read(client, CLUSTER_ROLE_BINDINGS, "", unread.append)
        of_namespaces = await _read(client, ROLE_BINDINGS, "", unread.append)
        bindings = [*of_cluster, *of_namespaces]
    pods: list[Pod] = []
    for node in nodes[:MAX_NODES]:
        pods += await _read(client, PODS, f"spec.nodeName={node}", unread.append)
    if len(nodes) > MAX_NODES:
        unread.append(f"the pods of {len(nodes) - MAX_NODES} more nodes were not looked at: revoke them in parts")
    return Surroundings(tuple(bindings), tuple(pods), tuple(dict.fromkeys(unread)))


async def _read(client: Client, resource: Resource[T], selector: str, told: Callable[[str], None]) -> list[T]:
    found: list[T] = []
    token = ""
    try:
        while len(found) < MAX_READ:
            options = ListOptions(limit=PAGES.limit, field_selector=selector, continue_token=token)
            page = await client.list(resource, "", options)
            found += page.items
            token = page.continue_token
            if not token:
                return found
    except APIStatusError as err:
        # 410: the pages became too old while they were read.
        if err.code not in (403, 404, 410):
            raise
        told(f"{resource.plural} were not all looked at: {err}")
        return found
    told(f"only the first {MAX_READ} {resource.plural} were looked at")
    return found
