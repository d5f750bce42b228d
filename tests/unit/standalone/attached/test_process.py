"""What attached controllers refuse to begin with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from asynctest import async_test
from kubevouch.client.credentials import FixedCredential
from kubevouch.client.options import ClientOptions
from kubevouch.client.rest_config import RESTConfig
from kubevouch.client.tls import TLSSources
from kubevouch.signers.catalog import PairFiles
from kubevouch.standalone.approval_options import ApprovalOptions
from kubevouch.standalone.attached.options import (
    IN_CLUSTER,
    AttachedCluster,
    AttachedOptions,
    AttachedOptionsError,
    ServingOptions,
)
from kubevouch.standalone.attached.process import running
from kubevouch.standalone.options import ClusterSigning
from kubevouch.testing.clock import FakeClock


def _cluster(name: str = "") -> AttachedCluster:
    options = ClientOptions(server="https://127.0.0.1:1")
    return AttachedCluster(name, RESTConfig(options, TLSSources(), lambda _clock: FixedCredential()))


async def _refused(**given: Any) -> AttachedOptionsError:
    options = AttachedOptions(**{"clusters": (_cluster(),), "serving": ServingOptions(port=None), **given})
    with pytest.raises(AttachedOptionsError) as caught:
        async with running(options, FakeClock()):
            pass
    return caught.value


@async_test
async def test_a_controller_that_there_is_not() -> None:
    err = await _refused(controllers=("*", "csraproving"))
    assert '"csraproving" is not in the list' in str(err)
    assert "csrapproving" in err.hint


@pytest.mark.parametrize("alias", ["noderecovery", "resourcequota"])
def test_a_controller_that_works_with_its_own_server_only(alias: str) -> None:
    @async_test
    async def scenario() -> None:
        assert str(await _refused(controllers=(alias,))).startswith(alias)

    scenario()


@async_test
async def test_no_controller_at_all() -> None:
    assert "no controller is left" in str(await _refused(controllers=()))


@async_test
async def test_two_clusters_of_one_name() -> None:
    assert "two clusters are called a" in str(await _refused(clusters=(_cluster("a"), _cluster("a"))))


@async_test
async def test_one_ca_for_several_clusters(tmp_path: Path) -> None:
    signing = ClusterSigning(PairFiles("ca.crt", "ca.key"))
    both = (_cluster("a"), _cluster("b"))
    named = ("*", "csrsigning")
    told = await _refused(clusters=both, signing=signing, controllers=named)
    assert "one CA would sign for several clusters" in str(told)
    err = await _refused(clusters=both, root_ca_file=tmp_path / "ca.crt")
    assert "one CA would be published" in str(err)


@async_test
async def test_files_of_a_ca_that_nobody_would_use_or_that_are_not_there() -> None:
    signing = ClusterSigning(PairFiles("/nowhere/ca.crt", "/nowhere/ca.key"))
    assert "csrsigning is not among the controllers" in str(
        await _refused(controllers=("joinstatus",), signing=signing)
    )
    assert "/nowhere/ca.crt" in str(await _refused(signing=signing, controllers=("*", "csrsigning")))
    assert "/nowhere/root.crt" in str(await _refused(root_ca_file=Path("/nowhere/root.crt")))


@pytest.mark.parametrize("controllers", [("*",), ("certificatesigners",)])
def test_a_ca_takes_no_name_of_kubernetes_that_nobody_has_given_it(controllers: tuple[str, ...]) -> None:
    @async_test
    async def scenario() -> None:
        signing = ClusterSigning(PairFiles("/nowhere/ca.crt", "/nowhere/ca.key"))
        err = await _refused(signing=signing, controllers=controllers)
        assert "no signer name for it" in str(err)
        assert "name it in --controllers" in err.hint

    scenario()


@async_test
async def test_what_kube_controller_manager_has_not_cannot_be_off_there() -> None:
    err = await _refused(assume_off=("csrsiging",))
    assert "got --assume-off csrsiging" in str(err)
    assert "csrsigning" in err.hint


@async_test
async def test_plain_http_for_other_machines() -> None:
    serving = ServingOptions(bind_address="0.0.0.0", port=0, is_plain=True)
    assert "plain HTTP on 0.0.0.0" in str(await _refused(serving=serving))


@async_test
async def test_a_serving_pair_that_is_none() -> None:
    serving = ServingOptions(bind_address="127.0.0.1", port=0, files=(Path("/nowhere/a"), Path("/nowhere/b")))
    told = str(await _refused(serving=serving))
    assert (
        told == "the serving certificate and key cannot be used: /nowhere/a cannot be read: no such file or directory"
    )


@async_test
async def test_services_that_are_not_told_which_cluster_it_is(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "cmdb.conf"
    kubeconfig.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: w\ncontexts: [{name: w, context: {cluster: w, user: w}}]\n"
        "clusters: [{name: w, cluster: {server: 'https://127.0.0.1:1/'}}]\nusers: [{name: w, user: {}}]\n"
    )
    path = tmp_path / "webhooks.yaml"
    path.write_text(
        "apiVersion: kubevouch.io/v1alpha1\nkind: ApproverWebhookConfiguration\n"
        f"webhooks: [{{name: cmdb, kubeConfigFile: {kubeconfig}, signerNames: [a.b/c]}}]\n"
    )
    approval = ApprovalOptions(webhook_config=path)
    err = await _refused(clusters=(_cluster("a"), _cluster("b")), approval=approval)
    assert "services would be asked about several clusters" in str(err)
    path.write_text("x")
    assert "--approver-webhook-config" in (await _refused(approval=approval)).hint


@async_test
async def test_a_signing_process_reads_no_ledger_in_a_cluster(tmp_path: Path) -> None:
    signing = ClusterSigning(PairFiles("ca.crt", ""), socket=tmp_path / "socket")
    assert "--ledger FILE" in (await _refused(signing=signing, ledger=IN_CLUSTER)).hint
