"""policy/kubelet_serving.py: which names and addresses a kubelet's serving certificate may have, by which source."""

from __future__ import annotations

import ipaddress
from typing import Any

import msgspec
import pytest

from kubevouch.policy.facts import RequestFacts, SubjectFacts
from kubevouch.policy.kubelet_serving import (
    FORBIDDEN_REASON,
    IDENTITY_REASON,
    STALE_REASON,
    TAKEN_REASON,
    WAITING_REASON,
    Known,
    Rival,
    ServingRules,
    Source,
    decide,
    node_of,
    normalized,
    reported_names,
    wanted_names,
)
from kubevouch.policy.verdict import Outcome, StepResult, Verdict

ME = "system:node:n1"
RULES = ServingRules(
    api_server=frozenset({"api.example.com", "192.0.2.10", "cp1"}),
    service_ranges=(ipaddress.ip_network("10.96.0.0/12"), ipaddress.ip_network("fd00:96::/112")),
)
ADDRESSES = (("Hostname", "n1"), ("InternalIP", "10.0.0.9"))
SEEN = Known(reported=ADDRESSES)


def facts(dns: tuple[str, ...] = ("n1",), ips: tuple[str, ...] = ("10.0.0.9",), **changes: Any) -> RequestFacts:
    return msgspec.structs.replace(
        RequestFacts(
            name="csr-1",
            signer_name="kubernetes.io/kubelet-serving",
            username=ME,
            groups=("system:nodes", "system:authenticated"),
            usages=("digital signature", "server auth"),
            key_fingerprint="00",
            key_algorithm="ECDSA",
            subject=SubjectFacts(common_name=ME, organizations=("system:nodes",)),
            dns_names=dns,
            ip_addresses=ips,
        ),
        **changes,
    )


def known(**changes: Any) -> Known:
    return msgspec.structs.replace(SEEN, **changes)


def sources(verdict: Verdict) -> dict[str, str]:
    return {step.rule: step.by or str(step.result) for step in verdict.steps if step.rule.startswith("san.")}


def test_what_a_kubelet_asks_for_first() -> None:
    verdict = decide(facts(), SEEN, RULES)
    assert (verdict.outcome, verdict.reason) == (Outcome.APPROVE, "AutoApproved")
    assert sources(verdict) == {"san.dns n1": "identity", "san.ip 10.0.0.9": "node-addresses"}
    assert verdict.message.endswith("is justified by identity, node-addresses.")


def test_all_kinds_of_addresses_of_a_cloud() -> None:
    addresses = (
        *ADDRESSES, ("InternalDNS", "n1.int.example.com"), ("ExternalDNS", "A.example.com"),
        ("ExternalIP", "203.0.113.4"), ("InternalIP", "fd00::1"),
    )  # fmt: skip
    wanted = facts(("a.example.com", "n1", "n1.int.example.com"), ("10.0.0.9", "203.0.113.4", "fd00::1"))
    assert decide(wanted, known(reported=addresses), RULES).outcome is Outcome.APPROVE


def test_other_signers_are_none_of_its_business() -> None:
    other = facts(signer_name="kubernetes.io/kube-apiserver-client-kubelet")
    assert decide(other, SEEN, RULES) == Verdict(Outcome.NO_OPINION, "kubelet-serving")
    assert not node_of(other)
    assert node_of(facts()) == "n1"


def subject(common_name: str = ME, organizations: tuple[str, ...] = ("system:nodes",), **more: Any) -> SubjectFacts:
    return SubjectFacts(common_name=common_name, organizations=organizations, **more)


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"username": "alice"}, "requester"),
        ({"username": "system:node:a/../b"}, "requester"),
        ({"username": "system:bootstrap:abcdef"}, "requester"),
        ({"groups": ("system:authenticated",)}, "requester"),
        ({"subject": subject("n1")}, "subject"),
        ({"subject": subject(organizations=())}, "subject"),
        ({"subject": subject(organizations=("system:nodes", "system:masters"))}, "subject"),
        ({"subject": subject(organizational_units=("x",))}, "subject"),
        ({"subject": subject(unknown=("1.2.3",))}, "subject"),
        ({"usages": ("digital signature", "server auth", "client auth")}, "usages"),
        ({"usages": ("server auth",)}, "usages"),
        ({"uris": ("spiffe://x/y",)}, "san"),
        ({"email_addresses": ("a@example.com",)}, "san"),
        ({"dns_names": (), "ip_addresses": ()}, "san"),
        ({"dns_names": ("n1",) * 101}, "san"),
    ],
)
def test_what_it_leaves_to_people(changes: dict[str, Any], rule: str) -> None:
    verdict = decide(facts(**changes), SEEN, RULES)
    assert (verdict.outcome, verdict.reason) == (Outcome.NO_OPINION, WAITING_REASON)
    assert verdict.missing.startswith(f"{rule}: ")


