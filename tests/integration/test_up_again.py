"""What an operator has decided stays decided: a restart of `kubevouch up` brings nothing back and drops nothing."""

from __future__ import annotations

import datetime as dt
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from msgspec.structs import replace

from asynctest import async_test
from kubevouch.api import catalog
from kubevouch.api.authentication_v1 import SelfSubjectReview
from kubevouch.api.core_v1 import ConfigMap, Namespace
from kubevouch.authorization.kubeadm_policy import kubeadm_policy
from kubevouch.client import stored
from kubevouch.client.credentials import FixedCredential
from kubevouch.client.https import HTTPSClient
from kubevouch.client.interface import MERGE_PATCH, Client
from kubevouch.client.options import ClientOptions
from kubevouch.client.tls import TLSFiles, TLSSources
from kubevouch.config import kubeconfig
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import ObjectMeta, replace_metadata
from kubevouch.machinery.scheme import Resource
from kubevouch.machinery.text.times import Time
from kubevouch.phases import cluster_info
from kubevouch.phases.bootstrap_token import create, plan
from kubevouch.phases.certificates.certs import CertsError, ensure_control_plane, pair_at
from kubevouch.pki.control_plane import CA, FRONT_PROXY_CA, ControlPlaneNames
from kubevouch.pki.x509 import x509_certificate
from kubevouch.records.bootstrap_tokens import generate_token
from kubevouch.records.cluster_info import ClusterInfo, build_kubeconfig, parse_kubeconfig
from kubevouch.server.bootstrap import first_start
from kubevouch.server.options import ServerOptions
from kubevouch.signers.catalog import PairFiles
from kubevouch.standalone.access_options import AccessOptions
from kubevouch.standalone.errors import InvalidOptionsError, NotHereError
from kubevouch.standalone.kubeconfigs import Moved
from kubevouch.standalone.options import ClusterSigning, StandaloneOptions
from kubevouch.standalone.up import Running, running, serving_rules
from kubevouch.storage.interface import Revision
from kubevouch.storage.sqlite.store import SQLiteStore
from kubevouch.testing.clock import FakeClock
from kubevouch.util.clock import SystemClock

NOW = dt.datetime(2026, 11, 1, tzinfo=dt.UTC)
DAY = dt.timedelta(days=1)
_KINDS: dict[str, Resource[Any]] = {
    "ClusterRole": catalog.CLUSTER_ROLES,
    "Role": catalog.ROLES,
    "ClusterRoleBinding": catalog.CLUSTER_ROLE_BINDINGS,
    "RoleBinding": catalog.ROLE_BINDINGS,
}


def options_in(folder: Path, **more: Any) -> StandaloneOptions:
    return StandaloneOptions(data_dir=folder, bind_address="127.0.0.1", secure_port=0, **more)


def made_by_kubeadm() -> Iterable[Any]:
    policy = kubeadm_policy()
    return (*policy.every_binding, *policy.every_role)


async def is_there(client: Client, resource: Any, name: str, namespace: str = "") -> bool:
    return await stored.find(client, resource, name, namespace) is not None


async def all_of(client: Client, shipped: Iterable[Any]) -> set[bool]:
    return {
        await is_there(client, _KINDS[type(each).__name__], each.metadata.name, each.metadata.namespace)
        for each in shipped
    }


async def tokens(client: Client) -> set[str]:
    secrets = await client.list(catalog.SECRETS, "kube-system")
    return {each.metadata.name for each in secrets.items if each.type == "bootstrap.kubernetes.io/token"}


async def who(cluster: Running, token: str) -> str:
    """As whom the server knows a token; 401 for nobody."""
    options = ClientOptions(server=cluster.endpoint.url, component="test")
    tls = TLSFiles(TLSSources(ca_bundle=cluster.server.pki.ca_certificate), SystemClock())
    client = HTTPSClient(options, tls=tls, credentials=FixedCredential.token(token), clock=SystemClock())
    async with client:
        try:
            review = await client.create(catalog.SELF_SUBJECT_REVIEWS, SelfSubjectReview())
        except APIStatusError as err:
            return str(err.code)
    return review.status.user_info.username


