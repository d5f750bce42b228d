from __future__ import annotations

import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from asynctest import async_test
from join_world import TOKEN, JoinWorld, Told, join_world
from kubevouch.agent import trust_bundle
from kubevouch.agent.certificate_store import CertificateStore, StoredPair
from kubevouch.agent.interface import SettingsError
from kubevouch.agent.node_access import ClusterFiles, NodeAccess
from kubevouch.agent.trust_bundle import HASH_ANNOTATION
from kubevouch.api import catalog
from kubevouch.api.authentication_v1 import SelfSubjectReview
from kubevouch.attestation.tpm import node_keys
from kubevouch.client.interface import MERGE_PATCH, ClientConfigurationError, ConnectFailed, TLSFailed
from kubevouch.config import kubeconfig
from kubevouch.config.kubeconfig import Cluster, Kubeconfig
from kubevouch.phases.join import BOOTSTRAP_CONF, CERTIFICATE_FOLDER, KUBELET_CONF, JoinOptions, join
from kubevouch.pki import authority, keys
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.tpm import resident_key
from kubevouch.records import ca_rotation
from kubevouch.records.ca_rotation import RenewalOrder
from kubevouch.records.cluster_info import ClusterInfo, build_kubeconfig, parse_kubeconfig, told_by
from kubevouch.standalone.network import bind
from kubevouch.util.clock import SystemClock
from software_tpm import software_tpm

CLOCK = SystemClock()
NEW_CA = authority.create_authority("kubernetes", keys.generate(KeyAlgorithm.ECDSA_P256), now=CLOCK.now()).certificate


async def _joined(world: JoinWorld, root: Path) -> StoredPair:
    async with world.clerk_at_work():
        await join(JoinOptions(world.discovery(), "worker-1", root, 120.0), CLOCK, Told())
    found = CertificateStore(root / CERTIFICATE_FOLDER).current()
    assert found is not None
    return found


async def _publish(world: JoinWorld, *bundle: bytes) -> None:
    client = world.server.client
    found = await client.get(catalog.CONFIG_MAPS, "cluster-info", "kube-public")
    text = build_kubeconfig(ClusterInfo(world.server.endpoint.url, b"".join(bundle)))
    await client.update(catalog.CONFIG_MAPS, msgspec.structs.replace(found, data={"kubeconfig": text}))


@async_test
async def test_a_rollover_with_overlap(tmp_path: Path) -> None:
    root = tmp_path / "node"
    async with join_world(tmp_path) as world:
        await _joined(world, root)
        copy = root / "etc/kubernetes/pki/ca.crt"
        access = NodeAccess(ClusterFiles(root / KUBELET_CONF, ca_copies=(copy,)), "worker-1", CLOCK)
        old = world.server.pki.authority.certificate
        anchors = access.anchors()
        await access.refresh()
        assert access.anchors() is anchors
        # 1. Both are published: both are trusted.
        await _publish(world, NEW_CA.pem(), old.pem())
        await access.refresh()
        assert access.bundle() == (NEW_CA, old) == trust_bundle.parse(copy.read_bytes(), "")
        assert access.anchors() is not anchors
        # 2. The old one is no longer published, and the server still needs it.
        await _publish(world, NEW_CA.pem())
        await access.refresh()
        assert not trust_bundle.is_rollover(access.bundle(), (NEW_CA, old))
        # 3. The other way round it is given up: the server shows a certificate of the one that stays.
        await _publish(world, old.pem())
        await access.refresh()
        assert access.bundle() == (old,)


@async_test
async def test_who_slept_through_a_rollover_discovers_again(tmp_path: Path) -> None:
    root = tmp_path / "node"
    async with join_world(tmp_path) as world:
        await _joined(world, root)
        trust_bundle.store(root / KUBELET_CONF, (NEW_CA,))
        lost = NodeAccess(ClusterFiles(root / KUBELET_CONF), "worker-1", CLOCK)
        await lost.refresh()
        assert lost.bundle() == (NEW_CA,)
        right = world.server.pki.authority.certificate
        found = NodeAccess(ClusterFiles(root / KUBELET_CONF, discovery=world.discovery()), "worker-1", CLOCK)
        await found.refresh()
        assert found.bundle() == (right,)
        trust_bundle.store(root / KUBELET_CONF, (NEW_CA,))
        cluster = Cluster(server=world.server.endpoint.url, certificate_authority_data=right.pem())
        (tmp_path / "d.conf").write_text(kubeconfig.dump(Kubeconfig(clusters={"": cluster})))
        found = NodeAccess(ClusterFiles(root / KUBELET_CONF, discovery=str(tmp_path / "d.conf")), "worker-1", CLOCK)
        await found.refresh()
        assert found.bundle() == (right,)


