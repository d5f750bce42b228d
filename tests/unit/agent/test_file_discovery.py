from __future__ import annotations

from pathlib import Path

import pytest

from asynctest import async_test
from join_world import Told, join_world
from kubevouch.agent.file_discovery import FileDiscovery, discover, parse, read, verify_source
from kubevouch.agent.interface import AgentError, NoClusterError, NotTrustedError, SettingsError, Step
from kubevouch.config import kubeconfig
from kubevouch.config.kubeconfig import Cluster, Context, Kubeconfig, User
from kubevouch.pki import authority, keys, pins
from kubevouch.records.cluster_info import extensions_of
from kubevouch.util.clock import SystemClock

CLOCK = SystemClock()
CA = authority.create_authority("ca", keys.generate(keys.KeyAlgorithm.ECDSA_P256), now=CLOCK.now())
OTHER = "https://192.0.2.9:6443"
CLUSTER = Cluster(server="https://api.example:6443", certificate_authority_data=CA.certificate.pem())


def _text(*clusters: tuple[str, Cluster], user: User | None = None, current: str = "") -> bytes:
    contexts = {current: Context(cluster=current, user="u")} if current else {}
    users = {} if user is None else {"u": user}
    config = Kubeconfig(clusters=dict(clusters), users=users, contexts=contexts, current_context=current)
    return kubeconfig.dump(config).encode()


def test_the_unnamed_cluster_is_taken_else_the_current_one() -> None:
    other = Cluster(server="https://other.example", certificate_authority_data=CA.certificate.pem())
    assert parse(_text(("", CLUSTER), ("b", other), current="b"), None).endpoint.host == "api.example"
    assert parse(_text(("a", CLUSTER), ("b", other), current="b"), None).endpoint.host == "other.example"
    assert parse(_text(("a", CLUSTER)), None).pins.covers(CA.certificate)
    with pytest.raises(SettingsError, match="several clusters"):
        parse(_text(("a", CLUSTER), ("b", other)), None)


@pytest.mark.parametrize(
    "user",
    [
        User(token="abcdef.0123456789abcdef"),
        User(token_file="/token"),
        User(client_certificate_data=b"x"),
        User(username="u", password="p"),
        User(exec=kubeconfig.ExecConfig(command="p")),
    ],
)
def test_credentials_are_refused(user: User) -> None:
    with pytest.raises(SettingsError, match=r'holds credentials of the user "u"') as refusal:
        parse(_text(("", CLUSTER), user=user), None)
    assert "abcdef" not in str(refusal.value) and "--tls-bootstrap-token" in refusal.value.hint


def test_a_user_without_credentials_is_no_matter() -> None:
    assert parse(_text(("", CLUSTER), user=User()), None).endpoint.host == "api.example"


def test_ca_files_are_those_beside_the_file(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_bytes(CA.certificate.pem())
    text = _text(("", Cluster(server="https://a.example", certificate_authority="ca.crt")))
    assert parse(text, tmp_path).certificate_authority_data == CA.certificate.pem()
    with pytest.raises(SettingsError, match="on another machine"):
        parse(text, None)
    with pytest.raises(SettingsError, match="cannot be read"):
        parse(text, tmp_path / "none")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"a: [", "cannot be used"),
        (_text(("", Cluster(server="http://a.example"))), "expected https://HOST:PORT"),
        (_text(("", Cluster(server="https://a", certificate_authority_data=b"x"))), "cannot be used"),
        (_text(("", Cluster(server="https://a", insecure_skip_tls_verify=True))), "proves nothing"),
    ],
)
def test_files_that_prove_nothing(text: bytes, why: str) -> None:
    with pytest.raises(SettingsError, match=why):
        parse(text, None)


def test_sources(tmp_path: Path) -> None:
    path = tmp_path / "d.conf"
    path.touch()
    assert verify_source(str(path)) == verify_source(f"file://{path}") == str(path)
    assert verify_source("https://a.example/d") == "https://a.example/d"
    assert verify_source("-") == "-"
    for text, why in (
        ("http://a.example/d", "the scheme must be https"),
        ("ftp://a.example/d", "the scheme must be https"),
        (str(tmp_path / "none"), "not a valid HTTPS URL or a file on disk"),
        ("https://", "not a valid HTTPS URL or a file on disk"),
        ("", "not a valid HTTPS URL or a file on disk"),
    ):
        with pytest.raises(SettingsError, match=why):
            verify_source(text)


@async_test
async def test_a_file_leads_to_the_cluster(tmp_path: Path) -> None:
    async with join_world(tmp_path, signed=False) as world:
        server, bundle = world.server.endpoint.url, world.server.pki.ca_certificate
        path = tmp_path / "discovery.conf"
        path.write_bytes(_text(("", Cluster(server=server, certificate_authority_data=bundle))))
        told = Told()
        settings = await read(str(path), CLOCK)
        found = await discover(settings, CLOCK, told)
        assert (found.server, found.certificate_authority_data) == (server, bundle)
        assert told.steps == [Step.FETCHED] and not told.warnings
        assert settings.pins == pins.parse([world.pin])


@async_test
async def test_which_cluster_it_is_the_file_may_say(tmp_path: Path) -> None:
    async with join_world(tmp_path) as world:
        server, bundle = world.server.endpoint.url, world.server.pki.ca_certificate
        cluster = Cluster(server=server, certificate_authority_data=bundle, extensions=extensions_of("one", [OTHER]))
        settings = parse(_text(("", cluster)), None)
        found = await discover(settings, CLOCK, Told())
        assert (found.cluster_id, found.servers) == ("one", (OTHER,))
        await world.say_id("one")
        assert (await discover(settings, CLOCK, Told())).cluster_id == "one"
        await world.say_id("two")
        with pytest.raises(NotTrustedError, match="the cluster two by its cluster-info, and one by the discovery file"):
            await discover(settings, CLOCK, Told())


@async_test
async def test_another_server_is_not_trusted_and_none_is_waited_for(tmp_path: Path) -> None:
    async with join_world(tmp_path) as world:
        other = FileDiscovery(parse(_text(("", CLUSTER)), None).endpoint, CA.certificate.pem(), 1.0)
        here = parse(_text(("", Cluster(server=world.server.endpoint.url))), None).endpoint
        with pytest.raises(NotTrustedError, match="couldn't validate the identity"):
            await discover(FileDiscovery(here, CA.certificate.pem(), 5.0), CLOCK, Told())
    told = Told()
    with pytest.raises(NoClusterError, match=r"Abort reading the cluster-info ConfigMap after timeout of 0\.2s"):
        await discover(FileDiscovery(here, other.certificate_authority_data, 0.2), CLOCK, told, lambda: 0.01)
    assert told.waits


@async_test
async def test_a_file_from_an_address_that_the_roots_do_not_vouch_for(tmp_path: Path) -> None:
    async with join_world(tmp_path) as world:
        with pytest.raises(AgentError, match="cannot be fetched") as refusal:
            await read(f"{world.server.endpoint.url}/d.conf", CLOCK)
        assert isinstance(refusal.value, NotTrustedError)