async def published(cluster: Running) -> str:
    found = await cluster.server.client.get(catalog.CONFIG_MAPS, "cluster-info", "kube-public")
    return parse_kubeconfig(found.data["kubeconfig"]).server


def server_of(path: Path) -> str:
    config = kubeconfig.load(path.read_bytes())
    return config.clusters[config.contexts[config.current_context].cluster].server


@contextmanager
def taken(port: int) -> Iterator[None]:
    """Somebody else listens there."""
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", port))
        other.listen()
        yield


def point_at(path: Path, server: str) -> None:
    path.write_bytes(path.read_bytes().replace(server_of(path).encode(), server.encode()))


def serving_names(folder: Path) -> set[str]:
    leaf = x509_certificate.parse_bundle((folder / "pki/apiserver.crt").read_bytes())[0]
    names = leaf.meaning.alt_names
    return {*names.dns_names, *map(str, names.ip_addresses)}


# ------------------------------------------------------------------ made once


@async_test
async def test_nothing_that_kubeadm_makes_comes_back(tmp_path: Path) -> None:
    options, clock = options_in(tmp_path), FakeClock(NOW)
    async with running(options, clock) as cluster:
        client = cluster.server.client
        assert await all_of(client, made_by_kubeadm()) == {True}
        assert len(await tokens(client)) == 2
        for each in made_by_kubeadm():
            await client.delete(_KINDS[type(each).__name__], each.metadata.name, each.metadata.namespace)
        for name in await tokens(client):
            await client.delete(catalog.SECRETS, name, "kube-system")
        await client.delete(catalog.CONFIG_MAPS, "cluster-info", "kube-public")
        (tmp_path / "super-admin.conf").unlink()
    async with running(options, clock) as cluster:
        client = cluster.server.client
        assert await all_of(client, made_by_kubeadm()) == {False}
        assert not await tokens(client)
        assert cluster.tokens is None
        assert not await is_there(client, catalog.CONFIG_MAPS, "cluster-info", "kube-public")
        assert not (tmp_path / "super-admin.conf").exists()


@async_test
async def test_kubeadm_can_join_what_the_first_start_has_made(tmp_path: Path) -> None:
    options, clock = options_in(tmp_path, extra_names=("a.example.com",)), FakeClock(NOW)
    first = replace(options, control_plane_endpoint="lb.example.com:443", service_cluster_ip_range="10.32.0.0/24")
    async with running(first, clock) as cluster:
        client = cluster.server.client
        found = await client.get(catalog.CONFIG_MAPS, "kubeadm-config", "kube-system")
        settings = yaml.safe_load(found.data["ClusterConfiguration"])
        # Paths of the machine that joins, not of this server.
        assert settings["certificatesDir"] == "/etc/kubernetes/pki"
        assert settings["controlPlaneEndpoint"] == "lb.example.com:443"
        assert settings["networking"]["serviceSubnet"] == "10.32.0.0/24"
        assert settings["apiServer"]["certSANs"] == ["a.example.com"]
        kubelet = await client.get(catalog.CONFIG_MAPS, "kubelet-config", "kube-system")
        x509 = yaml.safe_load(kubelet.data["kubelet"])["authentication"]["x509"]
        assert x509 == {"clientCAFile": "/etc/kubernetes/pki/ca.crt"}
        await client.delete(catalog.CONFIG_MAPS, "kubeadm-config", "kube-system")
    async with running(options, clock) as cluster:
        assert not await is_there(cluster.server.client, catalog.CONFIG_MAPS, "kubeadm-config", "kube-system")
        kept = await cluster.server.client.get(catalog.CONFIG_MAPS, "kubelet-config", "kube-system")
        assert kept == kubelet