@async_test
async def test_another_cluster_at_the_address_is_not_believed(tmp_path: Path) -> None:
    root = tmp_path / "node"
    async with join_world(tmp_path) as world:
        pair = await _joined(world, root)
    (tmp_path / "other").mkdir()
    async with join_world(tmp_path / "other") as other:
        text = (root / KUBELET_CONF).read_text().replace(world.server.endpoint.url, other.server.endpoint.url)
        (root / KUBELET_CONF).write_text(text)
        access = NodeAccess(ClusterFiles(root / KUBELET_CONF), "worker-1", CLOCK)
        with pytest.raises(TLSFailed):
            async with access.connected(pair):
                pass
        await access.refresh()
        assert access.bundle() == (world.server.pki.authority.certificate,)


@async_test
async def test_addresses_are_tried_in_the_order_of_their_health(tmp_path: Path) -> None:
    root = tmp_path / "node"
    closed = bind("127.0.0.1", 0)[0]
    dead = f"https://127.0.0.1:{closed.getsockname()[1]}"
    closed.close()
    async with join_world(tmp_path) as world:
        pair = await _joined(world, root)
        alive = world.server.endpoint.url
        text = (root / KUBELET_CONF).read_text().replace(alive, dead)
        (root / KUBELET_CONF).write_text(text)
        alone = NodeAccess(ClusterFiles(root / KUBELET_CONF), "worker-1", CLOCK)
        with pytest.raises(ConnectFailed):
            async with alone.connected(pair):
                pass
        access = NodeAccess(ClusterFiles(root / KUBELET_CONF, servers=(alive,)), "worker-1", CLOCK)
        async with access.connected(pair) as poster:
            assert poster.annotations[HASH_ANNOTATION] == trust_bundle.bundle_hash(access.bundle())
            assert poster.usernames == ("system:node:worker-1",)
        assert access._servers.in_order()[0] == alive


@async_test
async def test_the_token_is_used_when_the_certificate_is_of_no_use(tmp_path: Path) -> None:
    root = tmp_path / "node"
    async with join_world(tmp_path) as world:
        pair = await _joined(world, root)
        bare = NodeAccess(ClusterFiles(root / KUBELET_CONF), "worker-1", CLOCK)
        with pytest.raises(SettingsError, match="no certificate"):
            async with bare.connected(None):
                pass
        joined = kubeconfig.load((root / KUBELET_CONF).read_bytes())
        begun = msgspec.structs.replace(joined, users={"default-auth": kubeconfig.User(token=TOKEN.text)})
        (root / BOOTSTRAP_CONF).write_text(kubeconfig.dump(begun))
        access = NodeAccess(ClusterFiles(root / KUBELET_CONF, root / BOOTSTRAP_CONF), "worker-1", CLOCK)
        async with access.connected(pair) as poster:
            assert poster.credential == "the node's certificate"
            assert poster.usernames == ("system:node:worker-1", TOKEN.user)
        access.refused(pair)
        async with access.connected(pair) as poster:
            assert "bootstrap-kubelet.conf" in poster.credential
            review = await poster.requests._client.create(catalog.SELF_SUBJECT_REVIEWS, SelfSubjectReview())
            assert review.status.user_info.username == TOKEN.user


@async_test
async def test_a_pair_whose_key_a_tpm_has_lost_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resident_key, "default_signer", None)
    root = tmp_path / "node"
    async with join_world(tmp_path) as world:
        with software_tpm(tmp_path / "tpm") as tpm:
            pair = replace(await _joined(world, root), key=node_keys.make(tpm.device()))
            access = NodeAccess(ClusterFiles(root / KUBELET_CONF), "worker-1", CLOCK)
            # Whether it is accepted is the server's business: it asks for a certificate of this key.
            with pytest.raises(ClientConfigurationError, match="do not belong together"):
                async with access.connected(pair):
                    pass
            tpm.clear()
            for connected in (access.connected, access.client):
                with pytest.raises(SettingsError, match="it was cleared, or") as caught:
                    async with connected(pair):
                        pass
                assert "join again" in caught.value.hint
            joined = kubeconfig.load((root / KUBELET_CONF).read_bytes())
            begun = msgspec.structs.replace(joined, users={"default-auth": kubeconfig.User(token=TOKEN.text)})
            (root / BOOTSTRAP_CONF).write_text(kubeconfig.dump(begun))
            access = NodeAccess(ClusterFiles(root / KUBELET_CONF, root / BOOTSTRAP_CONF), "worker-1", CLOCK)
            async with access.connected(pair) as poster:
                assert "bootstrap-kubelet.conf" in poster.credential
        # A TPM that is away has lost nothing, so that no token is shown for it.
        for connected in (access.connected, access.client):
            with pytest.raises(SettingsError, match="there is no TPM"):
                async with connected(pair):
                    pass


