"""policy/certificate_policies.py: what follows from what was looked at."""

from __future__ import annotations

import datetime as dt
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubevouch.api.kubevouch_v1alpha1.certificate_request_policies import (
    APPROVE,
    APPROVE_OR_DENY,
    AUDIT,
    READY,
    REQUIRE,
    AllowedHosts,
    AllowedSubject,
    AllowedTexts,
    CertificateRequestPolicy,
    CertificateRequestPolicySpec,
    CertificateRequestPolicyStatus,
    ExpirationBounds,
    PolicySelector,
    PolicyValidation,
    RateBound,
)
from kubevouch.api.meta_v1 import Condition
from kubevouch.cel.environment import Budget
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.policy.certificate_policies import (
    SUBJECT_RULE,
    WRITER_RULE,
    CompiledPolicy,
    Known,
    compile_policy,
    decide,
    fault_of,
    look,
    needs_of,
    would_approve,
)
from kubevouch.policy.constraints import Records
from kubevouch.policy.expressions import REQUEST_BUDGET, Surroundings
from kubevouch.policy.facts import RequestFacts, SubjectFacts
from kubevouch.policy.verdict import Outcome, Step, StepResult, Verdict, combine

NOW = dt.datetime(2026, 1, 2, tzinfo=dt.UTC)
SIGNER = "example.com/hosts"
HOST = "a.k8s.example.com"
FACTS = RequestFacts(
    name="csr-1",
    signer_name=SIGNER,
    username="system:serviceaccount:shop:web",
    groups=("team-a", "system:authenticated"),
    usages=("server auth",),
    expiration_seconds=2592000,
    key_fingerprint="ab" * 32,
    key_algorithm="ECDSA",
    key_bits=256,
    subject=SubjectFacts(common_name=HOST),
    dns_names=(HOST,),
)


def facts(**changes: Any) -> RequestFacts:
    return msgspec.structs.replace(FACTS, **changes)


def policy(name: str = "hosts", **spec: Any) -> CompiledPolicy:
    """The example of the first design, with changes."""
    hosts = ["*.k8s.example.com"]
    declared = CertificateRequestPolicySpec(
        **{
            "effect": APPROVE_OR_DENY,
            "selector": PolicySelector(signer_names=[SIGNER]),
            "subject": AllowedSubject(common_name=AllowedTexts(patterns=hosts)),
            "dns_names": AllowedHosts(patterns=hosts, required=True),
            "usages": ["server auth"],
            "expiration_seconds": ExpirationBounds(maximum=2592000),
            "fresh_key": True,
            **spec,
        }
    )
    return compile_policy(CertificateRequestPolicy(metadata=ObjectMeta(name=name, generation=3), spec=declared))


def verdict(
    of: CompiledPolicy, asked: RequestFacts = FACTS, *, may_use: bool | None = True, records: Records | None = None
) -> Verdict:
    known = Known(around=Surroundings(now=NOW), records=records or Records())
    return decide(of, look(of, asked, known, Budget(REQUEST_BUDGET)), may_use)


def outcome(of: CompiledPolicy, asked: RequestFacts = FACTS, **more: Any) -> tuple[str, bool]:
    """And whether it blocks."""
    found = verdict(of, asked, **more)
    return found.outcome.value, found.blocks


def test_the_example_of_the_first_design() -> None:
    assert verdict(policy()).outcome is Outcome.APPROVE
    thirty_one = verdict(policy(), facts(expiration_seconds=2592001))
    assert (thirty_one.outcome, thirty_one.reason) == (Outcome.DENY, "DeniedByPolicy")
    assert thirty_one.message == (
        "policy hosts: expirationSeconds: got 2592001 s, expected at most 2592000 s (30 days, 0:00:00)"
    )
    assert verdict(policy(), facts(dns_names=(HOST, "evil.com"))).message == (
        "policy hosts: san.dns: got evil.com, expected *.k8s.example.com"
    )
    assert verdict(policy(), records=Records(key="csr-0 has a certificate for it")).outcome is Outcome.DENY


