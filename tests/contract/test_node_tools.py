"""The cases of ``node.jsonl`` about kubeadm's tools: uploaded certificates, discovery files, what goes together."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

import aio
from join_world import Told, join_world
from kubevouch.agent import file_discovery
from kubevouch.agent.interface import SettingsError
from kubevouch.api import catalog
from kubevouch.cli.flags.kubeadm_config import given_flags, verify_unmixed
from kubevouch.cli.join import join as join_command
from kubevouch.config import kubeadm_v1beta4 as kubeadm
from kubevouch.config import kubeconfig
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.phases import join_settings, upload_certs
from kubevouch.phases.certificates.certs import CertsError
from kubevouch.pki import authority, certificate_key, keys
from kubevouch.pki.errors import KeyMaterialError
from kubevouch.pki.x509.subject_alt_names import SubjectAltNames
from kubevouch.records.bootstrap_tokens import to_secret
from kubevouch.records.cluster_info import ClusterInfo, build_kubeconfig
from kubevouch.util.clock import SystemClock
from scripted_server import ScriptedServer, reply_json, reply_status
from throwaway_ca import Pair, server_context

VECTORS = Path(__file__).parents[1] / "vectors" / "node.jsonl"
ALL = {case["id"]: case for case in map(json.loads, VECTORS.read_text().splitlines())}
NOW = SystemClock().now()
CA = authority.create_authority("alpha-root", keys.generate(keys.KeyAlgorithm.ECDSA_P256), now=NOW)


def _case(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    return ALL[name]["given"], ALL[name]["then"]


# ------------------------------------------------------------------ uploaded certificates


def test_every_case_of_uploads_is_played() -> None:
    played = {"upload-certs-001", "upload-certs-002", "upload-certs-005", "upload-certs-006"}
    assert {name for name, case in ALL.items() if case["area"] == "upload-certs"} == played


def test_upload_certs_001_encrypt() -> None:
    given, then = _case("upload-certs-001")
    key, nonce = bytes.fromhex(given["key_hex"]), bytes.fromhex(given["nonce_hex"])
    value = certificate_key.encrypt(key, given["plain"].encode(), nonce)
    assert value.hex() == then["value_hex"]
    assert certificate_key.decrypt(key, value).decode() == given["plain"]


def test_upload_certs_002_another_key() -> None:
    given, _ = _case("upload-certs-002")
    with pytest.raises(KeyMaterialError):
        certificate_key.decrypt(bytes.fromhex(given["key_hex"]), bytes.fromhex(given["value_hex"]))


def test_upload_certs_005_owner() -> None:
    given, then = _case("upload-certs-005")
    token = upload_certs.owner_token(NOW)
    assert token.expires is not None and token.expires - NOW == dt.timedelta(hours=2)
    assert then["owner_ttl"] == "2h" and list(token.usages) == then["owner_usages"] and not token.groups
    owner = msgspec.structs.replace(to_secret(token), metadata=ObjectMeta(name=given["token_ttl_secret"], uid="u1"))
    (reference,) = upload_certs.build_secret({}, bytes(32), owner).metadata.owner_references
    wanted = then["ownerReference"]
    assert (reference.kind, reference.name, reference.controller) == (
        wanted["kind"], wanted["name"], wanted["controller"],
    )  # fmt: skip
    assert reference.uid == "u1" and reference.block_owner_deletion


def test_upload_certs_006_gone(tmp_path: Path) -> None:
    _, then = _case("upload-certs-006")

    async def scenario() -> None:
        async with join_world(tmp_path) as world:
            await upload_certs.download(world.server.client, ["ca.crt"], bytes(32))

    with pytest.raises(CertsError) as refusal:
        aio.run(scenario())
    assert then["error_contains"] in str(refusal.value)


# ------------------------------------------------------------------ what may be said together


def test_discovery_022_token_and_file() -> None:
    given, then = _case("discovery-022")
    described = given["discovery"]
    discovery = kubeadm.Discovery(
        bootstrap_token=kubeadm.BootstrapTokenDiscovery(token=described["bootstrapToken"]["token"]),
        file=kubeadm.FileDiscovery(kube_config_path=described["file"]["kubeConfigPath"]),
    )
    with pytest.raises(SettingsError) as refusal:
        join_settings.verify(discovery)
    assert then["error_contains"] in str(refusal.value)


@pytest.mark.parametrize("name", ["discovery-026", "discovery-027"])
def test_discovery_defaults(name: str) -> None:
    given, then = _case(name)
    context = join_command.make_context("join", given["argv"][1:])
    flags = context.params
    found = join_settings.from_flags(
        flags["endpoints"][0] if flags["endpoints"] else "",
        token=flags["token"],
        discovery_token=flags["discovery_token"],
        tls_bootstrap_token=flags["tls_bootstrap_token"],
        discovery_file=flags["discovery_file"],
        hashes=flags["hashes"],
    )
    assert found.tls_bootstrap_token == then["discovery.tlsBootstrapToken"]
    if "discovery.bootstrapToken" in then:
        assert found.bootstrap_token is then["discovery.bootstrapToken"]
        assert found.file is not None
        assert found.file.kube_config_path == then["discovery.file.kubeConfigPath"]
    else:
        assert found.bootstrap_token is not None
        assert found.bootstrap_token.token == then["discovery.bootstrapToken.token"]
        assert found.file is then["discovery.file"]


def test_discovery_030_flags_beside_a_file() -> None:
    given, _ = _case("discovery-030")
    context = join_command.make_context("join", given["argv"][1:])
    assert set(given_flags(context)) == {"config", "node-name", "skip-phases", "v"}
    verify_unmixed(given_flags(context))


# ------------------------------------------------------------------ discovery files


def _file(server: str, *, with_ca: bool) -> bytes:
    bundle = CA.certificate.pem() if with_ca else b""
    cluster = kubeconfig.Cluster(server=server, certificate_authority_data=bundle)
    return kubeconfig.dump(kubeconfig.Kubeconfig(clusters={"": cluster})).encode()


def test_discovery_035_no_cluster() -> None:
    _, then = _case("discovery-035")
    with pytest.raises(SettingsError) as refusal:
        file_discovery.parse(b"apiVersion: v1\nkind: Config\nclusters: []\n", None)
    assert then["error_contains"] in str(refusal.value)


def _serving(folder: Path) -> Any:
    key = keys.generate(keys.KeyAlgorithm.ECDSA_P256)
    names = SubjectAltNames(dns_names=("localhost",))
    spec = authority.LeafSpec(common_name="kube-apiserver", purposes=("server auth",), alt_names=names)
    pair = Pair(authority.issue_leaf(CA, spec, key, now=NOW).pem(), keys.to_pem(key))
    return server_context(pair, folder)


def test_discovery_036_a_cluster_info_that_is_closed(tmp_path: Path) -> None:
    given, then = _case("discovery-036")
    told = Told()

    async def scenario() -> bytes:
        answer = reply_status(given["server_repeat"]["status"], "Forbidden", "no")
        async with ScriptedServer(_serving(tmp_path), [answer]) as server:
            text = _file(f"https://localhost:{server.port}", with_ca=True)
            found = await file_discovery.discover(file_discovery.parse(text, None), SystemClock(), told)
            return found.certificate_authority_data

    assert aio.run(scenario()) == CA.certificate.pem()
    assert bool(told.warnings) is then["warning"]


def test_discovery_039_the_ca_comes_from_cluster_info(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "roots.pem").write_bytes(CA.certificate.pem())
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "roots.pem"))

    async def scenario() -> bytes:
        text = build_kubeconfig(ClusterInfo("https://a.test:6443", CA.certificate.pem()))
        metadata = {"name": "cluster-info", "namespace": "kube-public"}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"kubeconfig": text}}
        async with ScriptedServer(_serving(tmp_path), [reply_json(body)]) as server:
            told = Told()
            settings = file_discovery.parse(_file(f"https://localhost:{server.port}", with_ca=False), None)
            found = await file_discovery.discover(settings, SystemClock(), told)
            assert found.server == f"https://localhost:{server.port}"
            assert any("a.test" in warning for warning in told.warnings)
            return found.certificate_authority_data

    assert aio.run(scenario()) == CA.certificate.pem()


def test_discovery_040_nothing_to_ask_with() -> None:
    given, then = _case("discovery-040")
    discovery = kubeadm.Discovery(
        file=kubeadm.FileDiscovery(kube_config_path="-"), tls_bootstrap_token=given["tlsBootstrapToken"]
    )
    with pytest.raises(SettingsError) as refusal:
        join_settings.request_token(discovery)
    assert then["error_contains"] in str(refusal.value)


def test_the_secret_is_stored_and_read_back_through_the_api(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with join_world(tmp_path) as world:
            client, folder = world.server.client, world.server.pki.folder
            shared = {name: folder / name for name in ("ca.crt", "ca.key", "sa.key", "missing.key")}
            await upload_certs.upload(client, shared, bytes(range(32)), now=NOW)
            stored = await client.get(catalog.SECRETS, "kubeadm-certs", "kube-system")
            assert stored.data["missing.key"] == b""
            assert stored.data["ca.key"][12:-16] != shared["ca.key"].read_bytes()
            contents = await upload_certs.download(client, list(shared), bytes(range(32)))
            assert contents == {name: path.read_bytes() for name, path in shared.items() if path.exists()}
            with pytest.raises(CertsError, match=r"error decrypting ca\.crt"):
                await upload_certs.download(client, list(shared), bytes(32))
            with pytest.raises(CertsError, match=r"required certificate or key - name: etcd-ca\.crt"):
                await upload_certs.download(client, ["etcd-ca.crt"], bytes(range(32)))

    aio.run(scenario())
