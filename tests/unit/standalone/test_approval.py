"""standalone/approval.py: services that are asked over mutual TLS, and files that cannot be used."""

from __future__ import annotations

from pathlib import Path

import pytest

import aio
from kubevouch.config.kubeconfig import Cluster, Context, Kubeconfig, User, dump
from kubevouch.standalone import approval
from kubevouch.standalone.approval import ApprovalOptionsError
from kubevouch.standalone.approval_options import ApprovalOptions
from kubevouch.testing.clock import FakeClock
from scripted_server import ScriptedServer, reply
from throwaway_ca import ThrowawayCA, server_context


def configured(folder: Path, entry: Cluster, user: User | None = None) -> ApprovalOptions:
    kubeconfig = Kubeconfig(
        clusters={"w": entry}, users={"w": user or User()}, contexts={"w": Context(cluster="w", user="w")},
        current_context="w",
    )  # fmt: skip
    (folder / "cmdb.conf").write_text(dump(kubeconfig))
    path = folder / "webhooks.yaml"
    path.write_text(
        "apiVersion: kubevouch.io/v1alpha1\nkind: ApproverWebhookConfiguration\nwebhooks:\n"
        f"- {{name: cmdb, kubeConfigFile: {folder / 'cmdb.conf'}, signerNames: [a.b/c], timeoutSeconds: 7}}\n"
    )
    return ApprovalOptions(webhook_config=path)


def test_both_sides_show_a_certificate(tmp_path: Path) -> None:
    async def tried() -> None:
        ca = ThrowawayCA()
        tls = server_context(ca.issue(), tmp_path, client_ca=ca.bundle, required=True)
        async with ScriptedServer(tls) as server:
            server.script(reply(b"{}"))
            pair = ca.issue("approver")
            user = User(client_certificate_data=pair.certificate, client_key_data=pair.key)
            entry = Cluster(server=f"{server.url}/review", certificate_authority_data=ca.bundle)
            (service,) = approval.approver_services(configured(tmp_path, entry, user), FakeClock())
            assert service.settings.timeout_seconds == 7
            assert await service.webhook.ask_bytes(b"{}", attempts=1) == b"{}"
            assert [(each.path, each.peer_certificate is not None) for each in server.seen] == [("/review", True)]
            await service.webhook.close()

    aio.run(tried())


@pytest.mark.parametrize(
    "entry",
    [
        Cluster(server="http://127.0.0.1:1/"),
        Cluster(server="https://127.0.0.1:1/", insecure_skip_tls_verify=True),
    ],
    ids=["plain", "unverified"],
)
def test_whoever_could_answer_in_its_place_is_not_asked(tmp_path: Path, entry: Cluster) -> None:
    with pytest.raises(ApprovalOptionsError, match="expected an https server whose certificate is verified"):
        approval.approver_services(configured(tmp_path, entry), FakeClock())


def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    gone = ApprovalOptions(webhook_config=tmp_path / "gone")
    with pytest.raises(ApprovalOptionsError, match="cannot be read: No such file"):
        approval.approver_services(gone, FakeClock())
    (tmp_path / "odd").write_text("x")
    with pytest.raises(ApprovalOptionsError, match="cannot be used"):
        approval.approver_services(ApprovalOptions(webhook_config=tmp_path / "odd"), FakeClock())
    (tmp_path / "cmdb.conf").unlink(missing_ok=True)
    options = configured(tmp_path, Cluster(server="https://127.0.0.1:1/"))
    (tmp_path / "cmdb.conf").unlink()
    with pytest.raises(ApprovalOptionsError, match="cannot be used"):
        approval.approver_services(options, FakeClock())
    assert approval.approver_services(ApprovalOptions(), FakeClock()) == ()
