"""kube-apiserver's flags for audit, for ``kubevouch up``."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from kubevouch.cli.flags import together
from kubevouch.cli.flags.durations import DURATION
from kubevouch.machinery.text.gotext import format_duration
from kubevouch.server.audit.options import (
    API_VERSION,
    JSON,
    LOG_BATCH,
    AuditOptions,
    BatchOptions,
    LogFileOptions,
    Mode,
    TruncateOptions,
    WebhookOptions,
)

_FILE = click.Path(path_type=Path, dir_okay=False)
_Flag = Callable[[Callable[..., Any]], Callable[..., Any]]


def _of_backend(plugin: str, mode: Mode, batch: BatchOptions) -> tuple[_Flag, ...]:
    """The flags that both backends have."""

    def flag(name: str, kind: Any, default: Any, text: str) -> _Flag:
        return click.option(f"--audit-{plugin}-{name}", type=kind, default=default, show_default=True, help=text)

    truncate = TruncateOptions()
    wait = format_duration(dt.timedelta(seconds=batch.max_wait))
    return (
        flag("mode", str, str(mode), f"Whether requests wait for their events: {', '.join(Mode)}."),
        flag("batch-buffer-size", int, batch.buffer_size, "Events to hold; more are dropped and counted."),
        flag("batch-max-size", int, batch.max_size, "Events in one batch."),
        flag("batch-max-wait", DURATION, wait, "How long events may wait for others."),
        flag("batch-throttle-enable", bool, batch.throttle_enable, "Limit batches by the next two."),
        flag("batch-throttle-qps", float, batch.throttle_qps, "Batches a second."),
        flag("batch-throttle-burst", int, batch.throttle_burst, "Batches at once."),
        flag("truncate-enabled", bool, truncate.enabled, "Take the objects out of events that are too large."),
        flag("truncate-max-batch-size", int, truncate.max_batch_size, "Bytes of a batch."),
        flag("truncate-max-event-size", int, truncate.max_event_size, "Bytes of an event."),
        flag("version", str, API_VERSION, "API version of the events."),
    )


_FLAGS: tuple[_Flag, ...] = (
    click.option("--audit-policy-file", type=_FILE, help="Policy: which requests are recorded, and how much of them."),
    click.option("--audit-log-path", default="", help="File for events, one a line; - is standard output."),
    click.option("--audit-log-format", default=JSON, show_default=True, help="json is the only one."),
    click.option("--audit-log-maxsize", type=int, default=100, show_default=True, help="Megabytes a file."),
    click.option("--audit-log-maxage", type=int, default=0, help="Days to keep old files.  [default: for ever]"),
    click.option("--audit-log-maxbackup", type=int, default=0, help="Old files to keep.  [default: all]"),
    click.option("--audit-log-compress", is_flag=True, help="Compress old files with gzip."),
    *_of_backend("log", Mode.BLOCKING, LOG_BATCH),
    click.option("--audit-webhook-config-file", type=_FILE, help="Kubeconfig of a service that takes events."),
    *_of_backend("webhook", Mode.BATCH, BatchOptions()),
    click.option(
        "--audit-webhook-initial-backoff",
        type=DURATION,
        default="10s",
        show_default=True,
        help="Pause after a request that failed.",
    ),
)


audit_flags = together(*_FLAGS)


def _take_backend(flags: dict[str, Any], plugin: str) -> dict[str, Any]:
    def take(name: str) -> Any:
        return flags.pop(f"audit_{plugin}_{name}")

    batch = BatchOptions(
        buffer_size=take("batch_buffer_size"),
        max_size=take("batch_max_size"),
        max_wait=take("batch_max_wait").total_seconds(),
        throttle_enable=take("batch_throttle_enable"),
        throttle_qps=take("batch_throttle_qps"),
        throttle_burst=take("batch_throttle_burst"),
    )
    truncate = TruncateOptions(
        enabled=take("truncate_enabled"),
        max_batch_size=take("truncate_max_batch_size"),
        max_event_size=take("truncate_max_event_size"),
    )
    return {"mode": take("mode"), "version": take("version"), "batch": batch, "truncate": truncate}


def take_audit(flags: dict[str, Any]) -> AuditOptions:
    """The options that the flags say; takes them out of ``flags``."""
    log = LogFileOptions(
        path=flags.pop("audit_log_path"),
        max_age_days=flags.pop("audit_log_maxage"),
        max_backups=flags.pop("audit_log_maxbackup"),
        max_size=flags.pop("audit_log_maxsize"),
        compress=flags.pop("audit_log_compress"),
        format=flags.pop("audit_log_format"),
        **_take_backend(flags, "log"),
    )
    backoff: dt.timedelta = flags.pop("audit_webhook_initial_backoff")
    config: Path | None = flags.pop("audit_webhook_config_file")
    webhook = _take_backend(flags, "webhook")
    return AuditOptions(
        flags.pop("audit_policy_file"),
        log if log.path else None,
        None if config is None else WebhookOptions(config, initial_backoff=backoff.total_seconds(), **webhook),
    )
