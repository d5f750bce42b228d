"""phases/signers.py and ``kubevouch signer``: made, looked at, exchanged and resumed as a person does it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

import identity_world as world
from kubevouch.cli.main import cli
from kubevouch.phases.signers import name_of
from kubevouch.pki.certificate_chain import verify_certificate_chain
from kubevouch.pki.policy import KUBERNETES_SIGNERS
from kubevouch.pki.x509.subject import Subject
from kubevouch.pki.x509.subject_alt_names import SubjectAltNames
from kubevouch.testing.cluster import ADMIN, Cluster

CONTROLLERS = ("csrsigning", "certificatesigners", "garbagecollector")
SIGNER = "example.com/web"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(https=True, controllers=CONTROLLERS) as running:
        yield running


def run(cluster: Cluster, *arguments: str) -> tuple[int, str]:
    # What a controller logs meanwhile would stand in the output.
    cluster.settle()
    ended = CliRunner().invoke(cli, ["signer", *arguments, "--kubeconfig", str(cluster.kubeconfig)])
    return ended.exit_code, f"{ended.output}{ended.exception or ''}"


def done(cluster: Cluster, *arguments: str) -> str:
    code, told = run(cluster, *arguments)
    assert code == 0, told
    return told


def issue(cluster: Cluster, signer: str = SIGNER) -> bytes:
    names = SubjectAltNames(dns_names=("a.example.com",))
    pem = world.request(Subject(common_name="a.example.com"), names=names)
    name = world.ask(cluster, ADMIN, pem, signer=signer, usages=("digital signature", "server auth"))
    world.approve(cluster, name)
    certificate: bytes = world.settled(cluster, name).status.certificate
    return certificate


def test_a_signer_from_nothing_to_its_second_ca(cluster: Cluster, tmp_path: Path) -> None:
    assert "there is no CertificateSigner" in done(cluster, "list")
    told = done(cluster, "create", SIGNER, "--dns", "*.example.com", "--common-name", "*.example.com", "--overlap", "0")
    assert "CA made   secret kubevouch-signers/web" in told
    cluster.settle()
    told_of = {each.reason for each in cluster.list("Event")}
    assert told_of and "CAMissing" not in told_of
    leaf, *behind = verify_certificate_chain(issue(cluster))
    assert behind == [] and leaf.issuer.common_name.startswith("example.com/web 2")
    (entry,) = json.loads(done(cluster, "list", "-o", "json"))
    assert (entry["ready"], entry["signerName"], entry["caDaysLeft"]) == ("True", SIGNER, 3649)
    # Its second CA, and a client that knows the first one only.
    anchors = tmp_path / "anchors.pem"
    anchors.write_text(done(cluster, "trust", SIGNER))
    assert "next CA made" in done(cluster, "rotate", "web")
    cluster.settle()
    chain = issue(cluster)
    later, cross = verify_certificate_chain(chain)
    assert later.issuer_name != leaf.issuer_name and cross.issuer_name == leaf.issuer_name
    (tmp_path / "chain.pem").write_bytes(chain)
    command = ["openssl", "verify", "-CAfile", str(anchors), "-untrusted", str(tmp_path / "chain.pem")]
    verified = subprocess.run([*command, str(tmp_path / "chain.pem")], capture_output=True, text=True, check=False)
    assert verified.returncode == 0, verified.stderr
    assert done(cluster, "trust", "web").count("BEGIN CERTIFICATE") == 2


def test_the_page_of_each_signer(cluster: Cluster) -> None:
    done(cluster, "create", "example.com/page", "--dns", "*.a.example.com", "--spread", "20", "--description", "Pages.")
    cluster.settle()
    page = done(cluster, "describe", "example.com/page", "-o", "markdown")
    assert page.startswith("# example.com/page\n\nPages.\n") and "DNS names: \\*.a.example.com." in page
    assert "up to 20 %" in page and ": signs." in page
    for name in KUBERNETES_SIGNERS:
        tree = json.loads(done(cluster, "describe", name, "-o", "json"))
        assert tree["signerName"] == name and all(tree["sections"].values())
    assert "Lifetime\n" in done(cluster, "describe", "page")


def test_what_is_printed_can_be_applied(cluster: Cluster) -> None:
    told = done(cluster, "create", "example.com/dry", "--uri", "spiffe://example.com/**", "--dry-run")
    manifest = yaml.safe_load(told)
    assert manifest["kind"] == "CertificateSigner" and manifest["spec"]["ca"] == {"secretName": "dry"}
    assert json.loads(done(cluster, "list", "-o", "json")) != manifest
    cluster.create(manifest)
    cluster.settle()
    entries = {each["name"]: each for each in json.loads(done(cluster, "list", "-o", "json"))}
    assert entries["dry"]["reason"] == "CAMissing"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("create", "example.com/x"), "nothing is permitted"),
        (("create", "example.com/x", "--dns", "*x"), "spec.altNames.dnsNames"),
        (("create", "example.com/x", "--dns", "x", "--ip", "10.0.0.1/8"), "spec.altNames.ipRanges"),
        (("create", "kubernetes.io/x", "--dns", "x"), "belong to Kubernetes"),
        (("create", "example.com/x", "--dns", "x", "--ca-secret", "a", "--ca-name", "b"), "two CAs"),
        (("create", "example.com/x", "--dns", "x", "--ca-validity", "0"), "expected a duration"),
        (("describe", "example.com/nobody"), "there is no CertificateSigner"),
        (("rotate", "example.com/nobody"), "there is no CertificateSigner"),
        (("resume", "web"), "has not stopped"),
    ],
)
def test_what_cannot_be_meant(cluster: Cluster, arguments: tuple[str, ...], message: str) -> None:
    code, told = run(cluster, *arguments)
    assert code != 0 and message in told


def test_a_ca_that_is_not_in_a_secret_is_not_exchanged_here(cluster: Cluster) -> None:
    done(cluster, "create", "example.com/named", "--dns", "x", "--ca-name", "theirs")
    code, told = run(cluster, "rotate", "named")
    assert code != 0 and "is not in a Secret" in told


@pytest.mark.parametrize(
    ("signer", "name"), [("example.com/web", "web"), ("example.com/Web_Serving", "web-serving"), ("a.b/-x-", "x")]
)
def test_the_name_of_the_object(signer: str, name: str) -> None:
    assert name_of(signer) == name
