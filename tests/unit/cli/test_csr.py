"""``kubevouch csr``: what fits a narrow terminal, what is told as it changes, names that are nearly right."""

from __future__ import annotations

import ipaddress
import json
import os
import pty
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator

import msgspec
import pytest

from join_requests import KEY, ask
from kubevouch import wellknown
from kubevouch.api import catalog
from kubevouch.api.certificates_v1 import CertificateSigningRequest, CertificateSigningRequestSpec
from kubevouch.api.kubevouch_v1alpha1.catalog import NODE_IDENTITIES
from kubevouch.api.kubevouch_v1alpha1.node_identities import (
    AttestedClaim,
    GrantedCertificate,
    NodeIdentity,
    NodeIdentityStatus,
)
from kubevouch.cli.main import run
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.machinery.text.times import Time
from kubevouch.pki.x509.request_builder import build_request
from kubevouch.pki.x509.subject import Subject
from kubevouch.pki.x509.subject_alt_names import SubjectAltNames
from kubevouch.reviews.csr_review import decide
from kubevouch.testing.cluster import Cluster

CSRS = catalog.CERTIFICATE_SIGNING_REQUESTS
NAME = "node-csr-MeuqQPJzZzxn4RFdrXCUHJ7QLESlPDtxENRqXStRVUw"
Captured = pytest.CaptureFixture[str]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(https=True, real_time=True) as cluster:
        yield cluster


def user(common_name: str, *organizations: str) -> CertificateSigningRequest:
    subject = Subject(common_name=common_name, organizations=organizations)
    spec = CertificateSigningRequestSpec(
        request=build_request(KEY, subject), signer_name="example.com/users", usages=["client auth"]
    )
    return CertificateSigningRequest(metadata=ObjectMeta(generate_name="user-"), spec=spec)


def command(cluster: Cluster, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "kubevouch.cli.main", "csr", *arguments, "--kubeconfig", str(cluster.kubeconfig)]


def test_a_narrow_terminal_shows_the_nodes_name(cluster: Cluster) -> None:
    cluster.run(ask(cluster, "7gbboo", NAME, "worker-17"))
    controller, terminal = pty.openpty()
    try:
        termios.tcsetwinsize(terminal, (24, 80))
        environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
        done = subprocess.run(command(cluster, "list"), stdout=terminal, stdin=terminal, env=environment, check=True)
        shown = os.read(controller, 4096).decode().splitlines()
    finally:
        os.close(controller)
        os.close(terminal)
    assert done.returncode == 0
    assert "worker-17 (node)" in shown[1] and all(len(line) <= 80 for line in shown)


def test_a_wide_list_of_tokens_is_whole_too(cluster: Cluster) -> None:
    token = cluster.token()
    controller, terminal = pty.openpty()
    termios.tcsetwinsize(terminal, (24, 60))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    line = [*command(cluster, "list", "-o", "wide")]
    line[line.index("csr")] = "token"
    try:
        subprocess.run(line, stdout=terminal, stdin=terminal, env=environment, check=True)
        header, row = os.read(controller, 4096).decode().splitlines()
    finally:
        os.close(controller)
        os.close(terminal)
    assert header.split()[-3:] == ["USES", "LEFT", "BOUNDS"] and "…" not in row
    assert row.startswith(f"{token}  ") and "signing" in row and row.endswith("<none>")


@pytest.mark.parametrize("watch", [False, True])
def test_wide_shows_more_and_cuts_nothing(cluster: Cluster, watch: bool) -> None:
    token_id = cluster.token()[:6]
    cluster.run(ask(cluster, token_id, NAME, "worker-17"))
    names = SubjectAltNames(dns_names=("a.example.com",), ip_addresses=(ipaddress.ip_address("192.0.2.9"),))
    spec = CertificateSigningRequestSpec(
        request=build_request(KEY, Subject(common_name="eve"), names), signer_name="example.com/serving",
        usages=["server auth"], expiration_seconds=7200,
    )  # fmt: skip
    cluster.run(cluster.client().create(CSRS, CertificateSigningRequest(metadata=ObjectMeta(name="eve"), spec=spec)))
    line = command(cluster, "list", "-o", "wide", *(["-w"] if watch else []))
    controller, terminal = pty.openpty()
    termios.tcsetwinsize(terminal, (24, 60))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    listing = subprocess.Popen(line, stdout=terminal, stdin=terminal, env=environment)
    try:
        with os.fdopen(os.dup(controller)) as shown:
            header, *rows = [shown.readline() for _ in range(3)]
    finally:
        listing.send_signal(signal.SIGINT)
        listing.wait(60)
        os.close(controller)
        os.close(terminal)
    assert header.split() == [
        "NAME", "STATE", "AGE", "ASKS", "FOR", "REQUESTED", "BY", "MARKS",
        "SIGNERNAME", "REQUESTEDDURATION", "USAGES", "NAMES", "FROM",
    ]  # fmt: skip
    (node,), (other,) = ([row for row in rows if row.startswith(name)] for name in (NAME, "eve"))
    whole = (NAME, "worker-17 (node)", f"system:bootstrap:{token_id}", wellknown.KUBE_APISERVER_CLIENT_KUBELET_SIGNER,
        "<none>", "digital signature,client auth")  # fmt: skip
    assert all(f"{text}  " in node for text in whole) and "…" not in node + other
    assert all(text in other for text in ("example.com/serving", "120m", "server auth", "a.example.com,192.0.2.9"))


