"""S17 and S16: keys and kubeconfigs are 0600 whatever the umask, and no log holds a secret, over a whole run.

Finding 8 of Kubernetes' audit of 2019 (kubernetes/kubernetes#81116) and rancher/docs#2882; finding 6 (#81114).
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kubevouch.cli.main import run
from kubevouch.pki import keys
from kubevouch.signers.file import FileSigner
from kubevouch.standalone.access import Access
from kubevouch.standalone.access_options import AccessOptions
from kubevouch.standalone.service_account_options import ServiceAccountOptions
from kubevouch.standalone.service_accounts import issuer_of
from kubevouch.testing.clock import FakeClock
from kubevouch.testing.logs import capture_logs
from kubevouch.util.redact import redact_text
from processes import Up
from processes import kubevouch as command
from running_agent import RunningAgent
from throwaway_ca import ThrowawayCA

SECRET = re.compile(r"\b[a-z0-9]{6}\.[a-z0-9]{16}\b|PRIVATE KEY|\beyJ[\w-]{8,}\.[\w-]+\.", re.ASCII)


@pytest.fixture
def umask_of_nobody() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("umask_of_nobody")
def test_s17_a_whole_run_under_umask_000(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """up, join, agent, renewal, token commands: all of it at the most talkative, with a policy of audit."""
    policy = tmp_path / "policy.yaml"
    policy.write_text("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: RequestResponse}]\n")
    flags = (
        "--log-level", "debug", "-v", "4", "--audit-policy-file", str(policy), "--audit-log-path",
        str(tmp_path / "audit.log"),
    )  # fmt: skip
    said = {}
    monkeypatch.chdir(tmp_path)
    with Up(tmp_path, flags) as up:
        _, discovery, authentication, pin = up.printed_join
        at = [f"127.0.0.1:{up.port}", "--discovery-token-ca-cert-hash", pin, "--timeout"]
        tokens = ["--discovery-token", discovery, "--tls-bootstrap-token", authentication]
        # A wrong secret, and a token as what it is not for.
        wrong = f"{discovery[:7]}{'z' * 8}{'q' * 8}"
        for words in (
            ["join", *at, "60s", *tokens, "--node-name", "worker-1", "--rootfs", "./worker-1"],
            ["join", *at, "1s", "--token", wrong, "--node-name", "worker-2", "--rootfs", "./worker-2"],
            ["join", *at, "1s", "--token", authentication, "--node-name", "worker-2", "--rootfs", "./worker-2"],
            ["token", "show", discovery[:6]], ["csr", "list"], ["doctor", "cluster"],
        ):  # fmt: skip
            more = [] if words[0] == "join" else ["--kubeconfig", "cluster/admin.conf"]
            code = run([*words, *more])
            out, err = capsys.readouterr()
            said[" ".join(words[:2])] = out + err
            assert code == 0 or "1s" in words or "doctor" in words, err
        with RunningAgent(tmp_path, tmp_path / "worker-1") as agent:
            agent.until("the agent runs")
            assert run(["agent", "rotate", "--socket", str(agent.socket)]) == 0
        said["agent"] = "".join(agent.lines)
        assert up.end() == 0
    said["up"] = up.stderr
    assert said["up"].count("httplog") > 10
    said["audit"] = (tmp_path / "audit.log").read_text()
    for where, text in said.items():
        found = SECRET.search(text)
        assert found is None, (where, text[max(found.start() - 80, 0) : found.end()])
    private = sorted(path for path in tmp_path.rglob("*") if path.is_file() and _holds_a_secret(path))
    names = {path.name for path in private}
    assert {"ca.key", "sa.key", "front-proxy-ca.key", "admin.conf", "super-admin.conf", "kubevouch.db"} <= names
    loose = {str(path): oct(_mode(path)) for path in private if _mode(path) & 0o077}
    assert loose == {}


def _holds_a_secret(path: Path) -> bool:
    # What the test itself has written, and what is no file of ours.
    if path.name.startswith("kubernetes-") and path.suffix == ".pem":
        return False
    content = path.read_bytes()
    keyed = b"PRIVATE KEY" in content or b"client-key-data" in content or b"token-secret" in content
    return keyed or path.suffix in (".key", ".db")


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_s17_a_kubeconfig_that_others_can_read_is_warned_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "admin.conf"
    tree = {
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"token": "x"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    }  # fmt: skip
    for mode, warned in ((0o600, False), (0o640, True), (0o604, True)):
        path.touch()
        path.chmod(mode)
        path.write_text(json.dumps(tree))
        run(["token", "list", "--kubeconfig", str(path)])
        assert ("can be read by others" in capsys.readouterr().err) is warned


OPEN = {
    0o600: "", 0o400: "", 0o640: "can be read by others (mode 0640)", 0o604: "can be read by others (mode 0604)",
    0o620: "can be written by others (mode 0620)", 0o602: "can be written by others (mode 0602)",
}  # fmt: skip


@pytest.mark.parametrize("mode", OPEN)
@pytest.mark.parametrize("field", ["client-key", "tokenFile"])
def test_s17_a_file_that_a_kubeconfig_names(
    tmp_path: Path, field: str, mode: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """In its words a command says so once, and on standard error only."""
    ca = ThrowawayCA()
    ca.issue().write(tmp_path, "client")
    secret = tmp_path / "client.key"
    if field == "tokenFile":
        secret.write_text("abc")
    secret.chmod(mode)
    user = {field: secret.name} | ({"client-certificate": "client.crt"} if field == "client-key" else {})
    path = tmp_path / "admin.conf"
    tree = {
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    }  # fmt: skip
    path.write_text(json.dumps(tree))
    run(["csr", "list", "--kubeconfig", str(path)])
    said = capsys.readouterr()
    warned = [line for line in said.err.splitlines() if line.startswith("warning: ")]
    assert [f"{secret} {OPEN[mode]}" in line for line in warned] == ([True] if OPEN[mode] else [])
    assert said.out == ""


def _token_auth_file(path: Path) -> None:
    path.write_text("secret,somebody,1\n")
    Access(AccessOptions(token_auth_file=path), ("api",), FakeClock())


def _service_account_key(path: Path) -> None:
    path.write_bytes(keys.to_pem(keys.generate(keys.KeyAlgorithm.ECDSA_P256)))
    issuer_of(ServiceAccountOptions(key_files=(path,)), keys.generate(keys.KeyAlgorithm.ECDSA_P256))


def _signing_key(path: Path) -> None:
    certificate, key = ThrowawayCA().issue().write(path.parent, "signer")
    path.write_bytes(key.read_bytes())
    FileSigner(certificate, path)


@pytest.mark.parametrize("mode", OPEN)
@pytest.mark.parametrize("used", [_token_auth_file, _service_account_key, _signing_key])
def test_s17_a_file_that_a_flag_of_a_server_names(tmp_path: Path, used: Callable[[Path], None], mode: int) -> None:
    path = tmp_path / "secret"
    path.touch()
    path.chmod(mode)
    with capture_logs() as logged:
        used(path)
    problems = [line["problem"] for line in logged if line["event"] == "a file with a credential is not private"]
    assert [f"{path} {OPEN[mode]}" in each for each in problems] == ([True] if OPEN[mode] else [])


def test_s17_public_keys_are_everybodys_to_read_and_nobody_elses_to_write(tmp_path: Path) -> None:
    path = tmp_path / "sa.pub"
    path.write_bytes(keys.public_to_pem(keys.public_key_of(keys.generate(keys.KeyAlgorithm.ECDSA_P256))))
    for mode, told in ((0o644, 0), (0o664, 1)):
        path.chmod(mode)
        with capture_logs() as logged:
            issuer_of(ServiceAccountOptions(key_files=(path,)), keys.generate(keys.KeyAlgorithm.ECDSA_P256))
        assert len(logged) == told


def test_s16_what_hides_secrets_hides_those_of_this_test() -> None:
    for text in ("abcdef.0123456789abcdef", "-----BEGIN EC PRIVATE KEY-----\nx", "eyJhbGciOiJFUzI1NiJ9.eyJz.c2ln"):
        assert SECRET.search(text)
        assert not SECRET.search(redact_text(text))


def test_what_a_command_warns_of_is_not_among_what_it_answers(tmp_path: Path) -> None:
    """Log lines of the client, too: this one warns that it verifies nobody."""
    path = tmp_path / "admin.conf"
    tree = {
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1", "insecure-skip-tls-verify": True}}],
        "users": [{"name": "u", "user": {"token": "x"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    }  # fmt: skip
    path.touch(0o644)
    path.write_text(json.dumps(tree))
    said = command("csr", "list", "--kubeconfig", str(path), cwd=tmp_path)
    assert said.stdout == ""
    assert "can be read by others" in said.stderr
    assert "certificate is not verified" in said.stderr
