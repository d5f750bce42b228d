"""The webhook, asked by an API server that looks at no revocations itself: another cluster's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubevouch.cli.main import run as cli_run
from kubevouch.client.rest_config import rest_config
from kubevouch.pki.x509 import x509_certificate
from kubevouch.server.bootstrap import own_kinds
from kubevouch.standalone.access_options import AccessOptions
from kubevouch.standalone.deny_webhook import PATH, DenyWebhookError, DenyWebhookOptions, running
from kubevouch.testing.cluster import Cluster
from kubevouch.util.clock import SystemClock
from kubevouch.util.files import write_new
from unit.controllers.test_certificate_revocations import revoke
from wire import Wire

CONTROLLERS = ("certificaterevocations",)


class World:
    """A cluster that holds what is revoked, its webhook, and what reaches it."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder = folder
        self.home = stack.enter_context(Cluster(https=True, controllers=CONTROLLERS))
        self.home.run(own_kinds.ensure(self.home.server.client))
        self.pki = self.home.pki.folder
        files = self.pki / "apiserver.crt", self.pki / "apiserver.key"
        options = DenyWebhookOptions("127.0.0.1", 0, files, self.pki / "ca.crt")
        webhook = running(rest_config(self.home.kubeconfig), options, SystemClock())
        self.port = self.home.run(webhook.__aenter__())
        stack.callback(lambda: self.home.run(webhook.__aexit__(None, None, None)))
        self._stack = stack
        self._write_pair()

    def configured(self, *more: str) -> Path:
        """The file for an API server, as the command writes it."""
        arguments = [
            "--into", str(self.folder), "--kubeconfig", str(self.home.kubeconfig),
            "--ca-file", str(self.pki / "ca.crt"),
            "--server", f"https://127.0.0.1:{self.port}{PATH}", "--client-certificate",
            str(self.folder / "client.crt"), "--client-key", str(self.folder / "client.key"),
        ]  # fmt: skip
        # The command asks it.
        self.until_ready()
        assert cli_run(["revoke", "webhook-config", *arguments, *more]) == 0
        return self.folder / "authorization-config.yaml"

    def asking(self, config: Path) -> Cluster:
        """An API server that asks it."""
        access = AccessOptions(authorization_config=config)
        return self._stack.enter_context(Cluster(https=True, access=access))

    def until_ready(self) -> Wire:
        wire = Wire(self.port, self.home.pki.ca_certificate, self.folder / "pair.pem")
        while wire.request("GET", "/readyz").code != 200:
            pass
        return wire

    def _write_pair(self) -> None:
        """What the API server shows: any certificate of the CA will do."""
        tls = rest_config(self.home.kubeconfig).tls
        assert isinstance(tls.certificate, bytes) and isinstance(tls.private_key, bytes)
        write_new(self.folder / "client.crt", tls.certificate)
        write_new(self.folder / "client.key", tls.private_key)
        write_new(self.folder / "pair.pem", tls.certificate + tls.private_key)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with ExitStack() as stack:
        yield World(tmp_path, stack)