@async_test
async def test_what_cluster_info_says_about_renewing(tmp_path: Path) -> None:
    root = tmp_path / "node"
    async with join_world(tmp_path) as world:
        await _joined(world, root)
        access = NodeAccess(ClusterFiles(root / KUBELET_CONF), "worker-1", CLOCK)
        order = RenewalOrder(authority="sha256:00", begins=CLOCK.now(), window_seconds=60)
        for text, heard in ((ca_rotation.encode(order), order), ("soon", None), (ca_rotation.encode(order), order)):
            patch = {"metadata": {"annotations": {ca_rotation.RENEWAL_ANNOTATION: text}}}
            await world.server.client.patch(catalog.CONFIG_MAPS, "cluster-info", patch, MERGE_PATCH, "kube-public")
            await access.refresh()
            assert access.renewal_order() == heard
        gone = {"metadata": {"annotations": {ca_rotation.RENEWAL_ANNOTATION: None}}}
        await world.server.client.patch(catalog.CONFIG_MAPS, "cluster-info", gone, MERGE_PATCH, "kube-public")
        await access.refresh()
        assert access.renewal_order() is None


async def _tell(world: JoinWorld, **more: Any) -> None:
    """Publish an ID and more addresses beside the server that is published."""
    client = world.server.client
    found = await client.get(catalog.CONFIG_MAPS, "cluster-info", "kube-public")
    text = build_kubeconfig(msgspec.structs.replace(parse_kubeconfig(found.data["kubeconfig"]), **more))
    await client.update(catalog.CONFIG_MAPS, msgspec.structs.replace(found, data={"kubeconfig": text}))
    await world.sign_cluster_info()


@async_test
async def test_the_other_addresses_of_the_cluster_are_tried_after_the_first(tmp_path: Path) -> None:
    root = tmp_path / "node"
    with socket.socket() as deaf:
        # Bound and not listening: whoever connects is refused.
        deaf.bind(("127.0.0.1", 0))
        dead = f"https://127.0.0.1:{deaf.getsockname()[1]}"
        async with join_world(tmp_path) as world:
            here = world.server.endpoint.url
            await _tell(world, cluster_id="one", server=dead, servers=(here,))
            # The address that was typed is kept, and those of cluster-info are written beside it.
            await _joined(world, root)
            config = kubeconfig.load((root / KUBELET_CONF).read_text())
            assert config.clusters["default-cluster"].server == here
            assert told_by(config.clusters["default-cluster"]) == ("one", (dead,))
            # Where the first is gone when the agent starts, the file says where else.
            text = (root / KUBELET_CONF).read_text()
            (root / KUBELET_CONF).write_text(
                text.replace(dead, "https://x").replace(here, dead).replace("https://x", here)
            )
            access = NodeAccess(ClusterFiles(root / KUBELET_CONF), "worker-1", CLOCK)
            await access.refresh()
            assert access.recovery_allowed is False  # cluster-info has been read


@async_test
async def test_a_cluster_of_the_same_ca_and_another_id_is_another_cluster(tmp_path: Path) -> None:
    root = tmp_path / "node"
    async with join_world(tmp_path) as world:
        await _tell(world, cluster_id="one")
        await _joined(world, root)
        access = NodeAccess(ClusterFiles(root / KUBELET_CONF), "worker-1", CLOCK)
        await access.refresh()
        assert access.recovery_allowed is False
        access = NodeAccess(ClusterFiles(root / KUBELET_CONF), "worker-1", CLOCK)
        both = b"".join((NEW_CA.pem(), world.server.pki.authority.certificate.pem()))
        await _tell(world, cluster_id="two", certificate_authority_data=both)
        await access.refresh()
        assert access.recovery_allowed is None
        assert access.bundle() == (world.server.pki.authority.certificate,)


@async_test
async def test_who_discovers_again_takes_nothing_over_from_another_cluster(tmp_path: Path) -> None:
    root = tmp_path / "node"
    async with join_world(tmp_path) as world:
        await world.say_id("one")
        await _joined(world, root)
        trust_bundle.store(root / KUBELET_CONF, (NEW_CA,))
        await world.say_id("two")
        found = NodeAccess(ClusterFiles(root / KUBELET_CONF, discovery=world.discovery()), "worker-1", CLOCK)
        await found.refresh()
        assert found.bundle() == (NEW_CA,)
        await world.say_id("one")
        await found.refresh()
        assert found.bundle() == (world.server.pki.authority.certificate,)