@async_test
async def test_kubernetes_own_policy_comes_back_unless_it_is_told_not_to(tmp_path: Path) -> None:
    options, clock = options_in(tmp_path), FakeClock(NOW)
    async with running(options, clock) as cluster:
        client = cluster.server.client
        await client.delete(catalog.CLUSTER_ROLE_BINDINGS, "system:basic-user")
        for name, value in (("system:basic-user", "true"), ("system:node-bootstrapper", "false")):
            role = await client.get(catalog.CLUSTER_ROLES, name)
            marked = replace_metadata(role, annotations={"rbac.authorization.kubernetes.io/autoupdate": value})
            await client.update(catalog.CLUSTER_ROLES, msgspec.structs.replace(marked, rules=[]))
    async with running(options, clock) as cluster:
        client = cluster.server.client
        assert await is_there(client, catalog.CLUSTER_ROLE_BINDINGS, "system:basic-user")
        assert (await client.get(catalog.CLUSTER_ROLES, "system:basic-user")).rules
        assert not (await client.get(catalog.CLUSTER_ROLES, "system:node-bootstrapper")).rules


@async_test
async def test_a_store_of_before_the_mark_has_been_started(tmp_path: Path) -> None:
    """And one whose first start was cut short has not: the mark says so, and goes when it is done."""
    options, clock = options_in(tmp_path), FakeClock(NOW)
    name = "kubeadm:node-autoapprove-bootstrap"
    async with running(options, clock) as cluster:
        client = cluster.server.client
        assert first_start.ANNOTATION not in (await client.get(catalog.NAMESPACES, "kube-system")).metadata.annotations
        await client.delete(catalog.CLUSTER_ROLE_BINDINGS, name)
        change = {"metadata": {"annotations": {first_start.ANNOTATION: "under-way"}}}
        await client.patch(catalog.NAMESPACES, "kube-system", change, MERGE_PATCH)
    async with running(options, clock) as cluster:
        client = cluster.server.client
        assert await is_there(client, catalog.CLUSTER_ROLE_BINDINGS, name)
        assert first_start.ANNOTATION not in (await client.get(catalog.NAMESPACES, "kube-system")).metadata.annotations


@async_test
async def test_a_store_in_memory_brings_no_file_back(tmp_path: Path) -> None:
    options, clock = options_in(tmp_path, store="memory:"), FakeClock(NOW)
    async with running(options, clock) as cluster:
        assert cluster.tokens is not None
        (tmp_path / "super-admin.conf").unlink()
    async with running(options, clock) as cluster:
        assert cluster.tokens is not None
        assert not (tmp_path / "super-admin.conf").exists()


@async_test
async def test_who_starts_on_a_store_that_others_have_begun_can_get_in(tmp_path: Path) -> None:
    """Its roles need not know the group of admin.conf, and the authority is new."""
    clock = FakeClock(NOW)
    store = await SQLiteStore.open(tmp_path / "taken.db", clock=clock)
    space = Namespace(metadata=ObjectMeta(name="kube-system", uid="u", creation_timestamp=Time.of(NOW)))
    await store.create("/registry/namespaces/kube-system", catalog.NAMESPACES.codec.to_value(space, "v1", "Namespace"))
    await store.close()
    async with running(options_in(tmp_path, store=f"sqlite:{tmp_path / 'taken.db'}"), clock) as cluster:
        assert not await is_there(cluster.server.client, catalog.CLUSTER_ROLE_BINDINGS, "kubeadm:cluster-admins")
        assert (tmp_path / "super-admin.conf").exists()


@async_test
async def test_the_first_token_has_the_life_that_is_asked_for_and_no_successor(tmp_path: Path) -> None:
    options, clock = options_in(tmp_path, token_ttl=DAY / 24), FakeClock(NOW)
    async with running(options, clock) as cluster:
        assert cluster.tokens is not None
        assert cluster.tokens.expires == NOW + DAY / 24
        first = cluster.tokens
    async with running(replace(options, token_ttl=30 * DAY), clock) as cluster:
        assert cluster.tokens == first
    clock.set(NOW + DAY)
    async with running(options, clock) as cluster:
        assert cluster.tokens is None


