"""What controllers ask of others: machines that are called back, clouds, name servers, webhooks, signers elsewhere.

No worker waits for an answer. It starts the question, leaves the request, and the answer has the request worked on
again. Each method has room of its own, and in it each destination and each source: who asks about one that is silent
keeps no worker, and nobody else's question waiting.

UnansweredError    the question is asked, or waits for room; its answer wakes the request
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, NamedTuple, TypeVar

from kubevouch.api.certificates_v1 import CertificateSigningRequest
from kubevouch.controllers.interface import Context, IgnorableError, Request, UnansweredError, request_of
from kubevouch.records.token_bounds import SOURCE_ADDRESS_ANNOTATION
from kubevouch.util.addresses import source_prefix
from kubevouch.util.clock import Clock

T = TypeVar("T")
_Key = tuple[str, str, Hashable]

OF_METHOD = 128
"""Questions of one method at a time, whoever is asked: each takes a connection and some memory."""
OF_DESTINATION = 16
"""To one destination: what webhooks, clouds and signers are asked at once."""
OF_SOURCE = 32
"""About requests of one source, a quarter of a method's room: who names many silent destinations leaves the rest."""
OF_SOURCE_AT_ONE = 8
"""About requests of one source to one destination."""
MOST_WAITING = 20_000
"""Questions of a controller that wait for room, as many as there may be undecided requests."""
KEPT_SECONDS = 1.0
"""How long the answers about a request are kept after the last of them: it is looked at again at once, and again after
a conflict. Whoever has failed to answer is asked again later."""


class Question(NamedTuple):
    """What is asked about a request, whose spec never changes.

    Args:
        request: what is worked on again when there is an answer.
        uid: of the request's object.
        method: what has room of its own: ``callback``, ``aws``, ``webhook/NAME``, ``signer``.
        destination: who is asked.
        source: on whose behalf: requester and address.
        about: tells questions of one method about one request apart.
    """

    request: Request
    uid: str
    method: str
    destination: str
    source: str
    about: Hashable = None


class _Waiting(NamedTuple):
    question: Question
    key: _Key
    ask: Callable[[], Coroutine[Any, Any, Any]]
    context: contextvars.Context


class _Asked:
    """All that was asked about one request: its tasks once they have begun, None while they wait for room."""

    __slots__ = ("answers", "ended", "open")

    def __init__(self) -> None:
        self.answers: dict[_Key, asyncio.Task[Any] | None] = {}
        self.open = 0
        self.ended = 0.0


class _Room:
    """That of one method. Destinations take turns, and at each of them sources do."""

    def __init__(self) -> None:
        self.running = 0
        self.at: Counter[str] = Counter()
        self.by: Counter[str] = Counter()
        self.by_at: Counter[tuple[str, str]] = Counter()
        self.waiting: OrderedDict[str, OrderedDict[str, deque[_Waiting]]] = OrderedDict()

    def add(self, waiting: _Waiting) -> None:
        destination, source = waiting.question.destination, waiting.question.source
        self.waiting.setdefault(destination, OrderedDict()).setdefault(source, deque()).append(waiting)

    def take(self) -> _Waiting | None:
        """The next one that there is room for, which has it from now on."""
        if self.running >= OF_METHOD:
            return None
        for destination, sources in self.waiting.items():
            if self.at[destination] >= OF_DESTINATION:
                continue
            for source, line in sources.items():
                if self.by[source] >= OF_SOURCE or self.by_at[source, destination] >= OF_SOURCE_AT_ONE:
                    continue
                found = line.popleft()
                self._to_the_end(destination, source)
                self._count(found.question, 1)
                return found
        return None

    def _to_the_end(self, destination: str, source: str) -> None:
        sources = self.waiting[destination]
        if sources[source]:
            sources.move_to_end(source)
        else:
            del sources[source]
        if sources:
            self.waiting.move_to_end(destination)
        else:
            del self.waiting[destination]

    def leave(self, question: Question) -> None:
        self._count(question, -1)

    def _count(self, question: Question, by: int) -> None:
        self.running += by
        source, destination = question.source, question.destination
        _change(self.at, destination, by)
        _change(self.by, source, by)
        _change(self.by_at, (source, destination), by)


def _change(counter: Counter[Any], key: Hashable, by: int) -> None:
    counter[key] += by
    if not counter[key]:
        del counter[key]


