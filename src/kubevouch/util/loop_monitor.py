"""Notices what holds the event loop, and where in the code.

asyncio's ``slow_callback_duration`` needs its debug mode, and uvloop has nothing like it. So a thread looks at the
loop's own from outside. It asks the loop for a turn whenever there is work, and until it gets one it notes every few
milliseconds which function the loop is in. A loop that waits for I/O is asked nothing, and is looked at so rarely that
the first stall after a rest may go unseen if it is shorter than 0.2 s.

What is judged is one step: what runs between two chances of others, a callback or a task up to its next wait. Many
short steps in a row are load, and flow control's concern.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import threading
import time
from asyncio import base_events, events, runners
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate, chain, groupby, islice, pairwise, repeat
from operator import itemgetter
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec

from kubevouch.util.logger import get_logger

log = get_logger("util.loop_monitor")

STALL_SECONDS = 0.05
"""A step that takes longer than this is a stall."""

# Between two looks at a loop that has work, and at one that has none.
_BUSY_SECONDS, _IDLE_SECONDS = 0.02, 0.2
# While somebody wants to see the stalls of this process (see `observed`).
_OBSERVED_SECONDS = 0.005
# A loop without work for so long is looked at rarely.
_CALM_SECONDS = 1.0
# Python takes the interpreter from a thread that another one waits for after 5 ms; who waits for longer than this
# waits for a call into C that keeps it.
_SWITCH_SECONDS = 0.01
# Log lines at once, and the seconds after which there is one more.
_LINES, _LINE_SECONDS = 10, 10.0
_FRAMES_NOTED = 16
_PLACES = 4
_LOOP_FILES = frozenset(module.__file__ for module in (base_events, events, runners))
_OURS = f"{Path(__file__).parents[1]}{os.sep}"

Place = tuple[str, int, str]
"""File, line and function."""


_Seen = tuple[FrameType | None, tuple[Place, ...], str]


class Look(msgspec.Struct, frozen=True):
    """What was seen of the loop's thread at one moment. Times are in seconds.

    Args:
        at: on a monotonic clock.
        cpu: processor time that the thread has used.
        starved: how long the thread was ready to run and had no processor, in all.
        collected: how long Python's garbage collector ran on the thread, in all.
        blind: for how long before this look a call into C allowed none.
        step: what runs, the same for the same step only; None between two steps.
        stack: where, innermost first.
        request: the request that is served, if it is known.
    """

    at: float
    cpu: float
    starved: float = 0.0
    collected: float = 0.0
    blind: float = 0.0
    step: object = None
    stack: tuple[Place, ...] = ()
    request: str = ""


class Stall(msgspec.Struct, frozen=True):
    """A step that held the loop. Times are in seconds.

    Args:
        seconds: how long at least, without the time for which the machine had no processor for the thread.
        cpu_seconds: the processor time of the loop's thread in it.
        collector_seconds: of this, time of Python's garbage collector.
        stack: where most of it went, innermost first.
        request: the request that was served, if it is known.
    """

    seconds: float
    cpu_seconds: float
    collector_seconds: float
    stack: tuple[Place, ...]
    request: str

    @property
    def place(self) -> str:
        """The innermost function, and the innermost ones of ours, such as ``json/decoder.py:8 decode < client/…``."""
        ours = [place for place in self.stack if place[0].startswith(_OURS)][:_PLACES]
        shown = [*(place for place in self.stack[:1] if place not in ours), *ours]
        return " < ".join(f"{_short(file)}:{line} {function}" for file, line, function in shown)

    def __str__(self) -> str:
        served = f" for {self.request}" if self.request else ""
        return (
            f"held for {self.seconds:.3f} s (processor {self.cpu_seconds:.3f} s, of which garbage collector "
            f"{self.collector_seconds:.3f} s){served} in {self.place}"
        )


# ------------------------------------------------------------------ deciding


def longest_step(looks: Sequence[Look]) -> Stall | None:
    """The longest step among looks between which the loop gave nobody a turn; None if they show none.

    The first look may be of the time before. A step is measured from the first look that saw it to the last one, so
    this is less than the truth by up to the time between two looks.
    """
    steps = (list(seen) for step, seen in groupby(looks, key=lambda look: id(look.step)) if step != id(None))
    blind = {id(later): _blind(earlier, later) for earlier, later in pairwise(looks)}
    found = (_stall(seen, blind.get(id(seen[0]), _NOTHING)) for seen in steps)
    return max(found, key=lambda stall: stall.seconds, default=None)


Span = tuple[float, float, float]
_NOTHING: Span = (0.0, 0.0, 0.0)


def _span(earlier: Look, later: Look) -> Span:
    """Held, processor and collector time between two looks."""
    held = later.at - earlier.at - (later.starved - earlier.starved)
    return max(held, 0.0), later.cpu - earlier.cpu, later.collected - earlier.collected


def _blind(earlier: Look, later: Look) -> Span:
    """The part of the time before a look in which a single call must have run: it let nobody look."""
    held, cpu, collected = _span(earlier, later)
    return min(held, later.blind), min(cpu, later.blind), min(collected, later.blind)


def _stall(seen: Sequence[Look], before: Span) -> Stall:
    """The step of ``seen`` looks, in front of whose first one it went on for ``before``."""
    spans = [before, *(_span(earlier, later) for earlier, later in pairwise(seen))]
    held, cpu, collected = (sum(parts) for parts in zip(*spans, strict=True))
    weights: dict[tuple[str, str], float] = {}
    heaviest: dict[tuple[str, str], tuple[float, Look]] = {}
    for look, (seconds, _, _) in zip(seen, spans, strict=True):
        where = _function(look.stack)
        weights[where] = weights.get(where, 0.0) + seconds
        heaviest[where] = max(heaviest.get(where, (-1.0, look)), (seconds, look), key=lambda pair: pair[0])
    _, shown = heaviest[max(weights, key=lambda where: weights[where])]
    request = next((look.request for look in seen if look.request), "")
    return Stall(held, cpu, collected, shown.stack, request)


def _function(stack: tuple[Place, ...]) -> tuple[str, str]:
    file, _, function = next(
        (place for place in stack if place[0].startswith(_OURS)), stack[0] if stack else ("", 0, "")
    )
    return file, function


def _short(file: str) -> str:
    """Within our package, or the folder and file of another one."""
    return file[len(_OURS) :] if file.startswith(_OURS) else "/".join(Path(file).parts[-2:])


class Lines:
    """Which stalls get a line in the log: a burst, then one in a while."""

    def __init__(self) -> None:
        self._left = float(_LINES)
        self._at = 0.0
        self._untold = 0

    def take(self, now: float) -> int | None:
        """How many were left out before this one; None if this one is left out."""
        self._left = min(_LINES, self._left + (now - self._at) / _LINE_SECONDS)
        self._at = now
        if self._left < 1:
            self._untold += 1
            return None
        self._left -= 1
        untold, self._untold = self._untold, 0
        return untold


# ------------------------------------------------------------------ looking

_OBSERVERS: list[Callable[[Stall], None]] = []


@contextmanager
def observed(observer: Callable[[Stall], None]) -> Iterator[None]:
    """Tells ``observer`` of the stalls of every monitored loop of this process, on that loop. For tests."""
    _OBSERVERS.append(observer)
    try:
        yield
    finally:
        _OBSERVERS.remove(observer)


def _unknown(_frame: FrameType) -> str:
    """Of a loop that serves no requests."""
    return ""


class _Question(msgspec.Struct, eq=False):
    """The loop was asked for a turn; what was seen until it answers."""

    looks: list[Look] = msgspec.field(default_factory=list)
    answered: bool = False


class LoopMonitor:
    """Watches the loop that runs when it is started, from a thread.

    Args:
        report: is told of each stall, on the loop.
        request_of: what a frame of Python's stack serves, for the log; empty if it does not know.
    """

    def __init__(
        self, report: Callable[[Stall], None] | None = None, request_of: Callable[[FrameType], str] = _unknown
    ) -> None:
        self._report = report
        self._request_of = request_of
        self._lines = Lines()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._question: _Question | None = None

    def start(self) -> None:
        """Watch the running loop, whose thread this is."""
        self._loop = asyncio.get_running_loop()
        self._ident = threading.get_ident()
        self._processor_time = _processor_clock(self._ident)
        self._starved = _Starvation(threading.get_native_id())
        self._collector = _CollectorTime(self._processor_time)
        self._thread = threading.Thread(target=self._watch, name="loop-monitor", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Watch no longer; called on the loop. Harmless if it was never started."""
        if self._thread is not None:
            self._stopped.set()
            self._thread.join()
            self._thread = None
            if self._question is not None:
                self._answer(self._question)
            self._collector.close()
            self._starved.close()

    def _watch(self) -> None:
        own = _Starvation(threading.get_native_id())
        try:
            self._look_until_stopped(own)
        except OSError:  # the loop's thread has ended without a word
            log.debug("the thread of the event loop is gone")
        finally:
            own.close()

    def _look_until_stopped(self, own: _Starvation) -> None:
        previous, busy_at = self._look(0.0, self._seen(_frames(self._ident))), 0.0
        pause = self._pause(previous, busy_at, None)
        planned, delayed = time.monotonic() + pause, own.seconds()
        while not self._stopped.wait(pause):
            if self._question is None and previous.step is None and self._processor_time() == previous.cpu:
                # It has waited all the time: this is all that an idle server pays.
                pause = self._pause(previous, busy_at, None)
                planned = time.monotonic() + pause
                continue
            # First of all: each file that is read lets the loop go on to its next step.
            seen = self._seen(_frames(self._ident))
            # Late, though there was a processor for this thread: something kept the interpreter.
            late = time.monotonic() - planned - (own.seconds() - delayed)
            look = self._look(late if late > _SWITCH_SECONDS else 0.0, seen)
            question = self._question
            if question is not None:
                question.looks.append(look)
            elif look.step is not None or look.cpu - previous.cpu > pause / 100:
                busy_at = look.at
                if not self._ask(previous, look):
                    break
            previous = look
            pause = self._pause(look, busy_at, question)
            planned, delayed = time.monotonic() + pause, own.seconds()

    def _ask(self, previous: Look, look: Look) -> bool:
        """Ask for a turn; False if the loop has ended."""
        # What ran before may have given way meanwhile: only the time counts for which nobody could look.
        before = Look(previous.at, previous.cpu, previous.starved, previous.collected)
        question = self._question = _Question([before, look])
        try:
            self._loop.call_soon_threadsafe(self._answer, question)
        except RuntimeError:
            return False
        return True

    @staticmethod
    def _pause(look: Look, busy_at: float, question: _Question | None) -> float:
        """Seconds to the next look: fewer looks at what takes long, and at what does nothing."""
        if question is not None:
            held = look.at - question.looks[0].at
            return max(_OBSERVED_SECONDS if _OBSERVERS else _BUSY_SECONDS, held / 50)
        if _OBSERVERS:
            return _OBSERVED_SECONDS
        return _BUSY_SECONDS if time.monotonic() - busy_at < _CALM_SECONDS else _IDLE_SECONDS

    def _look(self, blind: float, seen: _Seen) -> Look:
        cpu, collected = self._processor_time(), self._collector.seconds()
        return Look(time.monotonic(), cpu, self._starved.seconds(), collected, blind, *seen)

    def _seen(self, frames: list[FrameType]) -> _Seen:
        """The step, where it is, and for which request, from the frames of the loop's thread, innermost first."""
        depth = len(frames)
        while depth and frames[depth - 1].f_code.co_filename not in _LOOP_FILES:
            depth -= 1
        while depth and frames[depth - 1].f_code.co_filename in _LOOP_FILES:
            depth -= 1
        if not depth or frames[depth - 1].f_code.co_name == "select":
            return None, (), ""
        step = frames[depth - 1]
        noted = tuple((each.f_code.co_filename, each.f_lineno, each.f_code.co_name) for each in _ends(frames[:depth]))
        request = next(filter(None, map(self._request_of, frames[:depth])), "")
        return step, noted, request

    def _answer(self, question: _Question) -> None:
        """The turn that was asked for, on the loop."""
        if self._question is not question:
            return
        self._question = None
        if time.monotonic() - question.looks[0].at < STALL_SECONDS:
            return
        stall = longest_step(question.looks)
        if stall is None or stall.seconds < STALL_SECONDS:
            return
        if self._report is not None:
            self._report(stall)
        for observer in tuple(_OBSERVERS):
            observer(stall)
        untold = self._lines.take(time.monotonic())
        if untold is not None:
            self._tell(stall, untold)

    @staticmethod
    def _tell(stall: Stall, untold: int) -> None:
        fields: dict[str, Any] = {"place": stall.place}
        if stall.request:
            fields["request"] = stall.request
        if untold:
            fields["untold"] = untold
        log.warning(
            "event loop held", logger="loop_monitor", seconds=round(stall.seconds, 3), cpu=round(stall.cpu_seconds, 3),
            collector=round(stall.collector_seconds, 3), **fields,
        )  # fmt: skip