@async_test
async def test_no_token_means_none_at_any_start(tmp_path: Path) -> None:
    options, clock = options_in(tmp_path, token_ttl=None), FakeClock(NOW)
    for each in (options, replace(options, token_ttl=DAY)):
        async with running(each, clock) as cluster:
            assert cluster.tokens is None
            assert not await tokens(cluster.server.client)


@async_test
async def test_bootstrap_tokens_can_be_turned_off(tmp_path: Path) -> None:
    clock = FakeClock(NOW)
    options = options_in(tmp_path, access=AccessOptions(bootstrap_token_auth=False))
    async with running(options, clock) as cluster:
        assert cluster.tokens is None
        assert not await tokens(cluster.server.client)
        token = generate_token()
        await create(cluster.server.client, plan(token, now=clock.now()))
        assert await who(cluster, token.text) == "401"
    async with running(options_in(tmp_path), clock) as cluster:
        assert await who(cluster, token.text) == f"system:bootstrap:{token.token_id}"


# ------------------------------------------------------------------ where it is reached


@async_test
async def test_only_a_flag_changes_where_machines_and_kubeconfigs_are_sent(tmp_path: Path) -> None:
    options, clock = options_in(tmp_path), FakeClock(NOW)
    files = (tmp_path / "admin.conf", tmp_path / "super-admin.conf")
    async with running(options, clock) as cluster:
        assert {*map(server_of, files), await published(cluster)} == {cluster.endpoint.url}
        found = await cluster.server.client.get(catalog.CONFIG_MAPS, "cluster-info", "kube-public")
        info = replace(parse_kubeconfig(found.data["kubeconfig"]), server="https://lb.example.com:443")
        data = {**found.data, "kubeconfig": build_kubeconfig(info)}
        await cluster.server.client.update(catalog.CONFIG_MAPS, msgspec.structs.replace(found, data=data))
    for path in files:
        point_at(path, "https://lb.example.com:443")
    async with running(options, clock) as cluster:
        assert {*map(server_of, files), await published(cluster)} == {"https://lb.example.com:443"}
        assert cluster.shared.address == "lb.example.com:443"
        assert not cluster.moved
        assert "lb.example.com" in serving_names(tmp_path)
    async with running(replace(options, control_plane_endpoint="other.example.com"), clock) as cluster:
        told = f"https://other.example.com:{cluster.endpoint.port}"
        assert {*map(server_of, files), await published(cluster)} == {told}
        kubeconfigs = {(each.what, each.former, each.now) for each in cluster.moved if each.key == "server"}
        assert kubeconfigs == {
            (what, "https://lb.example.com:443", told) for what in ("cluster-info", "admin.conf", "super-admin.conf")
        }
    async with running(options, clock) as cluster:
        assert {*map(server_of, files), await published(cluster)} == {told}


