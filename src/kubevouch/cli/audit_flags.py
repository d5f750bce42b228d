"""kube-apiserver's flags for audit, for ``kubevouch up``."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from kubevouch.cli.durations import DURATION
from kubevouch.server.audit.options import AuditOptions, LogFileOptions, WebhookOptions

_FILE = click.Path(path_type=Path, dir_okay=False)
_COUNT = click.IntRange(0)
_POSITIVE = click.IntRange(1)

_FLAGS = (
    click.option("--audit-policy-file", type=_FILE, help="Policy: which requests are recorded, and how much of them."),
    click.option("--audit-log-path", default="", help="File for events, one a line; - is standard output."),
    click.option("--audit-log-maxsize", type=_POSITIVE, default=100, show_default=True, help="Megabytes a file."),
    click.option("--audit-log-maxage", type=_COUNT, default=0, help="Days to keep old files.  [default: for ever]"),
    click.option("--audit-log-maxbackup", type=_COUNT, default=0, help="Old files to keep.  [default: all]"),
    click.option("--audit-log-compress", is_flag=True, help="Compress old files with gzip."),
    click.option("--audit-webhook-config-file", type=_FILE, help="Kubeconfig of a service that takes events."),
    click.option(
        "--audit-webhook-batch-max-size", type=_POSITIVE, default=400, show_default=True, help="Events in one request."
    ),
    click.option(
        "--audit-webhook-batch-max-wait",
        type=DURATION,
        default="30s",
        show_default=True,
        help="How long events may wait for others.",
    ),
    click.option(
        "--audit-webhook-batch-buffer-size",
        type=_POSITIVE,
        default=10_000,
        show_default=True,
        help="Events to hold; more are dropped and counted.",
    ),
    click.option(
        "--audit-webhook-initial-backoff",
        type=DURATION,
        default="10s",
        show_default=True,
        help="Pause after a request that failed.",
    ),
)


def audit_flags(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the flags to a command."""
    for flag in reversed(_FLAGS):
        command = flag(command)
    return command


def take_audit(flags: dict[str, Any]) -> AuditOptions:
    """The options that the flags say; takes them out of ``flags``."""
    wait: dt.timedelta = flags.pop("audit_webhook_batch_max_wait")
    backoff: dt.timedelta = flags.pop("audit_webhook_initial_backoff")
    log = LogFileOptions(
        path=flags.pop("audit_log_path"),
        max_age_days=flags.pop("audit_log_maxage"),
        max_backups=flags.pop("audit_log_maxbackup"),
        max_size=flags.pop("audit_log_maxsize"),
        compress=flags.pop("audit_log_compress"),
    )
    config = flags.pop("audit_webhook_config_file")
    size, buffer = flags.pop("audit_webhook_batch_max_size"), flags.pop("audit_webhook_batch_buffer_size")
    webhook = None
    if config is not None:
        webhook = WebhookOptions(
            config,
            batch_max_size=size,
            batch_max_wait=wait.total_seconds(),
            batch_buffer_size=buffer,
            initial_backoff=backoff.total_seconds(),
        )
    return AuditOptions(flags.pop("audit_policy_file"), log if log.path else None, webhook)
