"""``kubevouch revoke`` against a running server."""

from __future__ import annotations

import io
import json
import shlex
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

import identity_world as world
import peers
from kubevouch.api.kubevouch_v1alpha1.catalog import CERTIFICATE_REVOCATIONS
from kubevouch.cli.exit_codes import ExitCode
from kubevouch.cli.main import run as cli_run
from kubevouch.client.rest_config import rest_config
from kubevouch.pki.x509 import x509_certificate
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.server.bootstrap import own_kinds
from kubevouch.testing.cluster import Cluster
from kubevouch.util.files import write_new

CONTROLLERS = ("csrapproving", "csrsigning", "certificaterevocations")
MACHINES = {"worker-1": "abcdef", "worker-2": "abcdef", "worker-3": "uvwxyz"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    yield from machines()


def machines() -> Iterator[Cluster]:
    with Cluster(https=True, controllers=CONTROLLERS) as running:
        running.run(own_kinds.ensure(running.server.client))
        for name, token in MACHINES.items():
            posted = world.ask(running, world.token_user(token), world.node_request(name), name=f"csr-{name}")
            assert world.outcome(running, posted) == "Approved,Issued"
        yield running


@pytest.fixture(autouse=True)
def _nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())


def run(cluster: Cluster, *arguments: str) -> tuple[int, str]:
    """Exit code, and what was printed; nobody answers questions."""
    told = io.StringIO()
    with redirect_stdout(told), redirect_stderr(told):
        code = cli_run(["revoke", *arguments, "--kubeconfig", str(cluster.kubeconfig)])
    return code, told.getvalue()


def rehearsed(cluster: Cluster, *arguments: str) -> dict[str, Any]:
    code, told = run(cluster, *arguments, "--dry-run", "-o", "json")
    assert code == 0, told
    tree: dict[str, Any] = json.loads(told)
    return tree


def certificate(cluster: Cluster, node: str) -> Certificate:
    return x509_certificate.parse_pem(cluster.get("CertificateSigningRequest", f"csr-{node}").status.certificate)


def nodes(tree: dict[str, Any]) -> list[str]:
    return sorted(each["subject"].removeprefix("system:node:") for each in tree["certificates"])


def test_each_way_to_name_them_is_rehearsed(cluster: Cluster, tmp_path: Path) -> None:
    one = certificate(cluster, "worker-1")
    (tmp_path / "one.pem").write_bytes(one.pem())
    pem, serial = str(tmp_path / "one.pem"), f"{one.serial:x}"
    for arguments, reached in (
        (("--serial", serial), ["worker-1"]),
        (("--serial", serial.upper().zfill(40)), ["worker-1"]),
        (("--certificate", pem), ["worker-1"]),
        (("--certificate", one.fingerprint().hex(":")), ["worker-1"]),
        (("--key", pem), ["worker-1"]),
        (("--user", "system:node:worker-2"), ["worker-2"]),
        (("--node", "worker-1", "--node", "worker-3"), ["worker-1", "worker-3"]),
        (("--requester", "system:bootstrap:uvwxyz"), ["worker-3"]),
        (("--token", "abcdef"), ["worker-1", "worker-2"]),
        (("--serial", "77"), []),
        (("--since", "2100-01-01", "--until", "2100-01-02"), []),
        (("--node", "worker-9", "--until", "2100-01-02"), []),
    ):
        tree = rehearsed(cluster, *arguments)
        assert nodes(tree) == reached, arguments
        assert tree["dryRun"] is True and tree["ways"][0]["reaches"] is True
    assert rehearsed(cluster, "--serial", "77")["unknown"] == ["77"]
    assert run(cluster, "list") == (0, "nothing is revoked\n")


