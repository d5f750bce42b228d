"""cli/main.py and cli/failures.py: every failure is one line, a hint and a documented exit code."""

from __future__ import annotations

import errno
import importlib
import os
import subprocess
import sys
from collections.abc import Callable

import click
import pytest

from kubevouch import __version__
from kubevouch.cli import failures
from kubevouch.cli.exit_codes import ExitCode
from kubevouch.cli.main import COMMANDS, guarded, run, typed
from kubevouch.cli.ui import CLIError
from kubevouch.client.interface import (
    ClientConfigurationError,
    ConnectFailed,
    CredentialsFailed,
    NotKubernetes,
    TLSFailed,
)
from kubevouch.machinery import errors
from kubevouch.machinery.scheme import GroupResource
from kubevouch.storage.interface import StoreUnavailable

Captured = pytest.CaptureFixture[str]
SECRETS = GroupResource("", "secrets")
CHECK = "check that the API server runs, and its address in the kubeconfig"


def raising(err: BaseException) -> Callable[[], object]:
    def work() -> object:
        raise err

    return work


def test_every_command_is_there_and_says_what_it_does() -> None:
    for name, (where, summary) in COMMANDS.items():
        module, _, attribute = where.partition(":")
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command), name
        assert summary.endswith("."), name


def test_help_lists_the_commands_without_loading_them(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name == "kubevouch.cli.up"]:
        monkeypatch.delitem(sys.modules, name)
    assert run(["--help"]) == ExitCode.DONE
    shown = capsys.readouterr().out
    for name, (_, summary) in COMMANDS.items():
        assert f"  {typed(name)} " in shown
        assert summary in " ".join(shown.split())
    assert "kubevouch.cli.up" not in sys.modules


def test_the_version(capsys: Captured) -> None:
    assert run(["--version"]) == ExitCode.DONE
    assert capsys.readouterr().out == f"kubevouch {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["explode"], "error: no such command 'explode'\nhint: see kubevouch --help\n"),
        (["--explode"], "error: no such option '--explode'\nhint: see kubevouch --help\n"),
        (["tokn"], "error: no such command 'tokn'\nhint: did you mean token? see kubevouch --help\n"),
        (["--hlp"], "error: no such option '--hlp'\nhint: did you mean --help? see kubevouch --help\n"),
        (["csr", "lst"], "error: no such command 'lst'\nhint: did you mean list? see kubevouch csr --help\n"),
        (
            ["ca", "rotate", "strt"],
            "error: no such command 'strt'\nhint: did you mean start? see kubevouch ca rotate --help\n",
        ),
        (
            ["up", "--data-di", "x"],
            "error: no such option '--data-di'\nhint: did you mean --data-dir? see kubevouch up --help\n",
        ),
        (
            ["csr", "list", "-o", "jsn"],
            (
                "error: invalid value for '-o' / '--output': 'jsn' is not one of 'text', 'wide', 'json', 'yaml'\n"
                "hint: did you mean json? see kubevouch csr list --help\n"
            ),
        ),
        (
            ["join", "stauts"],
            (
                "error: address stauts: missing port in address\n"
                "hint: did you mean status? give the API server as HOST:PORT, such as 192.0.2.10:6443\n"
            ),
        ),
        (["token", "list", "--explode"], "error: no such option '--explode'\nhint: see kubevouch token list --help\n"),
        (
            ["token", "create", "--ttl", "soon"],
            (
                "error: invalid value for '--ttl': got 'soon', expected a duration such as 24h, 1h30m or 0\n"
                "hint: see kubevouch token create --help\n"
            ),
        ),
    ],
)
def test_what_cannot_be_meant(arguments: list[str], error: str, capsys: Captured) -> None:
    assert run(arguments) == ExitCode.INVALID
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", error)


def test_without_a_command_the_help_is_shown(capsys: Captured) -> None:
    assert run([]) == ExitCode.INVALID
    assert "Usage: kubevouch" in capsys.readouterr().out


@pytest.mark.parametrize(("result", "code"), [(None, 0), (ExitCode.PREFLIGHT, 2), (7, 7), ("text", 0)])
def test_a_command_may_say_how_it_ended(result: object, code: int) -> None:
    assert guarded(lambda: result) == code


