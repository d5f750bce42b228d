"""Tokens that do not stand in the command line, which every user of the machine can read in ``/proc``.

``-`` is standard input; a file or standard input holds one token in a line, or two: that for discovery first, as
``kubevouch token create --separate`` prints them.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

import click

from kubevouch.cli import ui
from kubevouch.cli.exit_codes import ExitCode

STDIN = "-"
_MAX_BYTES = 4096
_HELP = "File with the token, or with two lines: the token for discovery, then the other one; - is standard input."

token_file_option = click.option("--token-file", default="", metavar="FILE|-", help=_HELP)


class Tokens(NamedTuple):
    """What the flags say; empty where they say nothing."""

    token: str = ""
    discovery: str = ""
    tls_bootstrap: str = ""


def take_tokens(token: str, token_file: str, discovery: str = "", tls_bootstrap: str = "") -> Tokens:
    """The tokens of the flags, those of ``--token-file`` and of standard input read. Raises :class:`CLIError`.

    Tokens from standard input are lines in the order of the flags: token, discovery token, TLS bootstrap token.
    """
    if token_file:
        if token or discovery or tls_bootstrap:
            raise ui.CLIError("got --token-file beside another token, expected one of both", code=ExitCode.INVALID)
        found = _lines(token_file, 2)
        return Tokens(found[0]) if len(found) == 1 else Tokens("", *found)
    given = (token, discovery, tls_bootstrap)
    wanted = given.count(STDIN)
    if not wanted:
        return Tokens(*given)
    if wanted > 1 or token != STDIN:
        read = iter(_lines(STDIN, wanted, exactly=True))
        return Tokens(*(next(read) if each == STDIN else each for each in given))
    return take_tokens("", STDIN) if not (discovery or tls_bootstrap) else Tokens(_lines(STDIN, 1)[0], *given[1:])


def take_token(text: str, token_file: str = "") -> str:
    """One token. Raises :class:`CLIError`."""
    if text and token_file:
        raise ui.CLIError("got --token-file beside another token, expected one of both", code=ExitCode.INVALID)
    source = token_file or (STDIN if text == STDIN else "")
    return _lines(source, 1)[0] if source else text


def _lines(source: str, most: int, *, exactly: bool = False) -> list[str]:
    text = _read(source)
    found = [line.strip() for line in text.splitlines() if line.strip()]
    if not 1 <= len(found) <= most or (exactly and len(found) != most):
        lines = f"{most} lines" if exactly and most > 1 else "a token" if most == 1 else "one token or two"
        where = "standard input" if source == STDIN else source
        raise ui.CLIError(f"got {len(found)} lines in {where}, expected {lines}", code=ExitCode.INVALID)
    return found


def _read(source: str) -> str:
    if source == STDIN:
        return sys.stdin.read(_MAX_BYTES)
    path = Path(source)
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES)
    except OSError as err:
        raise ui.CLIError(
            f"{source} cannot be read: {(err.strerror or str(err)).lower()}", code=ExitCode.INVALID
        ) from err
    from kubevouch.util.files import warn_of_exposure

    warn_of_exposure(path, ui.warning)
    return content.decode("ascii", "replace")