def test_how_many_are_told_in_words(cluster: Cluster) -> None:
    for arguments, expected in (
        (("--node", "worker-1"), "1 certificate that has not ended\n"),
        (("--token", "abcdef"), "2 certificates that have not ended\n"),
        (("--node", "nosuch"), "no certificate of node nosuch is known that has not ended\n"),
        (("--node", "worker-1", "--node", "nosuch"), "no certificate of node nosuch is known that has not ended\n"),
        (("--user", "nosuch"), "no certificate of user nosuch is known that has not ended\n"),
        (("--requester", "nosuch"), "no certificate of requester nosuch is known that has not ended\n"),
        (("--token", "zzzzzz"), "no certificate of token zzzzzz is known that has not ended\n"),
        (("--serial", "77"), "1 serial number that nobody knows of: 77\n"),
    ):
        code, told = run(cluster, *arguments, "--dry-run")
        # Of a number nothing has to be found: it is itself what is revoked.
        assert code == (ExitCode.NOTHING_FOUND if expected.startswith("no ") else 0) and expected in told, told
    assert "no certificate of" not in run(cluster, "--node", "worker-1", "--dry-run")[1]


def test_revoking_listing_showing_and_lifting(cluster: Cluster) -> None:
    code, told = run(cluster, "--node", "worker-2", "--reason", "certificatehold", "--name", "held")
    assert code == 1 and "worker-2" in told and "nothing was changed" in told
    code, told = run(cluster, "--node", "worker-2", "--reason", "certificatehold", "--name", "held", "--yes")
    assert code == 0 and "✓ revoked   held" in told and "✓ this API server" in told
    code, told = run(cluster, "--token", "uvwxyz", "--reason", "keyCompromise", "--name", "gone", "-m", "lost", "--yes")
    assert code == 0
    cluster.settle()
    listed = json.loads(run(cluster, "list", "-o", "json")[1])
    assert [(each["name"], each["reason"], each["certificates"]) for each in listed] == [
        ("gone", "keyCompromise", 1), ("held", "certificateHold", 1)
    ]  # fmt: skip
    assert "held" in run(cluster, "list")[1] and "uvwxyz" in run(cluster, "show", "gone")[1]
    code, told = run(cluster, "lift", "gone")
    assert code == 2 and "only certificateHold is lifted" in told
    assert run(cluster, "lift", "held")[0] == 0 and run(cluster, "lift", "held")[0] == 1
    assert run(cluster, "show", "held")[0] == 1


def own(cluster: Cluster, folder: Path) -> str:
    certificate = rest_config(cluster.kubeconfig).tls.certificate
    assert isinstance(certificate, bytes)
    (folder / "own.pem").write_bytes(certificate)
    return str(folder / "own.pem")


def test_nobody_cuts_himself_off_by_mistake(cluster: Cluster, tmp_path: Path) -> None:
    pem = own(cluster, tmp_path)
    mine = x509_certificate.parse_pem(Path(pem).read_bytes())
    for arguments in (
        ("--serial", f"{mine.serial:x}"),
        ("--key", pem),
        ("--certificate", pem),
        ("--user", mine.subject.common_name),
        ("--since", "2020-01-01"),
    ):
        code, told = run(cluster, *arguments, "--yes")
        assert code == 2 and "you would be cut off yourself" in told and "--even-myself" in told, arguments
    code, told = run(cluster, "--key", pem, "--yes", "--even-myself")
    assert code == 2 and "the last administrator that is known" in told and "--even-the-last-admin" in told
    assert rehearsed(cluster, "--key", pem, "--even-myself", "--even-the-last-admin")["revocations"]


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--serial", "-7"),
        ("--serial", "f" * 41),
        ("--serial", "0x"),
        ("--certificate", "abc"),
        ("--key", "missing.pem"),
        ("--since", "yesterday"),
        ("--node", "worker-1", "--reason", "boredom"),
        ("--serial", "7", "--issuer", "abc"),
    ],
)
def test_what_makes_no_sense(cluster: Cluster, arguments: tuple[str, ...]) -> None:
    code, told = run(cluster, *arguments, "--yes")
    assert code == 2 or code == 3
    assert "expected" in told.lower()


