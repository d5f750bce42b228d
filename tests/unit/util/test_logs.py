"""klog's text format and JSON."""

import datetime as dt
import json
import os
import sys
from collections.abc import Iterator

import pytest

from kubevouch.testing.clock import FakeClock
from kubevouch.util import logger, logs
from kubevouch.util.logger import get_logger
from kubevouch.util.printable import is_plain

NOW = dt.datetime(2026, 3, 4, 5, 6, 7, 89000, tzinfo=dt.UTC)
SECRET = "abcdef.0123456789abcdef"


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    before = logger.send_to(logger.to_standard_error)
    yield
    logger.send_to(*before)


def written(
    capsys: pytest.CaptureFixture[str], level: logs.Level, form: logs.Format, method: str, *args: str, **fields: object
) -> str:
    logs.configure(FakeClock(NOW), level=level, form=form)
    getattr(get_logger("server"), method)(*args, **fields)
    sys.stderr.flush()
    return capsys.readouterr().err


@pytest.mark.parametrize(("method", "letter"), [("debug", "I"), ("info", "I"), ("warning", "W"), ("error", "E")])
def test_text_is_klogs(capsys: pytest.CaptureFixture[str], method: str, letter: str) -> None:
    line = written(capsys, "debug", "text", method, 'said "no"', count=3, name='a "b"')
    head, _, rest = line.partition("] ")
    assert head.startswith(f"{letter}0304 05:06:07.089000 {os.getpid():>7} ")
    assert rest == '"said \\"no\\"" count=3 name="a \\"b\\""\n'


def test_json_has_the_fields_of_component_base(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(written(capsys, "info", "json", "info", "started", controller="x"))
    assert found == {"ts": NOW.timestamp() * 1000, "level": "info", "msg": "started", "controller": "x"}


@pytest.mark.parametrize("form", ["text", "json"])
def test_no_secret_is_written(capsys: pytest.CaptureFixture[str], form: logs.Format) -> None:
    line = written(capsys, "info", form, "info", f"refused {SECRET}", err=f"bad {SECRET}", token=SECRET)
    assert SECRET.partition(".")[2] not in line
    assert "abcdef" in line


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_newline_in_a_value_makes_no_second_line(capsys: pytest.CaptureFixture[str], form: logs.Format) -> None:
    assert written(capsys, "info", form, "info", "a\nb", value="c\nE0304 forged").count("\n") == 1


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_value_cannot_drive_the_terminal_that_the_log_is_read_on(
    capsys: pytest.CaptureFixture[str], form: logs.Format
) -> None:
    try:
        raise ValueError("\x1b[2J\x9b\u202e\nE0304 forged")
    except ValueError:
        line = written(capsys, "info", form, "exception", "a\x9b", value="\x1b[2J\u202e\x7f\udc80")
    assert is_plain(line.replace("\n", ""))


def test_the_level_is_a_threshold(capsys: pytest.CaptureFixture[str]) -> None:
    assert written(capsys, "warning", "text", "info", "quiet") == ""
    assert written(capsys, "warning", "text", "warning", "loud") != ""


def test_an_exception_comes_with_its_trace(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(FakeClock(NOW))
    try:
        raise ValueError(SECRET)
    except ValueError:
        get_logger("server").exception("failed")
    text = capsys.readouterr().err
    assert text.startswith("E0304") and "Traceback" in text
    assert SECRET.partition(".")[2] not in text