def test_key_encipherment_may_be_among_the_usages() -> None:
    wanted = facts(usages=("digital signature", "key encipherment", "server auth"))
    assert decide(wanted, SEEN, RULES).outcome is Outcome.APPROVE


def test_the_name_of_another_node_is_a_contradiction() -> None:
    verdict = decide(facts(subject=subject("system:node:n2")), SEEN, RULES)
    assert (verdict.outcome, verdict.reason) == (Outcome.DENY, IDENTITY_REASON)


FORBIDDEN_NAMES = (
    "kubernetes", "kubernetes.default", "kubernetes.default.svc", "KUBERNETES.Default.SVC",
    "kubernetes.default.svc.cluster.local",
    "x.y.svc", "x.svc", "svc", "10-0-0-1.ns.pod.cluster.local", "cluster.local", "localhost", "a.localhost",
    "localhost.localdomain", "LOCALHOST4.localdomain4", "localhost6.localdomain6", "ip6-localhost", "localhost6",
    "metadata.google.internal", "Metadata.Google.Internal",
    "*", "*.example.com", "n*.example.com", "n1.", "n1..", ".n1", "n1\x00.example.com", "n1 ", "n_1", "-n1", "a" * 254,
    "10.0.0.9", "0x7f.1", "1.0x7f", "2130706433", "n1\n", "[::1]", "fd00::1", "",
)  # fmt: skip


@pytest.mark.parametrize("name", FORBIDDEN_NAMES)
def test_names_that_no_node_may_have(name: str) -> None:
    """Whoever says so: the node, its Machine, and a former certificate."""
    everywhere = frozenset({name.lower()})
    for sources_ in (
        known(reported=(*ADDRESSES, ("ExternalDNS", name))),
        known(of_machine=everywhere),
        known(last=everywhere),
    ):
        verdict = decide(facts(("n1", name)), sources_, RULES)
        assert (verdict.outcome, verdict.reason) == (Outcome.DENY, FORBIDDEN_REASON)
        assert verdict.message.isprintable()


FORBIDDEN_ADDRESSES = (
    "127.0.0.1", "127.8.8.8", "::1", "0.0.0.0", "::", "0.1.2.3", "255.255.255.255", "240.0.0.1", "224.0.0.1", "ff02::1",
    "169.254.169.254", "169.254.0.1", "fe80::1", "fd00:ec2::254", "100.100.100.200", "168.63.129.16",
    "10.96.0.1", "10.111.255.255", "fd00:96::1", "::ffff:127.0.0.1", "::ffff:10.96.0.1",
    "64:ff9b::7f00:1", "64:ff9b::a60:1", "2002:7f00:1::", "2002:a9fe:a9fe::1", "::127.0.0.1",
    "::ffff:0:127.0.0.1", "::ffff:0:a60:1",
)  # fmt: skip


@pytest.mark.parametrize("address", FORBIDDEN_ADDRESSES)
def test_addresses_that_no_node_may_have(address: str) -> None:
    everywhere = frozenset({str(ipaddress.ip_address(address))})
    rules = msgspec.structs.replace(RULES, networks=(ipaddress.ip_network("0.0.0.0/0"), ipaddress.ip_network("::/0")))
    for sources_ in (
        known(reported=(*ADDRESSES, ("InternalIP", address))),
        known(of_machine=everywhere),
        known(last=everywhere),
        known(source=address),
    ):
        verdict = decide(facts(ips=("10.0.0.9", address)), sources_, rules)
        assert (verdict.outcome, verdict.reason) == (Outcome.DENY, FORBIDDEN_REASON)