def test_nobody_but_a_node_looks_like_one(cluster: Cluster, capsys: Captured) -> None:
    client = cluster.client()
    names = ("worker-1 (node)",), ("worker-2", "node"), ("system:node:worker-3", "system:nodes", "others"), ("eve",)
    for each in names:
        cluster.run(client.create(CSRS, user(*each)))
    assert run(["csr", "list", "--kubeconfig", str(cluster.kubeconfig)]) == 0
    shown = capsys.readouterr().out
    for text in ("'worker-1 (node)'", "'worker-2 (node)'", "system:node:worker-3 (others,system:nodes)", " eve "):
        assert text in shown


def test_what_changes_is_told_as_it_changes(cluster: Cluster) -> None:
    client = cluster.client()
    first = cluster.run(client.create(CSRS, user("first")))
    watching = subprocess.Popen(command(cluster, "list", "-w"), stdout=subprocess.PIPE, text=True)
    pending = subprocess.Popen(
        command(cluster, "list", "-w", "--pending", "-o", "json"), stdout=subprocess.PIPE, text=True
    )
    try:
        assert watching.stdout is not None and pending.stdout is not None

        def row(process: subprocess.Popen[str] = watching) -> list[str]:
            assert process.stdout is not None
            return process.stdout.readline().split()

        def document() -> tuple[str, str]:
            assert pending.stdout is not None
            lines = [pending.stdout.readline()]
            while lines[-1] != "}\n":
                lines.append(pending.stdout.readline())
            tree = json.loads("".join(lines))
            return tree["name"], tree["state"]

        assert row()[:2] == ["NAME", "STATE"]
        assert row()[:2] == [first.metadata.name, "Pending"]
        assert document() == (first.metadata.name, "Pending")
        second = cluster.run(client.create(CSRS, user("second")))
        assert row()[:2] == [second.metadata.name, "Pending"]
        assert document() == (second.metadata.name, "Pending")
        # What is no decision is not told.
        annotated = msgspec.structs.replace(first.metadata, annotations={"example.com/a": "b"})
        first = cluster.run(client.update(CSRS, msgspec.structs.replace(first, metadata=annotated)))
        cluster.run(decide(client, first, wellknown.CSR_DENIED, "no"))
        assert row()[:2] == [first.metadata.name, "Denied"]
        assert document() == (first.metadata.name, "Denied")
        for each in (first, second):
            cluster.run(client.delete(CSRS, each.metadata.name))
            assert row()[:2] == [each.metadata.name, "Deleted"]
        # Of the first, which was decided, nothing more is told where only undecided ones count.
        assert document() == (second.metadata.name, "Deleted")
    finally:
        for process in (watching, pending):
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 130
            assert process.stdout is not None
            process.stdout.close()


def test_a_name_that_is_nearly_right(cluster: Cluster, capsys: Captured) -> None:
    cluster.run(ask(cluster, "7gbboo", NAME))
    for verb in ("show", "approve"):
        assert run(["csr", verb, NAME[:-1] + "x", "--kubeconfig", str(cluster.kubeconfig)]) == 1
        assert f"hint: did you mean {NAME}? kubevouch csr list shows" in capsys.readouterr().err
    token_id = cluster.token()[:6]
    nearly = token_id[:5] + ("y" if token_id[5] != "y" else "z")
    for verb in ("show", "delete"):
        assert run(["token", verb, nearly, "--kubeconfig", str(cluster.kubeconfig)]) == 1
        assert f"hint: did you mean {token_id}? kubevouch token list shows" in capsys.readouterr().err


def test_what_a_machine_has_proven_is_shown_of_the_request_that_it_was_granted_for(
    capsys: Captured,
) -> None:
    with Cluster(https=True, real_time=True, controllers=("csrcleaner",)) as cluster:
        _describe(cluster, capsys)


def _describe(cluster: Cluster, capsys: Captured) -> None:
    client = cluster.client()
    subject = Subject(common_name="system:node:w1", organizations=("system:nodes",))
    spec = CertificateSigningRequestSpec(
        request=build_request(KEY, subject),
        signer_name=f"{wellknown.ATTESTED_CLIENT_SIGNER_PREFIX}aws",
        usages=["client auth", "digital signature"],
    )
    now = Time.parse("2026-01-01T00:00:00Z")
    granted, other = (
        cluster.run(client.create(CSRS, CertificateSigningRequest(metadata=ObjectMeta(name=name), spec=spec)))
        for name in ("granted", "other")
    )
    made = cluster.run(client.create(NODE_IDENTITIES, NodeIdentity(metadata=ObjectMeta(name="w1"))))
    status = NodeIdentityStatus(
        provider="aws",
        identity="1/eu/i-2",
        strength="cloud",
        claims=[
            AttestedClaim(name="aws.region", value="eu", source="aws-instance-identity", strength="cloud"),
            AttestedClaim(name="aws.tag.role", value="db", source="ec2", strength="cloud", tenant_controlled=True),
        ],
        granted=[
            GrantedCertificate(
                request_uid=granted.metadata.uid,
                key_fingerprint="ab" * 32,
                seconds=600,
                at=now,
            )
        ],
    )
    cluster.run(client.update(NODE_IDENTITIES, msgspec.structs.replace(made, status=status), subresource="status"))

    there = ["--kubeconfig", str(cluster.kubeconfig)]
    assert run(["csr", "describe", granted.metadata.name, *there]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any("aws 1/eu/i-2 (cloud)" in line for line in lines)
    (tag,) = (line.split() for line in lines if "aws.tag.role" in line)
    assert tag[:4] == ["aws.tag.role", "db", "ec2", "cloud"] and "tenant's" in tag[4]
    assert run(["csr", "show", granted.metadata.name, "-o", "json", *there]) == 0
    assert json.loads(capsys.readouterr().out)["proven"]["identity"] == "1/eu/i-2"
    # Of another request for the same name nothing is known.
    assert run(["csr", "describe", other.metadata.name, *there]) == 0
    assert "aws.region" not in capsys.readouterr().out
