"""policy/expressions.py: true only when true, and "no" told apart from "that failed" and from "not yet"."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubevouch.api.attested import Attested, Claim, Strength
from kubevouch.api.kubevouch_v1alpha1.certificate_request_policies import (
    CertificateRequestPolicySpec,
    PolicyValidation,
    PolicyVariable,
)
from kubevouch.cel.environment import Budget, Turn, TurnOver
from kubevouch.policy.constraints import PolicyFault
from kubevouch.policy.expressions import (
    REQUEST_BUDGET,
    Expressions,
    Surroundings,
    machine_value,
    namespace_of,
    proven_value,
)
from kubevouch.policy.facts import RequestFacts, SubjectFacts
from kubevouch.policy.inventory import Machine
from kubevouch.policy.verdict import Step, StepResult

NOW = dt.datetime(2026, 1, 2, tzinfo=dt.UTC)
FACTS = RequestFacts(
    name="csr-1",
    signer_name="example.com/hosts",
    username="system:serviceaccount:shop:web",
    groups=("team-a",),
    extra={"k": ("v",)},
    usages=("server auth",),
    key_fingerprint="ab" * 32,
    key_algorithm="RSA",
    key_bits=2048,
    subject=SubjectFacts(common_name="web", organizations=("o",)),
    dns_names=("a.shop.example.com", "b.shop.example.com"),
    ip_addresses=("10.0.0.1",),
    created=NOW - dt.timedelta(hours=1),
)
AROUND = Surroundings(
    now=NOW,
    node={"metadata": {"name": "n1", "labels": {"rack": "7"}}},
    machine=machine_value(Machine(node_name="n1", dns_names=("a.shop.example.com",), attributes={"owner": "shop"})),
    evidence={
        "sourceAddress": "10.0.0.9",
        "strengths": ["tpm"],
        "claims": {"aws.region": "eu-west-1"},
        "tenantClaims": {"aws.tag.role": "db"},
    },
)


def look(
    *validations: PolicyValidation | str, around: Surroundings = AROUND, facts: RequestFacts = FACTS, **variables: str
) -> list[Step]:
    spec = CertificateRequestPolicySpec(
        validations=[each if isinstance(each, PolicyValidation) else PolicyValidation(expression=each)
                     for each in validations],
        variables=[PolicyVariable(name=name, expression=source) for name, source in variables.items()],
    )  # fmt: skip
    return list(Expressions(spec).look(facts, around, Budget(REQUEST_BUDGET), None))


@pytest.mark.parametrize(
    "source",
    [
        "request.name == 'csr-1' && request.signerName == 'example.com/hosts' && request.usages == ['server auth']",
        "!has(request.expirationSeconds)",
        "now - request.created == duration('1h')",
        "x509.subject.commonName == 'web' && x509.subject.organizations == ['o']",
        "x509.dnsNames.under('shop.example.com') && x509.ipAddresses.inNetworks(['10.0.0.0/8'])",
        "x509.keyAlgorithm == 'RSA' && x509.keyBits >= 2048 && !x509.isCA && x509.keyFingerprint.size() == 64",
        "requester.namespace == 'shop' && 'team-a' in requester.groups && requester.extra['k'] == ['v']",
        "requester.username.startsWith('system:serviceaccount:') && requester.node == ''",
        "node.metadata.labels['rack'] == '7'",
        "machine.attributes['owner'] == requester.namespace && !x509.dnsNames.isSubset(machine.dnsNames)",
        "evidence.sourceAddress.inNetworks(['10.0.0.0/8']) && !has(evidence.token)",
        "'tpm' in evidence.strengths && evidence.claims['aws.region'] == 'eu-west-1' && !has(evidence.providers)",
        "evidence.tenantClaims['aws.tag.role'] == 'db' && !('aws.tag.role' in evidence.claims)",
        "x509.dnsNames.all(name, name.endsWith('.' + requester.namespace + '.example.com'))",
    ],
)
def test_what_expressions_see(source: str) -> None:
    assert look(source) == [Step("validations[0]", StepResult.MET, "true", source)]


@pytest.mark.parametrize(
    ("source", "result"),
    [
        ("x509.keyBits > 4096", "unmet"),
        ("x509.keyBits > 4096 && now > timestamp('2020-01-01T00:00:00Z')", "unknown"),
        ("has(node.status)", "unknown"),
        ("machine.nodeName == 'n2'", "unknown"),
        ("evidence.sourceAddress == ''", "unknown"),
        ("request.expirationSeconds < 10", "error"),
        ("requester.extra['none'] == []", "error"),
        ("x509.dnsNames[7] == ''", "error"),
        ("node.metadata.labels['none'] == ''", "error"),
        ("1 / 0 == 1", "error"),
    ],
)
def test_what_is_not_true(source: str, result: str) -> None:
    assert [step.result for step in look(source)] == [result]


def test_what_a_variable_looks_at_counts() -> None:
    assert look("variables.old == 1", old="x509.keyBits")[0].result == StepResult.UNMET
    assert look("variables.rack == ''", rack="node.metadata.name")[0].result == StepResult.UNKNOWN
    assert look("variables.two == ''", one="string(now)", two="variables.one")[0].result == StepResult.UNKNOWN
    assert look("variables.bad == ''", bad="requester.extra['none'][0]")[0] == Step(
        "validations[0]", StepResult.ERROR, "variable bad: no such key: none", "variables.bad == ''"
    )


@pytest.mark.parametrize(
    ("validation", "said"),
    [
        (PolicyValidation(expression="false"), "failed expression: false"),
        (PolicyValidation(expression="false", message="no"), "no"),
        (PolicyValidation(expression="false", message="no", message_expression="'not ' + x509.subject.commonName"),
         "not web"),
        (PolicyValidation(expression="false", message="no", message_expression="requester.extra['none'][0]"), "no"),
        (PolicyValidation(expression="false", message="no", message_expression="'a\\nb'"), "no"),
        (PolicyValidation(expression="false", message="no", message_expression="'  '"), "no"),
    ],
)  # fmt: skip
def test_what_is_said(validation: PolicyValidation, said: str) -> None:
    assert look(validation)[0].got == said


@pytest.mark.parametrize(
    "source",
    ["x509.dnsName == []", "no == 1", "1", "'true'", "x509.keyBits == 'a'", "(", "authorizer.path('/')", "x" * 10_001],
)
def test_what_does_not_compile(source: str) -> None:
    with pytest.raises(PolicyFault, match=r"^spec.validations\[0\].expression: "):
        look(source)


def test_a_fault_tells_where() -> None:
    with pytest.raises(PolicyFault, match=r"^spec.variables\[0\].expression: "):
        look("true", bad="nothing")
    with pytest.raises(PolicyFault, match=r"^spec.validations\[0\].messageExpression: must evaluate to string"):
        look(PolicyValidation(expression="true", message_expression="1"))


SLOW = "x509.dnsNames.all(a, x509.dnsNames.all(b, x509.dnsNames.all(c, (a + b + c).size() > 0)))"


def test_what_is_slow_is_an_error_and_has_others_go_on() -> None:
    many = RequestFacts(
        name="", signer_name="", username="", key_fingerprint="", key_algorithm="",
        dns_names=tuple(f"host{number}.example.com" for number in range(300)),
    )  # fmt: skip
    found = look("true", SLOW, facts=many)
    assert [step.result for step in found] == [StepResult.MET, StepResult.ERROR]
    assert "cost" in found[1].got
    spec = CertificateRequestPolicySpec(validations=[PolicyValidation(expression=SLOW)])
    with pytest.raises(TurnOver):
        list(Expressions(spec).look(many, AROUND, Budget(REQUEST_BUDGET), Turn(1000)))


def test_all_of_a_policy_share_a_budget() -> None:
    spec = CertificateRequestPolicySpec(validations=[PolicyValidation(expression="x509.dnsNames.size() > 0")] * 3)
    found = list(Expressions(spec).look(FACTS, AROUND, Budget(7), None))
    assert [step.result for step in found] == [StepResult.MET, StepResult.ERROR, StepResult.ERROR]


@pytest.mark.parametrize(
    ("username", "namespace"),
    [
        ("system:serviceaccount:shop:web", "shop"), ("system:serviceaccount:shop", ""), ("alice", ""),
        ("system:serviceaccount::web", ""),
    ],
)  # fmt: skip
def test_the_namespace_of_a_service_account(username: str, namespace: str) -> None:
    facts: dict[str, Any] = {"name": "", "signer_name": "", "key_fingerprint": "", "key_algorithm": ""}
    assert namespace_of(RequestFacts(username=username, **facts)) == namespace


LEAVES = {
    "true": True,
    "false": False,
    "x509.keyBits == 1": False,
    "1 / 0 == 1": None,
    "requester.extra['x'] == []": None,
}
Tree = str | tuple[Any, str, Any]


def worth(tree: Tree) -> bool | None:
    """None for an error, which the other side of an operator may make up for."""
    if isinstance(tree, str):
        return LEAVES[tree]
    left, sign, right = worth(tree[0]), tree[1], worth(tree[2])
    decides = sign == "||"
    if decides in (left, right):
        return decides
    return None if None in (left, right) else not decides


def written(tree: Tree) -> str:
    return tree if isinstance(tree, str) else f"({written(tree[0])} {tree[1]} {written(tree[2])})"


@given(
    st.recursive(
        st.sampled_from(sorted(LEAVES)),
        lambda inner: st.tuples(inner, st.sampled_from(["&&", "||"]), inner),
        max_leaves=8,
    )
)
def test_an_error_is_neither_true_nor_false(tree: Tree) -> None:
    results = {True: StepResult.MET, False: StepResult.UNMET, None: StepResult.ERROR}
    assert look(written(tree))[0].result == results[worth(tree)]


def test_what_a_machine_has_proven_is_apart_from_what_its_tenant_says() -> None:
    claims = (
        Claim(name="aws.region", value="eu-west-1", source="aws-instance-identity", strength=Strength.CLOUD),
        Claim(name="aws.tag.role", value="db", source="ec2", strength=Strength.CLOUD, tenant_controlled=True),
    )
    aws = Attested(provider="aws", version="v1", identity="1/2/i-3", strength=Strength.CLOUD, claims=claims)
    tpm = Attested(provider="tpm", version="v1", identity="sha256:ab", strength=Strength.MEASURED)

    assert proven_value(()) == {}
    assert proven_value((aws, tpm)) == {
        "providers": ["aws", "tpm"],
        "identities": ["1/2/i-3", "sha256:ab"],
        "strengths": ["cloud", "measured"],
        "claims": {"aws.region": "eu-west-1"},
        "tenantClaims": {"aws.tag.role": "db"},
    }
