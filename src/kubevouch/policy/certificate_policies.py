"""CertificateRequestPolicies: what each says of a request, and why. Pure; whoever asks gathers what they need to know.

Source: docs/adr/0021-policies-that-approve-and-deny.md.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from kubevouch.api.kubevouch_v1alpha1.certificate_approvals import CertificateApproval
from kubevouch.api.kubevouch_v1alpha1.certificate_request_policies import (
    APPROVE,
    APPROVE_OR_DENY,
    AUDIT,
    REQUIRE,
    CertificateRequestPolicy,
    PeopleBound,
    PolicySelector,
)
from kubevouch.api.kubevouch_v1alpha1.guards import authors_of
from kubevouch.cel.environment import Budget, Turn
from kubevouch.pki.name_patterns import Patterns
from kubevouch.policy import people
from kubevouch.policy.constraints import (
    Check,
    PolicyFault,
    RecordNeeds,
    Records,
    compile_constraints,
    count_patterns,
    patterns_of,
    record_needs,
)
from kubevouch.policy.expressions import POLICY_BUDGET, VALIDATIONS, Expressions, Surroundings, namespace_of
from kubevouch.policy.facts import RequestFacts, SubjectFacts
from kubevouch.policy.verdict import Outcome, Step, StepResult, Verdict

APPROVED_REASON = "ApprovedByPolicy"
DENIED_REASON = "DeniedByPolicy"
USE_RULE = "requester may use it"
ANY_SIGNER = "*"


class _Selector:
    """Raises :class:`PolicyFault`."""

    def __init__(self, declared: PolicySelector) -> None:
        if not declared.signer_names:
            raise PolicyFault("spec.selector.signerNames is empty: list signers, or * for all")
        for name in declared.signer_names:
            domain, _, path = name.partition("/")
            if "*" in name and name != ANY_SIGNER and ("*" in domain or path != "*"):
                raise PolicyFault(f"spec.selector.signerNames: got {name!r}, expected a name, example.com/* or *")
        self._signers = declared.signer_names
        self._usernames = _patterns(declared.usernames, "usernames")
        self._groups = _patterns(declared.groups, "groups")
        self._namespaces = _patterns(declared.namespaces, "namespaces")

    def selects(self, facts: RequestFacts) -> bool:
        domain = facts.signer_name.partition("/")[0]
        if not {facts.signer_name, f"{domain}/*", ANY_SIGNER}.intersection(self._signers):
            return False
        if self._usernames and not self._usernames.permit(facts.username):
            return False
        if self._groups and not any(map(self._groups.permit, facts.groups)):
            return False
        namespace = namespace_of(facts)
        return not self._namespaces or (namespace != "" and self._namespaces.permit(namespace))


def _patterns(texts: Sequence[str], field: str) -> Patterns:
    return patterns_of(texts, f"spec.selector.{field}")


class CompiledPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """A policy, ready to be asked.

    Args:
        fault: why it cannot be evaluated, empty if it can.
        selector: None if it cannot be read; then the policy is about every request.
        people: who has to agree; the ``authors`` of the policy do not count.
        patterns: how many each name may have to be held against.
    """

    name: str
    generation: int
    effect: str
    is_audit: bool
    needs: RecordNeeds
    fault: str = ""
    selector: _Selector | None = None
    checks: Sequence[Check] = ()
    expressions: Expressions | None = None
    people: PeopleBound | None = None
    authors: frozenset[str] = frozenset()
    patterns: int = 0

    @property
    def approver(self) -> str:
        return f"policy/{self.name}"

    @property
    def may_approve(self) -> bool:
        return self.effect in (APPROVE, APPROVE_OR_DENY)

    @property
    def may_deny(self) -> bool:
        return self.effect in (REQUIRE, APPROVE_OR_DENY)

    @property
    def names(self) -> frozenset[str]:
        """The variables that its expressions use."""
        return frozenset() if self.expressions is None else self.expressions.names

    def selects(self, facts: RequestFacts) -> bool:
        return self.selector is None or self.selector.selects(facts)


def compile_policy(policy: CertificateRequestPolicy) -> CompiledPolicy:
    """Never raises: what is wrong with it is its ``fault``."""
    spec, faults = policy.spec, []
    selector: _Selector | None = None
    checks: Sequence[Check] = ()
    expressions: Expressions | None = None
    try:
        selector = _Selector(spec.selector)
    except PolicyFault as err:
        faults.append(str(err))
    try:
        checks = compile_constraints(spec)
        expressions = Expressions(spec)
    except PolicyFault as err:
        faults.append(str(err))
    return CompiledPolicy(
        name=policy.metadata.name,
        generation=policy.metadata.generation,
        effect=spec.effect,
        is_audit=spec.mode == AUDIT,
        needs=record_needs(spec),
        fault="; ".join(faults),
        selector=selector,
        checks=checks,
        expressions=expressions,
        people=spec.people,
        authors=authors_of(policy),
        patterns=count_patterns(spec),
    )


_MANY = tuple(f"{'h' * 40}-{number}.example.com" for number in range(100))
_LARGE = RequestFacts(
    name="large",
    signer_name="example.com/large",
    username="system:serviceaccount:default:large",
    groups=_MANY[:16],
    extra={"example.com/large": _MANY[:16]},
    usages=("server auth",),
    expiration_seconds=3600,
    key_fingerprint="0" * 64,
    key_algorithm="RSA",
    key_bits=4096,
    subject=SubjectFacts(common_name=_MANY[0], organizations=_MANY[:16]),
    dns_names=_MANY,
    ip_addresses=tuple(f"10.0.0.{number}" for number in range(100)),
    email_addresses=_MANY,
    uris=_MANY,
    created=dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
)


def fault_of(policy: CertificateRequestPolicy) -> tuple[str, str]:
    """Why the policy cannot be evaluated, or not for a request with a hundred names of each kind, as the reason and the
    message of a condition; both empty if it can."""
    compiled = compile_policy(policy)
    if compiled.fault or compiled.expressions is None:
        return "Invalid", compiled.fault
    around = Surroundings(now=dt.datetime(2026, 1, 1, 1, tzinfo=dt.UTC))
    for step in compiled.expressions.look(_LARGE, around, Budget(POLICY_BUDGET), None):
        if step.result == StepResult.ERROR and "cost" in step.got:
            return "TooExpensive", f"spec.{step.rule}: with {len(_MANY)} names of each kind: {step.got}"
    return "", ""


def needs_of(policies: Iterable[CompiledPolicy]) -> RecordNeeds:
    """What has to be looked up for all of them."""
    found = RecordNeeds()
    for policy in policies:
        found |= policy.needs
    return found


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """All that is looked at beside the request; ``approvals`` may be about others, too."""

    around: Surroundings
    records: Records = Records()
    approvals: Sequence[CertificateApproval] = ()


def look(
    policy: CompiledPolicy, facts: RequestFacts, known: Known, whole: Budget, turn: Turn | None = None
) -> tuple[Step, ...]:
    """Every rule of the policy, with what came of it.

    Args:
        whole: what the expressions of all policies may cost.

    Raises:
        TurnOver: only with ``turn``.
    """
    if policy.fault or policy.expressions is None:
        return (Step("policy", StepResult.ERROR, policy.fault, "a policy that can be evaluated"),)
    budget = Budget(POLICY_BUDGET)
    budget.whole = whole
    steps = [step for check in policy.checks for step in check(facts, known.records)]
    steps += policy.expressions.look(facts, known.around, budget, turn)
    if policy.people is not None:
        said = people.count(known.approvals, facts, authors=policy.authors, groups=policy.people.groups)
        steps.append(people.look(policy.people, said))
    return tuple(steps)


def would_approve(policy: CompiledPolicy, steps: Sequence[Step]) -> bool:
    """Whether all rules are met, so that the requester's right to use the policy is what decides."""
    return policy.may_approve and all(step.result == StepResult.MET for step in steps)


