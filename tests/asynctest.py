"""Coroutines as tests, under the guards of ``aio``."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec

import aio

P = ParamSpec("P")
Test = Callable[P, Coroutine[Any, Any, None]]


def async_test(test: Test[P]) -> Callable[P, None]:
    """A test that runs the coroutine on asyncio's loop."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        aio.run(test(*args, **kwargs))

    return run


def on_both_loops(test: Test[P]) -> Callable[P, None]:
    """A test that runs the coroutine on asyncio's loop and then on uvloop's: for what touches sockets."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        for loop in aio.LOOPS:
            aio.run(test(*args, **kwargs), loop=loop)

    return run