def _frames(ident: int) -> list[FrameType]:
    """The frames of another thread, innermost first.

    That thread must not run while its frames are walked: what a frame calls its caller may be freed by then. So this is
    one call into C, in which the interpreter is not given up, and in which no finalizer runs.
    """
    found: list[Any] = []
    innermost = islice(map(itemgetter(ident), iter(sys._current_frames, None)), 1)
    collects = gc.isenabled()
    gc.disable()
    try:
        found.extend(accumulate(chain(innermost, repeat("f_back")), getattr))
    except (AttributeError, KeyError):  # at the outermost one, whose caller is None; or the thread is gone
        pass
    finally:
        if collects:
            gc.enable()
    return found[:-1]


def _ends(frames: list[FrameType]) -> list[FrameType]:
    """The innermost frames, and the innermost ones of ours if they lie deeper in the stack."""
    noted = frames[:_FRAMES_NOTED]
    if not any(frame.f_code.co_filename.startswith(_OURS) for frame in noted):
        deeper = (frame for frame in frames[_FRAMES_NOTED:] if frame.f_code.co_filename.startswith(_OURS))
        noted = [*noted, *islice(deeper, _PLACES)]
    return noted


def _processor_clock(ident: int) -> Callable[[], float]:
    """Reads the processor time of a thread, from any thread; the wall's where the system has no such clock."""
    if not hasattr(time, "pthread_getcpuclockid"):
        return time.monotonic
    clock = time.pthread_getcpuclockid(ident)
    return lambda: time.clock_gettime(clock)