@async_test
async def test_another_address_of_this_server_does_not_undo_the_endpoint_of_all(tmp_path: Path) -> None:
    options, clock = options_in(tmp_path), FakeClock(NOW)
    files = (tmp_path / "admin.conf", tmp_path / "super-admin.conf")
    async with running(options, clock) as cluster:
        assert await told_to_kubeadm(cluster) == ""
        found = await cluster.server.client.get(catalog.CONFIG_MAPS, "kubeadm-config", "kube-system")
        # As a kubeadm of another version may have written it.
        data = {"ClusterConfiguration": found.data["ClusterConfiguration"] + "ofAnotherVersion: {kept: [1]}\n"}
        await cluster.server.client.update(catalog.CONFIG_MAPS, msgspec.structs.replace(found, data=data))
    # Nothing was decided about it yet: then this server is the address.
    async with running(replace(options, advertise_address="first.example.com"), clock) as cluster:
        assert {*map(server_of, files), await published(cluster)} == {cluster.endpoint.url}
        assert cluster.endpoint.host == "first.example.com"
    async with running(replace(options, control_plane_endpoint="lb.example.com:443"), clock) as cluster:
        assert Moved("kubeadm-config", "", "lb.example.com:443", "endpoint") in cluster.moved
        assert await told_to_kubeadm(cluster) == "lb.example.com:443"
        found = await cluster.server.client.get(catalog.CONFIG_MAPS, "kubeadm-config", "kube-system")
        assert yaml.safe_load(found.data["ClusterConfiguration"])["ofAnotherVersion"] == {"kept": [1]}
    files[1].unlink()
    pair_at(tmp_path / "pki", "apiserver").certificate.unlink()
    pair_at(tmp_path / "pki", "apiserver").key.unlink()
    async with running(replace(options, advertise_address="here.example.com"), clock) as cluster:
        assert cluster.endpoint.host == "here.example.com"
        assert {server_of(files[0]), await published(cluster), cluster.shared.url} == {"https://lb.example.com:443"}
        assert not cluster.moved
        assert {"here.example.com", "lb.example.com"} <= serving_names(tmp_path)
    # A person's kubeconfig goes another way to the same server.
    point_at(files[0], "https://tunnel.example.com:1")
    async with running(replace(options, advertise_address="here.example.com"), clock):
        assert server_of(files[0]) == "https://tunnel.example.com:1"
    files[0].unlink()
    async with running(options, clock) as cluster:
        assert server_of(files[0]) == "https://lb.example.com:443"
        await cluster.server.client.delete(catalog.CONFIG_MAPS, "kubeadm-config", "kube-system")
    async with running(replace(options, control_plane_endpoint="lb2.example.com:443"), clock) as cluster:
        assert server_of(files[0]) == "https://lb2.example.com:443"
        assert not await is_there(cluster.server.client, catalog.CONFIG_MAPS, "kubeadm-config", "kube-system")


@async_test
async def test_an_endpoint_given_at_the_first_start_is_decided_even_where_it_is_this_server(tmp_path: Path) -> None:
    options, clock = options_in(tmp_path, control_plane_endpoint="127.0.0.1"), FakeClock(NOW)
    async with running(options, clock) as cluster:
        first = cluster.endpoint
        assert await told_to_kubeadm(cluster) == first.address
    async with running(options_in(tmp_path, advertise_address="here.example.com"), clock) as cluster:
        assert await published(cluster) == first.url


async def told_to_kubeadm(cluster: Running) -> str:
    found = await cluster.server.client.get(catalog.CONFIG_MAPS, "kubeadm-config", "kube-system")
    return str(yaml.safe_load(found.data["ClusterConfiguration"]).get("controlPlaneEndpoint") or "")


@async_test
async def test_cluster_info_says_which_cluster_it_is_and_where_else_it_is_reached(tmp_path: Path) -> None:
    clock = FakeClock(NOW)

    async def told(cluster: Running) -> ClusterInfo:
        found = await cluster.server.client.get(catalog.CONFIG_MAPS, "cluster-info", "kube-public")
        return parse_kubeconfig(found.data["kubeconfig"])

    others = options_in(tmp_path, other_servers=("b.example.com:443", "192.0.2.9"))
    async with running(others, clock) as cluster:
        first = await told(cluster)
        namespace = await cluster.server.client.get(catalog.NAMESPACES, "kube-system")
        assert first.cluster_id == namespace.metadata.uid
        assert first.servers == ("https://b.example.com:443", f"https://192.0.2.9:{cluster.endpoint.port}")
        assert {"b.example.com", "192.0.2.9"} <= serving_names(tmp_path)
        # A phase that knows the server alone takes neither away.
        await cluster_info.ensure(
            cluster.server.client, ClusterInfo("https://c.test:1", first.certificate_authority_data)
        )
        after = await told(cluster)
        assert (after.server, after.cluster_id, after.servers) == ("https://c.test:1", first.cluster_id, first.servers)
    async with running(options_in(tmp_path), clock) as cluster:
        again = await told(cluster)
        assert (again.cluster_id, again.servers) == (first.cluster_id, first.servers)
    async with running(options_in(tmp_path / "other"), clock) as cluster:
        assert (await told(cluster)).cluster_id not in ("", first.cluster_id)