@pytest.mark.parametrize(
    ("effect", "met", "unmet", "waits", "unmentioned"),
    [
        (APPROVE, ("approve", False), ("no-opinion", False), ("no-opinion", False), ("no-opinion", False)),
        (REQUIRE, ("no-opinion", False), ("deny", False), ("no-opinion", True), ("no-opinion", False)),
        (APPROVE_OR_DENY, ("approve", False), ("deny", False), ("no-opinion", True), ("no-opinion", False)),
    ],
)
def test_effects(effect: str, met: Any, unmet: Any, waits: Any, unmentioned: Any) -> None:
    of = policy(effect=effect)
    assert outcome(of) == met
    assert outcome(of, facts(dns_names=("evil.com",))) == unmet
    assert outcome(of, records=Records(key_waits="csr-0 is approved")) == waits
    assert outcome(of, records=Records(fault="away")) == waits
    assert outcome(of, facts(ip_addresses=("10.0.0.1",))) == unmentioned
    # A contradiction counts whatever else is not known, and what waits does so whatever is not mentioned.
    assert outcome(of, facts(dns_names=("evil.com",)), records=Records(fault="away")) == unmet
    assert outcome(of, facts(ip_addresses=("10.0.0.1",)), records=Records(fault="away")) == waits


def test_an_error_of_an_expression_never_decides() -> None:
    failing = [PolicyValidation(expression="requester.extra['none'][0] == ''")]
    assert outcome(policy(effect=APPROVE, validations=failing)) == ("no-opinion", False)
    assert outcome(policy(effect=REQUIRE, validations=failing)) == ("no-opinion", True)
    assert verdict(policy(effect=REQUIRE, validations=failing)).reason == "PolicyError"


def test_a_validation_has_its_reason_and_message() -> None:
    said = [PolicyValidation(expression="x509.keyBits > 500", message="too weak", reason="WeakKey")]
    found = verdict(policy(validations=said))
    assert (found.outcome, found.reason, found.message) == (
        Outcome.DENY, "WeakKey", "policy hosts: validations[0]: too weak",
    )  # fmt: skip


def test_a_requester_without_the_right_is_not_approved_and_not_let_off() -> None:
    found = verdict(policy(), may_use=False)
    assert (found.outcome, found.reason, found.retry, found.blocks) == (Outcome.NO_OPINION, "NotPermitted", True, False)
    assert "the right to use certificaterequestpolicies/hosts" in found.missing
    assert outcome(policy(), may_use=None) == ("no-opinion", False)
    assert outcome(policy(), facts(dns_names=("evil.com",)), may_use=False) == ("deny", False)
    assert outcome(policy(effect=REQUIRE), may_use=False) == ("no-opinion", False)


def test_a_right_that_is_missing_leaves_the_request_to_others() -> None:
    """Also by a policy that denies: nothing in the request contradicts it."""
    of = policy()
    steps = look(of, FACTS, Known(around=Surroundings(now=NOW)), Budget(REQUEST_BUDGET))
    lacks = Step(WRITER_RULE, StepResult.UNMET, "ops", "the right to approve for example.com/hosts")
    found = decide(of, steps, True, (Step(SUBJECT_RULE, StepResult.MET), lacks))
    assert (found.outcome, found.reason, found.retry, found.blocks) == (Outcome.NO_OPINION, "NotPermitted", True, False)
    assert found.missing == "writer may approve: got ops, expected the right to approve for example.com/hosts"
    assert decide(of, steps, True, (msgspec.structs.replace(lacks, result=StepResult.MET),)).outcome is Outcome.APPROVE


@pytest.mark.parametrize(
    ("is_old", "asked", "covered"),
    [
        (False, ("alice", ("team",)), ("alice", ())),
        (False, ("root", ("team", "admins")), ("", ("admins",))),
        # Nobody answers for what is written out.
        (True, ("root", ("team",)), ("root", ("team",))),
        (False, ("", ("team",)), ("", ())),
    ],
)
def test_which_names_of_a_client_certificate_are_covered_only(
    is_old: bool, asked: tuple[str, tuple[str, ...]], covered: tuple[str, tuple[str, ...]]
) -> None:
    names = AllowedSubject(
        common_name=AllowedTexts(patterns=["root", "*"]), organizations=AllowedTexts(patterns=["team", "**"])
    )
    of = policy(subject=names)
    subject = SubjectFacts(common_name=asked[0], organizations=asked[1])
    assert of.covered_subject(facts(subject=subject, usages=("client auth",)), is_old=is_old) == covered
    assert of.covered_subject(facts(subject=subject)) == ("", ())


