"""docs/howto/signers.md: its commands and its objects, as they stand there."""

from __future__ import annotations

import base64
import re
import shlex
from collections.abc import Iterator

import pytest
import yaml
from click.testing import CliRunner

import identity_world as world
import peers
from kubevouch.cli.main import cli
from kubevouch.pki import keys
from kubevouch.pki.certificate_chain import verify_certificate_chain
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509.subject import Subject
from kubevouch.pki.x509.subject_alt_names import SubjectAltNames
from kubevouch.testing.cluster import ADMIN, Cluster
from kubevouch.util.clock import SystemClock
from signer_world import new_ca

PAGE = (peers.ROOT / "docs" / "howto" / "signers.md").read_text()
COMMANDS = re.findall(r"^    kubevouch (signer .*)$", PAGE, re.M)
REQUEST, SIGNER, ROLE = (yaml.safe_load(each) for each in re.findall(r"^```yaml\n(.*?)^```", PAGE, re.M | re.S))


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(https=True, controllers=("csrsigning", "certificatesigners")) as running:
        yield running


def run(cluster: Cluster, command: str) -> str:
    arguments = [*shlex.split(command), "--kubeconfig", str(cluster.kubeconfig)]
    ended = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert ended.exit_code == 0, ended.output
    cluster.settle()
    return ended.output


def test_every_command_in_its_order(cluster: Cluster) -> None:
    create, *others = COMMANDS
    assert create.startswith("signer create example.com/web")
    run(cluster, create)
    request = world.request(Subject(common_name="shop.example.com"))
    manifest = REQUEST | {"spec": REQUEST["spec"] | {"request": base64.b64encode(request).decode()}}
    cluster.as_user(ADMIN).create(manifest)
    world.approve(cluster, "shop")
    (leaf,) = verify_certificate_chain(world.settled(cluster, "shop").status.certificate)
    assert leaf.subject.common_name == "shop.example.com"
    told = {command: run(cluster, command) for command in others}
    assert "example.com/web" in told["signer list"]
    assert told["signer trust web"].count("BEGIN CERTIFICATE") == 2


def test_the_long_object_does_what_it_says(cluster: Cluster) -> None:
    ca = new_ca("mesh", SystemClock().now())
    text = {"tls.crt": ca.certificate.pem(), "tls.key": keys.to_pem(ca.key)}
    secret = {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
              "metadata": {"name": "mesh", "namespace": "kubevouch-signers"},
              "data": {name: base64.b64encode(value).decode() for name, value in text.items()}}  # fmt: skip
    cluster.create(secret)
    cluster.create(SIGNER)
    cluster.settle()
    names = SubjectAltNames(
        dns_names=("a.mesh.example.com", "a.b.svc", "evil"), uris=("spiffe://example.com/ns/a/sa/b",)
    )
    pem = world.request(
        Subject(common_name="a", organizations=("mesh",)), keys.generate(KeyAlgorithm.ECDSA_P256), names
    )
    usages = ("digital signature", "client auth")
    name = world.ask(cluster, ADMIN, pem, signer="example.com/mesh", usages=usages)
    world.approve(cluster, name)
    (leaf,) = verify_certificate_chain(world.settled(cluster, name).status.certificate)
    assert leaf.meaning.alt_names.dns_names == ("a.mesh.example.com", "a.b.svc")
    assert "2.5.29.31" in {each.oid for each in leaf.extensions}
    assert "up to 20 %" in run(cluster, "signer describe example.com/mesh")


def test_the_role_is_the_right_that_admission_asks_for() -> None:
    (rule,) = ROLE["rules"]
    assert (rule["apiGroups"], rule["resources"], rule["verbs"]) == (["certificates.k8s.io"], ["signers"], ["sign"])
    assert rule["resourceNames"] == [SIGNER["spec"]["signerName"].replace("mesh", "web")]
