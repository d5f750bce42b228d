"""S14: the parser that requests are read with is the compiled one, and no other takes its place unnoticed."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubevouch.cli.exit_codes import ExitCode
from kubevouch.server.edge import connection
from processes import kubevouch


@pytest.mark.parametrize("value", ["1", "yes"])
def test_s14_without_the_compiled_parser_nothing_starts(tmp_path: Path, value: str) -> None:
    ended = kubevouch(
        "up", "--data-dir", "./cluster", "--secure-port", "0", cwd=tmp_path, AIOHTTP_NO_EXTENSIONS=value
    )  # fmt: skip
    assert ended.code == ExitCode.PREFLIGHT
    assert ended.stderr.splitlines() == [
        "error: HTTP would be parsed by aiohttp.http_parser, not by aiohttp._http_parser",
        "hint: unset AIOHTTP_NO_EXTENSIONS, and install aiohttp from a wheel",
    ]
    assert not (tmp_path / "cluster").exists()


def test_s14_this_python_has_the_compiled_parser() -> None:
    connection.require_parser()