def decide(policy: CompiledPolicy, steps: Sequence[Step], may_use: bool | None = None) -> Verdict:
    """What a policy that selects the request says of it.

    Args:
        steps: of :func:`look`.
        may_use: whether the requester may use the policy; None where that was not asked, as nothing depends on it.
    """
    verdict = _decide(policy, tuple(steps), may_use)
    if not policy.is_audit:
        return verdict
    told = Step("mode", StepResult.SKIPPED, _would(verdict), "Enforce, for that to follow")
    return Verdict(Outcome.NO_OPINION, verdict.approver, steps=(told, *verdict.steps))


def _decide(policy: CompiledPolicy, steps: tuple[Step, ...], may_use: bool | None) -> Verdict:
    by = policy.approver
    unmet = next((step for step in steps if step.result == StepResult.UNMET), None)
    if policy.may_deny and unmet is not None:
        reasons = {} if policy.expressions is None else policy.expressions.reasons
        reason = reasons.get(unmet.rule) or DENIED_REASON
        return Verdict(Outcome.DENY, by, reason, f"policy {policy.name}: {_clause(unmet)}", steps=steps)
    waits = next((step for step in steps if step.result in (StepResult.UNKNOWN, StepResult.ERROR)), None)
    if policy.may_deny and waits is not None:
        return _waiting(policy, waits, steps, retry=True, blocks=True)
    if not policy.may_approve:
        return Verdict(Outcome.NO_OPINION, by, steps=steps)
    first = next((step for step in steps if step.result != StepResult.MET), None)
    if first is not None:
        final = any(step.result in (StepResult.UNMET, StepResult.SKIPPED) for step in steps)
        return _waiting(policy, first, steps, retry=not final)
    if may_use:
        used = Step(USE_RULE, StepResult.MET)
        return Verdict(
            Outcome.APPROVE, by, APPROVED_REASON, f"policy {policy.name}: all rules are met", steps=(*steps, used)
        )
    refused = Step(USE_RULE, StepResult.UNMET, "no", f"the right to use certificaterequestpolicies/{policy.name}")
    return _waiting(policy, refused, (*steps, refused), retry=True)


_REASONS: Mapping[str, str] = {StepResult.ERROR: "PolicyError", StepResult.UNKNOWN: "PolicyWaits"}


def _waiting(
    policy: CompiledPolicy, first: Step, steps: tuple[Step, ...], *, retry: bool, blocks: bool = False
) -> Verdict:
    """``retry``: no event tells of the time, of what was issued before, and of a right that is given."""
    reason = "NotPermitted" if first.rule == USE_RULE else _REASONS.get(first.result, "PolicyNotMet")
    missing = _clause(first)
    return Verdict(Outcome.NO_OPINION, policy.approver, reason, "", missing, steps, retry, blocks)


def _would(verdict: Verdict) -> str:
    if verdict.outcome is Outcome.NO_OPINION:
        return "would wait, whoever approves it" if verdict.blocks else "would leave it to others"
    return f"would {verdict.outcome.value}"


def _clause(step: Step) -> str:
    """Such as ``san.dns: got evil.com, expected one of *.example.com``."""
    if step.rule.startswith(VALIDATIONS):
        return f"{step.rule}: {step.got}"
    return f"{step.rule}: got {step.got}, expected {step.expected}"
