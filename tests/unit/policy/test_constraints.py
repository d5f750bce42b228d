"""policy/constraints.py: every value is looked at, and what contradicts is told from what may change."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubevouch.api.kubevouch_v1alpha1.certificate_request_policies import (
    REQUIRE,
    AllowedAddresses,
    AllowedHosts,
    AllowedKey,
    AllowedSubject,
    AllowedTexts,
    CertificateRequestPolicySpec,
    ExpirationBounds,
    RateBound,
)
from kubevouch.policy.constraints import (
    PolicyFault,
    RecordNeeds,
    Records,
    compile_constraints,
    is_written_out,
    node_of,
    record_needs,
)
from kubevouch.policy.facts import RequestFacts, SubjectFacts
from kubevouch.policy.verdict import Step, StepResult

FACTS = RequestFacts(
    name="csr-1",
    signer_name="example.com/hosts",
    username="alice",
    usages=("digital signature", "server auth"),
    key_fingerprint="ab" * 32,
    key_algorithm="ECDSA",
    key_bits=256,
)
HOSTS = AllowedHosts(patterns=["*.k8s.example.com"])


def facts(**changes: Any) -> RequestFacts:
    return msgspec.structs.replace(FACTS, **changes)


def steps(asked: RequestFacts, records: Records | None = None, **spec: Any) -> dict[str, Step]:
    """By rule, without that of usages."""
    declared = CertificateRequestPolicySpec(**{"effect": REQUIRE, **spec})
    found = {}
    for check in compile_constraints(declared):
        for step in check(asked, records or Records()):
            assert step.rule not in found
            found[step.rule] = step
    return found


def results(asked: RequestFacts, records: Records | None = None, **spec: Any) -> dict[str, str]:
    return {rule: step.result for rule, step in steps(asked, records, **spec).items()}


@pytest.mark.parametrize(
    "name",
    [
        "evil.com", "k8s.example.com", "a.b.k8s.example.com", "evilk8s.example.com", "a.k8s.example.com.evil.com",
        "*.k8s.example.com", "a.k8s.example.com.", ".k8s.example.com", "a\0.k8s.example.com", "a b.k8s.example.com",
        "a.k8s.example.com\n", "-a.k8s.example.com", f"{'a' * 64}.k8s.example.com", "", "a*.k8s.example.com",
        "a/.k8s.example.com", "a_.k8s.example.com:443",
    ],
)  # fmt: skip
def test_a_name_outside_is_found_wherever_it_stands(name: str) -> None:
    good = "a.k8s.example.com"
    for names in ([name], [good, name], [name, good], [good, good, name, good]):
        found = steps(facts(dns_names=tuple(names)), dns_names=HOSTS)["san.dns"]
        assert (found.result, found.got) == (StepResult.UNMET, name)


def test_names_inside() -> None:
    found = steps(facts(dns_names=("a.k8s.example.com", "B.K8S.Example.com")), dns_names=HOSTS)["san.dns"]
    assert found == Step(
        "san.dns", StepResult.MET, "a.k8s.example.com, B.K8S.Example.com", "*.k8s.example.com"
    )  # fmt: skip
    deep = AllowedHosts(patterns=["**.k8s.example.com"])
    assert results(facts(dns_names=("a.b.k8s.example.com",)), dns_names=deep)["san.dns"] == StepResult.MET


def test_a_wild_card_has_to_be_asked_for() -> None:
    asked = facts(dns_names=("*.k8s.example.com",))
    assert results(asked, dns_names=HOSTS)["san.dns"] == StepResult.UNMET
    wild = msgspec.structs.replace(HOSTS, wildcards=True)
    assert results(asked, dns_names=wild)["san.dns"] == StepResult.MET
    assert results(facts(dns_names=("*.*.k8s.example.com",)), dns_names=wild)["san.dns"] == StepResult.UNMET


@pytest.mark.parametrize(
    ("rule", "field", "values"),
    [
        ("san.dns", "dns_names", ("a.example.com",)),
        ("san.ip", "ip_addresses", ("10.0.0.1",)),
        ("san.email", "email_addresses", ("a@example.com",)),
        ("san.uri", "uris", ("spiffe://example.com/a",)),
    ],
)
def test_what_a_policy_does_not_mention_is_neither_met_nor_a_contradiction(
    rule: str, field: str, values: tuple[str, ...]
) -> None:
    assert results(facts(**{field: values}))[rule] == StepResult.SKIPPED
    assert rule not in results(FACTS)


@pytest.mark.parametrize(
    ("rule", "spec"),
    [
        ("san.dns", {"dns_names": AllowedHosts()}),
        ("san.ip", {"ip_addresses": AllowedAddresses()}),
        ("san.email", {"email_addresses": AllowedTexts()}),
        ("san.uri", {"uris": AllowedTexts()}),
        ("subject.organizations", {"subject": AllowedSubject(organizations=AllowedTexts())}),
    ],
)
def test_an_empty_list_allows_none(rule: str, spec: dict[str, Any]) -> None:
    asked = facts(
        dns_names=("a",), ip_addresses=("10.0.0.1",), email_addresses=("a@b",), uris=("a:b",),
        subject=SubjectFacts(organizations=("system:masters",)),
    )  # fmt: skip
    assert results(asked, **spec)[rule] == StepResult.UNMET
    assert rule not in results(FACTS, **spec)


def test_what_is_required() -> None:
    hosts = msgspec.structs.replace(HOSTS, required=True)
    assert results(FACTS, dns_names=hosts)["san.dns"] == StepResult.UNMET
    with pytest.raises(PolicyFault, match="required, and nothing is allowed"):
        steps(FACTS, dns_names=AllowedHosts(required=True))


@pytest.mark.parametrize(
    ("address", "networks", "result"),
    [
        ("10.1.2.3", ["192.168.0.0/16", "10.0.0.0/8"], "met"),
        ("11.1.2.3", ["10.0.0.0/8"], "unmet"),
        ("fd00::1", ["fd00::/8"], "met"),
        ("fd00::1", ["0.0.0.0/0"], "unmet"),
        ("127.0.0.1", ["0.0.0.0/0"], "unmet"),
        ("127.0.0.1", ["127.0.0.0/8"], "met"),
        ("169.254.169.254", ["0.0.0.0/0"], "unmet"),
        ("169.254.1.1", ["169.254.0.0/16"], "met"),
        ("fe80::1", ["::/0"], "unmet"),
        ("::1", ["::/0"], "unmet"),
        ("0.0.0.0", ["0.0.0.0/0"], "unmet"),
        ("224.0.0.1", ["0.0.0.0/0"], "unmet"),
    ],
)
def test_addresses(address: str, networks: list[str], result: str) -> None:
    allowed = AllowedAddresses(networks=networks)
    assert results(facts(ip_addresses=(address,)), ip_addresses=allowed)["san.ip"] == result


def test_one_address_of_many() -> None:
    allowed = AllowedAddresses(networks=["10.0.0.0/8"])
    many = (*(f"10.0.0.{number}" for number in range(200)), "8.8.8.8")
    found = steps(facts(ip_addresses=many), ip_addresses=allowed)["san.ip"]
    assert (found.result, found.got) == (StepResult.UNMET, "8.8.8.8")


@pytest.mark.parametrize(
    ("uri", "result"),
    [
        ("spiffe://example.com/ns/a/sa/b", "met"),
        ("spiffe://example.com/ns/a/b/sa/c", "unmet"),
        ("spiffe://example.com/ns/../sa/b", "unmet"),
        ("spiffe://example.com/ns/%2e%2e/sa/b", "unmet"),
        ("spiffe://evil.com/ns/a/sa/b", "unmet"),
    ],
)
def test_uris(uri: str, result: str) -> None:
    allowed = AllowedTexts(patterns=["spiffe://example.com/ns/*/sa/*"])
    assert results(facts(uris=(uri,)), uris=allowed)["san.uri"] == result


def test_a_text_that_only_looks_alike() -> None:
    allowed = AllowedSubject(common_name=AllowedTexts(patterns=["system:node:*", "Müller"]))

    def of(name: str) -> str:
        return results(facts(subject=SubjectFacts(common_name=name)), subject=allowed)["subject.commonName"]

    assert of("system:node:n1") == of("Müller") == StepResult.MET
    assert of("system:node:n\u0456") == of("system:node:n1\0") == of("system:node: ") == StepResult.UNMET


def test_each_organization_has_to_fit() -> None:
    allowed = AllowedSubject(organizations=AllowedTexts(patterns=["team-*"]))
    asked = facts(subject=SubjectFacts(organizations=("team-a", "system:masters")))
    assert steps(asked, subject=allowed)["subject.organizations"].got == "system:masters"


def test_a_certificate_of_a_ca_and_odd_extensions_are_not_mentioned_by_any_policy() -> None:
    asked = facts(is_ca=True, extensions=("2.5.29.17", "2.5.29.30"), subject=SubjectFacts(unknown=("1.2.3",)))
    found = steps(asked)
    assert [found[rule].result for rule in ("x509.isCA", "x509.extensions", "subject")] == [StepResult.SKIPPED] * 3
    assert found["x509.extensions"].got == "2.5.29.30"


def test_usages() -> None:
    assert results(FACTS, usages=["server auth"])["usages"] == StepResult.UNMET
    assert steps(FACTS, usages=["server auth"])["usages"].got == "digital signature"
    assert results(FACTS, usages=["server auth", "digital signature", "any"])["usages"] == StepResult.MET
    assert "usages" not in results(FACTS)


@pytest.mark.parametrize(
    ("algorithm", "bits", "result"),
    [
        ("ECDSA", 256, "met"), ("ECDSA", 224, "unmet"), ("RSA", 2048, "unmet"), ("RSA", 3072, "met"),
        ("RSA", 8192, "unmet"), ("Ed25519", 256, "met"), ("DSA", 2048, "unmet"), ("unknown", 0, "unmet"),
    ],
)  # fmt: skip
def test_keys(algorithm: str, bits: int, result: str) -> None:
    allowed = [
        AllowedKey(algorithm="ECDSA", min_bits=256),
        AllowedKey(algorithm="RSA", min_bits=3072, max_bits=4096),
        AllowedKey(algorithm="Ed25519"),
    ]
    assert results(facts(key_algorithm=algorithm, key_bits=bits), keys=allowed)["key"] == result


@pytest.mark.parametrize(
    ("asked", "result"),
    [(None, "unmet"), (3599, "unmet"), (3600, "met"), (2592000, "met"), (2592001, "unmet")],
)
def test_lifetimes(asked: int | None, result: str) -> None:
    bounds = ExpirationBounds(minimum=3600, maximum=2592000)
    found = results(facts(expiration_seconds=asked), expiration_seconds=bounds)
    assert found["expirationSeconds"] == result


@pytest.mark.parametrize(
    ("records", "result"),
    [
        (Records(), "met"),
        (Records(key="csr-0 has a certificate for it"), "unmet"),
        (Records(key_waits="csr-0 is approved"), "unknown"),
        (Records(fault="the ledger is away"), "error"),
    ],
)
def test_a_fresh_key(records: Records, result: str) -> None:
    assert results(FACTS, records, fresh_key=True)["freshKey"] == result


@pytest.mark.parametrize(("approved", "result"), [(0, "met"), (4, "met"), (5, "unknown"), (99, "unknown")])
def test_a_rate(approved: int, result: str) -> None:
    bound = RateBound(requests=5, period_seconds=60)
    found = results(FACTS, Records(approved={60: approved, 3600: 1000}), rate=bound)
    assert found["rate"] == result


def test_certificates_of_a_node() -> None:
    node = facts(subject=SubjectFacts(common_name="system:node:n1"))
    assert results(node, Records(certificates=1), certificates_per_node=2)["certificatesPerNode"] == StepResult.MET
    assert results(node, Records(certificates=2), certificates_per_node=2)["certificatesPerNode"] == StepResult.UNKNOWN
    assert results(FACTS, Records(certificates=9), certificates_per_node=2)["certificatesPerNode"] == StepResult.MET
    assert node_of(facts(username="system:node:n2")) == "n2"


def test_names_of_others() -> None:
    asked = facts(dns_names=("a.example.com", "b.example.com"))
    held = Records(holders={"b.example.com": "bob has it until tomorrow"})
    found = steps(asked, held, unique_names=True)["uniqueNames"]
    assert (found.result, found.got) == (StepResult.UNKNOWN, "b.example.com: bob has it until tomorrow")
    assert results(asked, Records(holders={"c": "bob"}), unique_names=True)["uniqueNames"] == StepResult.MET
    for wild in (facts(dns_names=("*.example.com",)), facts(subject=SubjectFacts(common_name="*.Example.com."))):
        found = steps(wild, Records(), unique_names=True)["uniqueNames"]
        assert found.result == StepResult.UNKNOWN and "who has a name under it is not known" in found.got
    many = facts(dns_names=tuple(f"h{number}.example.com" for number in range(101)))
    assert results(many, unique_names=True)["uniqueNames"] == StepResult.ERROR


def test_what_is_asked_of_records() -> None:
    assert not record_needs(CertificateRequestPolicySpec())
    spec = CertificateRequestPolicySpec(fresh_key=True, rate=RateBound(requests=1, period_seconds=9))
    other = CertificateRequestPolicySpec(certificates_per_node=1, unique_names=True)
    assert record_needs(spec) | record_needs(other) == RecordNeeds(
        key=True, periods=frozenset({9}), certificates=True, holders=True
    )


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        ({"effect": "Approve"}, "spec.usages is empty"),
        ({"effect": "ApproveOrDeny"}, "spec.usages is empty"),
        ({"keys": [AllowedKey(algorithm="RSA", min_bits=4096, max_bits=2048)]}, r"spec.keys\[0\]: minBits 4096"),
        ({"keys": [AllowedKey(algorithm="Ed25519", min_bits=256)]}, "have one size"),
        ({"expiration_seconds": ExpirationBounds(minimum=2, maximum=1)}, "minimum 2 is more than maximum 1"),
        ({"dns_names": AllowedHosts(patterns=["*x"])}, "behind \\*"),
        ({"ip_addresses": AllowedAddresses(networks=["10.0.0.0/99"])}, "spec.ipAddresses.networks"),
    ],
)
def test_rules_that_cannot_be_kept_to(spec: dict[str, Any], fault: str) -> None:
    with pytest.raises(PolicyFault, match=fault):
        steps(FACTS, **spec)


NAMES = st.text(st.sampled_from("ak8s.example.com*-_/ \0é"), max_size=40) | st.just("a.k8s.example.com")


@given(st.lists(NAMES, max_size=6))
def test_names_are_met_only_if_each_is_a_host_under_the_domain(names: list[str]) -> None:
    result = results(facts(dns_names=tuple(names)), dns_names=HOSTS).get("san.dns")
    inside = [
        name.endswith(".k8s.example.com")
        and name[: -len(".k8s.example.com")].replace("-", "").replace("_", "").isalnum()
        and name.isascii()
        and name[0] != "-"
        and name[: -len(".k8s.example.com")][-1] != "-"
        for name in names
    ]
    assert result == (None if not names else StepResult.MET if all(inside) else StepResult.UNMET)


@pytest.mark.parametrize(
    ("value", "pattern", "expected"),
    [
        ("alice", "**", True),
        ("systems:a", "**", True),
        ("system:masters", "system:masters", True),
        ("system:masters", "system:*", False),
        ("system:masters", "**", False),
        ("system:", "**", False),
        ("kubeadm:cluster-admins", "kubeadm:*", False),
        ("system:node:a", "system:node:*", True),
        ("system:node:a", "system:*:*", False),
        ("system:node:a", "system:node**", False),
        ("system:node:a:b", "system:node:**", False),
        ("system:serviceaccount:a:b", "system:serviceaccount:a:*", True),
        ("system:serviceaccount:ab:c", "system:serviceaccount:a*", False),
    ],
)
def test_names_of_kubernetes_are_written_out(value: str, pattern: str, expected: bool) -> None:
    assert is_written_out(value, [pattern]) is expected
