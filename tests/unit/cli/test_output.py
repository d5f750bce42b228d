"""Whatever prints facts prints them for scripts, too."""

from __future__ import annotations

from collections.abc import Iterator

import click

from kubevouch.cli.main import cli

# What these print is their result as it stands: a key, a token, a script, a line for each thing done.
PLAIN = {
    "agent", "agent rotate", "ca rotate finish", "ca rotate pause", "ca rotate rollback", "ca rotate start",
    "ca rotate sync", "certs certificate-key", "certs generate-csr", "certs import", "completion", "credential",
    "csr approve", "csr deny", "csr review", "recovery allow", "recovery forget", "recovery revoke",
    "node lift", "node remove", "store accept-loss",
    "token create", "token delete", "token generate", "up",
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
