"""kube-apiserver's flags for the server itself."""

from __future__ import annotations

from typing import Any

import click
import pytest
from click.testing import CliRunner

from kubevouch.cli.server_flags import server_flags, take_server, verbose
from kubevouch.server.options import ServerOptions
from kubevouch.util.logs import Level


def parsed(*arguments: str) -> ServerOptions:
    found: list[ServerOptions] = []

    @click.command()
    @server_flags
    def command(**flags: Any) -> None:
        found.append(take_server(flags))
        assert flags == {}

    result = CliRunner().invoke(command, arguments)
    if result.exit_code:
        raise ValueError(result.output)
    return found[0]


def test_the_defaults_are_kube_apiservers() -> None:
    assert parsed() == ServerOptions(400, 200, logs_requests=False)
    assert parsed().seats == 600


def test_all_flags() -> None:
    options = parsed("--max-requests-inflight=7", "--max-mutating-requests-inflight=0", "-v=3")
    assert options == ServerOptions(7, 0, logs_requests=True)


@pytest.mark.parametrize("flag", ["--max-requests-inflight=0", "--max-mutating-requests-inflight=-1", "-v=-1"])
def test_what_cannot_be_meant(flag: str) -> None:
    with pytest.raises(ValueError, match="is not in the range"):
        parsed(flag)


@pytest.mark.parametrize(
    ("level", "verbosity", "counts"),
    [
        ("warning", 0, "warning"),
        ("warning", 2, "warning"),
        ("warning", 3, "info"),
        ("error", 3, "info"),
        ("debug", 3, "debug"),
        ("warning", 4, "debug"),
    ],
)
def test_the_level_that_counts(level: Level, verbosity: int, counts: Level) -> None:
    assert verbose(level, verbosity) == counts