def review(world: World, **spec: Any) -> Any:
    wire = world.until_ready()
    reply = wire.json(
        "POST", PATH, {"kind": "SubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "spec": spec}
    )
    assert reply.code == 200
    return json.loads(reply.body)


def test_it_denies_and_otherwise_has_no_opinion(world: World) -> None:
    extra = {"authentication.kubernetes.io/credential-id": [f"X509SHA256={'a' * 64}"]}
    review(world, user="alice")
    revoke(world.home, certificates=["a" * 64])
    while not (status := review(world, user="alice", extra=extra)["status"]).get("denied"):
        pass
    assert status["allowed"] is False and "r1 has revoked it" in status["reason"]
    assert review(world, user="alice")["status"] == {"allowed": False}


def test_nobody_but_the_api_server_may_ask(world: World) -> None:
    world.until_ready()
    assert Wire(world.port, world.home.pki.ca_certificate).json("POST", PATH, {}).code == 401
    wire = world.until_ready()
    assert wire.request("POST", PATH, b"no review").code == 400
    assert wire.request("GET", PATH).code == 404 and wire.request("POST", "/other", b"{}").code == 404


def test_an_api_server_that_asks_refuses_from_the_next_request_on(world: World, tmp_path: Path) -> None:
    world.until_ready()
    asking = world.asking(world.configured())
    admin = Wire.of_kubeconfig(asking.kubeconfig, tmp_path)
    assert admin.request("GET", "/api/v1/namespaces").code in (200, 403)
    jane = tmp_path / "jane"
    jane.write_text(asking.kubeconfig_for("jane", ["kubeadm:cluster-admins"]))
    wire = Wire.of_kubeconfig(jane, tmp_path)
    assert wire.request("GET", "/version").code == 200
    certificate = rest_config(jane).tls.certificate
    assert isinstance(certificate, bytes)
    held = x509_certificate.parse_pem(certificate)
    revoke(world.home, certificates=[held.fingerprint().hex()])
    while (reply := wire.request("GET", "/version")).code == 200:
        pass
    assert reply.code == 403 and "client certificate is revoked" in reply.body.decode()
    # Of whom nothing is revoked nothing is said.
    assert admin.request("GET", "/version").code == 200


def test_a_list_in_the_file_needs_no_webhook(world: World, tmp_path: Path) -> None:
    first = world.asking(world.configured())
    jane = tmp_path / "jane"
    jane.write_text(first.kubeconfig_for("jane"))
    certificate = rest_config(jane).tls.certificate
    assert isinstance(certificate, bytes)
    revoke(world.home, certificates=[x509_certificate.parse_pem(certificate).fingerprint().hex()])
    config = world.configured("--deny-list")
    text = config.read_text()
    assert "exists(id, id in ['X509SHA256=" in text and "failurePolicy: Deny" in text
    assert "127.0.0.1:9/" in (tmp_path / "deny-webhook.conf").read_text()


@pytest.mark.parametrize("wrong", ["certificate", "client_ca"])
def test_what_it_cannot_begin_with(world: World, tmp_path: Path, wrong: str) -> None:
    missing = tmp_path / "missing"
    files = (missing, missing) if wrong == "certificate" else (world.pki / "apiserver.crt", world.pki / "apiserver.key")
    options = DenyWebhookOptions("127.0.0.1", 0, files, missing)

    async def begin() -> None:
        async with running(rest_config(world.home.kubeconfig), options, SystemClock()):
            pass

    with pytest.raises(DenyWebhookError) as refused:
        world.home.run(begin())
    assert refused.value.hint
    told = str(refused.value)
    assert str(missing) in told and "no such file or directory" in told and "Errno" not in told


def test_it_is_not_asked_about_itself(world: World, tmp_path: Path) -> None:
    """It could not load what it answers by, while nobody passes whom it has not answered about."""
    config = yaml.safe_load(world.configured("--webhook-user", "it's me").read_text())
    conditions = [each["expression"] for each in config["authorizers"][0]["webhook"]["matchConditions"]]
    assert len(conditions) == 2 and conditions[1] == "request.user != 'it\\'s me'"
    assert world.asking(tmp_path / "authorization-config.yaml").kubeconfig.exists()


@pytest.mark.parametrize(
    ("flags", "code", "told"),
    [
        ((), 3, ("error: got --failure-policy Deny without --ca-file",)),
        (("--failure-policy", "NoOpinion"), 0, ("warning: without --ca-file", "warning: without --client-certificate")),
        (("--ca-file", __file__), 0, ("warning: without --client-certificate",)),
    ],
)
def test_a_configuration_that_trusts_nobody_is_not_written_silently(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: tuple[str, ...], code: int, told: tuple[str, ...]
) -> None:
    into = tmp_path / "made"
    assert cli_run(["revoke", "webhook-config", "--into", str(into), "--skip-check", *flags]) == code
    errors = capsys.readouterr().err
    assert all(each in errors for each in told) and errors.count("without --") == len(told)
    assert into.exists() is (code == 0)
    assert ("warning: nobody has asked https://127.0.0.1:10268/authorize" in errors) is (code == 0)


def test_the_webhook_is_asked_before_anything_is_written(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    into, shown = tmp_path / "made", ("--client-certificate", "client.crt", "--client-key", "client.key")
    world.until_ready()

    def told(url: str, *more: str, trusted: Path = world.pki / "ca.crt") -> tuple[int, str]:
        arguments = ["--into", str(into), "--ca-file", str(trusted), "--server", url]
        arguments += [str(world.folder / each) if each.startswith("client.") else each for each in more]
        return cli_run(["revoke", "webhook-config", *arguments]), capsys.readouterr().err

    base = f"https://127.0.0.1:{world.port}"
    for url, expected in (
        (base, f"hint: --server {base}{PATH}"),
        (f"{base}/", f"hint: --server {base}{PATH}"),
        (f"http://127.0.0.1:{world.port}{PATH}", "expected an https URL"),
        ("https://[", "expected an https URL"),
    ):
        code, errors = told(url, *shown, "--skip-check")
        assert code == 3 and expected in errors, errors
    code, errors = told(f"{base}/authorise", *shown)
    assert code == 2 and "nothing was written" in errors
    code, errors = told(f"{base}{PATH}")
    assert code == 2 and "the API server's client certificate is expected" in errors
    code, errors = told(f"{base}{PATH}", *shown, trusted=world.folder / "client.crt")
    assert code == 2 and "error: nothing was written" in errors
    assert not into.exists()
    code, errors = told(f"{base}{PATH}", *shown)
    assert code == 0 and "error:" not in errors and "warning:" not in errors
    assert (into / "deny-webhook.conf").exists()


def test_files_that_are_not_there_are_named_in_the_terminal(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = ["--tls-cert-file", str(tmp_path / "nosuch"), "--tls-private-key-file", str(tmp_path / "nosuch")]
    assert cli_run(["revoke", "webhook", *files, "--kubeconfig", str(world.home.kubeconfig)]) == 3
    assert f"{tmp_path / 'nosuch'} cannot be read: no such file or directory" in capsys.readouterr().err
