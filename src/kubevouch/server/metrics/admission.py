"""Admission's metrics under kube-apiserver's names.

Sources: k8s.io/apiserver/pkg/admission/metrics, pkg/admission/plugin/policy/{validating,mutating}/metrics
(Kubernetes 1.36).
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from kubevouch.server.metrics.series import Counter, Histogram
from kubevouch.util.clock import Clock

_SECONDS = (0.005, 0.025, 0.1, 0.5, 1.0, 2.5)
_WEBHOOK_SECONDS = (*_SECONDS, 10, 25)
_POLICY_SECONDS = (0.0000005, 0.001, 0.01, 0.1, 1.0)
_MAX_CODE = 600

# Administrators choose these names, any number of them one after the other; series.py bounds them.
_WEBHOOK = ("name", "type", "operation")
_POLICY = ("policy", "policy_binding", "error_type", "enforcement_action")
_MUTATION = ("policy", "policy_binding", "error_type")


class AdmissionMetrics:
    """An ``admission.observer.Observer``."""

    def __init__(self, registry: CollectorRegistry, clock: Clock) -> None:
        self.monotonic = clock.monotonic
        prefix = "apiserver_admission"
        self._steps = Histogram(
            f"{prefix}_step_admission_duration_seconds",
            "Time of all plug-ins of a step (admit or validate).",
            ("type", "operation", "rejected"), buckets=_SECONDS, registry=registry,
        )  # fmt: skip
        self._plugins = Histogram(
            f"{prefix}_controller_admission_duration_seconds",
            "Time of one plug-in.",
            ("name", "type", "operation", "rejected"), buckets=_SECONDS, registry=registry,
        )  # fmt: skip
        self._webhooks = Histogram(
            f"{prefix}_webhook_admission_duration_seconds",
            "Time of one webhook.",
            (*_WEBHOOK, "rejected"), buckets=_WEBHOOK_SECONDS, registry=registry,
        )  # fmt: skip
        self._requests = Counter(
            f"{prefix}_webhook_request",
            "Requests to webhooks by the code of what they answered.",
            (*_WEBHOOK, "code", "rejected"), registry=registry,
        )  # fmt: skip
        self._rejections = Counter(
            f"{prefix}_webhook_rejection_count",
            "Requests that a webhook, or a failure to ask it, has refused.",
            (*_WEBHOOK, "error_type", "rejection_code"), registry=registry,
        )  # fmt: skip
        self._open = Counter(
            f"{prefix}_webhook_fail_open_count",
            "Failures to ask a webhook that were ignored.",
            ("name", "type"), registry=registry,
        )  # fmt: skip
        self._checks = Counter(
            "apiserver_validating_admission_policy_check",
            "Validations of policies that do not hold or cannot be evaluated.",
            _POLICY, registry=registry,
        )  # fmt: skip
        self._check_seconds = Histogram(
            "apiserver_validating_admission_policy_check_duration_seconds",
            "Time of such a validation.",
            _POLICY, buckets=_POLICY_SECONDS, registry=registry,
        )  # fmt: skip

        self._mutations = Counter(
            "apiserver_mutating_admission_policy_check",
            "Mutations of policies that were tried.",
            _MUTATION, registry=registry,
        )  # fmt: skip
        self._mutation_seconds = Histogram(
            "apiserver_mutating_admission_policy_check_duration_seconds",
            "Time of such a mutation.",
            _MUTATION, buckets=_POLICY_SECONDS, registry=registry,
        )  # fmt: skip

    def step(self, step: str, operation: str, seconds: float, *, rejected: bool) -> None:
        self._steps.observe((step, operation, "true" if rejected else "false"), seconds)

    def plugin(self, name: str, step: str, operation: str, seconds: float, *, rejected: bool) -> None:
        self._plugins.observe((name, step, operation, "true" if rejected else "false"), seconds)

    def webhook(self, name: str, kind: str, operation: str, seconds: float, code: int, *, rejected: bool) -> None:
        about = (name, kind, operation)
        self._webhooks.observe((*about, _flag(rejected)), seconds)
        self._requests.labels(*about, str(min(code, _MAX_CODE)), _flag(rejected)).inc()

    def webhook_rejected(self, name: str, kind: str, operation: str, error: str, code: int) -> None:
        self._rejections.labels(name, kind, operation, error, str(min(code, _MAX_CODE))).inc()

    def webhook_failed_open(self, name: str, kind: str) -> None:
        self._open.labels(name, kind).inc()

    def policy(self, policy: str, binding: str, error: str, action: str, seconds: float) -> None:
        labels = (policy, binding, error, action)
        self._checks.labels(*labels).inc()
        self._check_seconds.observe(labels, seconds)

    def mutation(self, policy: str, binding: str, error: str, seconds: float) -> None:
        labels = (policy, binding, error)
        self._mutations.labels(*labels).inc()
        self._mutation_seconds.observe(labels, seconds)


def _flag(value: bool) -> str:
    return "true" if value else "false"