@pytest.mark.parametrize(
    ("dns", "ips"),
    [
        (("api.example.com",), ()),
        (("API.example.com",), ()),
        (("cp1",), ()),
        ((), ("192.0.2.10",)),
        ((), ("::ffff:192.0.2.10",)),
        ((), ("64:ff9b::c000:20a",)),
    ],
)
def test_an_api_servers_names_pass_by_nothing_that_a_node_says(dns: tuple[str, ...], ips: tuple[str, ...]) -> None:
    addresses = (*ADDRESSES, *(("ExternalDNS", name) for name in dns), *(("InternalIP", each) for each in ips))
    wanted = facts(("n1", *dns), ("10.0.0.9", *ips))
    names = frozenset(wanted_names(wanted))
    rules = msgspec.structs.replace(
        RULES, networks=(ipaddress.ip_network("0.0.0.0/0"), ipaddress.ip_network("::/0")), domains=("example.com",)
    )
    resolved = {name: frozenset({"10.0.0.9"}) for name in names} | {each: frozenset({"n1"}) for each in names}
    for source in ("", *names):
        liar = known(reported=addresses, last=names, source=source, resolved={**resolved, "n1": names})
        verdict = decide(wanted, liar, rules)
        assert (verdict.outcome, verdict.reason) == (Outcome.NO_OPINION, WAITING_REASON)
        assert "an API server is reached there" in verdict.missing
    # What no node can say of itself.
    assert decide(wanted, known(reported=addresses, of_machine=names), rules).outcome is Outcome.APPROVE
    assert decide(wanted, known(reported=addresses, control_plane=True), rules).outcome is Outcome.APPROVE


@pytest.mark.parametrize("name", ["k8s.api.example.org", "K8S.API.example.org"])
def test_an_api_servers_wildcard_covers_one_label(name: str) -> None:
    rules = msgspec.structs.replace(RULES, api_server=frozenset({normalized("*.API.example.org.")}))

    def ask(dns: str) -> Verdict:
        return decide(facts(("n1", dns)), known(reported=(*ADDRESSES, ("InternalDNS", dns))), rules)

    verdict = ask(name)
    assert (verdict.outcome, verdict.reason) == (Outcome.NO_OPINION, WAITING_REASON)
    assert "an API server is reached there" in verdict.missing
    assert ask(f"a.{name}").outcome is Outcome.APPROVE
    assert ask("api.example.org").outcome is Outcome.APPROVE


def test_a_last_dot_makes_no_other_name() -> None:
    """A URL may have it: the shared endpoint, cluster-info."""
    assert normalized("API.example.com.") == "api.example.com"


def test_a_control_plane_gets_what_its_node_has_only() -> None:
    wanted = facts(ips=("10.0.0.9", "192.0.2.10"))
    assert decide(wanted, known(control_plane=True), RULES).outcome is Outcome.NO_OPINION
    other = {"192.0.2.10": Rival("cp2", Source.NODE)}
    both = known(reported=(*ADDRESSES, ("InternalIP", "192.0.2.10")), control_plane=True, rivals=other)
    assert decide(wanted, both, RULES).outcome is Outcome.NO_OPINION


def test_the_host_of_an_api_server_is_a_node_by_its_name() -> None:
    names = subject("system:node:cp1")
    wanted = facts(("cp1",), (), username="system:node:cp1", subject=names)
    assert decide(wanted, Known(reported=()), RULES).outcome is Outcome.NO_OPINION
    assert decide(wanted, Known(reported=(), control_plane=True), RULES).outcome is Outcome.APPROVE


CLAIMED = known(reported=(*ADDRESSES, ("InternalIP", "10.0.0.2")))
ASKED = facts(ips=("10.0.0.9", "10.0.0.2"))


