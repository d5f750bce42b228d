"""Levels, bound fields and the one way out."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import structlog  # noqa: TID251 - what ours is held against
from hypothesis import given
from hypothesis import strategies as st

from kubevouch.testing.logs import capture_logs
from kubevouch.util import logger
from kubevouch.util.logger import get_logger


def test_bound_fields_come_with_every_message_and_give_way_to_its_own() -> None:
    with capture_logs() as events:
        bound = get_logger("test").bind(node="worker-1", attempt=1)
        bound.info("asked", attempt=2)
        get_logger("test").error("failed")
    assert events == [
        {"event": "asked", "log_level": "info", "node": "worker-1", "attempt": 2},
        {"event": "failed", "log_level": "error"},
    ]


def test_what_is_less_grave_than_the_level_is_not_written(capsys: pytest.CaptureFixture[str]) -> None:
    before = logger.send_to(logger.to_standard_error, "warning")
    try:
        get_logger("test").info("quiet")
        get_logger("test").warning("loud", count=3)
    finally:
        logger.send_to(*before)
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "warning loud count=3\n")


def test_an_exception_that_is_handled_is_an_error_with_it() -> None:
    with capture_logs() as events:
        try:
            raise ValueError
        except ValueError:
            get_logger("test").exception("failed")
    assert events == [{"event": "failed", "log_level": "error", "exc_info": True}]


_LEVELS: tuple[logger.Level, ...] = ("debug", "info", "warning", "error", "critical")
_FIELDS = st.dictionaries(st.sampled_from(("node", "attempt", "err")), st.integers(), max_size=3)


@given(
    level=st.sampled_from(_LEVELS),
    calls=st.lists(st.tuples(st.sampled_from((*_LEVELS, "exception")), st.lists(_FIELDS, max_size=2), _FIELDS)),
)
def test_it_says_what_structlog_says(
    level: logger.Level, calls: list[tuple[str, list[dict[str, int]], dict[str, int]]]
) -> None:
    theirs: list[tuple[str, str, dict[str, Any]]] = []
    ours: list[tuple[str, str, dict[str, Any]]] = []

    def capture(_logger: Any, method: str, event: Any) -> Any:
        theirs.append((method, event.pop("event"), event))
        raise structlog.DropEvent

    model = structlog.wrap_logger(
        None, processors=[capture], wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper()))
    )
    before = logger.send_to(lambda name, message, fields: ours.append((name, message, fields)), level)
    try:
        for name, bound, fields in calls:
            for at in (model, get_logger("test")):
                for some in bound:
                    at = at.bind(**some)
                getattr(at, name)("said", **fields)
    finally:
        logger.send_to(*before)
    assert ours == theirs