def test_an_audited_policy_tells_what_would_have_followed() -> None:
    for asked, told in ((FACTS, "would approve"), (facts(dns_names=("evil.com",)), "would deny")):
        found = verdict(policy(mode=AUDIT), asked)
        assert (found.outcome, found.missing, found.blocks, found.retry) == (Outcome.NO_OPINION, "", False, False)
        assert found.steps[0] == Step("mode", StepResult.SKIPPED, told, "Enforce, for that to follow")


@pytest.mark.parametrize(
    ("selector", "selected"),
    [
        ({"signer_names": [SIGNER]}, True),
        ({"signer_names": ["example.com/*"]}, True),
        ({"signer_names": ["*"]}, True),
        ({"signer_names": ["other.com/*", SIGNER]}, True),
        ({"signer_names": ["example.com/host"]}, False),
        ({"signer_names": ["other.com/*"]}, False),
        ({"signer_names": ["*"], "namespaces": ["shop"]}, True),
        ({"signer_names": ["*"], "namespaces": ["sho"]}, False),
        ({"signer_names": ["*"], "usernames": ["system:serviceaccount:shop:*"]}, True),
        ({"signer_names": ["*"], "usernames": ["alice"]}, False),
        ({"signer_names": ["*"], "groups": ["team-*"]}, True),
        ({"signer_names": ["*"], "groups": ["team-b"]}, False),
        ({"signer_names": ["*"], "namespaces": ["shop"], "groups": ["team-b"]}, False),
    ],
)
def test_whom_a_policy_selects(selector: dict[str, Any], selected: bool) -> None:
    assert policy(selector=PolicySelector(**selector)).selects(FACTS) is selected


def test_a_namespace_is_not_any_user_of_that_name() -> None:
    of = policy(selector=PolicySelector(signer_names=["*"], namespaces=["**"]))
    assert not of.selects(facts(username="shop"))


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        ({"validations": [PolicyValidation(expression="nothing == 1")]}, "spec.validations[0].expression: compilation"),
        ({"dns_names": AllowedHosts(patterns=["a*b"])}, "san.dns: 'a*b'"),
        ({"selector": PolicySelector(signer_names=["a*"])}, "spec.selector.signerNames: got 'a*'"),
        ({"selector": PolicySelector(signer_names=[])}, "spec.selector.signerNames is empty"),
        ({"selector": PolicySelector(signer_names=["*"], groups=["*x"])}, "spec.selector.groups"),
    ],
)  # fmt: skip
def test_a_broken_policy_never_widens_what_is_granted(spec: dict[str, Any], fault: str) -> None:
    for effect, blocks in ((APPROVE, False), (REQUIRE, True), (APPROVE_OR_DENY, True)):
        broken = policy(effect=effect, **spec)
        assert broken.fault.startswith(fault)
        assert broken.selects(FACTS)
        assert outcome(broken) == ("no-opinion", blocks)
        assert combine([verdict(broken), verdict(policy("other"))]).outcome is (
            Outcome.NO_OPINION if blocks else Outcome.APPROVE
        )


def test_a_broken_policy_of_other_signers_is_no_business_of_this_one() -> None:
    broken = policy(
        selector=PolicySelector(signer_names=["other.com/x"]), validations=[PolicyValidation(expression="no")]
    )
    assert broken.fault
    assert not broken.selects(FACTS)


def test_what_the_status_of_a_policy_says() -> None:
    def fault(*expressions: str, **spec: Any) -> tuple[str, str]:
        validations = [PolicyValidation(expression=each) for each in expressions]
        selector = PolicySelector(signer_names=["*"])
        declared = CertificateRequestPolicySpec(effect=REQUIRE, selector=selector, validations=validations, **spec)
        return fault_of(CertificateRequestPolicy(metadata=ObjectMeta(name="p"), spec=declared))

    assert fault("x509.dnsNames.under('example.com')", "has(node.metadata)") == ("", "")
    assert fault("nothing")[0] == "Invalid"
    slow = "x509.dnsNames.all(a, x509.dnsNames.all(b, x509.dnsNames.all(c, (a + b + c).size() > 0)))"
    reason, message = fault("true", slow)
    assert (reason, message.partition(":")[0]) == ("TooExpensive", "spec.validations[1]")
    # What fails for want of a Node does not fail for being slow.
    assert fault("node.metadata.labels['rack'] == '7'") == ("", "")


