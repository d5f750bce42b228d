"""kube-apiserver's ``--audit-*`` flags."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

STDOUT = "-"


@dataclass(frozen=True, slots=True)
class LogFileOptions:
    """``--audit-log-*``.

    Args:
        path: ``-`` is standard output.
        max_age_days, max_backups: of rotated files; 0 keeps all.
        max_size: megabytes (1024²) at which the file is rotated.
    """

    path: str
    max_age_days: int = 0
    max_backups: int = 0
    max_size: int = 100
    compress: bool = False


@dataclass(frozen=True, slots=True)
class WebhookOptions:
    """``--audit-webhook-*``, times in seconds."""

    config_file: Path
    batch_max_size: int = 400
    batch_max_wait: float = 30.0
    batch_buffer_size: int = 10_000
    batch_throttle_qps: float = 10.0
    batch_throttle_burst: int = 15
    initial_backoff: float = 10.0


@dataclass(frozen=True, slots=True)
class AuditOptions:
    """Without a policy file nothing is recorded, as in Kubernetes."""

    policy_file: Path | None = None
    log: LogFileOptions | None = None
    webhook: WebhookOptions | None = None
