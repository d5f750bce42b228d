"""``kubevouch status``: one screen, and exit codes by how soon somebody has to do something."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterator

import pytest

from kubevouch.api import catalog
from kubevouch.cli.main import run
from kubevouch.cli.status import EXIT_CODES, show
from kubevouch.client.interface import MERGE_PATCH
from kubevouch.doctor.findings import Code
from kubevouch.doctor.status import ClusterStatus, Severity
from kubevouch.phases import deleted_nodes
from kubevouch.testing.cluster import Cluster
from kubevouch.util import logger

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(https=True, controllers=("*",), real_time=True) as cluster:
        logger.send_to(logger.to_standard_error, "error")
        yield cluster


def test_all_that_there_is_on_one_screen(cluster: Cluster, capsys: Captured) -> None:
    cluster.token()
    cluster.settle()
    there = ["--kubeconfig", str(cluster.kubeconfig)]
    assert run(["status", *there]) == 0
    shown = capsys.readouterr().out
    labels = [line.split()[0] for line in shown.splitlines()]
    assert labels == ["server", "controllers", "nodes", "requests", "tokens", "expires", "in", "in", "✓"]
    assert ", ready\n" in shown and "none waiting to be approved or denied" in shown and "1 valid" in shown
    assert "running in the server, no work waits for them" in shown
    # A machine that has joined is no Node until its kubelet starts: they are not called machines.
    assert "none registered (a kubelet registers its Node when it starts)" in shown
    assert "in 23h: the next bootstrap token, " in shown and "days: CA kubernetes, " in shown
    assert run(["status", *there, "-o", "json"]) == 0
    tree = json.loads(capsys.readouterr().out)
    assert (tree["severity"], tree["server"]["ready"], tree["nodes"]) == ("well", True, {"total": 0, "ready": 0})
    assert "certificatesigningrequest-signing-controller" in {each["name"] for each in tree["controllers"]}
    assert tree["unknown"] == {}
    assert set(tree["ends"]) == {
        "the next bootstrap token",
        "CA kubernetes",
        "this kubeconfig (kubernetes-super-admin)",
    }
    # A cluster of `up` has decided what becomes of deleted nodes.
    for text, said in (
        ("true", "their certificates are refused"),
        ("false", "keep their certificates until these end"),
    ):
        change = {"metadata": {"annotations": {deleted_nodes.ANNOTATION: text}}}
        cluster.run(cluster.client().patch(catalog.NAMESPACES, "kube-system", change, MERGE_PATCH))
        assert run(["status", *there]) == 0
        shown = capsys.readouterr().out
        assert "\n  deleted nodes " in shown and said in shown
        assert run(["status", *there, "-o", "json"]) == 0
        assert json.loads(capsys.readouterr().out)["deletedNodes"] == {"lockedOut": text == "true"}
    # Somebody removes what machines join by.
    cluster.run(cluster.client().delete(catalog.CONFIG_MAPS, "cluster-info", "kube-public"))
    assert run(["status", *there]) == 2
    shown = capsys.readouterr().out
    assert "✗ cluster-info-missing" in shown and "kubevouch doctor cluster says what to do" in shown


def test_a_server_that_is_gone(capsys: Captured) -> None:
    with Cluster(https=True, real_time=True) as cluster:
        kubeconfig = cluster.kubeconfig.read_text()
        folder = cluster.folder.parent
        path = folder / "gone.conf"
        path.write_text(kubeconfig)
        path.chmod(0o600)
    try:
        assert run(["status", "--kubeconfig", str(path)]) == 4
        shown = capsys.readouterr().out
        assert "✗ port-refused" in shown and ", does not answer\n" in shown and "not asked" not in shown
    finally:
        path.unlink()


def test_what_a_server_refuses_is_said_where_it_would_stand(cluster: Cluster, capsys: Captured) -> None:
    text = cluster.kubeconfig.read_text()
    path = cluster.folder / "other.conf"
    secret = cluster.token()
    for credential, expected in (
        (secret, {"server": "ready", "nodes": "not known: the server refuses it to this kubeconfig's user"}),
        ("no-such-token", {"server": "refuses the credential of this kubeconfig"}),
    ):
        kept = [line for line in text.splitlines() if "client-" not in line]
        at = next(number for number, line in enumerate(kept) if line.strip() == "user:")
        kept.insert(at + 1, f"{kept[at].split('user')[0]}  token: {credential}")
        path.write_text("\n".join(kept))
        path.chmod(0o600)
        assert run(["status", "--kubeconfig", str(path)]) == 2
        shown = capsys.readouterr().out
        for label, said in expected.items():
            assert re.search(rf"^  {label} .*{said}$", shown, re.MULTILINE), shown
        assert ("not known" in shown) is (len(expected) > 1)


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_no_line_is_wider_than_the_terminal(columns: int, capsys: Captured) -> None:
    now = dt.datetime(2031, 1, 1, tzinfo=dt.UTC)
    found = ClusterStatus(
        "https://192.0.2.10:6443",
        tuple(code.found("a reason of many words " * 9) for code in (Code.CA_EXPIRED, Code.TOKEN_WEAK)),
        {"nodes": "does not answer"}, "v1.36.2+kubevouch-0.1.0", ready=False,
        controllers={"certificatesigningrequest-approving-controller": 3, "token-cleaner-controller": 1},
        undecided=2, oldest_request=dt.timedelta(hours=3), tokens=0,
        ends={"CA kubernetes": now - dt.timedelta(days=3), "this kubeconfig (kubernetes-admin)": now},
    )  # fmt: skip
    show(found, now, columns)
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= columns
    words = " ".join(shown.split())
    assert (
        "NOT READY" in words and "EXPIRED 3d ago: CA kubernetes" in words and "none valid: no machine can join" in words
    )
    assert "2 waiting to be approved or denied, the oldest for 3h" in words
    # That name has no line of its own at 60 columns.
    assert "certificatesigningrequest-approving-controller(3)" in "".join(shown.split())


def test_every_severity_has_its_exit_code() -> None:
    assert set(EXIT_CODES) == {each.name for each in Severity}
    assert len(set(EXIT_CODES.values())) == len(EXIT_CODES)
