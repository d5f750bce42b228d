"""What a server makes of itself: roles, bindings and health checks, of kube-apiserver and of ours."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest

from kubevouch.testing import Cluster
from real.answers import Excuses
from real_cluster import RealCluster

_KINDS = ("clusterroles", "clusterrolebindings", "roles", "rolebindings")
_SELF_MADE = ("rules", "roleRef", "subjects", "aggregationRule")


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    with RealCluster(tmp_path_factory.mktemp("theirs")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def ours() -> Iterator[Cluster]:
    with Cluster(https=True, real_time=True) as cluster:
        yield cluster


def _made(theirs: RealCluster, *user: Any) -> dict[str, dict[str, Any]]:
    found = {}
    for kind in _KINDS:
        listed = theirs.kubectl("get", kind, "-A", "-o", "json", **({"user": user[0]} if user else {}))
        assert listed.code == 0, listed.stderr
        for each in json.loads(listed.stdout)["items"]:
            meta = each["metadata"]
            name = "/".join(filter(None, (kind, meta.get("namespace", ""), meta["name"])))
            found[name] = each
    return found


def test_every_role_and_binding_is_theirs(theirs: RealCluster, ours: Cluster) -> None:
    """Rules in any order; those that a controller puts together are not there yet."""
    known, builds = Excuses.listed("difference", "made"), Excuses.listed("build", "made")
    real, here = _made(theirs), _made(theirs, ours.kubeconfig)
    unlike = []
    for name, obj in real.items():
        if known.names(name) or builds.names(name):
            assert name not in here, name
        elif name not in here:
            unlike.append(f"{name}: missing")
        else:
            parts = [each for each in _SELF_MADE if each != "rules" or "aggregationRule" not in obj]
            unlike += [
                f"{name} {part}: Kubernetes has {_in_order(obj.get(part))}, we have {_in_order(here[name].get(part))}"
                for part in parts if _in_order(obj.get(part)) != _in_order(here[name].get(part))
            ]  # fmt: skip
    assert not unlike, "\n".join(unlike)
    assert not known.unused


def _in_order(value: Any) -> Any:
    """Rules verb by verb, whichever stand together."""
    if not isinstance(value, list):
        return value
    return sorted({each for item in value for each in (_each_right(item) if "verbs" in item else (str(item),))})


def _each_right(rule: dict[str, Any]) -> Iterator[str]:
    parts = ("verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs")
    return map(str, itertools.product(*(rule.get(part) or ("",) for part in parts)))


@pytest.mark.parametrize("endpoint", ["livez", "readyz", "healthz"])
def test_checks_have_the_names_of_theirs(endpoint: str, theirs: RealCluster, ours: Cluster) -> None:
    known = Excuses.listed("difference", "checks")
    real = _checks(theirs, endpoint)
    here = _checks(theirs, endpoint, ours.kubeconfig)
    assert "ping" in real & here
    assert not {name for name in real ^ here if not known.names(f"{endpoint}/{name}")}


def _checks(theirs: RealCluster, endpoint: str, *user: Any) -> set[str]:
    told = theirs.kubectl("get", "--raw", f"/{endpoint}?verbose", **({"user": user[0]} if user else {}))
    assert told.code == 0, told.stderr
    return {line[3:].split()[0] for line in told.stdout.splitlines() if line.startswith("[+]")}