def test_too_many_serial_numbers_are_refused_and_many_are_several_objects(cluster: Cluster, tmp_path: Path) -> None:
    listed = tmp_path / "serials"
    listed.write_text("".join(f"{number:x}\n" for number in range(1, 100_002)))
    code, told = run(cluster, "--serials-file", str(listed), "--yes")
    assert code == 1 and "got 100001 serial numbers, expected 100000 at most" in told
    listed.write_text("".join(f"{number:x}\n" for number in range(1, 7_001)))
    tree = rehearsed(cluster, "--serials-file", str(listed), "--issuer", "AB:CD", "--name", "many")
    assert tree["revocations"] == ["many-1", "many-2"] and len(tree["unknown"]) == 7000


def test_every_command_of_the_page_is_one(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rehearsed where it would change something."""
    page = (peers.ROOT / "docs" / "howto" / "revocation.md").read_text()
    typed = [shlex.split(line.strip())[2:] for line in page.splitlines() if line.startswith("    kubevouch revoke ")]
    assert len(typed) == 7
    assert run(cluster, "--node", "worker-3", "--reason", "certificateHold", "--name", "stolen-laptop", "--yes")[0] == 0
    for name in ("ca.crt", "apiserver.crt", "apiserver.key"):
        write_new(tmp_path / name, cluster.pki.ca_certificate)
    monkeypatch.chdir(tmp_path)
    for line in typed:
        if line[0] == "webhook":  # it runs on
            continue
        line = [str(tmp_path) if word.startswith("/etc/") else word for word in line]
        # Nothing listens where the page has the webhook.
        rehearsal = ("--dry-run",) if line[0].startswith("--") else ("--skip-check",) * (line[0] == "webhook-config")
        assert run(cluster, *line, *rehearsal)[0] == 0, line


def test_what_is_found_is_named_in_the_object(cluster: Cluster) -> None:
    """Who runs no controller of ours, and every deny list, has nobody else to look it up."""
    fingerprints = [certificate(cluster, each).fingerprint().hex() for each in ("worker-1", "worker-2")]
    code, told = run(cluster, "--token", "abcdef", "--name", "found", "--yes")
    assert code == 0 and "2 certificates: 2 from requests" in told, told
    named = cluster.get(CERTIFICATE_REVOCATIONS, "found").spec.revoked
    assert sorted(named.certificates) == sorted(fingerprints) and named.tokens == ["abcdef"]


@pytest.fixture
def unrevoked() -> Iterator[Cluster]:
    """Where nothing is revoked yet."""
    yield from machines()


def test_a_list_says_of_what_nothing_is_known(unrevoked: Cluster, tmp_path: Path) -> None:
    cluster = unrevoked
    listing = ("webhook-config", "--deny-list", "--into", str(tmp_path / "list"))
    code, told = run(cluster, *listing)
    assert code == 0 and "nothing is revoked" in told
    (tmp_path / "list" / "authorization-config.yaml").unlink()
    assert run(cluster, "--user", "nosuch", "--name", "empty", "--yes")[0] == ExitCode.NOTHING_FOUND
    code, told = run(cluster, *listing)
    assert code == ExitCode.NOTHING_FOUND and "got no certificate of empty" in told and "nothing is written" in told
    assert not (tmp_path / "list" / "authorization-config.yaml").exists()
    # Of a key, any certificate may be yet to come.
    assert run(cluster, "--key", "ab" * 32, "--name", "key", "--yes")[0] == 0
    assert run(cluster, "--node", "worker-1", "--name", "node", "--yes")[0] == 0
    code, told = run(cluster, *listing)
    assert code == ExitCode.NOTHING_FOUND and "refuses 1 certificate of 3 revocations" in told
    assert "of key nothing is known yet" in told and "got no certificate of empty, expected" in told
    text = (tmp_path / "list" / "authorization-config.yaml").read_text()
    assert certificate(cluster, "worker-1").fingerprint().hex() in text
