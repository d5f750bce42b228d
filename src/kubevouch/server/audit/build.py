"""From the ``--audit-*`` flags to what records requests."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from kubevouch.authentication.aggregate import aggregate
from kubevouch.client.interface import ClientConfigurationError
from kubevouch.server.audit.interface import AuditBackend
from kubevouch.server.audit.log_file import LogFile
from kubevouch.server.audit.options import AuditOptions, TruncateOptions, problems
from kubevouch.server.audit.policy import AuditPolicyError, parse_policy
from kubevouch.server.audit.truncate import PLUGIN, Truncating
from kubevouch.server.audit.webhook import Webhook
from kubevouch.server.filters.audit import Audit
from kubevouch.server.metrics.catalog import Metrics
from kubevouch.util.clock import Clock
from kubevouch.util.logger import get_logger

log = get_logger("audit")

BuildAudit = Callable[[Metrics], Audit | None]
"""Opens the backends; raises ``AuditOptionsError``."""


class AuditOptionsError(Exception):
    """A file that the options name cannot be used."""


def prepare(options: AuditOptions, clock: Clock) -> BuildAudit:
    """Check the flags and read the policy now; the backends are opened by the server.

    Raises:
        AuditOptionsError: a flag cannot be meant, or the policy file cannot be used.
    """
    if found := problems(options):
        raise AuditOptionsError(aggregate(found))
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
    lost = metrics.audit_lost
    backends: list[AuditBackend] = []
    try:
        if options.log is not None:
            backends.append(_truncating(LogFile(options.log, clock, lost), options.log.truncate, lost))
        if options.webhook is not None:
            backends.append(_truncating(Webhook(options.webhook, clock, lost), options.webhook.truncate, lost))
    except (OSError, ClientConfigurationError) as err:
        raise AuditOptionsError(f"audit events cannot be kept: {err}") from err
    return backends


def _truncating(backend: AuditBackend, options: TruncateOptions, lost: Callable[[str, int], None]) -> AuditBackend:
    return Truncating(backend, options.max_event_size, partial(lost, PLUGIN)) if options.enabled else backend
