"""The cases of tests/vectors, played against kube-apiserver and against our server: both answer alike.

What does not stands in docs/compatibility.toml, and nothing stands there that is alike.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from contract.http_cases.__main__ import play_all
from contract.http_cases.case_text import Fixtures, read_cases
from contract.http_cases.identities import Identities
from contract.http_cases.player import Player
from excused import excused
from kubevouch.testing import Cluster
from real.answers import Difference, Excuses, differences
from real_cluster import RealCluster

_VECTORS = Path(__file__).parents[1] / "vectors"
_FIXTURES = Fixtures(_VECTORS / "fixtures-server")
# As many at once as share nothing.
_JOBS = 8
# On both: what pods' certificates need.
_RUNTIME_CONFIG = ",".join(
    f"certificates.k8s.io/v1beta1/{each}=true" for each in ("clustertrustbundles", "podcertificaterequests")
)
_GATES = "--feature-gates=ClusterTrustBundle=true,PodCertificateRequest=true"


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    flags = (f"--runtime-config={_RUNTIME_CONFIG}", _GATES)
    with RealCluster(tmp_path_factory.mktemp("theirs"), flags=flags) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def ours() -> Iterator[Cluster]:
    with Cluster(https=True, real_time=True, runtime_config=_RUNTIME_CONFIG) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def excuses(theirs: RealCluster) -> tuple[Excuses, Excuses]:
    """Ours, and those of a distribution's build where this is one."""
    builds = Excuses.listed("build")
    is_a_build = theirs.kubectl("get", "clusterrole", "system:openshift:public-info-viewer").code == 0
    return Excuses.listed("difference"), builds if is_a_build else Excuses(())


def _results(kubeconfig: Path, ca_key: Path, cases: list[dict[str, Any]], jobs: int) -> list[dict[str, Any]]:
    async def played() -> list[dict[str, Any]]:
        identities = Identities(kubeconfig, _FIXTURES, ca_key=ca_key)
        try:
            return await play_all(Player(identities, _FIXTURES), cases, jobs)
        finally:
            await identities.close()

    return asyncio.run(played())


def test_both_answer_alike(theirs: RealCluster, ours: Cluster, excuses: tuple[Excuses, Excuses]) -> None:
    known, of_the_build = excuses
    sometimes = Excuses.listed("difference", "sometimes")
    left: dict[str, list[str]] = {}
    for file in ("server", "attached", "crd"):
        cases = read_cases(_VECTORS / f"{file}.jsonl")
        # Kubernetes' caches follow a moment later, so that what differs is looked at again, alone.
        for jobs in (_JOBS, 1, 1):
            real = _results(theirs.kubeconfig, theirs.ca_key, cases, jobs)
            here = _results(ours.kubeconfig, ours.folder / "pki" / "ca.key", cases, jobs)
            left[file] = []
            for case, one, other in zip(tuple(cases), real, here, strict=True):
                found = list(differences(one, other))
                if one["outcome"] == "failed" and case["id"] not in excused():
                    found.append(Difference(case["id"], "outcome", one["problems"], "what was recorded"))
                found = [
                    each for each in found
                    if not (known.covers(each) or of_the_build.covers(each) or sometimes.covers(each))
                ]  # fmt: skip
                left[file] += map(str, found)
                if not found:
                    cases.remove(case)
    assert not any(left.values()), "\n".join(each for found in left.values() for each in found)
    assert not known.unused | of_the_build.unused
