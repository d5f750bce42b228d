"""One process works for several clusters at once, each of Kubernetes' own programs."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from asynctest import async_test
from attached_world import NOWHERE, attached, config_of, until_leading
from integration import test_attached_rights as shared
from kubevouch.standalone.attached.options import AttachedCluster, AttachedOptions
from real import behaviours
from real_cluster import RealCluster


def test_each_gets_its_own_work_done(tmp_path: Path) -> None:
    """Nothing is signed: one CA is never that of several clusters."""

    @async_test
    async def scenario() -> None:
        async with behaviours.foreign(east) as first, behaviours.foreign(west) as second:
            clusters = tuple(
                AttachedCluster(name, config_of(each.kubeconfig)) for name, each in (("east", first), ("west", second))
            )
            options = AttachedOptions(clusters=clusters, serving=NOWHERE, qps=0.0)
            async with attached(first, options=options) as found:
                for number in range(len(clusters)):
                    await until_leading(found, number)
                for each in (first, second):
                    await shared.what_no_kubelet_may_have_is_denied(each)

    with ExitStack() as stack:
        folders = [tmp_path / name for name in ("east", "west")]
        for folder in folders:
            folder.mkdir()
        east, west = (stack.enter_context(RealCluster(folder)) for folder in folders)
        scenario()
