"""docs/howto/requests.md, "Several people": its objects and its commands, as they stand there."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

import yaml
from click.testing import CliRunner

import identity_world as world
import peers
from kubevouch.authentication.interface import UserInfo
from kubevouch.cli.main import cli
from kubevouch.pki.x509.subject import Subject
from kubevouch.testing.cluster import Cluster

PAGE = (peers.ROOT / "docs" / "howto" / "requests.md").read_text()
OBJECTS = [
    tree for block in re.findall(r"^```yaml\n(.*?)^```", PAGE, re.M | re.S) for tree in yaml.safe_load_all(block)
]
BINDINGS = re.findall(r"^    kubectl (create clusterrolebinding .*)$", PAGE, re.M)
FOR, AGAINST = re.findall(r"^    kubevouch (csr vote NAME .*)$", PAGE, re.M)


def asked(cluster: Cluster, user: str, group: str) -> str:
    pem = world.request(Subject(common_name=user))
    who = UserInfo(user, groups=(group, "system:authenticated"))
    name = world.ask(cluster, who, pem, signer="example.com/vpn")
    cluster.settle()
    return name


def conditions(cluster: Cluster, name: str) -> list[tuple[str, str]]:
    cluster.settle()
    csr = cluster.get("csr", name)
    return [(each.type, each.reason) for each in csr.status.conditions or ()]


def test_several_people(tmp_path: Path) -> None:
    with Cluster(https=True, controllers=("csrapproving", "certificaterequestpolicy-status")) as cluster:

        def vote(command: str, request: str, user: str) -> None:
            file = tmp_path / user
            if not file.exists():
                file.write_text(cluster.kubeconfig_for(user, ("security",)))
                file.chmod(0o600)
            words = shlex.split(command.replace("NAME", request))
            ended = CliRunner().invoke(cli, [*words, "--kubeconfig", str(file)], catch_exceptions=False)
            assert ended.exit_code == 0, ended.output

        for each in OBJECTS:
            cluster.apply(each)
        for each in BINDINGS:
            subprocess.run(
                [peers.kubectl("1.20"), *shlex.split(each)], check=True, stdout=subprocess.DEVNULL,
                env={**os.environ, "KUBECONFIG": str(cluster.kubeconfig)},
            )  # fmt: skip
        cluster.settle()
        name = asked(cluster, "carol", "staff")
        vote(FOR, name, "alice")
        assert conditions(cluster, name) == []
        vote(FOR, name, "bob")
        assert conditions(cluster, name) == [("Approved", "ApprovedByPolicy")]
        name = asked(cluster, "dave", "staff")
        vote(AGAINST, name, "alice")
        ((kind, _),) = conditions(cluster, name)
        assert kind == "Denied"