@async_test
async def test_another_port_is_told_of_and_changes_nothing(tmp_path: Path) -> None:
    options, clock = options_in(tmp_path), FakeClock(NOW)
    admin = tmp_path / "admin.conf"
    async with running(options, clock) as cluster:
        first = cluster.endpoint
    # Where machines look for it is as good as any other that is picked, unless somebody else has taken it.
    with taken(first.port):
        async with running(options, clock) as cluster:
            assert cluster.endpoint.port != first.port
            assert {server_of(admin), await published(cluster)} == {first.url}
            assert cluster.is_out_of_reach
            assert not cluster.moved
    async with running(options, clock) as cluster:
        assert cluster.endpoint == first
        assert not cluster.is_out_of_reach
    point_at(admin, "https://127.0.0.1:1")
    async with running(replace(options, secure_port=first.port), clock) as cluster:
        assert server_of(admin) == "https://127.0.0.1:1"


@async_test
async def test_a_loopback_address_in_the_join_line_leads_nowhere(tmp_path: Path) -> None:
    options, clock = options_in(tmp_path), FakeClock(NOW)
    async with running(options, clock) as cluster:
        former = cluster.endpoint
    with taken(former.port):
        async with running(replace(options, advertise_address="", bind_address="0.0.0.0"), clock) as cluster:
            assert cluster.shared == former
            assert cluster.is_out_of_reach


@async_test
async def test_other_servers_that_change_are_told(tmp_path: Path) -> None:
    clock = FakeClock(NOW)
    async with running(options_in(tmp_path), clock):
        pass
    told = []
    for others in (("b.example.com:443",), ("b.example.com:443",), ("c.example.com:443", "d.example.com:443")):
        async with running(options_in(tmp_path, other_servers=others), clock) as cluster:
            told.append([(each.key, each.former, each.now) for each in cluster.moved])
    b, c, d = (f"https://{each}.example.com:443" for each in "bcd")
    assert told == [[("other servers", "", b)], [], [("other servers", b, f"{c}, {d}")]]


@async_test
async def test_names_of_the_serving_certificate_are_never_dropped(tmp_path: Path) -> None:
    options, clock = options_in(tmp_path, extra_names=("a.example.com", "192.0.2.8")), FakeClock(NOW)
    async with running(options, clock):
        assert {"a.example.com", "192.0.2.8"} <= serving_names(tmp_path)
    for more, time in (
        ({"extra_names": ("b.example.com", "*.c.example.com")}, NOW),
        ({"advertise_address": "d.example.com"}, NOW),
        ({}, NOW + 300 * DAY),
        ({}, NOW + 1000 * DAY),
    ):
        before = serving_names(tmp_path)
        clock.set(time)
        async with running(options_in(tmp_path, **more), clock):
            assert before <= serving_names(tmp_path)
    assert {"a.example.com", "192.0.2.8", "*.c.example.com", "d.example.com"} <= serving_names(tmp_path)


def test_what_is_served_under_a_former_name_is_no_nodes(tmp_path: Path) -> None:
    """A name that only an earlier start was given stays in the certificate: clients believe whoever has it."""
    for extra in (("lb.corp.example.com", "192.0.2.8"), ()):
        names = ControlPlaneNames(node_name="cp", advertise_address="10.0.0.1", extra=extra)
        pki = ensure_control_plane(tmp_path, names, now=NOW)
    rules = serving_rules(options_in(tmp_path), names, pki)
    assert rules is not None
    assert {"lb.corp.example.com", "192.0.2.8", "cp", "10.0.0.1", "kubernetes"} <= rules.api_server


# ------------------------------------------------------------------ who signs