class OutsideQuestions:
    """The questions of one controller. For one event loop.

    Args:
        wake: has a request worked on again.
    """

    def __init__(self, clock: Clock, wake: Callable[[Request], None]) -> None:
        self._clock = clock
        self._wake = wake
        self._rooms: dict[str, _Room] = {}
        self._asked: dict[str, _Asked] = {}
        # The UIDs of those of them about whom nothing is open, the first that was answered first.
        self._ended: OrderedDict[str, None] = OrderedDict()
        self._open: dict[tuple[str, _Key], Question] = {}
        self._tasks: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        """How many are asked now, or wait for room."""
        return len(self._open)

    @property
    def running(self) -> int:
        """How many are asked now."""
        return len(self._tasks)

    def answer(self, question: Question, ask: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """What was answered; ``ask`` is called once there is room, unless this was asked before.

        Answers are kept until there is one to everything that was asked about the request, and for
        :data:`KEPT_SECONDS` after that.

        Raises:
            UnansweredError: not yet.
            IgnorableError: too much waits.
            Exception: what ``ask`` has raised.
        """
        key = (question.method, question.destination, question.about)
        self._forget()
        known = self._asked.get(question.uid)
        if known is not None and key in known.answers:
            task = known.answers[key]
            if task is not None and task.done():
                if task.cancelled():
                    raise IgnorableError(f"{question.method} was broken off")
                found: T = task.result()
                return found
            raise UnansweredError(f"{question.method} asks {question.destination}, which has not answered yet")
        if len(self._open) >= MOST_WAITING:
            raise IgnorableError(f"{MOST_WAITING} questions wait for an answer already")
        asked = self._asked.setdefault(question.uid, _Asked())
        asked.answers[key] = None
        asked.open += 1
        self._ended.pop(question.uid, None)
        self._open[question.uid, key] = question
        room = self._rooms.setdefault(question.method, _Room())
        room.add(_Waiting(question, key, ask, contextvars.copy_context()))
        self._begin(question.method)
        raise UnansweredError(f"{question.method} asks {question.destination}")

    async def close(self) -> None:
        """Ask no more. What has no answer is worked on again by whoever goes on with the queue."""
        requests = [each.request for each in self._open.values()]
        tasks = list(self._tasks)
        for table in (self._rooms, self._asked, self._ended, self._open, self._tasks):
            table.clear()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        for request in requests:
            self._wake(request)

    def _forget(self) -> None:
        until = self._clock.monotonic() - KEPT_SECONDS
        while self._ended and self._asked[uid := next(iter(self._ended))].ended <= until:
            del self._ended[uid], self._asked[uid]

    def _begin(self, method: str) -> None:
        """Ask what there is room for."""
        room = self._rooms[method]
        while (waiting := room.take()) is not None:
            question, key = waiting.question, waiting.key
            task = asyncio.get_running_loop().create_task(
                waiting.ask(), name=f"outside-{method}", context=waiting.context
            )
            self._tasks.add(task)
            self._asked[question.uid].answers[key] = task
            task.add_done_callback(functools.partial(self._end, question, key))
        if not room.running and not room.waiting:
            del self._rooms[method]

    def _end(self, question: Question, key: _Key, task: asyncio.Task[Any]) -> None:
        if task not in self._tasks:
            return
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # perhaps nobody asks for it any more
        del self._open[question.uid, key]
        asked = self._asked[question.uid]
        asked.open -= 1
        if not asked.open:
            asked.ended = self._clock.monotonic()
            self._ended[question.uid] = None
        self._rooms[question.method].leave(question)
        self._begin(question.method)
        self._wake(question.request)


class RequestQuestions:
    """Those about certificate signing requests.

    Args:
        trusts_annotations: the API server says from where requests come; another one keeps what the requester wrote.
    """

    def __init__(self, questions: OutsideQuestions, *, trusts_annotations: bool) -> None:
        self._questions = questions
        self._trusts_annotations = trusts_annotations

    def answer(
        self,
        csr: CertificateSigningRequest,
        method: str,
        destination: str,
        ask: Callable[[], Coroutine[Any, Any, T]],
        about: Hashable = None,
    ) -> T:
        """See :meth:`OutsideQuestions.answer`."""
        source = csr.metadata.annotations.get(SOURCE_ADDRESS_ANNOTATION, "") if self._trusts_annotations else ""
        asker = f"{csr.spec.username} {source_prefix(source)}"
        question = Question(request_of(csr), csr.metadata.uid, method, destination, asker, about)
        return self._questions.answer(question, ask)


def request_questions(questions: OutsideQuestions, context: Context) -> RequestQuestions:
    """Over the questions of a controller that is built from ``context``."""
    return RequestQuestions(questions, trusts_annotations=context.is_own_server)
