"""kube-apiserver's ``--audit-*`` flags: values, defaults and what of them cannot be meant.

Source: k8s.io/apiserver/pkg/server/options/audit.go (Kubernetes 1.36).
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

import msgspec

STDOUT = "-"
API_VERSION = "audit.k8s.io/v1"
JSON = "json"


class Mode(StrEnum):
    """Whether requests wait for their events."""

    BATCH = "batch"
    BLOCKING = "blocking"
    BLOCKING_STRICT = "blocking-strict"


class BatchOptions(msgspec.Struct, frozen=True):
    """``--audit-*-batch-*``, times in seconds; counts in mode ``batch`` only."""

    buffer_size: int = 10_000
    max_size: int = 400
    max_wait: float = 30.0
    throttle_enable: bool = True
    throttle_qps: float = 10.0
    throttle_burst: int = 15


LOG_BATCH = BatchOptions(max_size=1, max_wait=0.0, throttle_enable=False, throttle_qps=0.0, throttle_burst=0)


class TruncateOptions(msgspec.Struct, frozen=True):
    """``--audit-*-truncate-*``, sizes in bytes."""

    enabled: bool = False
    max_batch_size: int = 10 * 1024 * 1024
    max_event_size: int = 100 * 1024


class LogFileOptions(msgspec.Struct, frozen=True):
    """``--audit-log-*``.

    Args:
        path: ``-`` is standard output.
        max_age_days, max_backups: of rotated files; 0 keeps all.
        max_size: megabytes (1024²) at which the file is rotated; 0 is the default.
    """

    path: str
    max_age_days: int = 0
    max_backups: int = 0
    max_size: int = 100
    compress: bool = False
    mode: str = Mode.BLOCKING
    format: str = JSON
    version: str = API_VERSION
    batch: BatchOptions = LOG_BATCH
    truncate: TruncateOptions = TruncateOptions()


class WebhookOptions(msgspec.Struct, frozen=True):
    """``--audit-webhook-*``, times in seconds."""

    config_file: Path
    mode: str = Mode.BATCH
    version: str = API_VERSION
    batch: BatchOptions = BatchOptions()
    truncate: TruncateOptions = TruncateOptions()
    initial_backoff: float = 10.0


class AuditOptions(msgspec.Struct, frozen=True):
    """Without a policy file nothing is recorded, as in Kubernetes."""

    policy_file: Path | None = None
    log: LogFileOptions | None = None
    webhook: WebhookOptions | None = None


def problems(options: AuditOptions) -> list[str]:
    """What cannot be meant, in Kubernetes' words and order."""
    found: list[str] = []
    if (log := options.log) is not None:
        found += _of_backend("log", log)
        if log.format != JSON:
            found.append(f'invalid audit log format {log.format}, allowed formats are "{JSON}"')
        for flag, value in (("maxage", log.max_age_days), ("maxbackup", log.max_backups), ("maxsize", log.max_size)):
            if value < 0:
                found.append(f"--audit-log-{flag} {value} can't be a negative number")
    if options.webhook is not None:
        found += _of_backend("webhook", options.webhook)
    return found


def _of_backend(plugin: str, options: LogFileOptions | WebhookOptions) -> list[str]:
    found = [_of_batches(plugin, options.mode, options.batch), _of_truncation(plugin, options.truncate)]
    if options.version.count("/") > 1:
        found.append(f"unexpected GroupVersion string: {options.version}")
    elif options.version != API_VERSION:
        found.append(f'invalid group version, allowed versions are ["{API_VERSION}"]')
    return [each for each in found if each]


def _of_batches(plugin: str, mode: str, batch: BatchOptions) -> str:
    if mode not in tuple(Mode):
        return f'invalid audit {plugin} mode {mode}, allowed modes are "{",".join(Mode)}"'
    if mode != Mode.BATCH:
        return ""
    checks: list[tuple[str, float]] = [("buffer size", batch.buffer_size), ("max batch size", batch.max_size)]
    if batch.throttle_enable:
        checks += [("throttle QPS", batch.throttle_qps), ("throttle burst", batch.throttle_burst)]
    for what, value in checks:
        if value <= 0:
            return f"invalid audit batch {plugin} {what} {value:g}, must be a positive number"
    return ""


def _of_truncation(plugin: str, truncate: TruncateOptions) -> str:
    event, batch = truncate.max_event_size, truncate.max_batch_size
    if event <= 0:
        return f"invalid audit truncate {plugin} max event size {event}, must be a positive number"
    if batch < event:
        return f"invalid audit truncate {plugin} max batch size {batch}, must be greater than max event size ({event})"
    return ""
