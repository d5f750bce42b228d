"""What kube-apiserver refuses of its audit flags, word for word."""

from pathlib import Path

import pytest

from kubevouch.server.audit.options import (
    AuditOptions,
    BatchOptions,
    LogFileOptions,
    TruncateOptions,
    WebhookOptions,
    problems,
)

LOG = "a.log"
HOOK = Path("w.conf")


def test_defaults_are_fine() -> None:
    assert problems(AuditOptions()) == []
    assert problems(AuditOptions(None, LogFileOptions(LOG), WebhookOptions(HOOK))) == []


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            LogFileOptions(LOG, mode="async"),
            'invalid audit log mode async, allowed modes are "batch,blocking,blocking-strict"',
        ),
        (LogFileOptions(LOG, format="legacy"), 'invalid audit log format legacy, allowed formats are "json"'),
        (LogFileOptions(LOG, -1), "--audit-log-maxage -1 can't be a negative number"),
        (LogFileOptions(LOG, 0, -2), "--audit-log-maxbackup -2 can't be a negative number"),
        (LogFileOptions(LOG, max_size=-3), "--audit-log-maxsize -3 can't be a negative number"),
        (
            LogFileOptions(LOG, version="audit.k8s.io/v1beta1"),
            'invalid group version, allowed versions are ["audit.k8s.io/v1"]',
        ),
        (LogFileOptions(LOG, version="a/b/c"), "unexpected GroupVersion string: a/b/c"),
        (
            LogFileOptions(LOG, truncate=TruncateOptions(max_event_size=0)),
            "invalid audit truncate log max event size 0, must be a positive number",
        ),
        (
            LogFileOptions(LOG, truncate=TruncateOptions(max_batch_size=1, max_event_size=2)),
            "invalid audit truncate log max batch size 1, must be greater than max event size (2)",
        ),
        (
            LogFileOptions(LOG, mode="batch", batch=BatchOptions(buffer_size=0)),
            "invalid audit batch log buffer size 0, must be a positive number",
        ),
        (
            LogFileOptions(LOG, mode="batch", batch=BatchOptions(max_size=-1)),
            "invalid audit batch log max batch size -1, must be a positive number",
        ),
        (
            LogFileOptions(LOG, mode="batch", batch=BatchOptions(throttle_qps=0.0)),
            "invalid audit batch log throttle QPS 0, must be a positive number",
        ),
        (
            LogFileOptions(LOG, mode="batch", batch=BatchOptions(throttle_burst=0)),
            "invalid audit batch log throttle burst 0, must be a positive number",
        ),
    ],
)
def test_what_cannot_be_meant(options: LogFileOptions, text: str) -> None:
    assert problems(AuditOptions(log=options)) == [text]


def test_a_webhook_is_checked_the_same_way_and_unused_settings_are_not() -> None:
    odd = BatchOptions(buffer_size=0, throttle_qps=-1)
    assert problems(AuditOptions(webhook=WebhookOptions(HOOK, batch=odd))) == [
        "invalid audit batch webhook buffer size 0, must be a positive number"
    ]
    assert problems(AuditOptions(webhook=WebhookOptions(HOOK, mode="blocking", batch=odd))) == []
    unthrottled = BatchOptions(throttle_enable=False, throttle_qps=0, throttle_burst=0)
    assert problems(AuditOptions(webhook=WebhookOptions(HOOK, batch=unthrottled))) == []