class _Starvation:
    """For how long a thread was ready to run and had no processor; 0 where the system does not say."""

    def __init__(self, native_ident: int) -> None:
        try:
            self._file = os.open(f"/proc/self/task/{native_ident}/schedstat", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._file = -1

    def seconds(self) -> float:
        if self._file < 0:
            return 0.0
        try:
            return int(os.pread(self._file, 100, 0).split()[1]) / 1e9  # docs.kernel.org/scheduler/sched-stats.html
        except (OSError, IndexError):
            return 0.0

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


class _CollectorTime:
    """How long Python's garbage collector has run on this thread, which is the loop's."""

    def __init__(self, read_clock: Callable[[], float]) -> None:
        self._ident = threading.get_ident()
        self._read_clock = read_clock
        self._ended = 0.0
        self._begun: float | None = None
        gc.callbacks.append(self._note)

    def _note(self, phase: str, _found: dict[str, int]) -> None:
        if threading.get_ident() != self._ident:
            return
        if phase == "start":
            self._begun = self._read_clock()
        elif self._begun is not None:
            self._ended += self._read_clock() - self._begun
            self._begun = None

    def seconds(self) -> float:
        """With the time so far of a collection under way: callbacks and finalizers in it can be looked at."""
        begun = self._begun
        return self._ended if begun is None else self._ended + self._read_clock() - begun

    def close(self) -> None:
        gc.callbacks.remove(self._note)
