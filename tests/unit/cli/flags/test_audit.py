"""kube-apiserver's audit flags."""

from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from kubevouch.cli.flags.audit import audit_flags, take_audit
from kubevouch.server.audit.options import AuditOptions, BatchOptions, LogFileOptions, TruncateOptions, WebhookOptions


def parsed(*arguments: str) -> AuditOptions:
    found: list[AuditOptions] = []

    @click.command()
    @audit_flags
    def command(**flags: Any) -> None:
        found.append(take_audit(flags))
        assert flags == {}

    result = CliRunner().invoke(command, arguments)
    if result.exit_code:
        raise ValueError(result.output)
    return found[0]


def test_nothing_is_recorded_unless_asked() -> None:
    assert parsed() == AuditOptions()


def test_all_flags() -> None:
    log = ("--audit-log-path=-", "--audit-log-maxsize=1", "--audit-log-maxage=2", "--audit-log-maxbackup=3")
    webhook = ("--audit-webhook-config-file=w.conf", "--audit-webhook-initial-backoff=1s")
    both = [
        f"--audit-{plugin}-{flag}"
        for plugin in ("log", "webhook")
        for flag in (
            "mode=blocking-strict",
            "version=v",
            "batch-buffer-size=5",
            "batch-max-size=4",
            "batch-max-wait=1m",
            "batch-throttle-enable=false",
            "batch-throttle-qps=0.5",
            "batch-throttle-burst=6",
            "truncate-enabled=true",
            "truncate-max-batch-size=8",
            "truncate-max-event-size=7",
        )
    ]
    batch, truncate = BatchOptions(5, 4, 60.0, False, 0.5, 6), TruncateOptions(True, 8, 7)
    flags = ("--audit-policy-file=p.yaml", *log, "--audit-log-compress", "--audit-log-format=legacy", *webhook, *both)
    assert parsed(*flags) == AuditOptions(
        Path("p.yaml"),
        LogFileOptions("-", 2, 3, 1, True, "blocking-strict", "legacy", "v", batch, truncate),
        WebhookOptions(Path("w.conf"), "blocking-strict", "v", batch, truncate, 1.0),
    )


def test_the_defaults_are_kubernetes_own() -> None:
    options = parsed("--audit-log-path=a.log", "--audit-webhook-config-file=w.conf")
    assert options == AuditOptions(None, LogFileOptions("a.log"), WebhookOptions(Path("w.conf")))
    assert options.log is not None and options.webhook is not None
    assert (options.log.mode, options.webhook.mode) == ("blocking", "batch")
    assert options.webhook.batch == BatchOptions(10_000, 400, 30.0, True, 10.0, 15)


def test_a_number_has_to_be_one() -> None:
    with pytest.raises(ValueError, match="Invalid value"):
        parsed("--audit-log-maxsize=x")
