"""signers/definition.py: what is written is what is done, and what cannot be meant is told all at once."""

from __future__ import annotations

import datetime as dt
from typing import Any

import msgspec
import pytest

from kubevouch.api.kubevouch_v1alpha1.certificate_signers import CertificateSignerSpec
from kubevouch.pki.permissions import Otherwise
from kubevouch.pki.profile import Profile
from kubevouch.signers.definition import DefinitionError, rules_of
from signer_world import SPEC


def spec(**changes: Any) -> CertificateSignerSpec:
    return msgspec.convert(SPEC | changes, CertificateSignerSpec)


def test_everything_that_can_be_written() -> None:
    rules = rules_of(
        spec(
            subject={"organizations": ["web"], "anything": True, "required": ["organizations"], "otherwise": "Drop"},
            altNames={"dnsNames": ["*.a"], "ipRanges": ["10.0.0.0/8", "fd00::/8"], "most": 7, "wildcards": True,
                      "emailAddresses": ["*@a"], "uris": ["urn:**"], "required": True},
            usages={"permitted": ["cert sign", "crl sign", "server auth"], "required": ["server auth"]},
            lifetime={"defaultSeconds": 600, "maxSeconds": 900, "spreadPercent": 20, "otherwise": "Fail"},
            authorities={"allowed": True, "maxPathLength": 2},
            extensions={"permitted": ["1.2.3"], "crlDistributionPoints": ["http://a"], "ocspServers": ["http://b"],
                        "caIssuers": ["http://c"]},
            profile="Compatible",
        )
    )  # fmt: skip
    given = rules.permissions
    assert given is not None
    assert given.subject.anything and given.subject.required == {"organizations"}
    assert given.subject.otherwise is Otherwise.DROP and set(given.subject.patterns) == {"organizations"}
    assert given.names.dns_names.permit("*.a") and given.names.most == 7 and given.names.required
    assert len(given.names.networks) == 2 and given.names.otherwise is Otherwise.FAIL
    assert given.usages.required == {"server auth"} and given.authority.most_below == 2
    assert given.extensions.permitted == {"1.2.3"} and given.when_longer is Otherwise.FAIL and given.longest == 900
    assert (rules.signing_duration, rules.default_duration) == (dt.timedelta(seconds=900), dt.timedelta(seconds=600))
    assert rules.spread == 0.2 and rules.profile is Profile.COMPATIBLE
    assert [each.oid for each in rules.extensions] == ["1.3.6.1.5.5.7.1.1", "2.5.29.31"]


def test_what_is_left_out_permits_nothing() -> None:
    rules = rules_of(spec(subject=None, altNames=None))
    given = rules.permissions
    assert given is not None and not given.authority.allowed and not given.extensions.permitted
    assert given.subject.patterns == {} and not given.subject.anything and given.names.networks == ()
    assert given.longest == 7200 and rules.profile is Profile.STRICT and rules.spread == 0


def test_everything_that_is_wrong_is_told_at_once() -> None:
    with pytest.raises(DefinitionError) as told:
        rules_of(
            spec(
                subject={"commonNames": ["*x"], "required": ["countries"]},
                altNames={"ipRanges": ["10.0.0.1/8"], "required": True},
                usages={"permitted": ["crl sign"], "required": ["server auth"]},
                lifetime={"defaultSeconds": 900, "maxSeconds": 600},
                extensions={"permitted": ["2.5.29.19"]},
            )
        )
    assert [problem.partition(":")[0] for problem in told.value.problems] == [
        "spec.lifetime.maxSeconds", "spec.usages.required", "spec.usages.permitted", "spec.subject.commonNames",
        "spec.subject.required", "spec.altNames.ipRanges", "spec.altNames.required", "spec.extensions.permitted",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("allowed", "usages", "message"),
    [(True, ["server auth"], '"cert sign" is not among'), (False, ["cert sign"], '"cert sign" is among')],
)
def test_cas_need_the_usage_and_nobody_else_has_it(allowed: bool, usages: list[str], message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        rules_of(spec(authorities={"allowed": allowed}, usages={"permitted": usages}))
