"""kube-apiserver's audit flags."""

from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from kubevouch.cli.audit_flags import audit_flags, take_audit
from kubevouch.server.audit.options import AuditOptions, LogFileOptions, WebhookOptions


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
    webhook = (
        "--audit-webhook-config-file=w.conf",
        "--audit-webhook-batch-max-size=4",
        "--audit-webhook-batch-max-wait=1m",
        "--audit-webhook-batch-buffer-size=5",
        "--audit-webhook-initial-backoff=1s",
    )
    assert parsed("--audit-policy-file=p.yaml", *log, "--audit-log-compress", *webhook) == AuditOptions(
        Path("p.yaml"),
        LogFileOptions("-", max_age_days=2, max_backups=3, max_size=1, compress=True),
        WebhookOptions(Path("w.conf"), 4, 60.0, 5, initial_backoff=1.0),
    )


@pytest.mark.parametrize("argument", ["--audit-log-maxsize=0", "--audit-log-maxage=-1", "--audit-log-maxsize=x"])
def test_values_that_cannot_be_meant(argument: str) -> None:
    with pytest.raises(ValueError, match="Invalid value"):
        parsed(argument)