@pytest.mark.parametrize(
    ("rival", "changes", "outcome"),
    [
        # The other one's Machine, name or certificate speak; what this node says is nothing against it.
        (Rival("n2", Source.MACHINE), {}, Outcome.DENY),
        (Rival("n2", Source.IDENTITY), {}, Outcome.DENY),
        # Whoever joins under a name that this node has a certificate for does not have its renewal denied.
        (Rival("n2", Source.IDENTITY), {"last": frozenset({"10.0.0.2"})}, Outcome.NO_OPINION),
        (Rival("n2", Source.IDENTITY, holds=True), {"last": frozenset({"10.0.0.2"})}, Outcome.DENY),
        (Rival("n2", Source.NODE, holds=True), {}, Outcome.DENY),
        # A pod on the other node has its address, too.
        (Rival("n2", Source.NODE, holds=True), {"source": "10.0.0.2"}, Outcome.DENY),
        (Rival("n2", Source.NODE, holds=True), {"last": frozenset({"10.0.0.2"})}, Outcome.DENY),
        # Two Nodes that both say so.
        (Rival("n2", Source.NODE), {}, Outcome.NO_OPINION),
        (Rival("n2", Source.NODE), {"source": "10.0.0.2"}, Outcome.APPROVE),
        (Rival("n2", Source.NODE), {"last": frozenset({"10.0.0.2"})}, Outcome.APPROVE),
        # This node's own Machine.
        (Rival("n2", Source.NODE, holds=True), {"of_machine": frozenset({"10.0.0.2"})}, Outcome.APPROVE),
        (Rival("n2", Source.MACHINE), {"of_machine": frozenset({"10.0.0.2"})}, Outcome.DENY),
        # This Node does not say so, and nobody else does.
        (Rival("n2", Source.NODE), {"reported": ADDRESSES}, Outcome.DENY),
        (Rival("n2", Source.NODE), {"reported": ADDRESSES, "source": "10.0.0.2"}, Outcome.DENY),
    ],
)
def test_addresses_of_another_node(rival: Rival, changes: dict[str, Any], outcome: Outcome) -> None:
    sources_ = msgspec.structs.replace(CLAIMED, rivals={"10.0.0.2": rival}, **changes)
    verdict = decide(ASKED, sources_, RULES)
    assert verdict.outcome is outcome
    assert outcome is not Outcome.DENY or verdict.reason == TAKEN_REASON


def test_the_name_of_another_node_among_the_names() -> None:
    claimed = known(reported=(*ADDRESSES, ("Hostname", "n2")), rivals={"n2": Rival("n2", Source.IDENTITY)})
    assert decide(facts(("n1", "N2")), claimed, RULES).reason == TAKEN_REASON


def test_names_that_only_the_node_says_it_has() -> None:
    def ask(*dns: str, **changes: Any) -> dict[str, str]:
        reported = (*ADDRESSES, *(("InternalDNS", name) for name in dns))
        return sources(decide(facts(dns, ()), known(reported=reported), msgspec.structs.replace(RULES, **changes)))

    assert ask("n1.int.lan", "other.example.com") == {
        "san.dns n1.int.lan": "node-addresses", "san.dns other.example.com": "node-addresses"
    }  # fmt: skip
    # From a pod, the Service of that name in the namespace prod.
    assert ask("vault.prod", "n1.prod") == {"san.dns vault.prod": "unknown", "san.dns n1.prod": "unknown"}
    assert ask("vault.prod", "n1.prod", domains=("prod",)) == {
        "san.dns vault.prod": "node-addresses", "san.dns n1.prod": "node-addresses"
    }  # fmt: skip
    # A machine that comes later is called so; and what looks like another name.
    assert ask("n9", "xn--n1-hja.example.com", "a.xn--p1ai") == {
        "san.dns n9": "unknown", "san.dns xn--n1-hja.example.com": "unknown", "san.dns a.xn--p1ai": "unknown"
    }  # fmt: skip
    declared = ask("n1.int.lan", "other.example.com", "b.example.org", "badexample.com", domains=("example.com",))
    assert declared == {
        "san.dns n1.int.lan": "node-addresses", "san.dns other.example.com": "node-addresses",
        "san.dns b.example.org": "unknown", "san.dns badexample.com": "unknown",
    }  # fmt: skip


def test_the_short_name_of_a_node_that_is_called_in_full() -> None:
    me = "system:node:n1.example.com"
    wanted = facts(("n1", "n1.example.com"), username=me, subject=subject(me))
    assert decide(wanted, SEEN, RULES).outcome is Outcome.APPROVE


def test_declared_networks_bound_what_a_node_says() -> None:
    rules = msgspec.structs.replace(RULES, networks=(ipaddress.ip_network("10.1.0.0/16"),))
    assert sources(decide(facts(), SEEN, rules))["san.ip 10.0.0.9"] == "unknown"
    assert sources(decide(facts(), known(source="10.0.0.9"), rules))["san.ip 10.0.0.9"] == "source-address"
    assert sources(decide(facts(), known(last=frozenset({"10.0.0.9"})), rules))["san.ip 10.0.0.9"] == "last-certificate"
    assert sources(decide(facts(ips=("10.1.2.3",)), SEEN, rules))["san.ip 10.1.2.3"] == "networks"
    assert decide(facts(ips=("10.0.0.9", "10.1.2.3")), SEEN, rules).outcome is Outcome.NO_OPINION


