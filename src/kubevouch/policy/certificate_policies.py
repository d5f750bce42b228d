"""CertificateRequestPolicies: what each says of a request, and why. Pure; whoever asks gathers what they need to know.

Source: docs/adr/0021-policies-that-approve-and-deny.md.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from kubevouch import wellknown
from kubevouch.api.kubevouch_v1alpha1.certificate_approvals import CertificateApproval
from kubevouch.api.kubevouch_v1alpha1.certificate_request_policies import (
    APPROVE,
    APPROVE_OR_DENY,
    AUDIT,
    MAX_NAMES,
    READY,
    REQUIRE,
    AllowedSubject,
    CertificateRequestPolicy,
    CertificateRequestPolicySpec,
    PeopleBound,
    PolicySelector,
)
from kubevouch.api.kubevouch_v1alpha1.guards import authors_of
from kubevouch.api.kubevouch_v1alpha1.writer_guards import Writer, writer_of
from kubevouch.cel.environment import Budget, Turn
from kubevouch.machinery.text.times import Time
from kubevouch.pki.name_patterns import Patterns
from kubevouch.pki.x509.usages import identifies_clients
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
WRITER_RULE = "writer may approve"
SUBJECT_RULE = "subject is no administrator"
ANY_SIGNER = "*"
TOO_EXPENSIVE = "TooExpensive"
"""The reason for which a policy is not Ready, and not evaluated."""
NAMES_RULE = "names"


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
        writer: who wrote the spec last; None if that is not recorded.
        created: when the policy was created; None if it is not stored.
        subjects: the common names and the organizations that it names to the letter.
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
    writer: Writer | None = None
    created: Time | None = None
    subjects: tuple[frozenset[str], frozenset[str]] = (frozenset(), frozenset())

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

    def covered_subject(self, facts: RequestFacts, *, is_old: bool = False) -> tuple[str, tuple[str, ...]]:
        """The user and the groups of a client certificate that the policy does not name to the letter; else empty.

        Args:
            is_old: it was written before writers were recorded: nobody answers for what it names.
        """
        subject = facts.subject
        if not subject.common_name or not identifies_clients(facts.usages):
            return "", ()
        names, organizations = (frozenset[str](), frozenset[str]()) if is_old else self.subjects
        user = "" if subject.common_name in names else subject.common_name
        return user, tuple(each for each in subject.organizations if each not in organizations)


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
    expensive = cost_fault(policy)
    if expensive:
        faults.append(expensive)
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
        writer=writer_of(policy),
        created=policy.metadata.creation_timestamp,
        subjects=_subjects(spec),
    )


def _subjects(spec: CertificateRequestPolicySpec) -> tuple[frozenset[str], frozenset[str]]:
    subject = spec.subject or AllowedSubject()
    listed = (subject.common_name, subject.organizations)
    names, organizations = (frozenset() if each is None else frozenset(each.patterns) for each in listed)
    return names, organizations


def cost_fault(policy: CertificateRequestPolicy) -> str:
    """What its status says if it is not Ready as it is too expensive; empty otherwise. It is not evaluated then."""
    for condition in policy.status.conditions:
        if condition.type == READY and condition.status == wellknown.CONDITION_FALSE:
            is_current = condition.observed_generation == policy.metadata.generation
            return condition.message if is_current and condition.reason == TOO_EXPENSIVE else ""
    return ""


_MANY = tuple(f"{'h' * 40}-{number}.example.com" for number in range(MAX_NAMES))
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
    ip_addresses=tuple(f"10.0.0.{number}" for number in range(MAX_NAMES)),
    email_addresses=_MANY,
    uris=_MANY,
    created=dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
)


def fault_of(policy: CertificateRequestPolicy, pause: Callable[[], None] | None = None) -> tuple[str, str]:
    """Why the policy cannot be evaluated, or not for a request with a hundred names of each kind, as the reason and the
    message of a condition; both empty if it can. ``pause``: see :class:`kubevouch.cel.environment.Budget`."""
    compiled = compile_policy(policy)
    if compiled.fault or compiled.expressions is None:
        return "Invalid", compiled.fault
    around = Surroundings(now=dt.datetime(2026, 1, 1, 1, tzinfo=dt.UTC))
    for step in compiled.expressions.look(_LARGE, around, Budget(POLICY_BUDGET, pause), None):
        if step.result == StepResult.ERROR and "cost" in step.got:
            return TOO_EXPENSIVE, f"spec.{step.rule}: with {len(_MANY)} names of each kind: {step.got}"
    return "", ""


def needs_of(policies: Iterable[CompiledPolicy]) -> RecordNeeds:
    """What has to be looked up for all of them."""
    found = RecordNeeds()
    for policy in policies:
        found |= policy.needs
    return found


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """All that is looked at beside the request; ``approvals`` may be about others, too, and those in ``void`` count no
    more, by their names with why."""

    around: Surroundings
    records: Records = Records()
    approvals: Sequence[CertificateApproval] = ()
    void: Mapping[str, str] = {}


def votes_of(
    policies: Iterable[CompiledPolicy], facts: RequestFacts, approvals: Iterable[CertificateApproval]
) -> tuple[CertificateApproval, ...]:
    """Those of ``approvals`` that one of the policies would count."""
    bounds = [(each.authors, each.people.groups) for each in policies if each.people is not None]
    about = (each for each in approvals if people.is_about(each, facts))
    return tuple(each for each in about if not all(people.objection(each, facts, *bound) for bound in bounds))


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
    budget = Budget(POLICY_BUDGET, whole.pause)
    budget.whole = whole
    steps = [step for check in policy.checks for step in check(facts, known.records)]
    if policy.expressions.are_there:
        crowd = _crowd(facts)
        # Whether the policy is Ready was tried with as many. More are for a person to judge.
        steps += [crowd] if crowd is not None else policy.expressions.look(facts, known.around, budget, turn)
    if policy.people is not None:
        bound = policy.people
        said = people.count(known.approvals, facts, authors=policy.authors, groups=bound.groups, void=known.void)
        steps.append(people.look(policy.people, said))
    return tuple(steps)


def _crowd(facts: RequestFacts) -> Step | None:
    """The step that stands for all expressions where the requester has named more than they may have to look at."""
    lists = {
        "DNS names": facts.dns_names,
        "IP addresses": facts.ip_addresses,
        "e-mail addresses": facts.email_addresses,
        "URIs": facts.uris,
        "extensions": facts.extensions,
    }
    subject = facts.subject
    lists |= {f"values of subject.{each}": getattr(subject, each) for each in _SUBJECT_LISTS}
    for kind, values in lists.items():
        if len(values) > MAX_NAMES:
            expected = f"at most {MAX_NAMES} of each kind, or a person who decides"
            return Step(NAMES_RULE, StepResult.ERROR, f"{len(values)} {kind}", expected)
    return None


_SUBJECT_LISTS = tuple(each.name for each in msgspec.structs.fields(SubjectFacts) if each.type is not str)


def would_approve(policy: CompiledPolicy, steps: Sequence[Step]) -> bool:
    """Whether all rules are met, so that the requester's right to use the policy is what decides."""
    return policy.may_approve and all(step.result == StepResult.MET for step in steps)


