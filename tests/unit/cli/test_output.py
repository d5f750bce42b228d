"""Whatever prints facts prints them for scripts, too."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from encryption_world import IDENTITY, configuration
from kubevouch.cli.main import cli, run
from kubevouch.pki import authority, keys
from kubevouch.storage.options import parse_store
from kubevouch.testing.cluster import Cluster
from kubevouch.util.clock import SystemClock

# What these print is a script, a credential or a log, or that what was asked for is done.
PLAIN = {
    "agent", "agent rotate", "audit prove", "controllers", "issued export", "issued receipt",
    "ca rotate finish", "ca rotate pause", "ca rotate rollback", "ca rotate start",
    "ca rotate sync", "completion", "credential", "csr deny", "csr review", "csr vote", "manifests",
    "policy apply", "policy lint", "recovery allow",
    "recovery forget", "recovery revoke", "revoke lift", "revoke webhook",
    "node ban", "node forget", "node lift", "node renew-now", "node replace", "node unban",
    "serve", "signer create",
    "signer resume", "signer rotate", "signer trust", "sign", "token delete", "token keep", "up",
}  # fmt: skip


def _commands(group: click.Group, path: str = "") -> Iterator[tuple[str, click.Command]]:
    ctx = click.Context(group)
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        assert command is not None
        full = f"{path} {name}".strip()
        if not isinstance(command, click.Group) or command.invoke_without_command:
            yield full, command
        if isinstance(command, click.Group):
            yield from _commands(command, full)


def test_every_command_that_prints_facts_prints_json_and_yaml() -> None:
    without = set()
    for name, command in _commands(cli):
        output = next((each for each in command.params if each.name == "output"), None)
        if output is None:
            without.add(name)
            continue
        assert isinstance(output.type, click.Choice), name
        assert {"json", "yaml"} <= set(output.type.choices), name
    assert without == PLAIN


def _keys(tree: Any) -> set[str]:
    found = set()
    for key, value in tree.items():
        found |= {f"{key}[].{each}" for one in value for each in one} if _is_list_of_trees(value) else {key}
    return found


def _is_list_of_trees(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict)


def _documented(path: str) -> set[str]:
    command = dict(_commands(cli))[path]
    output = next(each for each in command.params if each.name == "output")
    assert isinstance(output, click.Option) and output.help is not None
    return set(output.help.removeprefix("Format; a document has the keys ").removesuffix(".").split(", "))


def _tree(arguments: list[str], capsys: pytest.CaptureFixture[str], form: str = "json") -> Any:
    assert run([*arguments, "-o", form]) == 0
    return yaml.safe_load(capsys.readouterr().out)


def test_documents_have_the_keys_that_the_help_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Cluster(https=True, real_time=True) as cluster:
        admin = ["--kubeconfig", str(cluster.kubeconfig)]
        both = _tree(["token", "create", "--print-join-command", *admin], capsys)
        assert _keys(both) == _documented("token create")
        assert f"--tls-bootstrap-token {both['token']}" in both["joinCommand"]
        assert f"--discovery-token {both['discoveryToken']}" in both["joinCommand"]
        bare = _tree(["token", "create", "--ttl", "0", "--usages", "signing", *admin], capsys, "yaml")
        assert set(bare) == {"token", "usages", "groups"} and bare["usages"] == ["signing"]
        once = _tree(["token", "create", "--one-time", "--machine", "worker-1", *admin], capsys)
        assert set(once) == {"token", "expires"} and len(once["token"]) == 41
        assert run(["token", "delete", once["token"][:8], *admin]) == 0
        assert capsys.readouterr().out == f'join token "{once["token"][:8]}" deleted\n'
        assert run(["token", "delete", once["token"], *admin]) == 1
        assert "not found" in capsys.readouterr().err
        removed = _tree(["node", "remove", "worker-1", "--yes", *admin], capsys)
        assert _keys(removed) == _documented("node remove") and removed["nodeDeleted"] is False
    for path in ("token generate", "certs certificate-key"):
        assert _keys(_tree(path.split(), capsys)) == _documented(path)
    layout = ["--cert-dir", str(tmp_path / "pki"), "--kubeconfig-dir", str(tmp_path)]
    asked = _tree(["certs", "generate-csr", "apiserver", *layout], capsys)
    assert _keys(asked) == _documented("certs generate-csr") and Path(asked["requests"][0]["file"]).exists()
    now = SystemClock().now()
    made = authority.create_authority("kubernetes", keys.generate(keys.KeyAlgorithm.ECDSA_P256), now=now)
    (tmp_path / "ca.crt").write_bytes(made.certificate.pem())
    imported = _tree(["certs", "import", f"ca={tmp_path / 'ca.crt'}", *layout], capsys)
    assert _keys(imported) == _documented("certs import") and imported["certificates"][0]["name"] == "ca"


def test_a_loss_that_is_accepted_is_a_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async def make_store() -> None:
        store = await parse_store("sqlite:", tmp_path).open(SystemClock())
        await store.close()

    asyncio.run(make_store())
    copied = _tree(["store", "copy", "sqlite:", f"{tmp_path}/copy.db", "--data-dir", str(tmp_path)], capsys)
    assert _keys(copied) == _documented("store copy")
    backup = _tree(["store", "backup", f"{tmp_path}/backup", "--data-dir", str(tmp_path)], capsys)
    assert _keys(backup) == _documented("store backup")
    restored = _tree(["store", "restore", f"{tmp_path}/backup", f"{tmp_path}/restored.db"], capsys)
    assert _keys(restored) == _documented("store restore")
    (tmp_path / "encryption.json").write_bytes(configuration((["secrets"], [IDENTITY])))
    rewriting = ["store", "rewrite", "--encryption-provider-config", f"{tmp_path}/encryption.json"]
    rewritten = _tree([*rewriting, "--data-dir", str(tmp_path)], capsys)
    assert _keys(rewritten) == _documented("store rewrite")
    accepted = _tree(["store", "accept-loss", "--yes", "--data-dir", str(tmp_path)], capsys)
    assert _keys(accepted) == _documented("store accept-loss")
    assert accepted["revision"] > 0