@async_test
async def test_it_starts_without_the_key_of_the_ca_where_nobody_signs_with_it(tmp_path: Path) -> None:
    options, clock = options_in(tmp_path), FakeClock(NOW)
    async with running(options, clock) as cluster:
        pin = cluster.pin
    admin = (tmp_path / "admin.conf").read_bytes()
    for base_name in (CA, FRONT_PROXY_CA):
        pair_at(tmp_path / "pki", base_name).key.rename(tmp_path / f"{base_name}.away")
    with pytest.raises(CertsError, match=r"ca\.key is missing") as caught:
        async with running(options, clock):
            pass
    assert "--controllers=*,-csrsigning" in caught.value.hint
    async with running(replace(options, controllers=("*", "-csrsigning"), secure_port=0), clock) as cluster:
        assert cluster.pin == pin
        assert cluster.admin_kubeconfig is not None
        assert (tmp_path / "admin.conf").read_bytes() == admin
    (tmp_path / "admin.conf").unlink()
    async with running(replace(options, controllers=("*", "-csrsigning")), clock) as cluster:
        assert cluster.admin_kubeconfig is None
    # What the CA elsewhere has to sign anew is told before anything listens.
    clock.set(NOW + 300 * DAY)
    with pytest.raises(CertsError, match=r"apiserver\.crt cannot be used, and .*ca\.key is not here to sign it"):
        async with running(replace(options, controllers=("*", "-csrsigning")), clock):
            pass


@async_test
async def test_a_pair_of_its_own_signs_for_a_signer_and_needs_no_key_of_the_ca(tmp_path: Path) -> None:
    clock = FakeClock(NOW)
    async with running(options_in(tmp_path / "other"), clock):
        pass
    async with running(options_in(tmp_path / "here"), clock):
        pass
    (tmp_path / "here/pki/ca.key").unlink()
    other = PairFiles(str(tmp_path / "other/pki/ca.crt"), str(tmp_path / "other/pki/ca.key"))
    signing = ClusterSigning(pairs={"kubernetes.io/kube-apiserver-client": other}, duration=DAY)
    async with running(options_in(tmp_path / "here", signing=signing), clock) as cluster:
        assert cluster.pin
    both = ClusterSigning(other, {"kubernetes.io/kube-apiserver-client": other})
    half = ClusterSigning(PairFiles(), {"kubernetes.io/kubelet-serving": PairFiles(key_file="/k")})
    for wrong, words in ((both, "at the same time"), (half, '"cluster-signing-kubelet-serving": cannot specify key')):
        with pytest.raises(InvalidOptionsError, match=words):
            async with running(options_in(tmp_path / "new", signing=wrong), clock):
                pass
    assert not (tmp_path / "new").exists()


@async_test
async def test_a_store_of_a_cluster_with_another_ca(tmp_path: Path) -> None:
    """Its machines would be locked out, and those that join sent to whoever has the new CA."""
    store = f"sqlite:{tmp_path / 'one.db'}"
    async with running(options_in(tmp_path / "one", store=store), SystemClock()) as first:
        before = await first.server.client.get(catalog.CONFIG_MAPS, "cluster-info", "kube-public")
    with pytest.raises(NotHereError, match="the store is of a cluster with another CA: got sha256:") as caught:
        async with running(options_in(tmp_path / "other", store=store), SystemClock()):
            pass
    assert "--replace-cluster-ca" in caught.value.hint
    async with running(options_in(tmp_path / "one", store=store), SystemClock()) as again:
        found = await again.server.client.get(catalog.CONFIG_MAPS, "cluster-info", "kube-public")
        assert kubeconfig_text(found) == kubeconfig_text(before)
    replaces = ServerOptions(replaces_ca=True)
    async with running(options_in(tmp_path / "other", store=store, server=replaces), SystemClock()) as taken:
        found = await taken.server.client.get(catalog.CONFIG_MAPS, "cluster-info", "kube-public")
        assert kubeconfig_text(found) != kubeconfig_text(before)
        # As of a cluster that only Kubernetes' own servers have served.
        await taken.server.api.store.delete(*await at(taken, "/registry/namespaces/kubevouch-signers"))
    async with running(options_in(tmp_path / "one", store=store), SystemClock()) as began:
        assert began.endpoint.port


async def at(cluster: Running, key: str) -> tuple[str, Revision]:
    kept = await cluster.server.api.store.get(key)
    assert kept is not None
    return key, kept.revision


def kubeconfig_text(found: ConfigMap) -> str:
    return found.data["kubeconfig"]