def test_a_requirement_is_above_an_approval() -> None:
    approving = policy("a", effect=APPROVE)
    strict = policy("z", effect=REQUIRE, validations=[PolicyValidation(expression="x509.keyBits > 500")])
    found = combine([verdict(approving), verdict(strict)])
    assert (found.outcome, found.approver) == (Outcome.DENY, "policy/z")
    waiting = policy("z", effect=REQUIRE, rate=RateBound(requests=1, period_seconds=60))
    found = combine([verdict(approving), verdict(waiting, records=Records(approved={60: 1}))])
    assert (found.outcome, found.missing) == (Outcome.NO_OPINION, "rate: got 1 approved in 60 s, expected fewer than 1")


def test_what_is_needed() -> None:
    other = policy(rate=RateBound(requests=1, period_seconds=60), fresh_key=False)
    needs = needs_of([policy(), other])
    assert (needs.key, needs.periods, needs.holders) == (True, frozenset({60}), False)


STEPS = st.lists(st.builds(Step, st.sampled_from(["a", "validations[0]"]), st.sampled_from(StepResult)), max_size=6)


@given(STEPS, st.sampled_from([APPROVE, REQUIRE, APPROVE_OR_DENY]), st.booleans(), st.none() | st.booleans())
def test_whatever_comes_of_the_rules(steps: list[Step], effect: str, audit: bool, may_use: bool | None) -> None:
    of = msgspec.structs.replace(policy(effect=effect), is_audit=audit)
    found = decide(of, steps, may_use)
    results = {step.result for step in steps}
    if found.outcome is Outcome.APPROVE:
        assert results <= {StepResult.MET} and may_use and effect != REQUIRE and not audit
        assert would_approve(of, steps)
    if found.outcome is Outcome.DENY:
        assert StepResult.UNMET in results and effect != APPROVE and not audit
    if found.blocks:
        assert results & {StepResult.UNKNOWN, StepResult.ERROR} and effect != APPROVE and not audit
    if effect != APPROVE and not audit and StepResult.UNMET in results:
        assert found.outcome is Outcome.DENY


@pytest.mark.parametrize(
    "crowd",
    [
        {"dns_names": tuple(f"h{number}.k8s.example.com" for number in range(101))},
        {"ip_addresses": tuple(f"10.0.0.{number}" for number in range(101))},
        {"email_addresses": ("a@example.com",) * 101},
        {"uris": ("spiffe://example.com/a",) * 101},
        {"extensions": ("1.2.3",) * 101},
        {"subject": SubjectFacts(common_name=HOST, organizational_units=("x",) * 101)},
    ],
)
def test_expressions_are_not_evaluated_with_more_than_they_were_tried_with(crowd: dict[str, Any]) -> None:
    """Nobody knows whether such a request fits: nothing denies it, and a person decides."""
    careful = policy(effect=REQUIRE, dns_names=None, validations=[PolicyValidation(expression="false")])
    found = verdict(careful, facts(**crowd))
    assert (found.outcome, found.blocks, found.reason) == (Outcome.NO_OPINION, True, "PolicyError")
    assert found.missing.endswith("expected at most 100 of each kind, or a person who decides")
    kind = next(iter(crowd))
    if kind != "subject":
        assert verdict(careful, facts(**{kind: crowd[kind][:100]})).outcome is Outcome.DENY
    # What has no expressions looks at each name once.
    plain = policy(effect=REQUIRE, dns_names=None)
    assert verdict(plain, facts(**crowd)).outcome is Outcome.NO_OPINION
    assert not verdict(plain, facts(**crowd)).blocks


def test_a_policy_that_is_too_expensive_is_not_evaluated_until_it_is_written_anew() -> None:
    def stored(generation: int, reason: str = "TooExpensive", observed: int = 3) -> CompiledPolicy:
        ready = Condition(type=READY, status="False", reason=reason, message="it costs", observed_generation=observed)
        spec = CertificateRequestPolicySpec(
            effect=REQUIRE,
            selector=PolicySelector(signer_names=[SIGNER]),
            validations=[PolicyValidation(expression="false")],
        )
        return compile_policy(
            CertificateRequestPolicy(
                metadata=ObjectMeta(name="p", generation=generation),
                spec=spec,
                status=CertificateRequestPolicyStatus(conditions=[ready]),
            )
        )

    assert outcome(stored(3)) == ("no-opinion", True)
    assert verdict(stored(3)).missing == "policy: got it costs, expected a policy that can be evaluated"
    # What was said of another generation, or of something else, counts no more.
    assert outcome(stored(4)) == outcome(stored(3, reason="Invalid")) == ("deny", False)