def decide(
    policy: CompiledPolicy, steps: Sequence[Step], may_use: bool | None = None, rights: Sequence[Step] = ()
) -> Verdict:
    """What a policy that selects the request says of it.

    Args:
        steps: of :func:`look`.
        may_use: whether the requester may use the policy; None where that was not asked, as nothing depends on it.
        rights: what else the API server was asked before an approval: the rights of the policy's writer, and what the
            subject may do. One that is not met leaves the request to others.
    """
    verdict = _decide(policy, tuple(steps), may_use, tuple(rights))
    if not policy.is_audit:
        return verdict
    told = Step("mode", StepResult.SKIPPED, _would(verdict), "Enforce, for that to follow")
    return Verdict(Outcome.NO_OPINION, verdict.approver, steps=(told, *verdict.steps))


def _decide(policy: CompiledPolicy, steps: tuple[Step, ...], may_use: bool | None, rights: tuple[Step, ...]) -> Verdict:
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
    lacking = next((step for step in rights if step.result != StepResult.MET), None)
    if may_use and lacking is not None:
        return _waiting(policy, lacking, (*steps, *rights), retry=True)
    if may_use:
        used = (*steps, Step(USE_RULE, StepResult.MET), *rights)
        return Verdict(Outcome.APPROVE, by, APPROVED_REASON, f"policy {policy.name}: all rules are met", steps=used)
    refused = Step(USE_RULE, StepResult.UNMET, "no", f"the right to use certificaterequestpolicies/{policy.name}")
    return _waiting(policy, refused, (*steps, refused), retry=True)


_REASONS: Mapping[str, str] = {StepResult.ERROR: "PolicyError", StepResult.UNKNOWN: "PolicyWaits"}


def _waiting(
    policy: CompiledPolicy, first: Step, steps: tuple[Step, ...], *, retry: bool, blocks: bool = False
) -> Verdict:
    """``retry``: no event tells of the time, of what was issued before, and of a right that is given."""
    of_rights = first.rule in (USE_RULE, WRITER_RULE, SUBJECT_RULE)
    reason = "NotPermitted" if of_rights else _REASONS.get(first.result, "PolicyNotMet")
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
