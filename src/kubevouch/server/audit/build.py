"""From the ``--audit-*`` flags to what records requests."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import structlog

from kubevouch.client.interface import ClientConfigurationError
from kubevouch.server.audit.interface import AuditBackend
from kubevouch.server.audit.log_file import LogFile
from kubevouch.server.audit.options import AuditOptions
from kubevouch.server.audit.policy import AuditPolicyError, parse_policy
from kubevouch.server.audit.webhook import Webhook
from kubevouch.server.filters.audit import Audit
from kubevouch.server.metrics import Metrics
from kubevouch.util.clock import Clock

log = structlog.get_logger("audit")

BuildAudit = Callable[[Metrics], Audit | None]
"""Opens the backends; raises ``AuditOptionsError``."""


class AuditOptionsError(Exception):
    """A file that the options name cannot be used."""


def prepare(options: AuditOptions, clock: Clock) -> BuildAudit:
    """Read the policy now; the backends are opened by the server.

    Raises:
        AuditOptionsError: the policy file cannot be used.
    """
    if options.policy_file is None:
        if options.log is not None or options.webhook is not None:
            log.warning("No audit policy file provided, no events will be recorded")
        return lambda _metrics: None
    try:
        policy = parse_policy(options.policy_file.read_bytes())
    except (OSError, AuditPolicyError) as err:
        raise AuditOptionsError(f"the audit policy file {options.policy_file} cannot be used: {err}") from err

    def build(metrics: Metrics) -> Audit | None:
        backends = _backends(options, clock, metrics)
        return Audit(policy, backends, clock, metrics) if backends else None

    return build


def _backends(options: AuditOptions, clock: Clock, metrics: Metrics) -> list[AuditBackend]:
    backends: list[AuditBackend] = []
    try:
        if options.log is not None:
            backends.append(LogFile(options.log, clock, partial(metrics.audit_lost, LogFile.name)))
        if options.webhook is not None:
            backends.append(Webhook(options.webhook, clock, partial(metrics.audit_lost, Webhook.name)))
    except (OSError, ClientConfigurationError) as err:
        raise AuditOptionsError(f"audit events cannot be kept: {err}") from err
    return backends