@pytest.mark.parametrize(
    ("err", "code", "message", "hint"),
    [
        (CLIError("it failed"), ExitCode.FAILED, "it failed", ""),
        (CLIError("it failed", hint="do", code=ExitCode.PREFLIGHT), ExitCode.PREFLIGHT, "it failed", "do"),
        (ClientConfigurationError("bad URL", hint="do"), ExitCode.INVALID, "bad URL", "do"),
        (ConnectFailed("no answer"), ExitCode.NO_ANSWER, "no answer", CHECK),
        (ConnectFailed("no answer", hint="do"), ExitCode.NO_ANSWER, "no answer", "do"),
        (CredentialsFailed("none"), ExitCode.NO_ANSWER, "none", CHECK),
        (TLSFailed("not trusted", hint="do"), ExitCode.NOT_TRUSTED, "not trusted", "do"),
        (NotKubernetes("a web page"), ExitCode.NOT_TRUSTED, "a web page", ""),
        (
            errors.not_found(SECRETS, "a"),
            ExitCode.REFUSED,
            'from server (NotFound): secrets "a" not found',
            "",
        ),
        (
            errors.unauthorized(),
            ExitCode.REFUSED,
            "from server (Unauthorized): Unauthorized",
            "the server does not know the kubeconfig's credential, or it has expired; use another kubeconfig",
        ),
        (StoreUnavailable("the store is damaged"), ExitCode.FAILED, "the store is damaged", ""),
        (
            PermissionError(errno.EACCES, "Permission denied", "/x"),
            ExitCode.FAILED,
            "/x: permission denied",
            "choose a path that this user may write, or run as a user who may",
        ),
        (
            OSError(errno.ENOSPC, "No space left on device"),
            ExitCode.FAILED,
            "no space left on device",
            "make room on that file system and try again; nothing was lost",
        ),
        (OSError(errno.EIO, "Input/output error", "/x"), ExitCode.FAILED, "/x: input/output error", ""),
        (click.ClickException("It broke."), ExitCode.FAILED, "it broke", ""),
        (KeyboardInterrupt(), ExitCode.INTERRUPTED, "interrupted", ""),
        (click.Abort(), ExitCode.INTERRUPTED, "interrupted", ""),
        (
            ValueError("two\nlines"),
            ExitCode.FAILED,
            "unexpected ValueError: two lines",
            "this is a defect in kubevouch; KUBEVOUCH_DEBUG=1 shows where it happened",
        ),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_failures(err: BaseException, code: ExitCode, message: str, hint: str, capsys: Captured) -> None:
    assert guarded(raising(err)) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == f"error: {message}\n" + (f"hint: {hint}\n" if hint else "")


def test_only_what_nobody_foresaw_shows_a_traceback(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    guarded(raising(ValueError("x")))
    assert "Traceback" not in capsys.readouterr().err
    monkeypatch.setenv("KUBEVOUCH_DEBUG", "1")
    guarded(raising(ValueError("x")))
    assert "Traceback" in capsys.readouterr().err


def test_an_unforeseen_failure_is_none() -> None:
    assert failures.explain(ValueError("x")) is None
    assert failures.explain(OSError("without a number")) is None


def test_a_reader_that_goes_away_is_no_failure(capfd: pytest.CaptureFixture[str]) -> None:
    stdout = os.dup(1)
    try:
        assert guarded(raising(BrokenPipeError())) == ExitCode.DONE
        sys.stdout.write("nobody reads this")
        sys.stdout.flush()
    finally:
        os.dup2(stdout, 1)
        os.close(stdout)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("arguments", "not_needed"),
    [
        # Each of these loaded what only the command's work needs.
        (["--help"], ("asyncio", "cryptography", "msgspec", "difflib")),
        (["tokn"], ("asyncio", "cryptography", "msgspec")),
        (["version", "--client"], ("cryptography", "msgspec", "aiohttp")),
        (
            ["up", "--help"],
            ("aiohttp", "joserfc", "rich", "sqlite3", "kubevouch.server.audit.policy", "kubevouch.standalone.up"),
        ),
    ],
)
def test_a_command_loads_what_it_needs(arguments: list[str], not_needed: tuple[str, ...]) -> None:
    program = (
        "import sys; from kubevouch.cli.main import run; run(sys.argv[1:]); sys.stdout.write(' '.join(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True)
    assert not set(not_needed) & set(done.stdout.splitlines()[-1].split())