def test_a_node_is_not_believed_about_many_addresses() -> None:
    """Each that nobody has yet would be kept from whoever gets it."""
    many = tuple(f"10.1.0.{number}" for number in range(17))
    all_of_them = known(reported=(*ADDRESSES, *(("InternalIP", each) for each in many)))
    assert decide(facts(ips=many[:16]), all_of_them, RULES).outcome is Outcome.APPROVE
    verdict = decide(facts(ips=many), all_of_them, RULES)
    assert (verdict.outcome, verdict.reason) == (Outcome.NO_OPINION, WAITING_REASON)
    assert "of 17 addresses; more than 16 are not believed" in verdict.missing
    # Not a few more each time.
    last = msgspec.structs.replace(all_of_them, last=frozenset(many[:16]))
    assert decide(facts(ips=many), last, RULES).outcome is Outcome.NO_OPINION
    # What somebody has approved is renewed, and another source is asked about each.
    assert (
        decide(facts(ips=many), msgspec.structs.replace(last, last=frozenset(many)), RULES).outcome is Outcome.APPROVE
    )
    machine = msgspec.structs.replace(all_of_them, of_machine=frozenset(many[:1]))
    assert decide(facts(ips=many), machine, RULES).outcome is Outcome.APPROVE
    declared = msgspec.structs.replace(RULES, networks=(ipaddress.ip_network("10.1.0.0/16"),))
    assert decide(facts(ips=many), all_of_them, declared).outcome is Outcome.APPROVE


def test_declared_domains_add_the_nodes_own_name_there() -> None:
    rules = msgspec.structs.replace(RULES, domains=("example.com",))
    asked = sources(decide(facts(("n1.example.com", "n2.example.com", "n1.example.org")), SEEN, rules))
    assert (asked["san.dns n1.example.com"], asked["san.dns n2.example.com"]) == ("domains", "unknown")
    assert asked["san.dns n1.example.org"] == "unknown"


def test_what_nobody_knows_waits() -> None:
    verdict = decide(facts(("n1", "x.example.com"), ("10.0.0.9", "10.0.0.1")), SEEN, RULES)
    assert (verdict.outcome, verdict.reason) == (Outcome.NO_OPINION, WAITING_REASON)
    assert verdict.missing == (
        "san.dns x.example.com: no source knows it; "
        "expected an address of its Node, or another source that knows it (and 1 more)"
    )
    assert decide(facts(), Known(), RULES).outcome is Outcome.NO_OPINION


def test_every_name_is_judged_however_many_are_right() -> None:
    """One wrong name at each place among right ones: none is approved."""
    right = tuple(f"n1.d{number}.example.com" for number in range(20))
    reported = (*ADDRESSES, *(("InternalDNS", name) for name in right))
    assert decide(facts(right), known(reported=reported), RULES).outcome is Outcome.APPROVE
    for place in range(len(right) + 1):
        for wrong in ("w.example.com", "kubernetes.default.svc"):
            asked = (*right[:place], wrong, *right[place:])
            assert decide(facts(asked), known(reported=reported), RULES).outcome is not Outcome.APPROVE


