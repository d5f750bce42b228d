"""doctor/status.py: one screen, and how soon somebody has to do something."""

from __future__ import annotations

import datetime as dt

import pytest

from kubevouch.api.certificates_v1 import CertificateSigningRequest
from kubevouch.doctor.findings import Area, Code
from kubevouch.doctor.status import ClusterStatus, Severity, checks_failing, controllers_in, severity_of, waited
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.machinery.text.times import Time

NOW = dt.datetime(2030, 1, 1, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("codes", "ready", "severity"),
    [
        ([], True, Severity.WELL),
        ([Code.CA_EXPIRING], True, Severity.SOON),
        ([Code.CA_EXPIRING, Code.CA_EXPIRED], True, Severity.NOW),
        ([Code.ACCESS_REFUSED], None, Severity.NOW),
        ([Code.CA_EXPIRING, Code.PORT_REFUSED], None, Severity.NO_ANSWER),
        ([Code.SERVER_NOT_TRUSTED], None, Severity.NOT_TRUSTED),
        ([], False, Severity.NOW),
        ([Code.TOKEN_WEAK], False, Severity.NOW),
    ],
)
def test_the_worst_counts(codes: list[Code], ready: bool | None, severity: Severity) -> None:
    found = ClusterStatus("https://a", tuple(each.found("seen") for each in codes), ready=ready)
    assert found.severity is severity
    assert found.tree()["severity"] == severity.name.lower().replace("_", "-")


def test_what_keeps_machines_out_is_never_soon() -> None:
    for code in Code:
        if code.value.area in (Area.DISCOVERY, Area.NODE) and severity_of(code) is Severity.SOON:
            assert code in (Code.TOKEN_WEAK, Code.TOKEN_BROKEN, Code.APPROVAL_NOT_AUTOMATIC, Code.RENEWAL_NOT_AUTOMATIC)


def test_controllers_are_those_with_a_queue() -> None:
    text = """# TYPE workqueue_depth gauge
workqueue_depth{name="b-controller"} 3.0
workqueue_depth{name="a-controller"} 0
workqueue_depth{name="odd\\"name"} 1
workqueue_depth{name="nan"} NaN
workqueue_adds_total{name="other"} 5.0
"""
    assert controllers_in(text) == {"a-controller": 0, "b-controller": 3}
    assert len(controllers_in("\n".join(f'workqueue_depth{{name="{n}"}} 1' for n in range(5000)))) == 200


def test_the_checks_that_fail() -> None:
    text = "[+]ping ok\n[-]data-directory failed: reason withheld\n[+]etcd ok\n[-]shutdown failed: reason withheld\n"
    assert checks_failing(text) == ("data-directory", "shutdown")
    assert checks_failing("[-]a b failed: x\n[-]\x1b[2J failed\nno") == ()
    assert len(checks_failing("[-]a failed\n" * 5000)) == 20


def test_the_oldest_request() -> None:
    ages = (dt.timedelta(minutes=1), dt.timedelta(hours=3), dt.timedelta())
    requests = [
        CertificateSigningRequest(metadata=ObjectMeta(name="a", creation_timestamp=Time.of(NOW - age))) for age in ages
    ]
    assert waited(requests, NOW) == dt.timedelta(hours=3)
    assert waited([], NOW) == dt.timedelta()


def test_a_damaged_ledger_is_something_for_now() -> None:
    whole = ClusterStatus("https://a", ready=True, ledger=7)
    assert (whole.severity, whole.tree()["ledger"]) == (Severity.WELL, {"entries": 7, "damage": ""})
    damaged = ClusterStatus("https://a", ready=True, ledger_damage="entries are missing")
    assert (damaged.severity, damaged.tree()["ledger"]["damage"]) == (Severity.NOW, "entries are missing")
    assert "ledger" not in ClusterStatus("https://a", ready=True).tree()
