"""Where admission reports what it did, for metrics (k8s.io/apiserver/pkg/admission/metrics, Kubernetes 1.36)."""

from __future__ import annotations

from typing import Protocol

ADMIT, VALIDATE = "admit", "validate"
"""The steps, as metrics name them."""

VALIDATING = "validating"
"""What metrics call a webhook that only validates; one that mutates is ``admit``."""

# What kept a webhook's rejection from being its own.
NO_ERROR, CALLING_ERROR, SERVER_ERROR = "no_error", "calling_webhook_error", "apiserver_internal_error"


class Observer(Protocol):
    """Times are in seconds; ``operation`` is admission's word."""

    def monotonic(self) -> float:
        """What durations are measured with."""
        ...

    def step(self, step: str, operation: str, seconds: float, *, rejected: bool) -> None:
        """All plug-ins of a step have run, or one has refused."""
        ...

    def plugin(self, name: str, step: str, operation: str, seconds: float, *, rejected: bool) -> None: ...

    def webhook(self, name: str, kind: str, operation: str, seconds: float, code: int, *, rejected: bool) -> None:
        """A webhook was asked.

        Args:
            code: 200, or that of the refusal or failure; 0 when there is none.
            rejected: the request ends here.
        """
        ...

    def webhook_rejected(self, name: str, kind: str, operation: str, error: str, code: int) -> None: ...

    def webhook_failed_open(self, name: str, kind: str) -> None: ...

    def policy(self, policy: str, binding: str, error: str, action: str, seconds: float) -> None:
        """A validation does not hold, or cannot be evaluated.

        Args:
            error: ``no_error``, ``compile_error`` or ``invalid_error``.
            action: ``deny``, ``audit`` or ``warn``; ``allow`` for an error that is ignored.
        """
        ...

    def mutation(self, policy: str, binding: str, error: str, seconds: float) -> None:
        """A mutation was tried.

        Args:
            error: ``no_error``, ``compile_error``, ``invalid_error`` or ``out_of_budget``.
        """
        ...


class _Unobserved:
    def monotonic(self) -> float:
        return 0.0

    def step(self, *_args: object, **_more: object) -> None: ...

    plugin = webhook = webhook_rejected = webhook_failed_open = policy = mutation = step


UNOBSERVED: Observer = _Unobserved()


class Watch:
    """Times the plug-ins of one step."""

    __slots__ = ("_at", "_begun", "_monotonic", "_observer", "_operation", "_step", "_tell")

    def __init__(self, observer: Observer, step: str, operation: str) -> None:
        self._observer, self._step, self._operation = observer, step, operation
        self._monotonic, self._tell = observer.monotonic, observer.plugin
        self._begun = self._at = self._monotonic()

    def ran(self, name: str, *, rejected: bool = False) -> None:
        """A plug-in has run."""
        now = self._monotonic()
        self._tell(name, self._step, self._operation, now - self._at, rejected=rejected)
        self._at = now

    def refused(self, name: str) -> None:
        """A plug-in has ended the step."""
        self.ran(name, rejected=True)
        self.ended(rejected=True)

    def ended(self, *, rejected: bool = False) -> None:
        """The step is over."""
        self._observer.step(self._step, self._operation, self._at - self._begun, rejected=rejected)