class TestStale:
    """What can never become right, for the kubelet would ask for something else by now."""

    REPLACED = facts(ips=("10.0.0.8",))

    def test_an_address_that_was_replaced(self) -> None:
        waits = decide(self.REPLACED, SEEN, RULES)
        # Its Node may still come to report it.
        assert (waits.outcome, waits.retry) == (Outcome.NO_OPINION, True)
        verdict = decide(self.REPLACED, known(changed=True), RULES)
        assert (verdict.outcome, verdict.reason) == (Outcome.DENY, STALE_REASON)
        assert "the Node reports 10.0.0.9 by now" in verdict.message

    def test_an_address_that_is_gone(self) -> None:
        asked = facts(ips=("10.0.0.8", "10.0.0.9"))
        assert decide(asked, known(changed=True), RULES).outcome is Outcome.NO_OPINION
        verdict = decide(asked, known(dropped=frozenset({"10.0.0.8"}), changed=True), RULES)
        assert (verdict.outcome, verdict.reason) == (Outcome.DENY, STALE_REASON)

    def test_once_only(self) -> None:
        told = decide(self.REPLACED, known(told=True, changed=True), RULES)
        assert (told.outcome, told.retry) == (Outcome.NO_OPINION, False)

    def test_not_before_the_kubelet_would_ask_anew(self) -> None:
        nothing = known(reported=(("Hostname", "n1"), ("Hostname", "n1.example.com")), changed=True)
        assert decide(self.REPLACED, nothing, RULES).outcome is Outcome.NO_OPINION
        assert decide(self.REPLACED, Known(changed=True), RULES).outcome is Outcome.NO_OPINION

    def test_declared_names_are_not_asked_for_again_and_again(self) -> None:
        asked = facts(("n1", "declared.example.com"))
        verdict = decide(asked, known(changed=True), RULES)
        assert (verdict.outcome, verdict.retry) == (Outcome.NO_OPINION, False)

    def test_what_the_kubelet_would_ask_for_again(self) -> None:
        """Asking anew changes nothing about an address that its Node reports, and another one has."""
        more = known(reported=(*ADDRESSES, ("InternalIP", "192.0.2.10"), ("InternalIP", "10.0.0.7")), changed=True)
        assert decide(facts(ips=("10.0.0.9", "192.0.2.10")), more, RULES).outcome is Outcome.NO_OPINION

    def test_what_is_justified_is_approved_although_more_is_reported(self) -> None:
        more = known(reported=(*ADDRESSES, ("InternalIP", "10.0.0.10")))
        assert decide(facts(), more, RULES).outcome is Outcome.APPROVE


class TestDNS:
    ASKED = facts(("n1", "x.corp.example"), ("10.0.0.9", "10.0.0.1"))

    def ask(self, **resolved: str) -> dict[str, str]:
        table = {key.replace("_", "."): frozenset(value.split()) for key, value in resolved.items()}
        return sources(decide(self.ASKED, known(resolved=table | self.more), RULES))

    more: dict[str, frozenset[str]] = {}

    def test_a_name_that_leads_to_this_node_only(self) -> None:
        assert self.ask(x_corp_example="10.0.0.9")["san.dns x.corp.example"] == "dns"
        assert self.ask(x_corp_example="10.0.0.9 10.0.0.7")["san.dns x.corp.example"] == "unknown"
        assert self.ask(x_corp_example="10.0.0.1")["san.dns x.corp.example"] == "unknown"
        assert self.ask()["san.dns x.corp.example"] == "unknown"

    def test_an_address_that_leads_to_the_nodes_name_and_back(self) -> None:
        def ask(reverse: str, forward: str) -> str:
            table = {"10.0.0.1": frozenset({reverse}), reverse: frozenset({forward})}
            return sources(decide(self.ASKED, known(resolved=table), RULES))["san.ip 10.0.0.1"]

        assert ask("n1.example.com", "10.0.0.1") == "dns"
        assert ask("n1.example.com", "10.0.0.2") == "unknown"
        assert ask("n2.example.com", "10.0.0.1") == "unknown"
        assert ask("n11.example.com", "10.0.0.1") == "unknown"

    def test_nothing_that_another_node_has(self) -> None:
        table = {"x.corp.example": frozenset({"10.0.0.9"})}
        rivals = {"x.corp.example": Rival("n2", Source.NODE)}
        reported = (*ADDRESSES, ("ExternalDNS", "x.corp.example"))
        verdict = decide(self.ASKED, known(resolved=table, rivals=rivals, reported=reported), RULES)
        assert sources(verdict)["san.dns x.corp.example"] == "unknown"


def test_the_trace_names_every_name() -> None:
    verdict = decide(facts(("n1", "x.example.com")), SEEN, RULES)
    assert [(step.rule, step.result) for step in verdict.steps] == [
        ("requester", StepResult.MET), ("subject", StepResult.MET), ("san.dns n1", StepResult.MET),
        ("san.dns x.example.com", StepResult.UNKNOWN), ("san.ip 10.0.0.9", StepResult.MET),
    ]  # fmt: skip


def test_names_as_kubelets_make_them_of_addresses() -> None:
    addresses = (
        ("Hostname", "010.0.0.9"),
        ("InternalDNS", "N1.example.com"),
        ("ExternalIP", "::ffff:10.0.0.1"),
        ("InternalIP", "x"),
    )
    assert reported_names(addresses) == {"10.0.0.9", "n1.example.com", "10.0.0.1"}
    assert reported_names(()) == frozenset()
